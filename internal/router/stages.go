package router

import (
	"context"
	"time"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// stages is what happens to a call, from the outside in. The order is part of the
// design:
//
//   - observe is outermost, so that it sees every end of a call, refusals included;
//   - resolve comes before anything that decides by server or tool;
//   - deadline is next to send, so that time spent waiting in front of it is not
//     charged to the call.
//
// A stage that keeps results for repeated calls belongs behind resolve, one that
// shrinks results behind that, then one that falls back to other targets, then
// authorization with audit (each target is authorized on its own), then retry, the
// breaker (which sees each attempt) and the queue.
func (r *Router) stages() []Stage {
	return []Stage{
		r.observe,
		r.resolve,
		r.deadline,
		// and then send
	}
}

// observe notes how a call began and ended.
func (r *Router) observe(next Handler) Handler {
	return func(ctx context.Context, c *Call) (Reply, error) {
		began := time.Now()
		reply, err := next(ctx, c)
		if r.log.Enabled(ctx, levelCall) {
			kind := "ok"
			if err != nil {
				kind = fault.KindOf(err).String()
			} else if reply.Err != nil {
				kind = fault.Rejected.String()
			}
			r.log.Log(ctx, levelCall, "call", "method", c.Method, "kind", kind, "took", time.Since(began), "err", err)
		}
		return reply, err
	}
}

// resolve finds the server and its own name for what the client named. A name that
// is unknown because its server has not been listed yet is looked up again once that
// has happened, and fails for that reason if it does not.
func (r *Router) resolve(next Handler) Handler {
	return func(ctx context.Context, c *Call) (Reply, error) {
		out := *c
		out.meta = bridge.ReadMeta(c.Params)
		t, err := r.lookup(&out)
		if err != nil && !r.isReady() {
			r.Ready(ctx)
			out.Gen = r.Generation()
			t, err = r.lookup(&out)
		}
		if server := out.unlisted(); err != nil && server != "" {
			if err := r.awaitListing(ctx, &out, server); err != nil {
				return Reply{}, err
			}
			t, err = r.lookup(&out)
		}
		if err != nil {
			return Reply{}, err
		}
		out.target = t
		return next(ctx, &out)
	}
}

// deadline bounds the call by the server's call_timeout.
func (r *Router) deadline(next Handler) Handler {
	return func(ctx context.Context, c *Call) (Reply, error) {
		s := c.Gen.Servers[c.Server]
		if s == nil || s.CallTimeout <= 0 {
			return next(ctx, c)
		}
		if c.Cancel != nil {
			t := time.AfterFunc(s.CallTimeout, func() { c.Cancel(callTimeout{s}) })
			defer t.Stop()
			return next(ctx, c)
		}
		ctx, cancel := context.WithTimeoutCause(ctx, s.CallTimeout, callTimeout{s})
		defer cancel()
		return next(ctx, c)
	}
}

// callTimeout is the cause of a context that call_timeout has ended. It becomes a
// *fault.Error when somebody asks, which most calls spare themselves.
type callTimeout struct{ server *config.Server }

func (t callTimeout) fault() *fault.Error {
	return fault.Of(fault.Timeout, t.server.Name, "no answer within call_timeout (%v)", t.server.CallTimeout)
}

func (t callTimeout) Error() string { return t.fault().Error() }

// As implements the interface of errors.As.
func (t callTimeout) As(target any) bool {
	f, ok := target.(**fault.Error)
	if ok {
		*f = t.fault()
	}
	return ok
}

// fieldsOf reads the routing members of params, refusing ambiguous ones.
func fieldsOf(c *Call, names ...string) ([]wire.Span, error) {
	spans, err := c.Params.Fields(names...)
	if err != nil {
		return nil, &wire.RPCError{Code: wire.CodeInvalidParams, Message: "invalid params: " + err.Error()}
	}
	return spans, nil
}
