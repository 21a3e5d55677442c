package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// A solo is one dedicated connection, from the wish for it until it is closed. Its
// goroutine makes the connection, watches it and closes it.
type solo struct {
	d       *dedicated
	o       *owner
	session string          // "" if it is for one call
	room    <-chan struct{} // closed when there is room for it; nil: there is
	gone    chan struct{}   // closed when it is closed
	round   int             // of dedicated, when it was begun
	trial   bool            // the one attempt that is made after a failure; guarded by dedicated.mu

	ctx    context.Context // of run; its cause says why the connection ends
	cancel context.CancelCauseFunc

	ready chan struct{}            // closed when live or err has been set, or there will be neither
	live  atomic.Pointer[liveConn] // nil before and if there will be none
	err   error                    // why the server could not be connected; read after ready

	used    atomic.Int64  // when it was used last, Unix nanoseconds
	renewed atomic.Bool   // the connection has a new session with its server
	roots   atomic.Bool   // the client's roots have changed, and the server has not been told
	wake    chan struct{} // buffered 1: the log level, renewed or roots has changed
	ignored chan struct{} // buffered 1: a call has timed out and been cancelled
}

// The causes with which a dedicated connection is ended, beside those of its owner.
var (
	errSessionOver = errors.New("the session of the connection has ended")
	errCallOver    = errors.New("the call of the connection has ended")
)

const (
	// soloIdle is how long a session may keep its connection without a call where the
	// configuration has no idle_timeout.
	soloIdle = 10 * time.Minute
	// heedTimeout is how long a server may take to show that it is not hanging in a
	// call that was cancelled (CALL-8).
	heedTimeout = 5 * time.Second
)

// newSolo makes a solo; dedicated.mu must be held.
func newSolo(d *dedicated, session string) *solo {
	p := &solo{
		d: d, o: d.o, session: session, round: d.round,
		gone: make(chan struct{}), ready: make(chan struct{}), wake: make(chan struct{}, 1), ignored: make(chan struct{}, 1),
	}
	p.ctx, p.cancel = context.WithCancelCause(d.ctx)
	p.touch()
	return p
}

// run is the goroutine.
func (p *solo) run() {
	defer p.cancel(nil)
	defer p.d.forget(p)
	l := p.connect()
	if l == nil {
		close(p.ready)
		return
	}
	defer p.listen(l)()
	p.live.Store(l)
	close(p.ready)
	p.o.signal()
	why := p.o.guard("serving a session", func() error { return p.watch(l) })
	p.d.unregister(p)
	p.live.Store(nil)
	p.o.log.Debug("connection of a session ended", "err", p.o.plain(why))
	p.o.hangUp(p.d.life, l, p.drain(l, why))
}

// connect makes the connection. It returns nil if that failed, which err says then, or
// if the connection is not wanted any more.
func (p *solo) connect() *liveConn {
	if p.room != nil {
		select {
		case <-p.room:
		case <-p.ctx.Done():
			p.d.unregister(p)
			return nil
		}
	}
	server := p.o.server()
	leave, err := p.o.starts.enter(p.ctx, server.Type)
	if err != nil {
		p.d.unregister(p)
		return nil
	}
	defer leave()
	dial := dialer{server: server, opts: p.o.opts, opener: p.o.dialer.opener, notice: p.heard, asking: p.o.asking, alone: true, outside: p.asks(), declared: p.declared(), known: p.d.memory()}
	var conn transport
	err = p.o.guard("connecting", func() (err error) {
		conn, err = dial.dial(p.ctx, cmp.Or(server.InitTimeout, defaultInit))
		return err
	})
	switch {
	case err == nil:
	case p.ctx.Err() != nil:
		p.d.unregister(p)
		return nil
	default:
		p.o.log.Warn("no connection for a session", "err", p.o.plain(err))
		if len(dial.tail) > 0 {
			last := p.o.maskedLines(dial.tail)
			p.o.before.Store(&last)
		}
		p.err = p.d.failed(p, err)
		return nil
	}
	p.d.connected()
	l := newLiveConn(conn)
	if st, ok := conn.(sessionTransport); ok {
		st.setReinit(func(ctx context.Context) error { return p.reinitialize(ctx, l) })
	}
	return l
}

// heard takes a notification that belongs to no call. What it says about the server is
// dropped: changes of lists and resources are heard of on the owner's connection.
// Everything else can only be meant for this one session.
func (p *solo) heard(n Notice) {
	if !p.ofSession() || p.o.opts.Notify == nil || aboutServer(n.Method) {
		return
	}
	n.Server, n.Session = p.o.name, p.session
	p.o.opts.Notify(n)
}

// listen opens the stream on which a legacy server asks without saying for which call,
// and waits until it is open or refused, so that no call is sent before it. The returned
// function ends it.
func (p *solo) listen(l *liveConn) (end func()) {
	st, ok := l.conn.(streamTransport)
	if !ok || l.conn.Info().Era == wire.Modern {
		return func() {}
	}
	ctx, cancel := context.WithCancel(p.d.life)
	opened, ended := make(chan struct{}), make(chan struct{})
	var once sync.Once
	go func() {
		defer close(ended)
		err := p.o.guard("streaming", func() error {
			return st.openStream(ctx, func() { once.Do(func() { close(opened) }) }, func() {})
		})
		if err != nil {
			p.o.log.Debug("ended streaming", "err", p.o.plain(err))
		}
	}()
	limit := time.NewTimer(streamWait)
	defer limit.Stop()
	select {
	case <-opened:
	case <-ended:
	case <-limit.C:
	case <-p.ctx.Done():
	}
	return func() {
		cancel()
		<-ended
	}
}

