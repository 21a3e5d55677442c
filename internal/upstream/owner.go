package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
)

// An owner keeps the connection to one server: it dials, lists, watches and dials
// again for as long as it runs. Its goroutine is the only one that decides about
// the connection; everybody else reads what it publishes through atomic pointers.
type owner struct {
	server *config.Server
	opts   *Options
	log    *slog.Logger
	starts *starts
	signal func() // something published has changed

	secrets *strings.Replacer // nil if the configuration has none

	cancel  context.CancelCauseFunc // ends run
	settled chan struct{}           // closed by run when the first attempt is over

	face    atomic.Pointer[face]
	status  atomic.Pointer[Status]
	listing atomic.Pointer[catalog.Listing]

	subs  *subscriptions         // outlives the owner when the configuration changes
	level atomic.Pointer[string] // log level that clients want; nil: none asked

	dirty   atomic.Uint32 // bits of the kinds a server announced as changed
	renewed atomic.Bool   // the connection has a new session
	wake    chan struct{} // buffered 1: dirty, renewed or level has changed

	// Owned by run.
	dialer    dialer
	lists     lists
	now       Status
	connected bool // has been, at least once
}

// A face is what callers see of an owner: a connection to use, or an error, or
// neither while a connection may come at any moment.
type face struct {
	live    *liveConn
	err     *fault.Error
	next    time.Time     // with err: when the next attempt is due, if it is known
	changed chan struct{} // closed when the face is replaced
}

// errRemoved is the cause with which an owner is ended.
var (
	errRemoved  = errors.New("removed from the configuration")
	errShutdown = errors.New("shutting down")
)

// run is the owner's goroutine. Life outlives ctx: it bounds the orderly end, the
// drain of the calls in flight and the closing of the connection.
func (o *owner) run(ctx, life context.Context) {
	defer o.settle()
	if !o.server.Enabled {
		o.settle()
		<-ctx.Done()
		return
	}
	for wait := (backoff{step: 1}); ; {
		l, err := o.connect(ctx)
		if err == nil {
			if !o.connected {
				o.connected, wait = true, backoff{}
			}
			err = o.guard("serving", func() error { return o.serve(ctx, l) })
			if ctx.Err() != nil {
				o.retire(ctx, life, l)
				return
			}
			wait.lost(time.Since(l.since))
			delay := wait.next(err)
			o.lost(err, delay)
			o.settle()
			o.hangUp(life, l, lostDrain)
			o.pause(ctx, delay)
			continue
		}
		if ctx.Err() != nil {
			o.close(context.Cause(ctx))
			return
		}
		delay := wait.next(err)
		o.failed(err, delay)
		o.settle()
		o.pause(ctx, delay)
	}
}

