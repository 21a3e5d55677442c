package router

import (
	"context"
	"errors"

	"mcp-aggregator/internal/breaker"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// breaker leaves a tool alone that keeps failing. Prompts and resources have none: one
// bad resource must not stand in the way of the others, and their number is unbounded.
func (r *Router) breaker(next Handler) Handler {
	return func(ctx context.Context, c *Call) (reply Reply, err error) {
		if c.Method != "tools/call" || !c.config().Breaker.Enabled {
			return next(ctx, c)
		}
		ticket, refusal := r.breakers.Allow(c.Server, c.Name)
		if refusal != nil {
			r.upstreams.Want(c.Server) // the circuit may wait for the return of the server
			return Reply{}, c.refused(refusal)
		}
		c.ticket = ticket
		verdict, conn := breaker.Ignored, int64(0) // should a stage panic
		defer func() { ticket.Done(verdict, conn) }()
		reply, err = next(ctx, c)
		verdict, conn = verdictOn(&reply, err)
		return reply, err
	}
}

// refused is the error of a call that a breaker does not let through.
func (c *Call) refused(refusal *breaker.Refusal) error {
	f := fault.Of(fault.CircuitOpen, c.Server, "failed %d times in a row", refusal.Failures)
	f.RetryAfter = refusal.RetryAfter
	return f
}

// verdictOn is what the end of an attempt says about the tool.
func verdictOn(reply *Reply, err error) (verdict breaker.Result, conn int64) {
	if err == nil {
		if reply.Err != nil && reply.Err.Code == wire.CodeInternal {
			return breaker.Broke, 0
		}
		return breaker.Worked, 0
	}
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return breaker.Ignored, 0
	}
	switch f.Breaker() {
	case fault.BreakerWorks:
		verdict = breaker.Worked
	case fault.BreakerAway:
		verdict = breaker.Away
	case fault.BreakerFails:
		verdict = breaker.Failed
	case fault.BreakerBreaks:
		verdict = breaker.Broke
	}
	return verdict, f.Conn
}
