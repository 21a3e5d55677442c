//go:build e2e && linux

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// transports are beta as a child and on HTTP.
func transports(t *testing.T, chaos mcptest.Chaos, f func(t *testing.T, beta harness.Config)) {
	t.Run("stdio", func(t *testing.T) { t.Parallel(); f(t, harness.Chaos(t, chaos)) })
	t.Run("HTTP", func(t *testing.T) {
		t.Parallel()
		config, _ := harness.ChaosHTTP(t, chaos)
		f(t, config)
	})
}

func TestHangingAndSlowToolsHoldNobody(t *testing.T) {
	t.Parallel()
	transports(t, mcptest.Chaos{}, func(t *testing.T, beta harness.Config) {
		r := betaBeside(t, beta, harness.Config{"call_timeout": "5s"})
		alpha := r.loadAlpha(t)
		other := r.Connect(t, mcptest.Legacy)
		same := harness.StartLoad(t, 1, 5*time.Millisecond, func(ctx context.Context, _ int) error {
			return echoes(ctx, other, "beta__echo", `{"b":1}`)
		})
		hung := make(chan outcome, 1)
		go func() { hung <- r.call(t, "beta__hang", `{}`) }()
		slow := together(20, func(int) outcome { return r.call(t, "beta__slow", `{"ms":3000}`) })
		slowest(t, "20 slow calls", slow, 4500*time.Millisecond)
		for _, o := range slow {
			if o.ok() != nil {
				t.Fatal(o)
			}
		}
		o := <-hung
		slowest(t, "a call that is never answered", []outcome{o}, 7*time.Second)
		if !o.failed || o.code != "timeout" {
			t.Errorf("it was answered %s, want a timeout", o)
		}
		unhurt(t, alpha, 200*time.Millisecond)
		unhurt(t, same, 200*time.Millisecond)
	})
}

func TestOddAnswersEndTheirCallOnly(t *testing.T) {
	t.Parallel()
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			t.Parallel()
			transports(t, mcptest.Chaos{Era: era}, func(t *testing.T, beta harness.Config) {
				r := betaBeside(t, beta, harness.Config{"call_timeout": "4s", "breaker": harness.Config{"enabled": false}})
				for _, kind := range mcptest.OddAnswers() {
					o := r.call(t, "beta__odd", `{"kind":"`+kind+`"}`)
					if o.err != nil || o.took > 5*time.Second {
						t.Errorf("%s: %s, want an answer within 5s", kind, o)
					}
					// Depth 100 is a good answer; what has no meaning must not be a good one.
					if kind == "nesting 100" && (o.ok() != nil || !strings.Contains(o.text, "depth 100")) {
						t.Errorf("%s: %s", kind, o)
					}
					if (kind == "neither" || kind == "both" || kind == "half" || kind == "bad UTF-8") && !o.failed {
						t.Errorf("%s: %s, want an error", kind, o)
					}
					if err := echoes(harness.Context(t, 5*time.Second), r.client, "beta__echo", fmt.Sprintf(`{"after":%q}`, kind)); err != nil {
						t.Errorf("the call after %s: %v", kind, err)
					}
				}
			})
		})
	}
}

// HTTP answers that are no MCP, in the middle of a session.
func TestHTTPErrorsEndTheirCallOnly(t *testing.T) {
	t.Parallel()
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			t.Parallel()
			config, _ := harness.ChaosHTTP(t, mcptest.Chaos{Era: era})
			r := betaBeside(t, config)
			for _, kind := range mcptest.HTTPAnswers() {
				o := r.call(t, "beta__status", `{"kind":"`+kind+`"}`)
				t.Logf("%s: after %s: %s", kind, o.took.Round(time.Millisecond), o.code)
				if o.err != nil || !o.failed || o.took > 5*time.Second {
					t.Errorf("%s: %s, want an error within 5s", kind, o)
				}
				if err := echoes(harness.Context(t, 5*time.Second), r.client, "beta__echo", fmt.Sprintf(`{"after":%q}`, kind)); err != nil {
					t.Errorf("the call after %s: %v", kind, err)
				}
			}
		})
	}
}

func TestJunkOnStandardOutputIsSkipped(t *testing.T) {
	t.Parallel()
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			t.Parallel()
			r := betaBeside(t, harness.Chaos(t, mcptest.Chaos{Era: era, Junk: true}))
			for i := range 20 {
				ctx := harness.Context(t, 5*time.Second)
				if err := echoes(ctx, r.client, "beta__echo", fmt.Sprintf(`{"n":%d}`, i)); err != nil {
					t.Fatal(err)
				}
			}
			if n := r.status(t, "beta").Skipped; n < 20 {
				t.Errorf("the status counts %d lines skipped, want at least 20", n)
			}
		})
	}
}

