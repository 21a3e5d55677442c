package router_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/wire"
)

// withFallbacks is a configuration of two servers in which main.search, which takes
// one call a second, has these fallbacks.
func withFallbacks(fallbacks ...config.Fallback) *config.Config {
	c := config.Default()
	main, spare := builtinServer("main"), builtinServer("spare")
	main.RateLimit = config.RateLimit{PerSecond: 0.001, Burst: 1}
	main.ToolOverrides = map[string]*config.ToolOverride{"search": {Fallback: fallbacks}}
	c.Servers = []*config.Server{main, spare}
	return c
}

func echoes(_ context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return done(string(q.Params.Arguments)), nil
}

func TestAnotherToolStandsInForOneThatCannotBeCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withFallbacks(config.Fallback{Tool: "spare.gone"}, config.Fallback{Tool: "spare.find", Arguments: map[string]string{"q": "query"}})
		var fell []string
		r := newRig(t, c, map[string]func() *mcp.Server{
			"main":  serverOf(map[string]tool{"search": echoes}),
			"spare": serverOf(map[string]tool{"find": echoes}),
		}, router.Watch{Fell: func(from, to string) { fell = append(fell, from+" "+to) }})

		if got := works(t, r, "main__search", `{"q":1}`); strings.Contains(got, "fallback") {
			t.Errorf("got %s", got)
		}
		got := works(t, r, "main__search", `{"\u0071":12345678901234567890.10,"n":{"q":"q"}}`)
		if !strings.Contains(got, `{\"query\":12345678901234567890.10,\"n\":{\"q\":\"q\"}}`) || !strings.Contains(got, `"_meta":{"mcp-aggregator/fallback":"spare.find"`) {
			t.Errorf("got %s", got)
		}
		if want := []string{"main.search spare.find"}; !slices.Equal(fell, want) {
			t.Errorf("told of %q", fell)
		}
		f := failed(t, t.Context(), r, "main__search?") // unknown names have none
		if !strings.Contains(f.Text, "Unknown tool") {
			t.Errorf("got %+v", f)
		}
	})
}

func TestAnErrorNamesAllThatWereTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withFallbacks(config.Fallback{Tool: "spare.gone"}, config.Fallback{Tool: "spare.find"}, config.Fallback{Tool: "spare.find", Arguments: map[string]string{"a": "b"}})
		c.Servers[1].RateLimit = config.RateLimit{PerSecond: 0.001, Burst: 1}
		r := newRig(t, c, map[string]func() *mcp.Server{
			"main":  serverOf(map[string]tool{"search": echoes}),
			"spare": serverOf(map[string]tool{"find": echoes}),
		}, router.Watch{})
		works(t, r, "main__search", `{}`)
		works(t, r, "spare__find", `{}`)
		f := errorOf(t, request(t, t.Context(), r, "main__search", `{"a":1,"b":2}`))
		if f.Server != "main" || f.Tool != "search" || f.Code != "rate_limited" {
			t.Errorf("got %+v", f)
		}
		for _, want := range []string{"spare.gone (not available)", "spare.find (called more often", `spare.find (two arguments would be called "b")`} {
			if !strings.Contains(f.Text, want) {
				t.Errorf("%q is not in %q", want, f.Text)
			}
		}
	})
}

func TestNothingStandsInForWhatMayHaveBeenExecuted(t *testing.T) {
	for _, c := range []struct {
		name string
		safe bool
		kind fault.Kind
		want int // calls that were sent
	}{
		{"lost", false, fault.Lost, 1},
		{"lost, safe", true, fault.Lost, 3},
		{"timed out, safe", true, fault.Timeout, 1},
		{"no MCP, safe", true, fault.Protocol, 1},
		{"refused", true, fault.Rejected, 1},
		{"no connection", false, fault.Unreachable, 4},
		{"overloaded", false, fault.Overloaded, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRouter(t, func(s *config.Server) {
					s.ToolOverrides = map[string]*config.ToolOverride{
						"add": {Idempotent: &c.safe, Fallback: []config.Fallback{{Tool: "demo.echo"}}},
					}
				})
				sent := 0
				h := r.Chain(func(_ context.Context, call *router.Call) (router.Reply, error) {
					sent++
					if call.Name == "echo" {
						return router.Reply{Result: wire.Value{Raw: []byte(`{"_meta":{"a":1},"content":[]}`)}}, nil
					}
					return router.Reply{}, fault.Of(c.kind, "demo", "x")
				})
				reply, err := h(t.Context(), newCall(t, r, "demo__add", `{}`))
				if sent != c.want {
					t.Errorf("sent %d times, want %d; %v", sent, c.want, err)
				}
				if want := `{"_meta":{"mcp-aggregator/fallback":"demo.echo","a":1},"content":[]}`; err == nil && string(reply.Result.Bytes()) != want {
					t.Errorf("got %s", reply.Result.Bytes())
				}
			})
		})
	}
}

func TestAServerThatNeverStartedHasFallbacks(t *testing.T) {
	c := withFallbacks(config.Fallback{Tool: "spare.find"})
	c.Servers[0].Type, c.Servers[0].Command = config.TypeStdio, "no-such-command-anywhere"
	c.Servers[1].RateLimit = config.RateLimit{PerSecond: 0.001, Burst: 1}
	c.Servers[1].ToolOverrides = map[string]*config.ToolOverride{"find": {Fallback: []config.Fallback{{Tool: "main.search"}}}}
	r := newRig(t, c, map[string]func() *mcp.Server{"spare": serverOf(map[string]tool{"find": answers("found")})}, router.Watch{})
	if got := works(t, r, "main__search", `{}`); !strings.Contains(got, "found") {
		t.Errorf("got %s", got)
	}
	if f := failed(t, t.Context(), r, "main__search"); f.Server != "main" || strings.Contains(f.Text, "main.search (") {
		t.Errorf("the fallback of a fallback was followed: %+v", f)
	}
	if f := failed(t, t.Context(), r, "main__other"); f.Kind != "unreachable" {
		t.Errorf("got %+v", f)
	}
}

func TestABreakerThatIsOpenLetsOthersStandIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withFallbacks(config.Fallback{Tool: "spare.find"})
		c.Servers[0].RateLimit, c.Servers[0].CallTimeout = config.RateLimit{}, time.Second
		var calls atomic.Int64
		r := newRig(t, c, map[string]func() *mcp.Server{
			"main":  serverOf(map[string]tool{"search": counted(&calls, hangs)}),
			"spare": serverOf(map[string]tool{"find": answers("found")}),
		}, router.Watch{})
		for range 5 {
			failed(t, t.Context(), r, "main__search")
		}
		for range 5 {
			works(t, r, "main__search", `{}`)
		}
		if calls.Load() != 5 {
			t.Errorf("%d calls arrived", calls.Load())
		}
	})
}
