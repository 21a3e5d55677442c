package upstream

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// A Set holds the connections to all configured servers and lends them out.
//
// Concurrency: each server has an owner goroutine, the only one that decides about
// its connection. The methods of Set read what owners publish; Use, Status and
// Listings take no lock. Close waits for every goroutine that a Set has started.
type Set struct {
	opts    Options
	opener  func(config.Type) opener
	starts  *starts
	changed chan struct{} // buffered 1
	roster  atomic.Pointer[roster]

	life context.Context // bounds the orderly end of owners; ended by Close
	kill context.CancelFunc

	closing context.Context // ended when Close begins
	leave   context.CancelFunc

	mu      sync.Mutex    // orders Apply, SetLevel and Close; guards what follows
	level   *string       // nil: none asked
	settled chan struct{} // replaced by Apply
	closed  bool
	work    sync.WaitGroup
}

// A roster is the owners of one configuration; replaced whole, never modified.
type roster struct {
	byName map[string]*owner // server name → owner
	order  []*owner          // of the configuration
}

// New makes an empty set. Apply gives it servers.
func New(opts Options) *Set { return newSet(opts, openerOf) }

func newSet(opts Options, opener func(config.Type) opener) *Set {
	s := &Set{
		opts:    opts,
		opener:  opener,
		starts:  newStarts(opts.StartConcurrency),
		changed: make(chan struct{}, 1),
		settled: make(chan struct{}),
	}
	s.life, s.kill = context.WithCancel(context.Background())
	s.closing, s.leave = context.WithCancel(context.Background())
	s.roster.Store(&roster{})
	return s
}

// Changes are the names of servers that an Apply has made a difference to, in the
// order of the configuration.
type Changes struct {
	Added, Removed []string
	Changed        []string // reconnected, or going on under other settings
}

// Apply makes the set hold exactly these servers, whose names must differ. A server
// with an equal configuration is not touched. Where the same connection can go on,
// it does, and only what is shown of it changes. Any other change is made by a new
// connection: what the server offered stays listed, marked stale, and callers wait
// for it; the old connection is ended in the background. So is one of a server that
// is gone. Its calls in flight may finish, for as long as their time-outs allow.
// Apply does not wait for connections. On a closed set it does nothing.
func (s *Set) Apply(servers []*config.Server) (c Changes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return c
	}
	old := s.roster.Load()
	next := &roster{byName: make(map[string]*owner, len(servers))}
	var lists sync.WaitGroup // what servers offer is checked side by side
	var fresh []*owner
	for _, server := range servers {
		o := old.byName[server.Name]
		switch {
		case o == nil:
			c.Added = append(c.Added, server.Name)
			o = s.ownerLocked(server)
			fresh = append(fresh, o)
			lists.Go(func() { o.remember(nil) })
		case o.server().Equal(server):
		case o.server().SameConnection(server):
			c.Changed = append(c.Changed, server.Name)
			lists.Go(func() { o.offers.adopt(server) })
		default:
			c.Changed = append(c.Changed, server.Name)
			before := o
			o = s.ownerLocked(server)
			o.inherit(before)
			fresh = append(fresh, o)
			lists.Go(func() { o.remember(before) })
		}
		next.byName[server.Name] = o
		next.order = append(next.order, o)
	}
	lists.Wait()
	for _, o := range fresh {
		s.startLocked(o)
	}
	s.roster.Store(next)
	for _, o := range old.order {
		switch now := next.byName[o.name]; now {
		case o:
			o.nudge() // its settings may be new
		case nil:
			c.Removed = append(c.Removed, o.name)
			o.cancel(errRemoved)
		default:
			o.cancel(errRemoved)
		}
	}
	settled := make(chan struct{})
	s.settled = settled
	s.work.Go(func() { next.await(settled) })
	s.signal()
	return c
}

