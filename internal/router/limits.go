package router

import (
	"context"
	"errors"
	"time"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/limit"
)

// limit refuses calls beyond the rate of the server.
func (r *Router) limit(next Handler) Handler {
	return func(ctx context.Context, c *Call) (Reply, error) {
		if c.server == nil || c.server.RateLimit.PerSecond <= 0 || c.goesOn {
			return next(ctx, c)
		}
		rate := c.server.RateLimit
		wait := r.rates.Take(c.Server, rate.PerSecond, rate.Burst)
		if wait <= 0 {
			return next(ctx, c)
		}
		if r.watch.RateLimited != nil {
			r.watch.RateLimited(c.Server)
		}
		f := fault.Of(fault.RateLimited, c.Server, "called more often than rate_limit allows (%v per second)", rate.PerSecond)
		f.RetryAfter = wait
		return Reply{}, f
	}
}

// queue lets calls wait for a slot of the queue that the tool or the server is in.
func (r *Router) queue(next Handler) Handler {
	return func(ctx context.Context, c *Call) (Reply, error) {
		name := c.queueName()
		if name == "" {
			return next(ctx, c)
		}
		q := r.queues.Named(name)
		began := time.Now()
		err := q.Enter(ctx)
		if r.watch.QueueWaited != nil {
			r.watch.QueueWaited(name, time.Since(began))
		}
		if err != nil {
			return Reply{}, c.notIn(ctx, err)
		}
		defer q.Leave()
		if refusal := c.ticket.Stands(); refusal != nil {
			return Reply{}, c.refused(refusal) // the breaker has opened while it waited
		}
		return next(ctx, c)
	}
}

func (c *Call) queueName() string {
	switch {
	case c.task != nil:
		return "" // it starts no work, and tasks/result may wait for hours
	case c.override != nil && c.override.Queue != "":
		return c.override.Queue
	case c.server != nil:
		return c.server.Queue
	}
	return ""
}

// notIn is the error of a call that a queue did not let in.
func (c *Call) notIn(ctx context.Context, err error) error {
	if refused, ok := errors.AsType[*limit.Refused](err); ok {
		return fault.Of(fault.Overloaded, c.Server, "%w", refused)
	}
	return ending(ctx, c, "gave up waiting in the queue")
}
