package upstream

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
)

// treeMark is an environment variable that the descendants of a child inherit and
// nobody else has, unless they wipe their environment; its value is the child's own.
// It finds those that left their process group. The name is random too, so that an aggregator behind an
// aggregator does not hide its children from the outer one.
var treeMark = sync.OnceValue(func() string { return "MCP_AGGREGATOR_TREE_" + rand.Text() })

// newMark makes the assignment of treeMark for one child.
func newMark() string { return treeMark() + "=" + rand.Text() }

// command prepares the server's command: a leader of a process group with our
// environment, less our own secrets, and the server's on top.
func command(s *config.Server) (*exec.Cmd, error) {
	if s.Cwd != "" {
		if i, err := os.Stat(s.Cwd); err != nil || !i.IsDir() {
			return nil, fault.Of(fault.Unreachable, s.Name, "working directory %q does not exist; check `cwd`", s.Cwd)
		}
	}
	path, err := findCommand(s)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, fault.Of(fault.Unreachable, s.Name, "command %q may not be executed; check its permissions", s.Command)
	case err != nil:
		return nil, fault.Of(fault.Unreachable, s.Name, "command %q not found; check `command` and PATH", s.Command)
	}
	cmd := &exec.Cmd{
		Path:        path,
		Args:        append([]string{s.Command}, s.Args...),
		Dir:         s.Cwd,
		Env:         inherited(),
		SysProcAttr: groupLeader(),
	}
	for name, value := range s.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd, nil
}

// ownSecrets are the variables that hold secrets of the aggregator itself. A server
// that needs one of them is given it by its own environment in the configuration.
var ownSecrets = []string{"MCP_ADMIN_TOKEN", "MCP_STATE_KEY"}

// inherited is our environment without what is nobody else's business.
func inherited() []string {
	return slices.DeleteFunc(os.Environ(), func(assignment string) bool {
		name, _, _ := strings.Cut(assignment, "=")
		return slices.ContainsFunc(ownSecrets, func(secret string) bool { return strings.EqualFold(name, secret) })
	})
}

// findCommand finds the program as the child would: with its own PATH and from its
// own working directory if these are configured.
func findCommand(s *config.Server) (string, error) {
	path, own := s.Env["PATH"]
	switch {
	case strings.ContainsRune(s.Command, filepath.Separator) || strings.ContainsRune(s.Command, '/'):
		return lookIn(s.Cwd, s.Command)
	case !own:
		return exec.LookPath(s.Command)
	}
	denied := error(exec.ErrNotFound)
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			continue
		}
		found, err := lookIn(s.Cwd, filepath.Join(dir, s.Command))
		if err == nil {
			return found, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			denied = err
		}
	}
	return "", denied
}

// lookIn finds a program by a path that is relative to dir.
func lookIn(dir, path string) (string, error) {
	if !filepath.IsAbs(path) {
		var err error
		if path, err = filepath.Abs(filepath.Join(dir, path)); err != nil {
			return "", err
		}
	}
	return exec.LookPath(path)
}
