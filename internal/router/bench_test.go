package router_test

import (
	"context"
	"testing"

	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/wire"
)

// BenchmarkChain is what the path costs a call that succeeds, the connection left out.
func BenchmarkChain(b *testing.B) {
	r := newRouter(b, nil)
	h := r.Chain(func(context.Context, *router.Call) (router.Reply, error) {
		return router.Reply{Result: wire.Value{Raw: []byte(`{}`)}}, nil
	})
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"demo__add","arguments":{"a":1,"b":2}}}`))
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(b.Context())
	defer cancel(nil)
	gen := r.Generation()
	b.ReportAllocs()
	for b.Loop() {
		c := router.Call{Gen: gen, Method: "tools/call", Params: &m.Body, Cancel: cancel}
		if _, err := h(ctx, &c); err != nil {
			b.Fatal(err)
		}
	}
}
