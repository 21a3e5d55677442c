//go:build e2e && linux

package e2e_test

import (
	"fmt"
	"maps"
	"os"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

func init() {
	children["pid"] = mcptest.Stdio(func() *mcptest.Raw {
		return &mcptest.Raw{Tools: []string{echoTool}, Answer: func(q *mcptest.Request) *mcptest.Answer {
			if q.Method != "tools/call" {
				return nil
			}
			return &mcptest.Answer{Result: fmt.Sprintf(`{"content":[],"structuredContent":{"pid":%d}}`, os.Getpid())}
		}}
	})
}

// pids are the processes that answer some calls of a client.
func pids(t *testing.T, c *mcptest.Client, server string, calls int) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for range calls {
		x, err := c.Call(harness.Context(t, 10*time.Second), "tools/call", `{"name":"`+server+`__echo","arguments":{}}`)
		if err != nil {
			t.Fatal(err)
		}
		pid := mcptest.Field(mcptest.Field(x.Result, "structuredContent"), "pid")
		if pid == nil {
			t.Fatalf("answered with %s", show(x))
		}
		found[string(pid)] = true
	}
	return found
}

// joined counts the different processes.
func joined(sets ...map[string]bool) int {
	all := map[string]bool{}
	for _, s := range sets {
		maps.Copy(all, s)
	}
	return len(all)
}

// sharings are three servers, each of which has one process while no client calls.
func sharings(t *testing.T) harness.Config {
	child := harness.Child(t, "pid")
	return harness.Servers(map[string]harness.Config{
		"all": child, "mine": child.With("sharing", "session"), "once": child.With("sharing", "call"),
	})
}

func TestSessionsShareServersAsConfigured(t *testing.T) {
	a := harness.Serve(t, sharings(t))
	one, two := a.Connect(t, mcptest.Legacy), a.Connect(t, mcptest.Legacy)
	stateless := a.Connect(t, mcptest.Modern)
	awaitTools(t, one, 3)
	for server, want := range map[string][3]int{ // processes of one, of both, of the client without a session
		"all": {1, 1, 1}, "mine": {1, 2, 3}, "once": {3, 6, 3},
	} {
		first, second, third := pids(t, one, server, 3), pids(t, two, server, 3), pids(t, stateless, server, 3)
		if got := [3]int{joined(first), joined(first, second), joined(third)}; got != want {
			t.Errorf("%s: calls are answered by %v processes, want %v", server, got, want)
		}
	}
	awaitProcesses(t, a.Process, 3+2) // one of each, and one for each session
	for _, c := range []*mcptest.Client{one, two} {
		if _, err := c.Delete(harness.Context(t, 5*time.Second)); err != nil {
			t.Error(err)
		}
	}
	awaitProcesses(t, a.Process, 3)
}

// On standard input and output the connection is the session, whatever the era.
func TestTheStdioFaceIsOneSession(t *testing.T) {
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			p, c := harness.ServeStdio(t, sharings(t), era)
			awaitTools(t, c, 3)
			if n := joined(pids(t, c, "mine", 3)); n != 1 {
				t.Errorf("calls are answered by %d processes", n)
			}
			c.Close()
			if _, err := p.Wait(10 * time.Second); err != nil {
				t.Error(err)
			}
			if left := p.Leftovers(0); len(left) > 0 {
				t.Errorf("still running: %s", left)
			}
		})
	}
}
