package router_test

import (
	"context"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/telemetry"
	"mcp-aggregator/internal/wire"
)

// BenchmarkChain is what the path costs a call that succeeds, the connection left out:
// of a client that cannot be asked anything, and of clients of both eras that can be
// asked by a legacy server.
func BenchmarkChain(b *testing.B) {
	for _, bb := range []struct {
		name   string
		caps   string
		modern bool
	}{{"plain", "", false}, {"legacy client", everyCapability, false}, {"modern client", everyCapability, true}} {
		b.Run(bb.name, func(b *testing.B) { benchmarkChain(b, bb.caps, bb.modern) })
	}
}

func benchmarkChain(b *testing.B, caps string, modern bool) {
	r := newRouter(b, func(s *config.Server) { s.Protocol = "legacy" })
	h := r.Chain(func(context.Context, *router.Call) (router.Reply, error) {
		return router.Reply{Result: wire.Value{Raw: []byte(`{}`)}}, nil
	})
	call := router.Call{Gen: r.Generation(), Method: "tools/call"}
	meta := ""
	switch {
	case modern:
		call.Era, meta = wire.Modern, `"_meta":{"io.modelcontextprotocol/clientCapabilities":`+caps+`},`
	case caps != "":
		call.Caps = []byte(caps)
		call.Ask = func(context.Context, string, []byte, func([]byte)) ([]byte, *wire.RPCError) { return nil, nil }
	}
	m := mustScan(b, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+meta+`"name":"demo__add","arguments":{"a":1,"b":2}}}`)
	ctx, cancel := context.WithCancelCause(b.Context())
	defer cancel(nil)
	call.Params, call.Cancel = &m.Body, cancel
	b.ReportAllocs()
	for b.Loop() {
		c := call
		if _, err := h(ctx, &c); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWatchedChain is the path of a call that somebody follows.
func BenchmarkWatchedChain(b *testing.B) {
	events := telemetry.NewEvents()
	type data struct {
		Call       int64
		Tool, Kind string
		Took       time.Duration
	}
	watch := router.Watch{
		Started: func(id int64, server, tool string) {
			events.Append(telemetry.CallStarted, server, &data{Call: id, Tool: tool})
		},
		Ended: func(id int64, server, tool, kind string, took time.Duration) {
			events.Append(telemetry.CallCompleted, server, &data{id, tool, kind, took})
		},
	}
	c := config.Default()
	c.Servers = []*config.Server{builtinServer("up")}
	r := newRig(b, c, map[string]func() *mcp.Server{"up": serverOf(map[string]tool{"t": answers("x")})}, watch)
	h := r.Chain(func(context.Context, *router.Call) (router.Reply, error) {
		return router.Reply{Result: wire.Value{Raw: []byte(`{}`)}}, nil
	})
	call := newCall(b, r, "up__t", `{}`)
	b.ReportAllocs()
	for b.Loop() {
		c := *call
		if _, err := h(b.Context(), &c); err != nil {
			b.Fatal(err)
		}
	}
}
