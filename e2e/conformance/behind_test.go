//go:build e2e && linux

package conformance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"mcp-aggregator/e2e/harness"
)

// The programs clientBehind starts.
const (
	aggregatorEnv = "CONFORMANCE_AGGREGATOR"
	clientEnv     = "CONFORMANCE_CLIENT"
)

// clientBehind is what the suite takes for the client under test. It starts the aggregator
// before the server whose URL is the last argument, runs the client against the aggregator
// and ends with the client's exit code.
func clientBehind() {
	// The kernel ties the death signal of a child to the thread that made it.
	runtime.LockOSThread()
	code, err := runBehind(os.Args[len(os.Args)-1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "client behind the aggregator:", err)
		code = 1
	}
	os.Exit(code)
}

func runBehind(server string) (code int, err error) {
	dir, err := os.MkdirTemp("", "behind")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	addr, err := freeAddr()
	if err != nil {
		return 0, err
	}
	config, err := json.Marshal(harness.Servers(map[string]harness.Config{
		"scenario": {"url": server, "prefix": "", "probe": "none"},
	}).With("state_dir", "off").With("startup", "strict"))
	if err != nil {
		return 0, err
	}
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return 0, err
	}
	aggregator := tied(os.Getenv(aggregatorEnv), "serve", "--config", file, "--http", addr)
	if err := aggregator.Start(); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stop(aggregator)) }()
	if err := awaitReady("http://"+addr+"/readyz", 15*time.Second); err != nil {
		return 0, err
	}
	client := tied(os.Getenv(clientEnv), "http://"+addr+"/mcp")
	if err := client.Run(); client.ProcessState == nil {
		return 0, err
	}
	return client.ProcessState.ExitCode(), nil
}

// tied is a process that writes where this one does and dies with it.
func tied(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func stop(p *exec.Cmd) error {
	_ = p.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(8*time.Second, func() { _ = p.Process.Kill() })
	err := p.Wait()
	if !late.Stop() {
		return fmt.Errorf("the aggregator did not end: %w", err)
	}
	return nil
}

// awaitReady waits until the aggregator has its server, as strict start means ready.
func awaitReady(url string, d time.Duration) error {
	var err error
	ask := func() bool {
		var resp *http.Response
		if resp, err = http.Get(url); err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				err = errors.New(resp.Status)
			}
		}
		return err == nil
	}
	if !harness.Poll(d, 10*time.Millisecond, ask) {
		return fmt.Errorf("not ready within %s: %w", d, err)
	}
	return nil
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
