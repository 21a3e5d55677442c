package upstream

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
)

// An owner keeps the connection to one server: it dials, lists, watches and dials
// again for as long as it runs. Its goroutine is the only one that decides about
// the connection; everybody else reads what it publishes through atomic pointers,
// and leaves wishes in flags and orders that it looks at when it is nudged.
type owner struct {
	name    string
	opts    *Options
	log     *slog.Logger
	starts  *starts
	signal  func()          // something published has changed
	closing context.Context // ended when the set is being closed

	cancel  context.CancelCauseFunc // ends run
	settled chan struct{}           // closed by run when the first attempt is over

	front  front                    // what callers see
	offers offers                   // configuration and listing
	orders orders                   // what people want
	status atomic.Pointer[Status]   // as the owner knows it, see current
	live   atomic.Pointer[liveConn] // the connection; nil while there is none
	before atomic.Pointer[[]string] // what the process before the present one wrote last

	alone     bool      // sharing is session or call, and calls go over dedicated connections
	dedicated dedicated // those

	asking *asking // what the server asks clients

	subs  *subscriptions         // outlives the owner when the configuration changes
	level atomic.Pointer[string] // log level that clients want; nil: none asked

	dirty   atomic.Uint32 // bits of the kinds a server announced as changed
	renewed atomic.Bool   // the connection has a new session
	wanted  atomic.Bool   // somebody waits for a server that is idle
	hurry   atomic.Bool   // somebody was turned away: the next attempt may come sooner
	wake    chan struct{} // buffered 1: one of these, level or orders have changed

	saving  sync.Mutex     // orders calls of Options.Keep
	parting sync.WaitGroup // connections that are being closed beside the next one

	// Owned by run.
	dialer     dialer
	lists      lists
	now        Status
	wait       backoff
	obeyed     int           // number of the last Reconnect that was carried out
	resting    bool          // nobody uses the server
	known      bool          // its lists are, from this process or an earlier one
	foreign    bool          // those it began with are of another configuration
	took       time.Duration // how long the first connection took to make; 0 before
	lost       bool          // the last connection was lost or is being replaced, and there is no other yet
	lostAt     time.Time     // when it was lost; zero otherwise
	muteToPing bool          // the server answers everything but pings
	absence    *fault.Error  // what callers are told while the server cannot be connected
}

// The causes with which an owner or a connection is ended.
var (
	errRemoved  = errors.New("removed from the configuration")
	errShutdown = errors.New("shutting down")
	errUnused   = errors.New("nobody uses the server")
	errOrdered  = errors.New("ended by request")
)

// run is the owner's goroutine. Life outlives ctx: it bounds the orderly end, the
// drain of the calls in flight and the closing of the connection.
func (o *owner) run(ctx, life context.Context) {
	defer o.parting.Wait()
	o.dedicated.open(ctx, life)
	defer o.dedicated.close()
	defer o.settle()
	for o.wait = newStart(); ctx.Err() == nil; {
		switch {
		case o.orders.now().down:
			o.stayDown(ctx)
		case o.rests():
			o.idle(ctx)
		default:
			o.attempt(ctx, life)
		}
	}
	o.close(context.Cause(ctx))
}

// attempt makes a connection and serves it until it ends, or waits for the time of
// the next attempt.
func (o *owner) attempt(ctx, life context.Context) {
	o.obeyed = o.orders.now().again
	began := time.Now()
	l, err := o.connect(ctx)
	switch {
	case err == nil:
		if o.took == 0 {
			o.took = time.Since(began)
		}
		err = o.guard("serving", func() error { return o.serve(ctx, l) })
		o.ended(ctx, life, l, err)
	case ctx.Err() != nil:
	case errors.Is(err, errOrdered):
		o.afresh()
	default:
		delay := o.wait.next(err)
		o.failed(err, delay)
		o.settle()
		o.pause(ctx, delay)
	}
}

// connect dials, once there is room to start. An order ends it with errOrdered.
func (o *owner) connect(ctx context.Context) (*liveConn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer o.orders.during(cancel, o.obeyed)()
	leave, err := o.starts.enter(ctx, o.server().Type)
	if err != nil {
		return nil, err
	}
	defer leave()
	o.dialing()
	o.dialer.server = o.server()
	var conn transport
	err = o.guard("connecting", func() (err error) {
		conn, err = o.dialer.dial(ctx, o.dialLimit())
		return err
	})
	switch {
	case err == nil:
		o.dedicated.learn(o.dialer.known)
		return newLiveConn(conn), nil
	case errors.Is(context.Cause(ctx), errOrdered):
		return nil, errOrdered
	}
	return nil, err
}

