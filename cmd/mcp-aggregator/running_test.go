package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// steered is a running program and the commands that steer it.
type steered struct {
	t    *testing.T
	env  []string
	path string // of its configuration
}

func steer(t *testing.T, config string) *steered {
	t.Helper()
	cmd, url := startServe(t, config, "--http", "127.0.0.1:0")
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("exit: %v", err)
		}
	})
	env := append(os.Environ(), adminVariable+"="+strings.TrimSuffix(url, "/mcp"))
	return &steered{t: t, env: env, path: cmd.Args[2]}
}

// want runs a command until its output fits, since states take a moment to change.
func (s *steered) want(pattern string, args ...string) {
	s.t.Helper()
	var out []byte
	var err error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		cmd := exec.Command("mcp-aggregator", args...)
		cmd.Env = s.env
		if out, err = cmd.CombinedOutput(); err == nil && regexp.MustCompile(pattern).Match(out) {
			return
		}
	}
	s.t.Fatalf("%q: %v: %s\nwant %s", args, err, out, pattern)
}

func TestCommandsSteerARunningAggregator(t *testing.T) {
	s := steer(t, "state_dir: off\nwatch: false\nservers: {demo: {builtin: everything}}\n")
	s.want(`(?m)^demo +connected `, "status")
	s.want(`"state": "connected"`, "status", "--json")
	s.want(`^demo: disable asked for`, "disable", "demo")
	s.want(`(?m)^demo +disabled `, "status")
	s.want(`^demo: enable asked for`, "enable", "demo")
	s.want(`^nothing changed\n$`, "reload")
	if err := os.WriteFile(s.path, []byte("state_dir: off\nwatch: false\nservers: {demo: {builtin: everything}, notes: {builtin: notes}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.want(`(?m)^added: notes$`, "reload")
	s.want(`(?m)^notes +(connected|pending) `, "status")
	s.want(`has written nothing`, "logs", "demo")
	s.want(`no tool has a circuit breaker yet`, "breakers")
}
