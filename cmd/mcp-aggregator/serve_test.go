package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/upstream"
)

// startServe starts the program over HTTP and returns it with the URL it says it
// serves. It is killed, at the latest, when the test's time is up.
func startServe(t *testing.T, config string, args ...string) (*exec.Cmd, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "mcp-aggregator", append([]string{"--config", path}, args...)...)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	url := make(chan string, 1)
	go func() {
		defer close(url)
		lines := bufio.NewScanner(log)
		for lines.Scan() {
			if m := regexp.MustCompile(`msg=serving url=(\S+)`).FindStringSubmatch(lines.Text()); m != nil {
				url <- m[1]
				break
			}
		}
		_, _ = io.Copy(io.Discard, log)
	}()
	return cmd, <-url
}

const demoConfig = "servers: {demo: {builtin: everything}}\n"

const longCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{
	"name":"demo__long_running","arguments":{"duration":%g,"steps":%d},"_meta":{"progressToken":"p",
	"io.modelcontextprotocol/protocolVersion":"2026-07-28",
	"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},
	"io.modelcontextprotocol/clientCapabilities":{}}}}`

// begin sends a call that takes the given number of seconds and returns its answer as a
// stream. The call is in flight then: the stream opens with its first progress.
func begin(t *testing.T, url string, seconds float64, steps int) io.ReadCloser {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(fmt.Sprintf(longCall, seconds, steps)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("MCP-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", "tools/call")
	req.Header.Set("Mcp-Name", "demo__long_running")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	return res.Body
}

func TestServeEndsInOrderOnASignal(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			cmd, url := startServe(t, demoConfig, "--http", "127.0.0.1:0")
			answer := begin(t, url, 1, 4)
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(answer); err != nil || !strings.Contains(string(body), "Finished 4 steps") {
				t.Errorf("the call in flight was answered %s, %v", body, err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("exit: %v", err)
			}
		})
	}
}

func TestServeEndsAtOnceOnASecondSignal(t *testing.T) {
	cmd, url := startServe(t, demoConfig, "--http", "127.0.0.1:0")
	begin(t, url, 600, 1000)
	start := time.Now()
	for range 2 {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		awaitRefused(t, url)
	}
	err := cmd.Wait()
	if cmd.ProcessState.ExitCode() != exitFailure || time.Since(start) > 5*time.Second {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
}

// awaitRefused waits until nobody listens any more, which is what the first signal does first.
func awaitRefused(t *testing.T, url string) {
	t.Helper()
	addr := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp")
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		conn.Close()
	}
	t.Fatal("still listening")
}

func TestServeSaysWhoseAnAddressIs(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dir := t.TempDir() // not where the tests before have killed one
	path := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(path, []byte("state_dir: "+dir+"/state\n"+demoConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("mcp-aggregator", "--config", path, "--http", ln.Addr().String()).CombinedOutput()
	want := fmt.Sprintf("mcp-aggregator: %s is used by another program; choose another address with --http or http.addr\n", ln.Addr())
	if err == nil || string(out) != want {
		t.Errorf("%v: %s", err, out)
	}
	if left, _ := filepath.Glob(dir + "/state/results/*"); len(left) != 1 || filepath.Base(left[0]) != "lock" {
		t.Errorf("left behind: %q", left)
	}
}

func TestStrictNamesEveryServerThatFailed(t *testing.T) {
	connected := &upstream.Status{Server: "a", State: upstream.Connected}
	disabled := &upstream.Status{Server: "b", State: upstream.Disabled}
	failed := &upstream.Status{Server: "c", State: upstream.Failed, LastError: "no such program"}
	refused := &upstream.Status{Server: "d", State: upstream.NeedsAuth, LastError: "401"}
	lost := &upstream.Status{Server: "e", State: upstream.Pending, LastError: "lost"}
	for _, tt := range []struct {
		name string
		seen []*upstream.Status
		want string
	}{
		{"all connected", []*upstream.Status{connected, disabled}, ""},
		{"lost after it had connected", []*upstream.Status{connected, lost}, ""},
		{"one failed", []*upstream.Status{connected, failed}, `--strict: server "c" did not connect: no such program`},
		{"two failed", []*upstream.Status{failed, refused},
			"--strict: server \"c\" did not connect: no such program\n  server \"d\" did not connect: 401"},
	} {
		synctest.Test(t, func(t *testing.T) {
			settled := make(chan struct{})
			time.AfterFunc(time.Minute, func() { close(settled) })
			begin, got := time.Now(), ""
			if err := awaitConnected(t.Context(), settled, func() []*upstream.Status { return tt.seen }); err != nil {
				got = err.Error()
			}
			if got != tt.want || time.Since(begin) != time.Minute {
				t.Errorf("%s: after %v %q, want %q", tt.name, time.Since(begin), got, tt.want)
			}
		})
	}
}

func TestStrictEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	failed := []*upstream.Status{{Server: "a", State: upstream.Failed}}
	if err := awaitConnected(ctx, nil, func() []*upstream.Status { return failed }); err != nil {
		t.Error(err)
	}
}
