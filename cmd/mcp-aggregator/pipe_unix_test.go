//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// piped prepares the program with a configuration; it is killed, at the latest, when the
// test's time is up.
func piped(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte("state_dir: off\nwatch: false\nservers: {demo: {builtin: everything}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, "mcp-aggregator", append([]string{"--config", path, "--log-level", "debug"}, args...)...)
}

func TestServeOutlivesTheReaderOfItsLog(t *testing.T) {
	cmd := piped(t, "--http", "127.0.0.1:0")
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(log)
	var url string
	for url == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if m := regexp.MustCompile(`msg=serving url=(\S+)/mcp`).FindStringSubmatch(line); m != nil {
			url = m[1]
		}
	}
	log.Close()
	for range 5 { // each is logged
		res, err := http.Post(url+"/api/v1/mcp/reload", "application/json", nil)
		if err != nil {
			t.Fatalf("nobody reads the log, and: %v", err)
		}
		res.Body.Close()
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("exit: %v", err)
	}
}

func TestAClientThatReadsNoMoreEndsTheStdioFaceInOrder(t *testing.T) {
	cmd := piped(t, "--stdio")
	var log strings.Builder
	cmd.Stderr = &log
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ping := func(id int) error {
		_, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", id)
		return err
	}
	if err := ping(1); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	out.Close()
	if err := ping(2); err != nil {
		t.Fatal(err)
	}
	// The input stays open: the output ends the face.
	err = cmd.Wait()
	if cmd.ProcessState.ExitCode() != exitFailure || !strings.Contains(log.String(), "mcp-aggregator: writing to the client: ") {
		t.Errorf("exit: %v\n%s", err, &log)
	}
}
