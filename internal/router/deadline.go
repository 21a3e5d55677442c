package router

import (
	"context"
	"time"

	"mcp-aggregator/internal/fault"
)

// deadline bounds an attempt by what is left of call_timeout, and by the longest
// silence, which progress of the call ends. Time in which the client is asked something
// does not count. When one of them is over, the connection
// tells the server that nobody waits any more.
func (r *Router) deadline(next Handler) Handler {
	return func(ctx context.Context, c *Call) (Reply, error) {
		began, stood := time.Now(), c.clock.idle()
		reply, err := c.bounded(ctx, next)
		if err != nil {
			c.spent += time.Since(began) - (c.clock.idle() - stood)
		}
		return reply, err
	}
}

// bounded makes an attempt under the limits of the call.
func (c *Call) bounded(ctx context.Context, next Handler) (Reply, error) {
	whole, silence := c.patience()
	switch {
	case whole > 0 && c.spent >= whole:
		return Reply{}, callTimeout{c.Server, "call_timeout", whole}.fault()
	case c.Cancel != nil:
		return c.timed(ctx, c.Cancel, next, whole, silence)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	return c.timed(ctx, cancel, next, whole, silence)
}

// timed makes an attempt that cancel ends when one of the limits is over.
func (c *Call) timed(ctx context.Context, cancel context.CancelCauseFunc, next Handler, whole, silence time.Duration) (Reply, error) {
	if whole > 0 {
		t := c.clock.afterFunc(whole-c.spent, func() { cancel(callTimeout{c.Server, "call_timeout", whole}) })
		defer t.Stop()
	}
	if silence <= 0 {
		return next(ctx, c)
	}
	out := c.withProgress()
	t := c.clock.afterFunc(silence, func() { cancel(callTimeout{c.Server, "call_idle_timeout", silence}) })
	defer t.Stop()
	out.progress = func() { t.Reset(silence) }
	return next(ctx, out)
}

// patience returns the limits of the call: of its whole time and of its silence. 0 is
// no limit.
func (c *Call) patience() (whole, silence time.Duration) {
	if c.server == nil || c.Method == "tasks/result" {
		return 0, 0 // it waits for the end of the task, which has a time of its own
	}
	whole, silence = c.server.CallTimeout, c.server.CallIdleTimeout
	if o := c.override; o != nil {
		if o.CallTimeout > 0 {
			whole = o.CallTimeout
		}
		if o.CallIdleTimeout > 0 {
			silence = o.CallIdleTimeout
		}
	}
	return whole, silence
}

// callTimeout is the cause of a context that a limit has ended. It becomes a
// *fault.Error when somebody asks, which most calls spare themselves.
type callTimeout struct {
	server  string
	setting string
	limit   time.Duration
}

func (t callTimeout) fault() *fault.Error {
	if t.setting == "call_idle_timeout" {
		return fault.Of(fault.Timeout, t.server, "no answer and no progress within %s (%v)", t.setting, t.limit)
	}
	return fault.Of(fault.Timeout, t.server, "no answer within %s (%v)", t.setting, t.limit)
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
