package router

import (
	"context"

	"mcp-aggregator/internal/limit"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// Chain is the path of a call with another end.
func (r *Router) Chain(end Handler) Handler {
	stages := r.stages()
	h := end
	for i := len(stages) - 1; i >= 0; i-- {
		h = stages[i](h)
	}
	return h
}

// Queues are the queues that calls go through.
func (r *Router) Queues() *limit.Queues { return r.queues }

// Answered is the path of a call to a server of an era that gives a result, or an error
// if that is not nil.
func (r *Router) Answered(era wire.Era, result *wire.Object, rpc *wire.RPCError) Handler {
	var send Handler
	send = func(ctx context.Context, c *Call) (Reply, error) {
		if m := c.Gen.Masks[c.Server]; m != nil && c.masker == nil {
			return r.masked(ctx, c, m, send)
		}
		a := upstream.Reply{Err: rpc}
		if result != nil {
			a.Result = *result
		}
		return r.answer(c, era, &a)
	}
	return r.Chain(send)
}
