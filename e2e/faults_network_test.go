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

// answered counts only calls without an answer, and slow ones, as errors.
func answered(ctx context.Context, c *mcptest.Client, tool, arguments string, within time.Duration) error {
	o := call(ctx, c, tool, arguments, within+10*time.Second)
	if o.err != nil || o.took > within {
		return fmt.Errorf("answered %s, want within %s", o, within)
	}
	return nil
}

// With default settings apart from call_timeout.
func TestNetworkFaultsHeal(t *testing.T) {
	t.Parallel()
	faults := []struct {
		name  string
		fault mcptest.Fault
	}{
		{"a black hole", mcptest.Blackhole}, {"a stall", mcptest.Stall}, {"resets", mcptest.Reset},
		{"answers cut in the middle", mcptest.Cut}, {"connections closed at once", mcptest.Refuse},
	}
	for _, f := range faults {
		for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
			t.Run(fmt.Sprintf("%s, %s server", f.name, era), func(t *testing.T) {
				t.Parallel()
				ledger := harness.Ledger(t)
				config, cable, _ := harness.Cable(t, mcptest.Chaos{Era: era, Ledger: ledger})
				const timeout = 5 * time.Second
				r := betaBeside(t, config, harness.Config{"call_timeout": timeout.String()})
				alpha := r.loadAlpha(t)
				readers, writers := r.Connect(t, mcptest.Legacy), r.Connect(t, mcptest.Modern)
				reads := harness.StartLoad(t, 4, 20*time.Millisecond, func(ctx context.Context, _ int) error {
					return answered(ctx, readers, "beta__echo", `{"a":1}`, timeout+2*time.Second)
				})
				writes := harness.StartLoad(t, 2, 100*time.Millisecond, func(ctx context.Context, _ int) error {
					return answered(ctx, writers, "beta__write", `{"key":"k"}`, timeout+2*time.Second)
				})
				pause(t, time.Second)
				cable.Set(f.fault)
				pause(t, 8*time.Second)
				cable.Set(mcptest.Whole)
				r.works(t, "beta__echo", 10*time.Second)
				sum := reads.Stop()
				t.Logf("reads: %s", sum)
				if len(sum.Errors) > 0 {
					t.Errorf("reads: %s", sum)
				}
				sum = writes.Stop()
				t.Logf("writes: %s", sum)
				if len(sum.Errors) > 0 {
					t.Errorf("writes: %s", sum)
				}
				if n := ledger.Count("exec write k"); n > sum.Calls {
					t.Errorf("%d writes were executed %d times", sum.Calls, n)
				}
				unhurt(t, alpha, 200*time.Millisecond)
			})
		}
	}
}

// With default settings.
func TestForgottenSessionsAreNotSeen(t *testing.T) {
	t.Parallel()
	ledger := harness.Ledger(t)
	config, raw := harness.ChaosHTTP(t, mcptest.Chaos{Era: mcptest.Legacy, Ledger: ledger, ForgetEvery: 3})
	r := betaBeside(t, config)
	for i := range 30 {
		if o := r.call(t, "beta__write", fmt.Sprintf(`{"key":"alone%d"}`, i)); o.ok() != nil {
			t.Errorf("call %d: %s", i, o)
		}
	}
	var errs int
	for _, o := range together(6, func(i int) outcome {
		return r.call(t, "beta__write", fmt.Sprintf(`{"key":"together%d"}`, i))
	}) {
		if o.ok() != nil {
			errs++
			t.Errorf("at the same time: %s", o)
		}
	}
	for i := range 30 {
		if n := ledger.Count(fmt.Sprintf("exec write alone%d", i)); n != 1 {
			t.Errorf("write %d was executed %d times", i, n)
		}
	}
	for i := range 6 {
		if n := ledger.Count(fmt.Sprintf("exec write together%d", i)); n != 1 && errs == 0 {
			t.Errorf("write %d was executed %d times", i, n)
		}
	}
	t.Logf("%d sessions", len(raw.Received("initialize")))
}

// With default settings.
func TestARestartedHTTPServerIsFoundAgain(t *testing.T) {
	t.Parallel()
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		t.Run(era.String()+", restarted at once", func(t *testing.T) {
			t.Parallel()
			config, site, _ := harness.Site(t, mcptest.Chaos{Era: era})
			r := betaBeside(t, config)
			callers := r.Connect(t, mcptest.Legacy)
			load := harness.StartLoad(t, 2, 20*time.Millisecond, func(ctx context.Context, _ int) error {
				return echoes(ctx, callers, "beta__echo", `{"a":1}`)
			})
			for range 3 {
				pause(t, 2*time.Second)
				site.Down()
				if err := site.Up(); err != nil {
					t.Fatal(err)
				}
			}
			pause(t, 2*time.Second)
			if f := load.Stop(); len(f.Errors) > 0 {
				t.Errorf("%s", f)
			} else {
				t.Logf("%s", f)
			}
		})
		for _, down := range []time.Duration{3 * time.Second, 12 * time.Second} {
			for _, used := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, down for %s, with callers %t", era, down, used), func(t *testing.T) {
					t.Parallel()
					config, site, _ := harness.Site(t, mcptest.Chaos{Era: era})
					r := betaBeside(t, config)
					alpha := r.loadAlpha(t)
					if used {
						callers := r.Connect(t, mcptest.Legacy)
						load := harness.StartLoad(t, 4, 50*time.Millisecond, func(ctx context.Context, _ int) error {
							return answered(ctx, callers, "beta__echo", `{"a":1}`, 10*time.Second)
						})
						defer func() {
							if f := load.Stop(); len(f.Errors) > 0 {
								t.Errorf("calls meanwhile: %s", f)
							}
						}()
					}
					pause(t, time.Second)
					site.Down()
					pause(t, down)
					if err := site.Up(); err != nil {
						t.Fatal(err)
					}
					r.works(t, "beta__echo", 5*time.Second)
					unhurt(t, alpha, 200*time.Millisecond)
				})
			}
		}
	}
}
