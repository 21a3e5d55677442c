package router_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// sleeps is a tool that takes a time.
func sleeps(d time.Duration) tool {
	return func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		select {
		case <-time.After(d):
			return done("slept"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func TestCallsWaitInTheirQueueInOrderAndAreNotChargedForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config.Default()
		c.Queues = map[string]*config.Queue{"heavy": {Slots: 1, Waiting: 3, Timeout: 30 * time.Second}}
		c.Servers = []*config.Server{builtinServer("db")}
		c.Servers[0].Queue, c.Servers[0].CallTimeout = "heavy", 3*time.Second
		var mu sync.Mutex // guards waits and ends
		var waits []time.Duration
		r := newRig(t, c, map[string]func() *mcp.Server{"db": serverOf(map[string]tool{"work": sleeps(2 * time.Second)})},
			router.Watch{QueueWaited: func(_ string, d time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				waits = append(waits, d)
			}})

		began := time.Now()
		var ends []string
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 4 {
			wg.Go(func() {
				ctx := ctx
				if i != 1 {
					ctx = t.Context()
				}
				reply := request(t, ctx, r, "db__work", `{}`)
				mu.Lock()
				defer mu.Unlock()
				ends = append(ends, fmt.Sprint(i, " ", reply.Err == nil && !reply.ToolError, " ", time.Since(began)))
			})
			synctest.Wait()
		}
		f := failed(t, t.Context(), r, "db__work")
		if f.Code != "overloaded" || !f.Retryable || !strings.Contains(f.Text, "queue heavy: 1 calls are running and 3 waiting") {
			t.Errorf("got %+v", f)
		}
		time.Sleep(time.Second)
		cancel() // of the one that waits first
		wg.Wait()
		if want := []string{"1 false 1s", "0 true 2s", "2 true 4s", "3 true 6s"}; !slices.Equal(ends, want) {
			t.Errorf("got %q, want %q", ends, want)
		}
		if want := []time.Duration{0, 0, time.Second, 2 * time.Second, 4 * time.Second}; !slices.Equal(waits, want) {
			t.Errorf("waited %v, want %v", waits, want)
		}
	})
}

func TestACallThatWaitedWhileItsBreakerOpenedIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config.Default()
		c.Queues = map[string]*config.Queue{"heavy": {Slots: 5, Waiting: 100, Timeout: time.Minute}}
		c.Servers = []*config.Server{builtinServer("db")}
		c.Servers[0].CallTimeout = 2 * time.Second
		c.Servers[0].ToolOverrides = map[string]*config.ToolOverride{"work": {Queue: "heavy"}}
		var calls atomic.Int64
		r := newRig(t, c, map[string]func() *mcp.Server{"db": serverOf(map[string]tool{"work": counted(&calls, hangs)})}, router.Watch{})
		codes := map[string]int{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				f := failed(t, t.Context(), r, "db__work")
				mu.Lock()
				defer mu.Unlock()
				codes[f.Code]++
			})
		}
		wg.Wait()
		if calls.Load() > 10 || codes["circuit_open"] < 40 {
			t.Errorf("%d calls arrived; the answers: %v", calls.Load(), codes)
		}
	})
}

// reports is a tool that reports progress every second for so many seconds.
func reports(seconds int) tool {
	return func(ctx context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range seconds {
			time.Sleep(time.Second)
			token := q.Params.GetProgressToken()
			if token == nil {
				continue
			}
			if err := q.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(i)}); err != nil {
				return nil, err
			}
		}
		return done("ready"), nil
	}
}

func TestSilenceEndsACallAndProgressKeepsItAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config.Default()
		c.Servers = []*config.Server{builtinServer("db")}
		c.Servers[0].CallIdleTimeout, c.Servers[0].CallTimeout = 1500*time.Millisecond, 20*time.Second
		c.Servers[0].ToolOverrides = map[string]*config.ToolOverride{
			"patient": {CallIdleTimeout: 5 * time.Second}, "hasty": {CallTimeout: time.Second},
		}
		r := newRig(t, c, map[string]func() *mcp.Server{"db": serverOf(map[string]tool{
			"talks": reports(10), "talks_for_ever": reports(60), "hangs": hangs, "patient": hangs, "hasty": hangs,
		})}, router.Watch{})

		works(t, r, "db__talks", `{"n":12345678901234567890}`)
		for _, c := range []struct {
			tool, limit string
			want        time.Duration
		}{
			{"hangs", "call_idle_timeout (1.5s)", 1500 * time.Millisecond},
			{"patient", "call_idle_timeout (5s)", 5 * time.Second},
			{"hasty", "call_timeout (1s)", time.Second},
			{"talks_for_ever", "call_timeout (20s)", 20 * time.Second},
		} {
			began := time.Now()
			f := failed(t, t.Context(), r, "db__"+c.tool)
			if took := time.Since(began); f.Code != "timeout" || !strings.Contains(f.Text, "within "+c.limit) || took != c.want {
				t.Errorf("%s: after %v %+v", c.tool, took, f)
			}
		}
	})
}

func TestNoLimitIsLeftRunningBehindACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config.Default()
		c.Servers = []*config.Server{builtinServer("db")}
		c.Servers[0].CallIdleTimeout, c.Servers[0].CallTimeout = time.Second, 2*time.Second
		r := newRig(t, c, map[string]func() *mcp.Server{"db": serverOf(map[string]tool{"get": answers("x")})}, router.Watch{})
		ctx, cancel := context.WithCancelCause(t.Context())
		call := newCall(t, r, "db__get", `{}`)
		call.Cancel = cancel
		if reply := r.Call(ctx, call); reply.Err != nil || reply.ToolError {
			t.Errorf("got %s", reply.Result.Bytes())
		}
		time.Sleep(3 * time.Second)
		if ctx.Err() != nil {
			t.Errorf("ended by %v", context.Cause(ctx))
		}
	})
}

func TestProgressThatOnlyWeAskedForIsNotPassedOn(t *testing.T) {
	for _, params := range []string{
		`{"name":"db__talks","arguments":{"a":1}}`,
		`{"_meta":{},"name":"db__talks"}`,
		`{"name":"db.talks","_meta":{"x":{"y":1}}}`,
		`{"_meta":{"progressToken":"mine"},"name":"db__talks"}`,
	} {
		for _, era := range []wire.Era{wire.Legacy, wire.Modern} {
			synctest.Test(t, func(t *testing.T) {
				c := config.Default()
				c.Servers = []*config.Server{builtinServer("db")}
				c.Servers[0].CallIdleTimeout = 1500 * time.Millisecond
				r := newRig(t, c, map[string]func() *mcp.Server{"db": serverOf(map[string]tool{"talks": reports(3)})}, router.Watch{})
				m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}`))
				if err != nil {
					t.Fatal(err)
				}
				var heard int
				reply := r.Call(t.Context(), &router.Call{
					Gen: r.Generation(), Method: m.Method, Params: &m.Body, Era: era,
					Events: func(ev upstream.Event) {
						if heard++; !strings.Contains(string(ev.Params), `"progressToken":"mine"`) {
							t.Errorf("%s", ev.Params)
						}
					},
				})
				if reply.Err != nil || reply.ToolError {
					t.Errorf("%s: %v %s", params, reply.Err, reply.Result.Bytes())
				}
				if want := 3 * strings.Count(params, "mine"); heard != want {
					t.Errorf("%s: heard of progress %d times, want %d", params, heard, want)
				}
			})
		}
	}
}

func TestCallsBeyondTheRateAreRefusedWithTheTimeToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config.Default()
		c.Servers = []*config.Server{builtinServer("db")}
		c.Servers[0].RateLimit = config.RateLimit{PerSecond: 2}
		limited := 0
		r := newRig(t, c, map[string]func() *mcp.Server{"db": serverOf(map[string]tool{"get": answers("x")})},
			router.Watch{RateLimited: func(string) { limited++ }})
		works(t, r, "db__get", `{}`)
		works(t, r, "db__get", `{}`)
		f := failed(t, t.Context(), r, "db__get")
		if f.Code != "rate_limited" || f.RetryAfterMS != 500 || !f.Retryable || !strings.Contains(f.Text, "try again in 500ms") || limited != 1 {
			t.Errorf("got %+v", f)
		}
		time.Sleep(500 * time.Millisecond)
		works(t, r, "db__get", `{}`)
	})
}

func TestCallsAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config.Default()
		c.Servers = []*config.Server{builtinServer("db")}
		c.Servers[0].CallTimeout = time.Second
		var seen []string
		r := newRig(t, c, map[string]func() *mcp.Server{"db": serverOf(map[string]tool{
			"get": answers("x"), "hangs": hangs,
			"bad": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{IsError: true}, nil
			},
		})}, router.Watch{Called: func(server, tool, kind string, took time.Duration) {
			seen = append(seen, fmt.Sprint(server, ".", tool, " ", kind, " ", took))
		}})
		for _, name := range []string{"db__get", "db__hangs", "db__bad", "db__unknown"} {
			request(t, t.Context(), r, name, `{}`)
		}
		want := []string{"db.get ok 0s", "db.hangs timeout 1s", "db.bad tool_error 0s", ". rejected 0s"}
		if !slices.Equal(seen, want) {
			t.Errorf("got %q, want %q", seen, want)
		}
	})
}
