package router

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
)

// retry repeats calls that the server has not seen, that it wants later, or that do no
// harm when they are executed twice. Attempts and the pauses between them share the
// time that the call has.
func (r *Router) retry(next Handler) Handler {
	return func(ctx context.Context, c *Call) (Reply, error) {
		r.budget.Called(c.Server, c.began)
		reply, err := next(ctx, c)
		if err == nil {
			return reply, nil
		}
		return r.again(ctx, c, next, err)
	}
}

// again repeats a call whose first attempt ended in err, as long as that is allowed
// and makes sense.
func (r *Router) again(ctx context.Context, c *Call, next Handler, err error) (Reply, error) {
	policy := &c.config().Retry
	safe, losses := c.safe(), 0
	var lost *fault.Error // the attempt that was perhaps executed; nil: none was
	for attempt := 1; ; attempt++ {
		last, ok := errors.AsType[*fault.Error](err)
		if !ok {
			return Reply{}, err
		}
		f := *last
		f.Attempts, f.Safe = attempt, safe
		pause := pauseBefore(attempt, f.RetryAfter, policy)
		if attempt >= policy.MaxAttempts || !f.MayRepeat(safe, losses) || pause > policy.MaxDelay || !c.hasTime(pause) {
			return Reply{}, whole(&f, lost)
		}
		done := r.budget.Repeat(c.Server, time.Now(), policy.Budget)
		if done == nil {
			return Reply{}, whole(&f, lost)
		}
		if f.Kind.Rule().Executed == fault.Perhaps {
			losses, lost = losses+1, last
		}
		reply, err2 := r.attempt(ctx, c, next, pause, done)
		if err2 == nil {
			return reply, nil
		}
		err = err2
	}
}

// whole is the error of a call whose last attempt ended in f and of which another one
// was lost before, unless that is nil. What was perhaps executed stays so, whatever has
// become of the attempts after it.
func whole(f, lost *fault.Error) *fault.Error {
	if lost == nil || f.Kind.Rule().Executed == fault.Perhaps {
		return f
	}
	all := *lost
	all.Reason += "; the attempt after it: " + f.Reason
	all.Attempts, all.Safe, all.RetryAfter = f.Attempts, f.Safe, f.RetryAfter
	return &all
}

// attempt makes another attempt after a pause.
func (r *Router) attempt(ctx context.Context, c *Call, next Handler, pause time.Duration, done func()) (Reply, error) {
	defer done()
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return Reply{}, ending(ctx, c, "gave up between two attempts")
	}
	c.spent += pause
	if r.watch.Retried != nil && c.Method == "tools/call" {
		r.watch.Retried(c.Server, c.Name)
	}
	return next(ctx, c)
}

// hasTime reports whether the call has time left after a pause.
func (c *Call) hasTime(pause time.Duration) bool {
	whole, _ := c.patience()
	return whole <= 0 || c.spent+pause < whole
}

// jitter is how far, in parts of it, a pause may be from its nominal length, so that
// calls that failed together do not come back together.
const jitter = 0.2

// pauseBefore is the pause after so many attempts. If the server has named a time, it
// is that; it may be longer than any pause of ours.
func pauseBefore(attempts int, asked time.Duration, policy *config.Retry) time.Duration {
	if asked > 0 {
		return asked
	}
	pause := float64(policy.Base) * math.Pow(policy.Factor, float64(attempts-1))
	pause = min(pause, float64(policy.MaxDelay)/(1+jitter))
	return time.Duration(pause * (1 - jitter + 2*jitter*rand.Float64()))
}
