package router_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// A tool of a test server.
type tool func(ctx context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error)

// serverOf makes a server in this process. Tools whose names begin with read_ say
// that they only read, the others that they do not.
func serverOf(tools map[string]tool) func() *mcp.Server {
	return func() *mcp.Server {
		s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
		for name, f := range tools {
			s.AddTool(&mcp.Tool{
				Name: name, InputSchema: map[string]any{"type": "object"},
				Annotations: &mcp.ToolAnnotations{ReadOnlyHint: strings.HasPrefix(name, "read_")},
			}, mcp.ToolHandler(f))
		}
		return s
	}
}

func done(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// answers is a tool that works.
func answers(text string) tool {
	return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return done(text), nil }
}

// builtinServer is the configuration of a server of a rig.
func builtinServer(name string) *config.Server {
	s := config.DefaultServer(name)
	s.Type, s.Builtin = config.TypeBuiltin, name
	return s
}

// newRig routes to the servers of a configuration; the built-in ones are given.
func newRig(t testing.TB, c *config.Config, builtins map[string]func() *mcp.Server, watch router.Watch) *router.Router {
	t.Helper()
	r, _ := newRigSet(t, c, builtins, watch)
	return r
}

func newRigSet(t testing.TB, c *config.Config, builtins map[string]func() *mcp.Server, watch router.Watch) (*router.Router, *upstream.Set) {
	t.Helper()
	return newRigWith(t, c, builtins, router.Options{Watch: watch}, router.Generation{}, nil)
}

// newRigWith is newRigSet with more options, more of a generation, and what the
// aggregator offers itself.
func newRigWith(t testing.TB, c *config.Config, builtins map[string]func() *mcp.Server, o router.Options, gen router.Generation, own *catalog.Listing) (*router.Router, *upstream.Set) {
	t.Helper()
	set := upstream.New(upstream.Options{Limits: c.Limits, Builtins: builtins})
	t.Cleanup(func() { set.Close(context.Background()) })
	set.Apply(c.Servers)
	<-set.Settled()
	gen.Config, gen.Servers = c, map[string]*config.Server{}
	for _, s := range c.Servers {
		gen.Servers[s.Name] = s
	}
	gen.Catalog, _ = catalog.Build(set.Listings(), catalog.Rules{Servers: c.Servers, Own: own})
	o.Upstreams, o.Identity = set, bridge.NewIdentity("agg", "1")
	r := router.New(o, &gen)
	r.MarkReady()
	t.Cleanup(func() { r.Close(context.Background()) })
	return r, set
}

// A failure is what a client can read of a call that failed.
type failure struct {
	Code, Kind   string
	Retryable    bool
	RetryAfterMS int64 `json:"retry_after_ms"`
	Attempts     int
	Server, Tool string
	Text         string
}

// failed makes a call of a tool that must fail.
func failed(t testing.TB, ctx context.Context, r *router.Router, name string) failure {
	t.Helper()
	return errorOf(t, request(t, ctx, r, name, `{}`))
}

func errorOf(t testing.TB, reply router.Reply) failure {
	t.Helper()
	var result struct {
		IsError bool
		Content []struct{ Text string }
		Meta    map[string]failure `json:"_meta"`
	}
	if reply.Err != nil {
		f := failure{}
		if reply.Err.Data != nil {
			if err := json.Unmarshal(reply.Err.Data, &f); err != nil {
				t.Fatalf("%v has no description: %v", reply.Err, err)
			}
		}
		f.Text = reply.Err.Message
		return f
	}
	if err := json.Unmarshal(reply.Result.Bytes(), &result); err != nil || !result.IsError {
		t.Fatalf("answered %s", reply.Result.Bytes())
	}
	f := result.Meta["mcp-aggregator/error"]
	f.Text = result.Content[0].Text
	return f
}

// works makes a call of a tool that must work and returns its result.
func works(t testing.TB, r *router.Router, name, arguments string) string {
	t.Helper()
	reply := request(t, t.Context(), r, name, arguments)
	if reply.Err != nil || reply.ToolError {
		t.Fatalf("%s was answered %v %s", name, reply.Err, reply.Result.Bytes())
	}
	if err := wire.Valid(reply.Result.Bytes()); err != nil {
		t.Errorf("%s: %v", reply.Result.Bytes(), err)
	}
	return string(reply.Result.Bytes())
}

func request(t testing.TB, ctx context.Context, r *router.Router, name, arguments string) router.Reply {
	t.Helper()
	return r.Call(ctx, newCall(t, r, name, arguments))
}

func newCall(t testing.TB, r *router.Router, name, arguments string) *router.Call {
	t.Helper()
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":` + arguments + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	return &router.Call{Gen: r.Generation(), Method: m.Method, Params: &m.Body, Era: wire.Legacy}
}

// counted is a tool that counts its calls.
func counted(n *atomic.Int64, f tool) tool {
	return func(ctx context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		n.Add(1)
		return f(ctx, q)
	}
}

// hangs is a tool that never answers.
func hangs(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
