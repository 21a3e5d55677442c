package router_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/router"
)

func TestABreakerSparesAToolThatHangsUntilItWorksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		var well atomic.Bool
		c := config.Default()
		c.Servers = []*config.Server{builtinServer("sick")}
		c.Servers[0].CallTimeout = 2 * time.Second
		r := newRig(t, c, map[string]func() *mcp.Server{"sick": serverOf(map[string]tool{
			"read_well": answers("fine"),
			"query": counted(&calls, func(ctx context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if well.Load() {
					return done("rows"), nil
				}
				return hangs(ctx, q)
			}),
		})}, router.Watch{})

		for range 5 {
			if f := failed(t, t.Context(), r, "sick__query"); f.Code != "timeout" {
				t.Fatalf("got %+v", f)
			}
		}
		time.Sleep(10 * time.Second)
		began := time.Now()
		for range 20 {
			f := failed(t, t.Context(), r, "sick__query")
			want := failure{Code: "circuit_open", Kind: "circuit_open", Retryable: true, RetryAfterMS: 50000, Attempts: 1, Server: "sick", Tool: "query"}
			if want.Text = f.Text; f != want {
				t.Fatalf("got  %+v\nwant %+v", f, want)
			}
			if !strings.HasSuffix(f.Text, "try again in 50s") {
				t.Fatalf("the text is %q", f.Text)
			}
		}
		if calls.Load() != 5 || time.Since(began) != 0 {
			t.Errorf("%d calls arrived, the answers took %v", calls.Load(), time.Since(began))
		}
		works(t, r, "sick__read_well", `{}`)

		time.Sleep(50*time.Second + time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 { // they take all places, and give them back when their clients go
			go r.Call(ctx, newCall(t, r, "sick__query", `{}`))
		}
		synctest.Wait()
		if f := failed(t, t.Context(), r, "sick__query"); f.Code != "circuit_open" || calls.Load() != 8 {
			t.Errorf("%d calls arrived, then got %+v", calls.Load(), f)
		}
		cancel()
		synctest.Wait()
		well.Store(true)
		for range 4 {
			works(t, r, "sick__query", `{}`)
		}
	})
}

func TestErrorsOfAToolDoNotOpenItsBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config.Default()
		c.Servers = []*config.Server{builtinServer("db")}
		var calls atomic.Int64
		r := newRig(t, c, map[string]func() *mcp.Server{"db": serverOf(map[string]tool{
			"query": counted(&calls, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "no such row"}}}, nil
			}),
		})}, router.Watch{})
		for range 20 {
			if reply := request(t, t.Context(), r, "db__query", `{}`); !reply.ToolError {
				t.Fatalf("got %s", reply.Result.Bytes())
			}
		}
		if calls.Load() != 20 {
			t.Errorf("%d calls arrived", calls.Load())
		}
	})
}

// ends runs calls of demo's tool add down the path to an end that fails in a given way,
// and returns how often the end was reached.
func ends(t *testing.T, r *router.Router, n int, end func() (router.Reply, error)) (reached int) {
	t.Helper()
	h := r.Chain(func(context.Context, *router.Call) (router.Reply, error) {
		reached++
		return end()
	})
	for range n {
		_, _ = h(t.Context(), newCall(t, r, "demo__add", `{}`))
	}
	return reached
}

func TestWhatABreakerCounts(t *testing.T) {
	lost := &fault.Error{Kind: fault.Lost, Server: "demo", Reason: "gone", Conn: 7}
	for _, c := range []struct {
		name string
		end  func() (router.Reply, error)
		want int // calls that get through of 10
	}{
		{"time-outs", func() (router.Reply, error) { return router.Reply{}, fault.Of(fault.Timeout, "demo", "x") }, 5},
		{"answers that are none", func() (router.Reply, error) { return router.Reply{}, fault.Of(fault.Protocol, "demo", "x") }, 5},
		{"internal errors of the server", func() (router.Reply, error) { return router.Reply{Err: rpcError(-32603)}, nil }, 5},
		{"invalid params", func() (router.Reply, error) { return router.Reply{Err: rpcError(-32602)}, nil }, 10},
		{"refused credentials", func() (router.Reply, error) { return router.Reply{}, fault.Of(fault.Unauthorized, "demo", "x") }, 10},
		{"a server that is not there", func() (router.Reply, error) {
			return router.Reply{}, &fault.Error{Kind: fault.Unreachable, Code: fault.CodeRestartFailed}
		}, 10},
		{"calls lost one after the other", func() (router.Reply, error) { return router.Reply{}, lost }, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRouter(t, func(s *config.Server) {
					s.ToolOverrides = map[string]*config.ToolOverride{"add": {Idempotent: new(false)}}
				})
				if got := ends(t, r, 10, c.end); got != c.want {
					t.Errorf("%d of 10 calls got through, want %d", got, c.want)
				}
			})
		})
	}
}

func TestCallsLostTogetherAreOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouter(t, func(s *config.Server) {
			s.ToolOverrides = map[string]*config.ToolOverride{"add": {Idempotent: new(false)}}
		})
		var reached atomic.Int64
		for conn := range int64(6) {
			h := r.Chain(func(context.Context, *router.Call) (router.Reply, error) {
				reached.Add(1)
				time.Sleep(time.Second)
				return router.Reply{}, &fault.Error{Kind: fault.Lost, Server: "demo", Reason: "gone", Conn: conn + 1}
			})
			for range 10 {
				go h(t.Context(), newCall(t, r, "demo__add", `{}`))
			}
			time.Sleep(2 * time.Second)
		}
		if reached.Load() != 50 {
			t.Errorf("%d calls got through, want those of 5 connections", reached.Load())
		}
	})
}

func TestAPanicGivesThePlaceAtTheBreakerBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouter(t, nil)
		ends(t, r, 5, func() (router.Reply, error) { return router.Reply{}, fault.Of(fault.Timeout, "demo", "x") })
		time.Sleep(time.Minute + time.Millisecond)
		h := r.Chain(func(context.Context, *router.Call) (router.Reply, error) { panic("defect") })
		for range 10 {
			func() {
				defer func() { recover() }()
				_, err := h(t.Context(), newCall(t, r, "demo__add", `{}`))
				t.Errorf("it did not panic: %v", err)
			}()
		}
	})
}
