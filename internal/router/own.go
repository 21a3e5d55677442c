package router

import (
	"context"
	"errors"
	"strings"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/results"
	"mcp-aggregator/internal/wire"
)

// own answers what the aggregator offers itself: its tools, and the originals of results
// that were made smaller.
func (r *Router) own(ctx context.Context, c *Call) (Reply, error) {
	if c.Method == "resources/read" {
		return r.original(c)
	}
	args := c.Params.Field("arguments").Of(c.Params.Raw)
	switch c.Name {
	case results.ReadTool:
		return r.readKept(ctx, c, args)
	case ListResources:
		raw, err := r.listResources(c, args)
		return c.ours(raw, err)
	case ReadResource:
		return r.readResource(ctx, c, args)
	}
	return Reply{}, notFound("tool", c.Name)
}

// readKept answers a call that reads a piece of an original.
func (r *Router) readKept(ctx context.Context, c *Call, args []byte) (Reply, error) {
	raw, err := r.results.Read(ctx, c.Principal, args)
	if err != nil && ctx.Err() != nil {
		return Reply{}, ending(ctx, c, "gave up reading a result")
	}
	return c.ours(raw, err)
}

// ours is the reply of a tool of ours: a text, or an error that the model can read and
// act on.
func (c *Call) ours(text []byte, err error) (Reply, error) {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return Reply{}, f
	}
	out := []byte(`{`)
	if c.Era == wire.Modern {
		out = append(out, `"resultType":"complete",`...)
	}
	if err != nil {
		text = []byte(err.Error())
	}
	out = wire.AppendQuote(append(out, `"content":[{"type":"text","text":`...), string(text))
	if out = append(out, `}]`...); err != nil {
		out = append(out, `,"isError":true`...)
	}
	return Reply{Result: wire.Value{Raw: append(out, '}')}, ToolError: err != nil}, nil
}

// original answers a read of a kept result (RES-5).
func (r *Router) original(c *Call) (Reply, error) {
	raw, ok := r.results.Resource(c.Principal, c.Name)
	if !ok {
		return Reply{}, unknownResource(c.Era, c.Name)
	}
	if c.Era == wire.Modern {
		raw = append([]byte(`{"resultType":"complete","ttlMs":0,"cacheScope":"private",`), raw[1:]...)
	}
	return Reply{Result: wire.Value{Raw: raw}}, nil
}

// kept routes the URI of a kept result to ourselves.
func (r *Router) kept(uri string) (target, bool) {
	if r.results == nil || !strings.HasPrefix(uri, results.Scheme) {
		return target{}, false
	}
	return target{Server: catalog.Own, Entry: &catalog.Entry{Kind: catalog.Resources, Name: uri, Exposed: uri}, Name: uri}, true
}
