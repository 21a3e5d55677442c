//go:build e2e && linux

package e2e_test

import (
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

func ignoreTermination() { signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGPIPE) }

// threeKinds are servers that end well, late and not at all.
func threeKinds(t *testing.T) harness.Config {
	return harness.Servers(map[string]harness.Config{
		"echo":     harness.Child(t, "echo"),
		"stubborn": harness.Child(t, "stubborn"),
		"silent":   harness.Child(t, "silent"),
		"http":     listen(t, &mcptest.Raw{Tools: []string{echoTool}}),
	})
}

func TestEndOfInputEndsEverything(t *testing.T) {
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			p, c := harness.ServeStdio(t, threeKinds(t), era)
			awaitTools(t, c, 3)
			if len(p.Children()) < 3 {
				t.Fatalf("children are %s, want three servers", p.Children())
			}
			c.Close()
			code, err := p.Wait(10 * time.Second)
			if err != nil || code != 0 {
				t.Errorf("exit code %d, %v; want 0\n%s", code, err, p.Log())
			}
			if left := p.Leftovers(0); len(left) > 0 {
				t.Errorf("still running: %s", left)
			}
		})
	}
}

// The client goes before it has said anything.
func TestEndOfInputBeforeTheOpening(t *testing.T) {
	p, in, out := harness.StartStdio(t, threeKinds(t))
	in.Close()
	if code, err := p.Wait(10 * time.Second); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v; want 0\n%s", code, err, p.Log())
	}
	if said, _ := io.ReadAll(out); len(said) > 0 {
		t.Errorf("standard output carries %q", said)
	}
}

func TestSIGTERMEndsEverything(t *testing.T) {
	a := harness.Serve(t, threeKinds(t))
	c := a.Connect(t, mcptest.Legacy)
	awaitTools(t, c, 3)
	// A client that keeps its stream open must not hold the program.
	if _, err := c.Listen(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if err := a.Stop(15 * time.Second); err != nil {
		t.Error(err)
	}
	if code := a.Cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d, want 0\n%s", code, a.Log())
	}
	if left := a.Leftovers(0); len(left) > 0 {
		t.Errorf("still running: %s", left)
	}
}

func TestSIGTERMAnswersTheCallInFlight(t *testing.T) {
	release := make(chan struct{})
	raw := &mcptest.Raw{Tools: []string{echoTool}, Answer: mcptest.On("tools/call", mcptest.Answer{Hold: release})}
	a := harness.Serve(t, harness.Servers(map[string]harness.Config{"slow": listen(t, raw)}))
	c := a.Connect(t, mcptest.Legacy)
	awaitTools(t, c, 1)
	answered := make(chan error, 1)
	go func() {
		x, err := c.Call(harness.Context(t, 15*time.Second), "tools/call", `{"name":"slow__echo","arguments":{}}`)
		if err == nil && x.Result == nil {
			err = fmt.Errorf("answered with %s", show(x))
		}
		answered <- err
	}()
	if _, err := raw.Await(harness.Context(t, 5*time.Second), "tools/call", 1); err != nil {
		t.Fatal(err)
	}
	_ = a.Cmd.Process.Signal(syscall.SIGTERM)
	time.AfterFunc(time.Second, func() { close(release) })
	if err := <-answered; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	if code, err := a.Wait(10 * time.Second); err != nil || code != 0 {
		t.Errorf("exit code %d, %v; want 0", code, err)
	}
}

// The end of their input ends servers that behave well.
func TestKillLeavesNothing(t *testing.T) {
	a := harness.Serve(t, harness.Servers(map[string]harness.Config{
		"echo": harness.Child(t, "echo"), "sl": harness.Child(t, "lively legacy"), "sm": harness.Child(t, "lively modern")}))
	awaitTools(t, a.Connect(t, mcptest.Legacy), 11)
	_ = a.Cmd.Process.Kill()
	<-a.Done
	if left := a.Leftovers(3 * time.Second); len(left) > 0 {
		t.Errorf("3 s after SIGKILL these still run: %s", left)
	}
}

// Standard output of a stdio face carries protocol only: the client of the kit
// ends the connection at the first line that is none.
func TestStandardOutputCarriesProtocolOnly(t *testing.T) {
	_, c := harness.ServeStdio(t, harness.Servers(map[string]harness.Config{
		"echo": harness.Child(t, "echo"), "noisy": harness.Child(t, "noisy"), "garbage": harness.Child(t, "garbage"),
		"exits": harness.Child(t, "exits"), "missing": {"command": "/nonexistent/mcp-server"},
	}), mcptest.Legacy)
	awaitTools(t, c, 2)
	for range 20 {
		x, err := c.Call(harness.Context(t, 5*time.Second), "tools/call", `{"name":"noisy__echo","arguments":{}}`)
		if err != nil || strings.Contains(string(x.Raw), "handling") {
			t.Fatalf("%v, %s", err, show(x))
		}
	}
}
