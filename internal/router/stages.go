package router

import (
	"context"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/wire"
)

// stages is what happens to a call, from the outside in. The order is part of the
// design:
//
//   - observe is outermost, so that it sees every end of a call, refusals included;
//   - resolve comes before anything that decides by server or tool;
//   - interact comes before everything that a call takes a place of, so that one that
//     waits for an answer of its client keeps its places;
//   - shrink is inside of interact, so that the client's own model can be asked for a
//     summary, and outside of everything else: no place or connection is held meanwhile.
//     What the aggregator offers itself is answered there;
//   - fallback is around everything that can fail for one target and not for another:
//     each target has its own limits, attempts and breaker;
//   - limit is outside of retry: a call takes one token, however often it is tried, and
//     one that is refused is not tried again in here;
//   - retry is around the breaker, which so sees each attempt, and ends when it opens;
//   - breaker is outside of queue, so that calls of a tool that rests do not take the
//     places of others;
//   - queue is outside of acquire, so that nobody holds a connection while waiting;
//   - acquire lends the connection for one attempt, so that the next one can have
//     another;
//   - deadline is next to send, so that waiting for a place or for a server that is
//     starting is not charged to the call.
//
// Secrets in what servers say are hidden by send itself, before any stage sees them.
//
// A stage that keeps results for repeated calls belongs behind resolve, authorization
// with audit behind fallback (each target is authorized on its own).
func (r *Router) stages() []Stage {
	return []Stage{
		r.observe,
		r.resolve,
		r.interact,
		r.shrink,
		r.fallback,
		r.limit,
		r.retry,
		r.breaker,
		r.queue,
		r.acquire,
		r.deadline,
		// and then send
	}
}

// resolve finds the server and its own name for what the client named. A name that
// is unknown because its server has not been listed yet is looked up again once that
// has happened, and fails for that reason if it does not.
func (r *Router) resolve(next Handler) Handler {
	return func(ctx context.Context, c *Call) (Reply, error) {
		c.meta, c.creates = bridge.ReadMeta(c.Params), wantsTask(c)
		t, err := r.lookup(c)
		if err != nil && !r.IsReady() {
			r.Ready(ctx)
			c.Gen = r.Generation()
			t, err = r.lookup(c)
		}
		if err != nil {
			if server := c.unlisted(); server != "" {
				if err := r.awaitListing(ctx, c, server); err != nil {
					if c.aimUnlisted(server); c.Entry != nil {
						r.started(c)
					}
					return r.standIn(ctx, c, next, err)
				}
				t, err = r.lookup(c)
			}
		}
		if err != nil {
			return Reply{}, err
		}
		c.aim(t)
		if !c.resumes() { // else it may be a call that has been told of
			r.started(c)
		}
		return next(ctx, c)
	}
}

// fieldsOf reads the routing members of params, refusing ambiguous ones.
func fieldsOf(c *Call, names ...string) ([]wire.Span, error) {
	spans, err := c.Params.Fields(names...)
	if err != nil {
		return nil, &wire.RPCError{Code: wire.CodeInvalidParams, Message: "invalid params: " + err.Error()}
	}
	return spans, nil
}
