//go:build e2e && linux

package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

func TestFiftySessionsForTenSeconds(t *testing.T) {
	beta, _ := harness.ChaosHTTP(t, mcptest.Chaos{})
	r := betaBeside(t, beta)
	before := r.before(t)
	clients := make([]*mcptest.Client, 50)
	for i := range clients {
		clients[i] = r.Connect(t, []mcptest.Era{mcptest.Legacy, mcptest.Modern}[i%2])
	}
	load := harness.StartLoad(t, 50, 20*time.Millisecond, func(ctx context.Context, i int) error {
		return echoes(ctx, clients[i], []string{"alpha__echo", "beta__echo"}[i/2%2], fmt.Sprintf(`{"caller":%d}`, i))
	})
	pause(t, 10*time.Second)
	f := load.Stop()
	t.Logf("%s", f)
	if len(f.Errors) > 0 || f.P99 > 250*time.Millisecond {
		t.Errorf("%s, want no errors and a p99 of at most 250ms", f)
	}
	r.memoryAtMost(t, before, 64)
}

func TestSessionsThatComeAndGoLeaveNothing(t *testing.T) {
	r := betaBeside(t, harness.Chaos(t, mcptest.Chaos{}))
	before := r.before(t)
	all := together(10, func(worker int) outcome {
		for i := range 150 {
			if err := visit(t.Context(), r.URL, fmt.Sprintf(`{"worker":%d,"i":%d}`, worker, i)); err != nil {
				return outcome{err: err}
			}
		}
		return outcome{}
	})
	for _, o := range all {
		if o.err != nil {
			t.Error(o.err)
		}
	}
	harness.Eventually(t, 5*time.Second, "fds are as before", func() bool { return r.Usage(t).FDs <= before.FDs+10 })
	r.memoryAtMost(t, before, 20)
}

// visit is a session of two calls.
func visit(ctx context.Context, url, arguments string) error {
	c, err := mcptest.ConnectHTTP(ctx, url, mcptest.Legacy, &mcptest.Options{Own: true})
	if err != nil {
		return err
	}
	defer c.Close()
	for range 2 {
		if err := echoes(ctx, c, "beta__echo", arguments); err != nil {
			return err
		}
	}
	if status, err := c.Delete(ctx); err != nil || status > 299 {
		return fmt.Errorf("DELETE: status %d, %v", status, err)
	}
	return nil
}

// With default settings.
func TestAServerKilledEveryTwoSecondsHurtsNobody(t *testing.T) {
	t.Parallel()
	ledger := harness.Ledger(t)
	r := betaBeside(t, harness.Chaos(t, mcptest.Chaos{Ledger: ledger}))
	load := r.loadAlpha(t)
	callers := r.Connect(t, mcptest.Legacy)
	meanwhile := harness.StartLoad(t, 2, 50*time.Millisecond, func(ctx context.Context, _ int) error {
		return answered(ctx, callers, "beta__echo", `{"a":1}`, 15*time.Second)
	})
	for range 10 {
		pause(t, 2*time.Second)
		killNewest(t, ledger)
	}
	r.works(t, "beta__echo", 10*time.Second)
	f := meanwhile.Stop()
	t.Logf("beta: %s; started %d times", f, ledger.Count("start"))
	if len(f.Errors) > 0 {
		t.Errorf("beta: %s", f)
	}
	unhurt(t, load, 200*time.Millisecond)
	r.noZombies(t)
}

// The stdio face carries protocol only, whatever the servers do, and ends with its client.
func TestTheStdioFaceAmongSickServers(t *testing.T) {
	t.Parallel()
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			t.Parallel()
			p, c := harness.ServeStdio(t, harness.Servers(map[string]harness.Config{
				"alpha":    harness.Chaos(t, mcptest.Chaos{}),
				"noisy":    harness.Chaos(t, mcptest.Chaos{Junk: true, StderrFirst: 1 << 20}),
				"stubborn": harness.Chaos(t, mcptest.Chaos{Stubborn: true, Descendants: true}),
				"crashing": harness.Chaos(t, mcptest.Chaos{CrashAtStart: true}),
				"beta":     harness.Chaos(t, mcptest.Chaos{}),
			}).With("call_timeout", "3s"), era)
			for _, tool := range []string{"alpha__echo", "noisy__echo", "stubborn__echo", "beta__echo"} {
				awaitTool(t, c, tool, 10*time.Second)
			}
			for _, provocation := range [][2]string{
				{"beta__odd", `{"kind":"duplicate"}`}, {"beta__odd", `{"kind":"half"}`}, {"beta__odd", `{"kind":"bad UTF-8"}`},
				{"beta__storm", `{"n":1000}`}, {"beta__flood", `{"bytes":1000000}`}, {"beta__big", `{"bytes":20000000}`},
				{"beta__hang", `{}`}, {"beta__die", `{}`}, {"crashing__echo", `{}`}, {"noisy__flood", `{"bytes":1000000}`},
			} {
				if o := call(t.Context(), c, provocation[0], provocation[1], 10*time.Second); o.err != nil {
					t.Errorf("%s: %s", provocation, o)
				}
				if err := echoes(harness.Context(t, 5*time.Second), c, "alpha__echo", `{"a":1}`); err != nil {
					t.Fatalf("after %s: %v", provocation, err)
				}
			}
			c.Close()
			began := time.Now()
			if code, err := p.Wait(10 * time.Second); err != nil || code != 0 {
				t.Errorf("exit code %d, %v; want 0", code, err)
			}
			t.Logf("ended %s after its client", time.Since(began).Round(time.Millisecond))
			if left := p.Leftovers(0); len(left) > 0 {
				t.Errorf("still running: %s", left)
			}
		})
	}
}