// ownerLocked makes an owner.
func (s *Set) ownerLocked(server *config.Server) *owner {
	o := &owner{
		name:    server.Name,
		opts:    &s.opts,
		log:     s.opts.log().With(slog.String("server", server.Name)),
		starts:  s.starts,
		signal:  s.signal,
		closing: s.closing,
		settled: make(chan struct{}),
		subs:    newSubscriptions(),
		wake:    make(chan struct{}, 1),
	}
	o.alone = server.Sharing == "session" || server.Sharing == "call"
	o.asking = newAsking(o.nudge)
	o.dedicated.o = o
	o.offers.limits = s.opts.Limits
	o.offers.settings.Store(newSettings(server))
	first := firstOrder(server)
	o.orders.newest.Store(first)
	o.front.veil = first.veil
	o.level.Store(s.level)
	o.lists.o = o
	o.dialer = dialer{opts: &s.opts, opener: s.opener, notice: o.heard, asking: o.asking}
	return o
}

// startLocked lets an owner run.
func (s *Set) startLocked(o *owner) {
	ctx, cancel := context.WithCancelCause(s.life)
	o.cancel = cancel
	o.begin()
	s.work.Go(func() {
		defer cancel(nil)
		o.run(ctx, s.life)
	})
}

// inherit takes over from the owner before it what the change of a configuration does
// not end: what clients are subscribed to, and what people ordered, unless the
// configuration has another opinion now on whether the server is enabled.
func (o *owner) inherit(before *owner) {
	o.subs, o.foreign = before.subs, true
	o.asking.marked.Store(before.asking.marked.Load())
	if was := before.orders.now(); before.server().Enabled == o.server().Enabled {
		order := *was
		order.again = 0
		o.orders.newest.Store(&order)
		o.front.veil = order.veil
	}
}

// remember shows what the server offered the owner before, or an earlier process.
func (o *owner) remember(before *owner) {
	switch {
	case !o.server().Enabled:
	case before != nil && before.offers.known() != nil:
		o.offers.recall(before.offers.known(), false)
	case o.opts.Recall != nil:
		o.offers.recall(o.opts.Recall(o.server()), true)
	}
	if k := o.offers.known(); k != nil {
		if k.Asks {
			o.asking.marked.Store(true)
		}
		o.lists.recall(k)
	}
}

// await closes done when every owner has settled.
func (r *roster) await(done chan<- struct{}) {
	defer close(done)
	for _, o := range r.order {
		<-o.settled
	}
}

func (s *Set) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Use lends the connection of a server to fn and returns what fn does. The
// connection must not be kept. While the server is starting, or is being restarted
// and no attempt has failed yet, Use waits, bounded by ctx and Options.AcquireTimeout;
// otherwise it fails at once. Its own errors are *fault.Error with a Code, and mean
// that nothing was sent.
//
// Session names the downstream session that asks, "" if there is none. With sharing
// set to session it has a connection of its own, until EndSession or until it has not
// been used for a while; with call, or without a session, each Use has one.
func (s *Set) Use(ctx context.Context, server, session string, fn func(Conn) error) error {
	return s.withOwner(server, func(o *owner) error { return o.use(ctx, session, fn) })
}

// UseAsking is Use for a client that can be asked (Request.Ask). A shared connection is
// no good for it once the server has been found to ask without saying for which call:
// from then on such a session has a connection of its own, as with sharing set to
// session, or its calls run one at a time, as the setting asks says. Calls without a
// session never share such a connection with those of another principal.
func (s *Set) UseAsking(ctx context.Context, server, session, principal string, fn func(Conn) error) error {
	return s.withOwner(server, func(o *owner) error { return o.useAsking(ctx, session, principal, fn) })
}

// EraOf returns the era of a server as its last connection has shown it, which may be
// over; known is false before the first.
func (s *Set) EraOf(server string) (era wire.Era, known bool) {
	o := s.roster.Load().byName[server]
	if o == nil {
		return 0, false
	}
	version := o.status.Load().Version
	era, _ = wire.EraOf(version) // what it does not know is older than what it does
	return era, version != ""
}

