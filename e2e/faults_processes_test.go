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

// Nobody survives SIGTERM: not a child that ignores it, and not what it started,
// in a session of its own or not.
func TestSIGTERMEndsDescendants(t *testing.T) {
	t.Parallel()
	ledger := harness.Ledger(t)
	r := betaBeside(t, harness.Chaos(t, mcptest.Chaos{Ledger: ledger, Stubborn: true, Descendants: true}))
	if n := len(r.Children()); n < 4 {
		t.Fatalf("%d children, want alpha, beta and two of beta's: %s", n, r.Children())
	}
	c := r.Connect(t, mcptest.Legacy)
	if _, err := c.Listen(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := r.Stop(15 * time.Second); err != nil {
		t.Error(err)
	}
	t.Logf("ended after %s", time.Since(began).Round(time.Millisecond))
	if left := r.Leftovers(0); len(left) > 0 {
		t.Errorf("still running: %s", left)
	}
}

// With default settings.
func TestAKilledChildFailsItsCallsAndComesBack(t *testing.T) {
	t.Parallel()
	ledger := harness.Ledger(t)
	r := betaBeside(t, harness.Chaos(t, mcptest.Chaos{Ledger: ledger}))
	load := r.loadAlpha(t)
	ended := make(chan []outcome, 1)
	go func() {
		ended <- together(10, func(int) outcome { return r.call(t, "beta__hang", `{}`) })
	}()
	harness.Eventually(t, 5*time.Second, "ten calls are in flight", func() bool { return ledger.Count("exec hang") == 10 })
	killed := time.Now()
	killNewest(t, ledger)
	all := <-ended
	for i := range all {
		all[i].took = time.Since(killed)
		if !mayHaveExecuted(all[i]) {
			t.Errorf("a lost call was answered %s, want that it may have been executed", all[i])
		}
	}
	slowest(t, "calls in flight when the child was killed", all, 2*time.Second)
	r.works(t, "beta__echo", 5*time.Second-time.Since(killed))
	if n := ledger.Count("exec hang"); n != 10 {
		t.Errorf("hang was executed %d times, want 10", n)
	}
	r.noZombies(t)
	unhurt(t, load, 0)
}

func TestAChildThatCrashesAtStartIsNotStartedTooOften(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{false, true} {
		t.Run(fmt.Sprintf("with callers %t", asked), func(t *testing.T) {
			t.Parallel()
			ledger := harness.Ledger(t)
			r := beside(t, map[string]harness.Config{"beta": harness.Chaos(t, mcptest.Chaos{Ledger: ledger, CrashAtStart: true})})
			before := r.Usage(t)
			alpha := r.Connect(t, mcptest.Legacy)
			load := harness.StartLoad(t, 1, 100*time.Millisecond, func(ctx context.Context, _ int) error {
				return echoes(ctx, alpha, "alpha__echo", `{"a":1}`)
			})
			if asked {
				callers := r.Connect(t, mcptest.Legacy)
				answered := harness.StartLoad(t, 2, 200*time.Millisecond, func(ctx context.Context, _ int) error {
					if o := call(ctx, callers, "beta__echo", `{}`, 10*time.Second); o.err != nil || !o.failed {
						return fmt.Errorf("%s", o)
					}
					return nil
				})
				defer func() { unhurt(t, answered, 0) }()
			}
			pause(t, 20*time.Second)
			spawns, now := ledger.Count("start"), r.Usage(t)
			t.Logf("%d spawns, %s of CPU", spawns, now.CPU-before.CPU)
			if spawns > 8 || spawns < 4 {
				t.Errorf("%d spawns in 20 s, want 4 to 8", spawns)
			}
			if used := now.CPU - before.CPU; used > 2*time.Second {
				t.Errorf("%s of CPU, want at most 2s", used)
			}
			unhurt(t, load, 0)
			r.noZombies(t)
		})
	}
}

func TestTwentyCrashesInCalls(t *testing.T) {
	t.Parallel()
	ledger := harness.Ledger(t)
	r := betaBeside(t, harness.Chaos(t, mcptest.Chaos{Ledger: ledger}), harness.Config{"breaker": harness.Config{"enabled": false}})
	load := r.loadAlpha(t)
	before := r.Usage(t)
	var all []outcome
	for range 20 {
		all = append(all, r.call(t, "beta__write_die", `{}`))
		pause(t, 200*time.Millisecond)
	}
	slowest(t, "calls that crash the server", all, 5*time.Second)
	executed := ledger.Count("exec write_die")
	t.Logf("%d of 20 calls were executed, %d processes started", executed, ledger.Count("start"))
	if executed > 20 {
		t.Errorf("20 calls were executed %d times", executed)
	}
	r.works(t, "beta__echo", 10*time.Second)
	unhurt(t, load, 0)
	r.noZombies(t)
	if n := len(running(ledger)); n != 1 {
		t.Errorf("%d processes of beta run, want 1", n)
	}
	if now := r.Usage(t); now.FDs > before.FDs+5 {
		t.Errorf("%d fds, want at most 5 more than %d", now.FDs, before.FDs)
	}
}

func TestFloodsOnStandardErrorAreHarmless(t *testing.T) {
	r := betaBeside(t, harness.Chaos(t, mcptest.Chaos{StderrFirst: 1 << 20}))
	before := r.before(t)
	o := r.call(t, "beta__flood", `{"bytes":20000000}`)
	t.Logf("20 MB: answered after %s", o.took)
	if o.ok() != nil || o.took > 10*time.Second {
		t.Errorf("the call during the flood: %s", o)
	}
	r.memoryAtMost(t, before, 32)
}

func TestHugeLinesAreSurvived(t *testing.T) {
	tests := []struct{ name, tool, arguments string }{
		{"an answer of 50 MB on one line", "beta__big", `{"bytes":50000000}`},
		{"300 MB on one line", "beta__big", `{"bytes":300000000}`},
		{"300 MB of a line that never ends", "beta__endless", `{"bytes":300000000}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := betaBeside(t, harness.Chaos(t, mcptest.Chaos{}))
			load := r.loadAlpha(t)
			before := r.before(t)
			o := call(t.Context(), r.client, tt.tool, tt.arguments, 30*time.Second)
			t.Logf("answered %s", clip(o.String()))
			if o.err != nil || o.took > 20*time.Second {
				t.Errorf("answered %s, want within 20s", o)
			}
			r.memoryAtMost(t, before, 128)
			r.works(t, "beta__echo", 10*time.Second)
			unhurt(t, load, 0)
		})
	}
}

func TestAChildThatStopsReadingBlocksNobody(t *testing.T) {
	t.Parallel()
	r := betaBeside(t, harness.Chaos(t, mcptest.Chaos{}), harness.Config{"call_timeout": "3s"})
	if o := r.call(t, "beta__deaf", `{}`); o.ok() != nil {
		t.Fatal(o)
	}
	load := r.loadAlpha(t)
	before := r.before(t)
	big := `{"text":"` + string(make64k()) + `"}`
	slowest(t, "calls of 64 kB to a server that reads nothing", together(200, func(int) outcome {
		return call(t.Context(), r.client, "beta__echo", big, 20*time.Second)
	}), 8*time.Second)
	r.memoryAtMost(t, before, 128)
	unhurt(t, load, 200*time.Millisecond)
	if err := r.Stop(15 * time.Second); err != nil {
		t.Error(err)
	}
}

func make64k() []byte {
	b := make([]byte, 64<<10)
	for i := range b {
		b[i] = 'x'
	}
	return b
}