// Clients of either era give up, in words or by going.
func TestClientsThatGiveUpLeaveNothing(t *testing.T) {
	t.Parallel()
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		for _, onHTTP := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s client, server on HTTP %t", era, onHTTP), func(t *testing.T) {
				t.Parallel()
				ledger := harness.Ledger(t)
				config := harness.Chaos(t, mcptest.Chaos{Ledger: ledger})
				if onHTTP {
					config, _ = harness.ChaosHTTP(t, mcptest.Chaos{Ledger: ledger})
				}
				giveUp(t, betaBeside(t, config), era, ledger)
			})
		}
	}
}

func giveUp(t *testing.T, r *rig, era mcptest.Era, ledger mcptest.Ledger) {
	load := r.loadAlpha(t)
	before := r.before(t)
	for round := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		c, err := mcptest.ConnectHTTP(ctx, r.URL, era, &mcptest.Options{Own: true})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan []outcome, 1)
		go func() {
			done <- together(100, func(int) outcome { return call(ctx, c, "beta__hang", `{}`, time.Minute) })
		}()
		harness.Eventually(t, 10*time.Second, "100 calls arrive", func() bool { return ledger.Count("exec hang") >= 100*(round+1) })
		cancel()
		<-done
		if era == mcptest.Legacy {
			if _, err := c.Delete(t.Context()); err != nil {
				t.Error(err)
			}
		}
		c.Close()
	}
	harness.Eventually(t, 5*time.Second, "fds are as before", func() bool { return r.Usage(t).FDs <= before.FDs+10 })
	r.memoryAtMost(t, before, 30)
	if err := echoes(t.Context(), r.client, "beta__echo", `{"after":"them"}`); err != nil {
		t.Error(err)
	}
	unhurt(t, load, 0)
}

// Two calls with one id at the same time in one session: each its own answer, or a
// refusal. A modern client has no session, so both must be answered.
func TestTwoCallsWithOneID(t *testing.T) {
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			r := betaBeside(t, harness.Chaos(t, mcptest.Chaos{}))
			c := r.Connect(t, era)
			for range 10 {
				all := together(2, func(i int) outcome {
					x, err := c.CallID(harness.Context(t, 10*time.Second), "7", "tools/call",
						fmt.Sprintf(`{"name":"beta__slow","arguments":{"ms":100,"i":%d}}`, i))
					o := outcomeOf(x, err)
					if o.ok() == nil && o.text != fmt.Sprintf(`{"ms":100,"i":%d}`, i) {
						t.Errorf("call %d got %s", i, o)
					}
					return o
				})
				if all[0].err != nil || all[1].err != nil || all[0].failed && all[1].failed {
					t.Errorf("%s\n%s", all[0], all[1])
				}
				if era == mcptest.Modern && (all[0].failed || all[1].failed) {
					t.Errorf("%s\n%s", all[0], all[1])
				}
			}
		})
	}
}

// What a server says because of A is for A alone.
func TestNothingOfOneClientReachesAnother(t *testing.T) {
	t.Parallel()
	transports(t, mcptest.Chaos{Era: mcptest.Legacy}, func(t *testing.T, beta harness.Config) {
		r := betaBeside(t, beta)
		ctx := harness.Context(t, 30*time.Second)
		caps := &mcptest.Options{Own: true, Capabilities: `{"sampling":{},"elicitation":{}}`}
		names := []string{"anna", "bert"}
		inboxes := make([]*mcptest.Inbox, 2)
		clients := make([]*mcptest.Client, 2)
		for i := range names {
			c, err := mcptest.ConnectHTTP(ctx, r.URL, mcptest.Legacy, caps)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if x, err := c.Call(ctx, "logging/setLevel", `{"level":"debug"}`); err != nil || x.Error != nil {
				t.Fatalf("%v %s", err, show(x))
			}
			if inboxes[i], err = c.Listen(ctx, ""); err != nil {
				t.Fatal(err)
			}
			clients[i] = c
		}
		heard := make([]string, 2)
		together(2, func(i int) outcome {
			for range 5 {
				x, err := clients[i].Call(ctx, "tools/call", `{"name":"beta__speak","arguments":{"key":"`+names[i]+`"},"_meta":{"progressToken":1}}`)
				if err != nil {
					t.Errorf("%s: %v", names[i], err)
					return outcome{}
				}
				heard[i] += fmt.Sprintf("%s%s", x.Before, x.Raw)
			}
			return outcome{}
		})
		for i, name := range names {
			heard[i] += fmt.Sprintf("%s", inboxes[i].All())
			if other := names[1-i]; strings.Contains(heard[i], other) {
				t.Errorf("%s heard something of %s: %s", name, other, clip(heard[i]))
			}
			if !strings.Contains(heard[i], "progress of "+name) {
				t.Errorf("%s did not hear its own progress: %s", name, clip(heard[i]))
			}
		}
	})
}