// connect dials, once there is room to start.
func (o *owner) connect(ctx context.Context) (*liveConn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	leave, err := o.starts.enter(ctx, o.server.Type)
	if err != nil {
		return nil, err
	}
	defer leave()
	o.dialing()
	var conn transport
	err = o.guard("connecting", func() (err error) {
		conn, err = o.dialer.dial(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return newLiveConn(conn), nil
}

// serve publishes a connection and keeps what was learnt through it current until
// it is lost or ctx ends.
func (o *owner) serve(ctx context.Context, l *liveConn) error {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()

	if st, ok := l.conn.(sessionTransport); ok {
		st.setReinit(func(ctx context.Context) error { return o.reinitialize(ctx, l) })
	}
	o.ready(l)
	o.lists.begin(l.conn, l.caps)
	defer o.lists.end()
	o.lists.start(ctx, &work)
	o.attend(ctx, &work, l)
	for {
		if o.renewed.Swap(false) {
			o.renew(ctx, &work, l)
		}
		o.lists.mark(o.dirty.Swap(0))
		o.lists.start(ctx, &work)
		if o.lists.publish() {
			o.counted()
		}
		if !o.lists.reading() {
			if err := o.lists.denied(); err != nil {
				return err
			}
			o.settle()
		}
		o.tellLevel(ctx, &work, l)
		select {
		case f := <-o.lists.results:
			if !isClosed(l.conn.Done()) { // else it failed because of that
				o.lists.take(f)
			}
		case <-o.lists.timer.C:
		case <-o.wake:
		case <-l.conn.Done():
			return lossOf(o.server.Name, l.conn)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// lossOf says why a connection was lost.
func lossOf(server string, conn Conn) error {
	err := conn.Err()
	var known *fault.Error
	switch {
	case errors.As(err, &known):
		return err
	case err == nil, errors.Is(err, io.EOF):
		return fault.Of(fault.Lost, server, "the server closed the connection")
	}
	return fault.Of(fault.Lost, server, "the connection was lost: %w", err)
}

// guard runs f and turns a panic into an error: a defect that one server brings to
// light must not end the others.
func (o *owner) guard(doing string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			o.log.Error("defect while "+doing, "err", p, "stack", string(debug.Stack()))
			err = fault.Of(fault.Internal, o.server.Name, "a defect of the aggregator ended the connection: %v", p)
		}
	}()
	return f()
}

// lostDrain is how long the calls on a lost connection get to notice it.
const lostDrain = time.Second

// retire ends the connection for good: callers are turned away, those in flight
// may finish.
func (o *owner) retire(ctx, life context.Context, l *liveConn) {
	o.close(context.Cause(ctx))
	o.hangUp(life, l, o.opts.Limits.Drain)
}

// hangUp closes a connection after its users have left or drain has passed.
func (o *owner) hangUp(life context.Context, l *liveConn, drain time.Duration) {
	patience, cancel := context.WithTimeout(life, drain)
	l.retire(patience)
	cancel()
	limits := &o.opts.Limits
	ctx, cancel := context.WithTimeout(life, limits.StopInput+limits.StopTerm+farewell)
	defer cancel()
	if err := o.guard("closing", func() error { return l.conn.Close(ctx) }); err != nil {
		o.log.Debug("closing the connection", "err", err)
	}
}

// farewell is added to the configured steps of stopping a process: a kill and a
// farewell over the network must fit in.
const farewell = 3 * time.Second

// pause waits for the next attempt.
func (o *owner) pause(ctx context.Context, delay time.Duration) {
	if delay <= 0 {
		return
	}
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// settle reports the end of the first attempt, good or bad.
func (o *owner) settle() {
	if !isClosed(o.settled) {
		close(o.settled)
	}
}

// heard takes a notification that belongs to no call. It runs on the reader of
// the connection.
func (o *owner) heard(n Notice) {
	switch n.Method {
	case "notifications/tools/list_changed":
		o.announce(1 << catalog.Tools)
	case "notifications/prompts/list_changed":
		o.announce(1 << catalog.Prompts)
	case "notifications/resources/list_changed":
		o.announce(1<<catalog.Resources | 1<<catalog.Templates)
	case "notifications/subscriptions/acknowledged":
		o.subs.acknowledged(n.Params)
	default:
		if o.opts.Notify != nil {
			n.Server = o.server.Name
			o.opts.Notify(n)
		}
	}
}

// announce notes kinds of lists to be read again.
func (o *owner) announce(kinds uint32) {
	o.dirty.Or(kinds)
	o.nudge()
}

func (o *owner) nudge() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// use lends the connection to fn.
func (o *owner) use(ctx context.Context, fn func(Conn) error) error {
	for {
		f := o.face.Load()
		switch {
		case f.live != nil:
			if f.live.acquire() {
				return o.sealed(lend(f.live, fn))
			}
			// Retired: a new face has been published before that.
		case f.err != nil:
			return f.failure()
		default:
			select {
			case <-f.changed:
			case <-ctx.Done():
				return o.gaveUp(ctx)
			}
		}
	}
}

// lend is a function of its own so that the reference comes back even if fn panics.
func lend(l *liveConn, fn func(Conn) error) error {
	defer l.release()
	return fn(l.conn)
}

// gaveUp is the error of a caller that left before a connection came.
func (o *owner) gaveUp(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fault.Of(fault.Unreachable, o.server.Name, "is still starting: %w", context.Cause(ctx))
	}
	return fault.Of(fault.Cancelled, o.server.Name, "cancelled while the server was starting: %w", context.Cause(ctx))
}

// failure is the error of a caller while there is no connection.
func (f *face) failure() error {
	e := *f.err
	if left := time.Until(f.next); left > 0 {
		e.RetryAfter = left
		e.Reason = fmt.Sprintf("%s; next attempt in %v", e.Reason, left.Round(100*time.Millisecond))
	}
	return &e
}

// eraOf names the era for status; nothing before a handshake.
func eraOf(info *Info) string {
	if info == nil || info.Version == "" {
		return ""
	}
	return info.Era.String()
}
