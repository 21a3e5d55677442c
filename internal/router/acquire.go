package router

import (
	"context"

	"mcp-aggregator/internal/upstream"
)

// acquire borrows a connection to the server for one attempt. It is lent inside a
// callback, so that no reference can be forgotten.
func (r *Router) acquire(next Handler) Handler {
	return func(ctx context.Context, c *Call) (reply Reply, err error) {
		if ctx.Err() != nil {
			return Reply{}, ending(ctx, c, "not sent") // nobody waits for it any more
		}
		attempt := func(conn upstream.Conn) (err error) {
			c.conn = conn
			reply, err = next(ctx, c)
			return err
		}
		asking := c.asks != nil
		if c.task != nil {
			asking = c.task.Alone // where the task lives, whatever else this server is used for
		}
		if asking {
			err = r.upstreams.UseAsking(ctx, c.Server, c.Session, c.Principal, attempt)
		} else {
			err = r.upstreams.Use(ctx, c.Server, c.Session, attempt)
		}
		return reply, err
	}
}