// Await waits as Use does until a server is connected, whatever its sharing, and lends
// nothing.
func (s *Set) Await(ctx context.Context, server string) error {
	return s.withOwner(server, func(o *owner) error {
		l, err := o.await(ctx)
		if err == nil {
			l.release()
		}
		return err
	})
}

// Want says that somebody would call a server if he were let: as with a caller who is
// turned away, the next attempt to connect it need not wait for its time.
func (s *Set) Want(server string) {
	if o := s.roster.Load().byName[server]; o != nil {
		if f := o.front.face.Load(); f.err != nil {
			_ = o.turnAway(f)
		}
	}
}

// withOwner runs do with the owner of a server, and again with the next one if the
// configuration has replaced it meanwhile.
func (s *Set) withOwner(server string, do func(*owner) error) error {
	for {
		o := s.roster.Load().byName[server]
		if o == nil {
			return notConfigured(server)
		}
		if err := do(o); err == nil || !errors.Is(err, errRemoved) {
			return err
		}
	}
}

func notConfigured(server string) error { return fault.Of(fault.NotFound, server, "is not configured") }

func (s *Set) owner(server string) (*owner, error) {
	if o := s.roster.Load().byName[server]; o != nil {
		return o, nil
	}
	return nil, notConfigured(server)
}

// Status returns what is known about each server, in configuration order.
func (s *Set) Status() []*Status {
	order := s.roster.Load().order
	all := make([]*Status, len(order))
	for i, o := range order {
		all[i] = o.current()
	}
	return all
}

// Listings returns the last known listing of each server that has had one and is not
// disabled, in configuration order. The listing of a server that is not connected is
// marked stale.
func (s *Set) Listings() []*catalog.Listing {
	var all []*catalog.Listing
	for _, o := range s.roster.Load().order {
		if l := o.offers.listing.Load(); l != nil && !o.orders.now().hidden {
			all = append(all, l)
		}
	}
	return all
}

// Changed brings a value after a status or a listing has changed. Changes that are
// not fetched fall together.
func (s *Set) Changed() <-chan struct{} { return s.changed }

// Settled returns a channel that is closed when every server of the last Apply is
// disabled or idle, has connected and been listed, or has failed its first attempt.
func (s *Set) Settled() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settled
}

// Subscribe makes the server send updates of a resource; they come through
// Options.Notify. It counts: each Subscribe that succeeds needs an Unsubscribe. A
// subscription outlives the connection; after a loss the clients are told that the
// resource may have changed.
func (s *Set) Subscribe(ctx context.Context, server, uri string) error {
	o, err := s.owner(server)
	if err != nil {
		return err
	}
	return o.subscribe(ctx, uri)
}

// Unsubscribe takes back one Subscribe.
func (s *Set) Unsubscribe(ctx context.Context, server, uri string) error {
	o, err := s.owner(server)
	if err != nil {
		return err
	}
	return o.unsubscribe(ctx, uri)
}

// SetLevel sets the log level for legacy servers that log, those connected and those
// to come: the most verbose that any client wants. The connections are shared, so
// there is one level for all. An empty level leaves servers as they are.
func (s *Set) SetLevel(level string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.level = &level; level == "" {
		s.level = nil
	}
	for _, o := range s.roster.Load().order {
		o.level.Store(s.level)
		o.nudge()
		o.dedicated.nudge()
	}
}

// Close ends all connections side by side and waits for everything the set has
// started. Calls in flight may finish for at most limits.drain; when ctx ends the
// rest is cut short. The error is the cause of ctx in that case.
func (s *Set) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.leave()
	for _, o := range s.roster.Load().order {
		o.cancel(errShutdown)
	}
	s.mu.Unlock()
	stop := context.AfterFunc(ctx, s.kill)
	s.work.Wait()
	theKeeper.rest()
	s.kill()
	if !stop() {
		return context.Cause(ctx)
	}
	return nil
}
