package upstream

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// A face is what callers see of an owner: a connection to use, or an error, or
// neither while a connection may come at any moment.
type face struct {
	live *liveConn
	err  *fault.Error
	next time.Time // with err: when the next attempt is due, if it is known
	pull time.Time // with err: from when on callers bring it forward; zero: they do not

	idle    bool          // nobody connects before a caller asks
	changed chan struct{} // closed when the face is replaced
}

// A front is the face of the moment. While a server is disabled a veil hides it.
type front struct {
	face atomic.Pointer[face] // what callers see

	mu   sync.Mutex   // orders show and cover; guards what follows
	real face         // what they see without the veil
	veil *fault.Error // what they are told while it is there; nil: it is not
}

// show replaces the face.
func (f *front) show(real face) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.real = real
	f.publishLocked()
}

// cover puts up a veil, or takes it away.
func (f *front) cover(veil *fault.Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.veil = veil
	f.publishLocked()
}

func (f *front) publishLocked() {
	next := f.real
	if f.veil != nil {
		next = face{err: f.veil}
	}
	next.changed = make(chan struct{})
	if old := f.face.Swap(&next); old != nil {
		close(old.changed)
	}
}

// use lends the connection to fn, or one that belongs to the session or the call.
func (o *owner) use(ctx context.Context, session string, fn func(Conn) error) error {
	if o.alone {
		return o.useAlone(ctx, session, fn)
	}
	return o.useShared(ctx, fn)
}

// useAsking is use for a client that can be asked.
func (o *owner) useAsking(ctx context.Context, session, principal string, fn func(Conn) error) error {
	if !o.alone && o.asking.marked.Load() {
		return o.useApart(ctx, session, principal, fn)
	}
	return o.use(ctx, session, fn)
}

// useShared lends the connection of all.
func (o *owner) useShared(ctx context.Context, fn func(Conn) error) error {
	l := o.front.face.Load().live
	if l == nil || !l.acquire() {
		var err error
		if l, err = o.await(ctx); err != nil {
			return err
		}
	}
	return o.after(l, lend(l, fn))
}

// await takes a reference to the connection as soon as there is one. Callers that
// come while the server is being connected wait together and fail together; when an
// attempt has failed they are turned away at once until one succeeds (UP-9).
func (o *owner) await(ctx context.Context) (*liveConn, error) {
	limit := time.NewTimer(o.opts.acquireTimeout())
	defer limit.Stop()
	for {
		f := o.front.face.Load()
		switch {
		case f.live != nil && f.live.acquire():
			return f.live, nil
		case f.live != nil:
			continue // Retired: a new face has been published before that.
		case f.err != nil:
			return nil, o.turnAway(f)
		case f.idle && !o.wanted.Swap(true):
			o.nudge()
		}
		select {
		case <-f.changed:
		case <-limit.C:
			return nil, o.tooLong(context.DeadlineExceeded)
		case <-ctx.Done():
			return nil, o.gaveUp(ctx)
		}
	}
}

// gaveUp is the error of a caller whose context ended before a connection came.
func (o *owner) gaveUp(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return o.tooLong(context.Cause(ctx))
	}
	return fault.Of(fault.Cancelled, o.name, "cancelled while the server was starting: %w", context.Cause(ctx))
}

// acquireTimeout is how long callers wait for a connection.
func (o *Options) acquireTimeout() time.Duration { return cmp.Or(o.AcquireTimeout, time.Minute) }

// tooLong is the error of a caller whose patience ended before a connection came.
func (o *owner) tooLong(cause error) error {
	e := fault.Of(fault.Unreachable, o.name, "is still starting: %w", cause)
	if last := o.status.Load().LastError; last != "" {
		e.Reason = "is being restarted, after: " + last
	}
	e.Code = fault.CodeRestartInProgress
	return e
}

// turnAway is the error of a caller while there is no connection. A caller shows that
// the server is wanted: the next attempt need not wait for its time.
func (o *owner) turnAway(f *face) error {
	e := *f.err
	now := time.Now()
	next := f.next
	switch {
	case f.pull.IsZero():
	case now.Before(f.pull):
		if f.pull.Before(next) {
			next = f.pull
		}
	default:
		if !o.hurry.Swap(true) {
			o.nudge()
		}
		next = now.Add(pulledAfter)
	}
	if left := next.Sub(now); left > 0 && !next.IsZero() {
		e.RetryAfter = left
	}
	return &e
}

const (
	// pulledAfter is how old a failed attempt at a remote server must be for a caller
	// to bring the next one forward, and when it makes sense to come back.
	pulledAfter = time.Second
	// pulledAfterLoss is the same for a process that had been working.
	pulledAfterLoss = 5 * time.Second
)

// pullFrom says from when on callers bring the next attempt forward. A process that
// fails at start costs the machine something each time, so it keeps its pauses; and
// what people must mend is not mended by asking.
func (o *owner) pullFrom(err error, worked bool) time.Time {
	switch t := o.server().Type; {
	case hopeless(err), fault.KindOf(err) == fault.RateLimited:
		return time.Time{}
	case t != config.TypeStdio && t != config.TypeBuiltin:
		return time.Now().Add(pulledAfter)
	case worked:
		return time.Now().Add(pulledAfterLoss)
	}
	return time.Time{}
}

// lend is a function of its own so that the reference comes back even if fn panics.
func lend(l *liveConn, fn func(Conn) error) error {
	defer l.release()
	return fn(l.conn)
}

// after is what a call on a connection ends with. A success costs it one look at a
// flag that is nearly always set.
func (o *owner) after(l *liveConn, err error) error {
	if err == nil {
		if !l.worked.Load() {
			l.worked.Store(true)
		}
		return nil
	}
	return o.afterFailure(l, err)
}

// afterFailure notes what the failure of a call says about the connection, and makes
// the error fit to leave this package.
func (o *owner) afterFailure(l *liveConn, err error) error {
	l.used.Store(true)
	var f *fault.Error
	if !errors.As(err, &f) {
		var answer *wire.RPCError
		if errors.As(err, &answer) {
			l.worked.Store(true)
		}
		return err
	}
	switch f.Kind {
	case fault.Unreachable, fault.Timeout, fault.Lost, fault.Protocol, fault.Unauthorized:
		if f.Kind == fault.Unreachable {
			l.away.Store(true)
		}
		l.suspect.Store(true)
		o.nudge()
	case fault.Rejected, fault.NotFound:
		l.worked.Store(true)
	}
	return o.sealed(err, f, l.number)
}
