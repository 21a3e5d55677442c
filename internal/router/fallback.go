package router

import (
	"context"
	"errors"
	"strings"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// fallback calls other tools, one after the other, in place of one that cannot be
// called. It never follows one that was perhaps executed and must not be executed
// twice. Fallbacks of fallbacks are not followed, so there are no cycles.
func (r *Router) fallback(next Handler) Handler {
	return func(ctx context.Context, c *Call) (Reply, error) {
		reply, err := next(ctx, c)
		if err == nil || c.standsIn {
			return reply, err
		}
		return r.standIn(ctx, c, next, err)
	}
}

// standIn calls the fallbacks of a call that ended in err.
func (r *Router) standIn(ctx context.Context, c *Call, next Handler, err error) (Reply, error) {
	first, ok := errors.AsType[*fault.Error](err)
	if !ok || c.override == nil || len(c.override.Fallback) == 0 || !first.MayFallBack(c.safe()) {
		return Reply{}, err
	}
	var tried []string
	for _, f := range c.override.Fallback {
		if ctx.Err() != nil {
			break
		}
		out, err := c.towards(f)
		if err != nil {
			tried = append(tried, f.Tool+" ("+err.Error()+")")
			continue
		}
		if r.watch.Fell != nil {
			r.watch.Fell(fault.Name(c.Server, c.Name), f.Tool)
		}
		reply, err := next(ctx, out)
		if err == nil {
			if reply.Err == nil {
				reply.Result = marked(reply.Result, f.Tool)
			}
			return reply, nil
		}
		err = out.complete(err)
		last, ok := errors.AsType[*fault.Error](err)
		if !ok || !last.MayFallBack(out.safe()) {
			return Reply{}, err
		}
		tried = append(tried, f.Tool+" ("+last.Reason+")")
	}
	if tried == nil {
		return Reply{}, err
	}
	all := *first
	all.Reason += "; tried in its place: " + strings.Join(tried, ", ")
	return Reply{}, &all
}

// towards makes the call of a fallback.
func (c *Call) towards(f config.Fallback) (*Call, error) {
	e, ok := c.Gen.Catalog.Tool(f.Tool)
	if !ok || !strings.HasPrefix(f.Tool, e.Server+".") {
		return nil, errors.New("not available")
	}
	return c.redirected(e, f.Arguments)
}

// metaFallback is the member of _meta that names the tool whose result it is.
const metaFallback = "mcp-aggregator/fallback"

// marked says in a result which tool it comes from.
func marked(result wire.Value, tool string) wire.Value {
	if len(result.Edits) > 0 {
		result = wire.Value{Raw: result.Bytes()} // edits could lie where ours must
	}
	if len(result.Raw) == 0 || result.Raw[0] != '{' {
		return result
	}
	whole := wire.Span{Hi: len(result.Raw)}
	member := string(wire.AppendQuote([]byte(`"`+metaFallback+`":`), tool))
	meta := wire.Field(result.Raw, whole, "_meta")
	switch {
	case !meta.OK():
		return result.With(insertion(result.Raw, whole, `"_meta":{`+member+`}`))
	case result.Raw[meta.Lo] == '{':
		return result.With(insertion(result.Raw, meta, member))
	}
	return result
}
