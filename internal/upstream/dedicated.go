package upstream

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"mcp-aggregator/internal/fault"
)

// maxDedicated bounds the connections of one server that belong to single sessions
// and calls: each may be a process. When so many are open a newcomer takes the place of
// the one that has been idle for longest, if that is at least evictAfter; without such
// a one it is turned away.
const maxDedicated = 256

// evictAfter is how long a session that may come back at any moment has its connection
// for itself.
const evictAfter = 30 * time.Second

// dedicated are the connections of a server whose sharing is session or call, or that
// asks clients (see asking): each serves one downstream session, or one call (UP-8).
// They are for calls only. The
// owner's own connection stays beside them and brings the lists, the notices, the
// probes and the subscriptions, so that those do not depend on who is there; it is
// also what shows that the server works, and in which era, before one more is made.
//
// Concurrency: each connection has a goroutine, see solo. mu guards the fields below
// it and is held for moments only.
type dedicated struct {
	o *owner

	// Of the owner's run, written by open before anybody gets past the owner's front.
	// Life outlives ctx and bounds the orderly end.
	ctx, life context.Context

	work sync.WaitGroup // goroutines of solos

	mu        sync.Mutex
	closed    bool
	bySession map[string]*solo   // session → its connection, while it takes users
	all       map[*solo]struct{} // including those without a session, and those being closed
	known     memory             // what the owner has found out about the server
	failure   *fault.Error       // why the last attempt failed; nil after a success
	wait      backoff            // for the pauses after failures
	next      time.Time          // with failure: when the next attempt may be made
	trial     bool               // with failure: and it is under way
	round     int                // number of failures counted
}

// open lets connections be made. Run calls it first.
func (d *dedicated) open(ctx, life context.Context) { d.ctx, d.life = ctx, life }

// close waits for all connections to be closed. Run calls it when its context has
// ended, which ends them.
func (d *dedicated) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.work.Wait()
}

// learn notes what the owner's connection has shown about the server.
func (d *dedicated) learn(known memory) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known = known
}

// useAlone lends a connection that nobody else uses: that of the session or, where the
// sharing is call or there is no session, one that is made for this call.
func (o *owner) useAlone(ctx context.Context, session string, fn func(Conn) error) error {
	if o.server().Sharing == "call" {
		session = ""
	}
	return o.dedicated.use(ctx, session, fn)
}

// use lends the connection of a session to fn.
func (d *dedicated) use(ctx context.Context, session string, fn func(Conn) error) error {
	for {
		if now := d.o.orders.now(); now.hidden {
			return d.o.turnAway(&face{err: now.veil})
		}
		p := d.find(session)
		if p == nil {
			var err error
			if p, err = d.make(ctx, session); err != nil {
				return err
			}
		}
		l, err := p.await(ctx)
		if l != nil && l.acquire() {
			return p.lend(l, fn)
		}
		if session == "" {
			p.cancel(errCallOver)
		}
		if err != nil {
			return err
		}
		// It has ended since, and for no fault of the server's.
	}
}

func (d *dedicated) find(session string) *solo {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.bySession[session]
}