// streamWait is how long the first call of a session waits for the stream.
const streamWait = 2 * time.Second

// reinitialize is that of the owner, without lists that would have to be read again.
func (p *solo) reinitialize(ctx context.Context, l *liveConn) error {
	h := &handshake{t: l.conn, server: p.o.name, opts: p.o.opts, declared: p.declared()}
	if err := h.initialize(ctx, l.conn.Info().Version); err != nil {
		return err
	}
	p.renewed.Store(true)
	p.nudge()
	return nil
}

func (p *solo) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// watch keeps the connection until it is lost, nobody wants it any more, or its
// server hangs. It says which.
func (p *solo) watch(l *liveConn) error {
	idle := time.NewTimer(p.idleTimeout())
	defer idle.Stop()
	for {
		if p.renewed.Swap(false) {
			l.level = ""
		}
		p.tellLevel(l)
		p.tellRoots(l)
		select {
		case <-p.wake:
		case <-p.ignored:
			if err := p.check(l); err != nil {
				return err
			}
		case <-idle.C:
			left := p.idleTimeout() - time.Since(time.Unix(0, p.used.Load()))
			if left <= 0 && p.d.retireUnused(p, l) {
				return errUnused
			}
			idle.Reset(max(left, time.Second))
		case <-l.conn.Done():
			return lossOf(p.o.name, l.conn)
		case <-p.ctx.Done():
			return context.Cause(p.ctx)
		}
	}
}

func (p *solo) idleTimeout() time.Duration { return cmp.Or(p.o.server().IdleTimeout, soloIdle) }

// tellLevel passes the log level that clients want to a legacy server.
func (p *solo) tellLevel(l *liveConn) {
	level := p.o.level.Load()
	if level == nil || *level == l.level || !l.caps.logging || l.conn.Info().Era == wire.Modern {
		return
	}
	l.level = *level
	ctx, cancel := context.WithTimeout(p.ctx, heedTimeout)
	defer cancel()
	if err := p.o.guard("setting the log level", func() error { return setLevel(ctx, l.conn, *level) }); err != nil {
		p.o.log.Debug("setting the log level of a session", "err", p.o.plain(err))
	}
}

// check asks the server for a sign of life after it was told that a call is cancelled.
// One that has turned to something else gives it, one that hangs does not, and would
// let the session's next calls wait in vain. Where the configuration says that the
// server must not be asked, it is trusted.
func (p *solo) check(l *liveConn) error {
	ask := (&prober{o: p.o, l: l}).question()
	if ask == nil {
		return nil
	}
	l.worked.Store(false)
	ctx, cancel := context.WithTimeout(p.ctx, heedTimeout)
	defer cancel()
	err := p.o.guard("asking", func() error { return ask(ctx) })
	if fault.KindOf(err) != fault.Timeout || l.worked.Load() || p.ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("%w within %v of the cancellation of a call", errHangs, heedTimeout)
}

var errHangs = errors.New("the server did not answer")

// await returns the connection as soon as there is one; nil if there will be none and
// the server cannot be blamed.
func (p *solo) await(ctx context.Context) (*liveConn, error) {
	if l := p.live.Load(); l != nil {
		return l, nil
	}
	limit := time.NewTimer(p.o.opts.acquireTimeout())
	defer limit.Stop()
	select {
	case <-p.ready:
		return p.live.Load(), p.err
	case <-limit.C:
		return nil, p.o.tooLong(context.DeadlineExceeded)
	case <-ctx.Done():
		return nil, p.o.gaveUp(ctx)
	}
}

// lend is that of liveConn for a connection that has only these users.
func (p *solo) lend(l *liveConn, fn func(Conn) error) error {
	if p.session == "" {
		defer p.cancel(errCallOver)
	}
	if own := p.o.live.Load(); own != nil && !own.used.Load() {
		own.used.Store(true) // who uses this one needs the lists of that one
	}
	err := p.o.after(l, lend(l, func(c Conn) error {
		defer p.touch()
		return fn(c)
	}))
	switch kind := fault.KindOf(err); {
	case err == nil:
	case kind == fault.Lost, kind == fault.Unreachable:
		p.abandon(l)
	case kind == fault.Timeout:
		if _, local := l.conn.(processTransport); local {
			select {
			case p.ignored <- struct{}{}:
			default:
			}
		}
	}
	return err
}

// abandon takes a lost connection out of the way before the call that was lost with it
// returns, so that whoever made the call gets a new one for the next. Only where a
// server has one channel for everything does the loss of a call mean that.
func (p *solo) abandon(l *liveConn) {
	if _, remote := l.conn.(sessionTransport); remote {
		return
	}
	limit := time.NewTimer(exitGrace) // it is being closed at this moment
	defer limit.Stop()
	select {
	case <-l.conn.Done():
		p.d.unregister(p)
	case <-limit.C:
	}
}

func (p *solo) touch() { p.used.Store(time.Now().UnixNano()) }

// drain is how long the users of a connection that is being closed may stay.
func (p *solo) drain(l *liveConn, why error) time.Duration {
	switch {
	case isClosed(l.conn.Done()), errors.Is(why, errSessionOver):
		return lostDrain
	case errors.Is(why, errUnused), errors.Is(why, errCallOver), errors.Is(why, errHangs):
		return 0
	case errors.Is(why, errOrdered):
		return min(longest(p.o.server()), p.o.opts.Limits.Drain)
	}
	return longest(p.o.server())
}