// dialLimit is how long an attempt may take. After a loss that is less than the
// first time: an attempt that hangs in a network which has come back meanwhile is in
// the way of one that would succeed. It grows again, for the server that has become
// slow.
func (o *owner) dialLimit() time.Duration {
	s := o.server()
	whole := s.InitTimeout
	if whole <= 0 {
		whole = defaultInit
	}
	if o.lostAt.IsZero() || s.Type == config.TypeStdio || s.Type == config.TypeBuiltin {
		return whole
	}
	return min(whole, max(redialLimit, 3*o.took, time.Since(o.lostAt)/redialGrowth))
}

const (
	// redialLimit is the least time that an attempt after a loss gets.
	redialLimit = 5 * time.Second
	// redialGrowth is how many times as long as an attempt may take a server has been
	// away at least.
	redialGrowth = 12
)

// serve publishes a connection and keeps what was learnt through it current until
// it is lost, nobody wants it any more, or ctx ends.
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
	p := newProber(o, l)
	defer p.end()
	idle := newIdler(o, l)
	defer idle.end()
	o.lists.start(ctx, &work)
	o.attend(ctx, &work, l)
	for {
		if o.disobeys() {
			return errOrdered
		}
		if err := o.refresh(ctx, &work, l); err != nil {
			return err
		}
		if idle.over() && o.rest(l) {
			return errUnused
		}
		p.start(ctx, &work)
		select {
		case f := <-o.lists.results:
			if !isClosed(l.conn.Done()) { // else it failed because of that
				o.lists.take(f)
			}
		case err := <-p.results:
			if err := p.take(err); err != nil {
				return err
			}
		case <-o.lists.timer.C:
		case <-p.timer.C:
		case <-idle.timer.C:
		case <-o.wake:
		case <-l.conn.Done():
			return lossOf(o.name, l.conn)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// refresh does what has become due about the lists of a connection and what the
// server must be told. It returns an error if the lists show that it is of no use.
func (o *owner) refresh(ctx context.Context, work *sync.WaitGroup, l *liveConn) error {
	if o.renewed.Swap(false) {
		o.renew(ctx, work, l)
	}
	o.lists.mark(o.dirty.Swap(0))
	o.lists.start(ctx, work)
	if o.lists.publish() {
		o.counted(work)
	}
	if o.lists.whole() && o.keepMark() {
		o.keepLater(work)
	}
	if !o.lists.reading() {
		if err := o.lists.denied(); err != nil {
			return err
		}
		o.known = true
		o.settle()
	}
	o.tellLevel(ctx, work, l)
	return nil
}

// guard runs f and turns a panic into an error: a defect that one server brings to
// light must not end the others.
func (o *owner) guard(doing string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			o.log.Error("defect while "+doing, "err", p, "stack", string(debug.Stack()))
			err = fault.Of(fault.Internal, o.name, "a defect of the aggregator ended the connection: %v", p)
		}
	}()
	return f()
}

// pause waits for the next attempt: until its time has come, somebody wants it
// sooner, or an order came.
func (o *owner) pause(ctx context.Context, delay time.Duration) {
	if delay <= 0 {
		return
	}
	t := time.NewTimer(delay)
	defer t.Stop()
	for {
		if o.hurry.Swap(false) {
			o.wait.forward()
			return
		}
		if o.disobeys() {
			o.afresh()
			return
		}
		select {
		case <-t.C:
			return
		case <-o.wake:
		case <-ctx.Done():
			return
		}
	}
}

// afresh forgets the failures so far, because somebody wants a connection now.
func (o *owner) afresh() {
	o.wait, o.absence, o.lostAt = newStart(), nil, time.Time{}
	if !o.orders.now().down {
		o.showAgain()
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
			n.Server = o.name
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

// server is the configuration of the server; an Apply may replace it.
func (o *owner) server() *config.Server { return o.offers.settings.Load().Server }

// eraOf names the era for status; nothing before a handshake.
func eraOf(info *Info) string {
	if info == nil || info.Version == "" {
		return ""
	}
	return info.Era.String()
}

// recovered tells that the server works again.
func (o *owner) recovered() {
	if o.opts.Recovered != nil {
		o.opts.Recovered(o.name)
	}
}
