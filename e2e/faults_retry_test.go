//go:build e2e && linux

package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

func TestABreakerSparesAServerThatFails(t *testing.T) {
	for _, onHTTP := range []bool{false, true} {
		t.Run(fmt.Sprintf("on HTTP %t", onHTTP), func(t *testing.T) {
			t.Parallel()
			ledger := harness.Ledger(t)
			beta := harness.Chaos(t, mcptest.Chaos{Ledger: ledger})
			if onHTTP {
				beta, _ = harness.ChaosHTTP(t, mcptest.Chaos{Ledger: ledger})
			}
			breaks(t, beta, ledger)
		})
	}
}

func breaks(t *testing.T, beta harness.Config, ledger mcptest.Ledger) {
	const cooldown = 3 * time.Second
	r := betaBeside(t, beta, harness.Config{"breaker": harness.Config{"cooldown": cooldown.String()}})
	for range 20 {
		if o := r.call(t, "beta__fail", `{}`); o.code != "" || !o.failed {
			t.Fatalf("an error a tool reports: %s", o)
		}
	}
	if err := ledger.Ail(true); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if o := r.call(t, "beta__ail", `{}`); o.code == "circuit_open" {
			t.Errorf("failure %d: %s", i, o)
		}
	}
	before := ledger.Count("exec ail")
	opened := time.Now()
	for range 20 {
		o := r.call(t, "beta__ail", `{}`)
		if o.code != "circuit_open" || o.took > 50*time.Millisecond {
			t.Fatalf("behind an open breaker: %s, want circuit_open within 50ms", o)
		}
	}
	if n := ledger.Count("exec ail") - before; n > 0 {
		t.Errorf("%d calls went through the open breaker", n)
	}
	for _, tool := range []string{"beta__echo", "beta__fail", "alpha__ail"} {
		if o := r.call(t, tool, `{}`); o.code != "" {
			t.Errorf("%s: %s", tool, o)
		}
	}
	if o := r.call(t, "beta__ail2", `{}`); o.code == "circuit_open" {
		t.Errorf("another tool: %s", o)
	}
	if err := ledger.Ail(false); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, cooldown+2*time.Second-time.Since(opened), "the breaker closes", func() bool {
		return r.call(t, "beta__ail", `{}`).ok() == nil
	})
	t.Logf("closed %s after it opened", time.Since(opened).Round(time.Millisecond))
	for range 10 {
		if o := r.call(t, "beta__ail", `{}`); o.ok() != nil {
			t.Fatalf("after it closed: %s", o)
		}
	}
}

// A call that kills its server is executed once, or twice if it says that this does
// no harm, and the breaker spares the server further ones. With default settings.
func TestACallThatKillsItsServerIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, onHTTP := range []bool{false, true} {
		for tool, most := range map[string]int{"write_die": 1, "write_close": 1, "read_die": 2, "idem_die": 2} {
			t.Run(fmt.Sprintf("%s, on HTTP %t", tool, onHTTP), func(t *testing.T) {
				t.Parallel()
				ledger := harness.Ledger(t)
				config := harness.Chaos(t, mcptest.Chaos{Ledger: ledger})
				if onHTTP {
					config, _ = harness.ChaosHTTP(t, mcptest.Chaos{Ledger: ledger})
				}
				r := betaBeside(t, config)
				o := r.call(t, "beta__"+tool, `{"key":"one"}`)
				pause(t, 2*time.Second)
				n := ledger.Count("exec " + tool + " one")
				t.Logf("executed %d times, answered %s", n, o)
				if n < 1 || n > most {
					t.Errorf("executed %d times, want at most %d", n, most)
				}
				if o.code != "lost" || most == 1 && !mayHaveExecuted(o) || o.took > 5*time.Second {
					t.Errorf("answered %s, want lost, and that it may have been executed", o)
				}
				r.works(t, "beta__echo", 10*time.Second)
			})
		}
	}
}

// With default settings.
func TestCallsThatWereNeverSentAreRepeated(t *testing.T) {
	t.Parallel()
	t.Run("nobody listens for a moment", func(t *testing.T) {
		t.Parallel()
		ledger := harness.Ledger(t)
		config, site, _ := harness.Site(t, mcptest.Chaos{Ledger: ledger})
		r := betaBeside(t, config)
		site.Down()
		time.AfterFunc(700*time.Millisecond, func() {
			if err := site.Up(); err != nil {
				t.Error(err)
			}
		})
		writesOnce(t, r, ledger)
	})
	t.Run("connections are reset before a byte is taken", func(t *testing.T) {
		t.Parallel()
		ledger := harness.Ledger(t)
		config, cable, _ := harness.Cable(t, mcptest.Chaos{Ledger: ledger, Era: mcptest.Modern})
		r := betaBeside(t, config)
		cable.Set(mcptest.Reset)
		cable.Set(mcptest.Refuse)
		time.AfterFunc(700*time.Millisecond, func() { cable.Set(mcptest.Whole) })
		for i, o := range together(3, func(i int) outcome { return r.call(t, "beta__write", fmt.Sprintf(`{"key":"w%d"}`, i)) }) {
			// Whether a byte was taken cannot be known here: both answers are right, twice is not.
			n := ledger.Count(fmt.Sprintf("exec write w%d", i))
			t.Logf("executed %d times: %s", n, o)
			if n > 1 || o.ok() == nil && n != 1 || o.failed && !mayHaveExecuted(o) && n != 0 {
				t.Errorf("executed %d times and answered %s", n, o)
			}
		}
	})
	t.Run("the child is being started again", func(t *testing.T) {
		t.Parallel()
		ledger := harness.Ledger(t)
		r := betaBeside(t, harness.Chaos(t, mcptest.Chaos{Ledger: ledger}))
		killNewest(t, ledger)
		// Before that a call may still be written to the pipe of the dead child.
		harness.Eventually(t, 5*time.Second, "the loss is noticed", func() bool { return complaintAbout(r.Log(), "beta") != "" })
		writesOnce(t, r, ledger)
	})
	t.Run("the server asks to wait", func(t *testing.T) {
		t.Parallel()
		ledger := harness.Ledger(t)
		config, _ := harness.ChaosHTTP(t, mcptest.Chaos{Ledger: ledger})
		r := betaBeside(t, config)
		o := r.call(t, "beta__limited", `{"key":"w"}`)
		if n := ledger.Count("exec limited w"); o.ok() != nil || n != 1 || o.took < 800*time.Millisecond {
			t.Errorf("executed %d times, answered %s; want a success after a second", n, o)
		}
	})
}

// writesOnce makes three calls that change something and sees each executed once.
func writesOnce(t *testing.T, r *rig, ledger mcptest.Ledger) {
	t.Helper()
	for i, o := range together(3, func(i int) outcome { return r.call(t, "beta__write", fmt.Sprintf(`{"key":"w%d"}`, i)) }) {
		n := ledger.Count(fmt.Sprintf("exec write w%d", i))
		t.Logf("executed %d times: %s", n, o)
		if o.ok() != nil || n != 1 {
			t.Errorf("executed %d times and answered %s, want once and a success", n, o)
		}
	}
}