// make begins to make a connection, unless the session has got one meanwhile.
func (d *dedicated) make(ctx context.Context, session string) (*solo, error) {
	own, err := d.o.await(ctx)
	if err != nil {
		return nil, err
	}
	own.used.Store(true)
	own.release()
	if err := ctx.Err(); err != nil { // perhaps because the session has ended: it must not come back
		return nil, fault.Of(fault.KindOf(context.Cause(ctx)), d.o.name, "gave up before the call was sent: %w", context.Cause(ctx))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.bySession[session]; p != nil {
		return p, nil
	}
	if err := d.admitLocked(); err != nil {
		return nil, err
	}
	var room <-chan struct{}
	if len(d.all) >= maxDedicated {
		if room = d.evictLocked(); room == nil {
			return nil, fault.Of(fault.Overloaded, d.o.name, "%d connections for single sessions or calls are open and in use, "+
				"and one server can have no more; end sessions that are not needed, or set sharing to shared", len(d.all))
		}
	}
	p := newSolo(d, session)
	p.room = room
	if d.failure != nil {
		p.trial, d.trial = true, true
	}
	if d.all == nil {
		d.all, d.bySession = map[*solo]struct{}{}, map[string]*solo{}
	}
	d.all[p] = struct{}{}
	if session != "" {
		d.bySession[session] = p
	}
	d.work.Go(p.run)
	if ctx.Err() != nil { // the session may have ended since it was looked at above
		d.unregisterLocked(p)
		p.cancel(errSessionOver)
	}
	return p, nil
}

// admitLocked says why no connection can be made now. After a failure one attempt is
// made when its time has come, and everybody else is turned away until it succeeds.
func (d *dedicated) admitLocked() error {
	switch {
	case d.closed || d.ctx.Err() != nil:
		cause := context.Cause(d.ctx)
		if errors.Is(cause, errRemoved) {
			return fault.Of(fault.Unreachable, d.o.name, "was %w", errRemoved)
		}
		return &fault.Error{Kind: fault.ShuttingDown, Server: d.o.name, Reason: errShutdown.Error(), Code: fault.CodeShuttingDown, Err: cause}
	case d.o.orders.now().down:
		return &fault.Error{Kind: fault.Unreachable, Server: d.o.name, Code: fault.CodeShuttingDown, Reason: "is disconnected by request; connect it to use it"}
	case d.failure != nil && (d.trial || time.Now().Before(d.next)):
		return d.o.turnAway(&face{err: d.failure, next: d.next})
	}
	return nil
}

// evictLocked ends the connection that has been idle for longest, to make room. The
// channel it returns is closed when it is closed; nil if none is idle for long enough.
func (d *dedicated) evictLocked() <-chan struct{} {
	before := time.Now().Add(-evictAfter).UnixNano()
	var idle []*solo
	for _, p := range d.bySession {
		if p.used.Load() <= before {
			idle = append(idle, p)
		}
	}
	slices.SortFunc(idle, func(a, b *solo) int { return cmp.Compare(a.used.Load(), b.used.Load()) })
	for _, p := range idle {
		if l := p.live.Load(); l != nil && l.retireUnused() {
			d.unregisterLocked(p)
			p.cancel(errUnused)
			return p.gone
		}
	}
	return nil
}

// connected notes that a connection could be made.
func (d *dedicated) connected() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failure, d.trial, d.wait = nil, false, backoff{}
}

// memory returns what is known about the server.
func (d *dedicated) memory() memory {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known
}

// failed notes that a connection could not be made, and returns what callers are told.
// Of attempts side by side, which fail for the same reason, the first one counts.
func (d *dedicated) failed(p *solo, err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failure = d.o.absent("no connection of its own could be made for the session", fault.CodeRestartFailed, err)
	if p.round == d.round {
		d.round++
		d.next = time.Now().Add(d.wait.next(err))
	}
	d.unregisterLocked(p)
	return d.o.turnAway(&face{err: d.failure, next: d.next})
}

// unregister takes a connection out of the way of new users.
func (d *dedicated) unregister(p *solo) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unregisterLocked(p)
}

func (d *dedicated) unregisterLocked(p *solo) {
	if p.session != "" && d.bySession[p.session] == p {
		delete(d.bySession, p.session)
	}
	if p.trial {
		p.trial, d.trial = false, false
	}
}

// retireUnused is unregister for a connection that nobody uses; false if somebody does.
func (d *dedicated) retireUnused(p *solo, l *liveConn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !l.retireUnused() {
		return false
	}
	d.unregisterLocked(p)
	return true
}

// forget gives the place of a connection free that is closed.
func (d *dedicated) forget(p *solo) {
	d.mu.Lock()
	delete(d.all, p)
	d.mu.Unlock()
	close(p.gone)
	d.o.signal()
}

// endSession ends the connection of a session.
func (d *dedicated) endSession(session string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.bySession[session]; p != nil {
		d.unregisterLocked(p)
		p.cancel(errSessionOver)
	}
}

// endAll ends all connections; those who come later get new ones, with no regard to
// earlier failures.
func (d *dedicated) endAll(why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for p := range d.all {
		d.unregisterLocked(p)
		p.cancel(why)
	}
	d.failure, d.wait = nil, backoff{}
}

// nudge makes every connection see what has changed.
func (d *dedicated) nudge() {
	for _, p := range d.list() {
		p.nudge()
	}
}

// count returns how many connections there are, and how many callers use them.
func (d *dedicated) count() (connections, users int) {
	for _, p := range d.list() {
		if l := p.live.Load(); l != nil {
			connections++
			users += l.users()
		}
	}
	return connections, users
}

func (d *dedicated) list() []*solo {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.all))
}

// EndSession ends the connections that belong to a downstream session alone. The
// session must not be used afterwards. It does not wait.
func (s *Set) EndSession(session string) {
	if session == "" {
		return
	}
	for _, o := range s.roster.Load().order {
		if o.alone || o.asking.marked.Load() {
			o.dedicated.endSession(session)
		}
	}
}
