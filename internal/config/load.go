package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"unicode/utf8"
)

// MaxFile is the largest configuration file that is read, in bytes.
const MaxFile = 4 << 20

// Env looks up an environment variable; os.LookupEnv is one, and stands in for nil.
type Env func(name string) (value string, ok bool)

// Load reads a configuration file: YAML, or the JSON in which Claude, Cursor and VS Code keep their servers.
// Settings outside servers may be overridden by environment variables, see Settings.
// The error is *Problems with everything that is wrong.
func Load(path string, env Env) (*Config, error) {
	src, err := readFile(path, MaxFile)
	if err != nil {
		return nil, &Problems{{File: path, Message: err.Error()}}
	}
	return Parse(path, src, env)
}

// Parse is Load for a text that was already read. The path is named in problems, tells JSON from YAML by its
// ending, and its folder is where relative paths in the text begin.
func Parse(path string, src []byte, env Env) (*Config, error) {
	if env == nil {
		env = os.LookupEnv
	}
	l := &loader{file: path, env: env, dir: folder(path), meant: map[string]bool{}}
	c := Default()
	c.Path = path
	var root *node
	if src, ok := l.checkText(src); ok {
		root = l.load(src, c)
	}
	l.overrides(c)
	l.across(c, root)
	if len(l.problems) > 0 {
		ps := Problems(sorted(l.problems))
		return nil, &ps
	}
	c.Notes = sorted(l.notes)
	return c, nil
}

// loader carries one Parse from text to values.
type loader struct {
	file    string
	dir     string // absolute folder of the file
	env     Env
	foreign bool              // a file of another program: what it has beyond us is noted, not refused
	inputs  map[string]string // VS Code's inputs: id → default, which may be empty

	problems []Problem
	notes    []Problem
	meant    map[string]bool // paths that an unknown key was probably meant to be
	taken    []string        // values of variables used by the server being read
	telling  []string        // those of variables with a telling name
}

// load reads the text into c, which holds the defaults, and returns it for further checks.
func (l *loader) load(src []byte, c *Config) (root *node) {
	if len(bytes.TrimSpace(src)) == 0 {
		l.noServers(place(1, 1), "the file is empty, there are no servers")
		return nil
	}
	if looksLikeJSON(l.file, src) {
		l.foreign = true
		if root = l.parseJSON(src); root != nil {
			root = l.adopt(root)
		}
	} else {
		root = l.parseYAML(src)
	}
	if root == nil || root.shape == isNull {
		if len(l.problems) == 0 {
			l.noServers(place(1, 1), "the file is empty, there are no servers")
		}
		return nil
	}
	if root.shape != isMapping {
		l.fail(root, "", "the configuration is a mapping that begins with servers:, not %s", root.shape)
		return nil
	}
	l.section(root, "", rootFields, reflect.ValueOf(c).Elem())
	if servers := root.get("servers"); servers == nil {
		if !l.meant["servers"] {
			l.noServers(place(1, 1), "there are no servers")
		}
	} else if servers.shape == isNull || servers.shape == isMapping && len(servers.pairs) == 0 {
		l.noServers(root.key("servers"), "there are no servers")
	}
	return root
}

func (l *loader) noServers(at *node, what string) {
	remedy := `"servers: {demo: {builtin: everything}}" is a beginning that needs nothing else`
	if l.foreign {
		remedy = `expected {"mcpServers": {"name": {"command": "…"}}} or {"servers": {…}}`
	}
	l.fail(at, "", "%s; %s", what, remedy)
}

// maxProblems bounds the report: nobody reads further, and a broken file of megabytes would fill the memory.
const maxProblems = 1000

func (l *loader) fail(at *node, path, format string, args ...any) {
	l.problems = l.report(l.problems, at, path, format, args)
}

// mind reports what a foreign file may have and ours may not.
func (l *loader) mind(at *node, path, format string, args ...any) {
	if l.foreign {
		l.notes = l.report(l.notes, at, path, format, args)
		return
	}
	l.fail(at, path, format, args...)
}

func (l *loader) report(list []Problem, at *node, path, format string, args []any) []Problem {
	if len(list) > maxProblems {
		return list
	}
	if len(list) == maxProblems {
		format, args = "there is more like this", nil
	}
	return append(list, Problem{File: l.file, Line: at.line, Col: at.col, Path: path, Message: fmt.Sprintf(format, args...)})
}

// checkText refuses what is not text, and removes a byte order mark.
func (l *loader) checkText(src []byte) ([]byte, bool) {
	if len(src) > MaxFile {
		l.fail(place(1, 1), "", "larger than %d MiB", MaxFile>>20)
		return nil, false
	}
	if bytes.HasPrefix(src, []byte("\xff\xfe")) || bytes.HasPrefix(src, []byte("\xfe\xff")) {
		l.fail(place(1, 1), "", "this is UTF-16; save the file as UTF-8")
		return nil, false
	}
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	for i := 0; i < len(src); {
		r, size := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && size == 1 || !printable(r) {
			line, col := position(src, i)
			what := fmt.Sprintf("the character %U is not allowed", r)
			if r == utf8.RuneError {
				what = fmt.Sprintf("the byte 0x%02x is not UTF-8; save the file as UTF-8", src[i])
			}
			l.fail(place(line, col), "", "%s", what)
			return nil, false
		}
		i += size
	}
	return src, true
}

// printable is the character set of YAML 1.2, which the library demands without saying where it was hurt.
func printable(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' || r >= 0x20 && r <= 0x7e || r == 0x85 || r >= 0xa0 && r <= 0xfffd || r >= 0x10000
}

// position turns a byte offset into line and column, both from 1, columns in characters.
func position(src []byte, off int) (line, col int) {
	before := src[:off]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[start:]) + 1
}

// looksLikeJSON goes by the ending, else by the first characters: a YAML file may begin with a flow
// mapping {a: b}, but hardly with {"a".
func looksLikeJSON(path string, src []byte) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".json", ".jsonc":
		return true
	case ".yaml", ".yml":
		return false
	}
	p := jsonParser{loader: &loader{}, src: src}
	if p.next() != '{' {
		return false
	}
	p.off++
	c := p.next()
	return c == '"' || c == '}'
}

// readFile reads a regular file of bounded size; its errors are sentences for people. Pipes and devices are
// refused: a running aggregator reads its files again, and such a read may never end.
func readFile(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, plainError(err)
	}
	if info.IsDir() {
		return nil, errors.New("is a folder, not a file")
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("is not a regular file but %s", sortOf(info.Mode()))
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("larger than %d MiB", limit>>20)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, plainError(err)
	}
	defer f.Close()
	// One byte more than allowed, so that a file that has grown is noticed, too.
	src, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, plainError(err)
	}
	if int64(len(src)) > limit {
		return nil, fmt.Errorf("larger than %d MiB", limit>>20)
	}
	return src, nil
}

// sortOf names what is no regular file.
func sortOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}

// plainError drops the path and the system call from a file error.
func plainError(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("cannot be read: %w", pe.Err)
	}
	return err
}

func folder(path string) string {
	abs, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return filepath.Dir(path)
	}
	return abs
}
