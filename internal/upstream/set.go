package upstream

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
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
	s.roster.Store(&roster{})
	return s
}

// Apply makes the set hold exactly these servers, whose names must differ. A server
// with an equal configuration is not touched. One that is gone or different is ended
// in the background: its calls in flight may finish, for at most limits.drain.
// Apply does not wait for connections. On a closed set it does nothing.
func (s *Set) Apply(servers []*config.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	old := s.roster.Load()
	next := &roster{byName: make(map[string]*owner, len(servers))}
	for _, server := range servers {
		o := old.byName[server.Name]
		if o == nil || !o.server.Equal(server) {
			o = s.startLocked(server, o)
		}
		next.byName[server.Name] = o
		next.order = append(next.order, o)
	}
	s.roster.Store(next)
	for _, o := range old.order {
		if next.byName[o.server.Name] != o {
			o.cancel(errRemoved)
		}
	}
	settled := make(chan struct{})
	s.settled = settled
	s.work.Go(func() { next.await(settled) })
	s.signal()
}

// startLocked makes an owner and lets it run. It takes over what clients are
// subscribed to from the owner before it, nil if there is none.
func (s *Set) startLocked(server *config.Server, before *owner) *owner {
	ctx, cancel := context.WithCancelCause(s.life)
	o := &owner{
		server:  server,
		opts:    &s.opts,
		log:     s.opts.log().With(slog.String("server", server.Name)),
		starts:  s.starts,
		signal:  s.signal,
		secrets: secretsOf(server),
		cancel:  cancel,
		settled: make(chan struct{}),
		subs:    newSubscriptions(),
		wake:    make(chan struct{}, 1),
	}
	if before != nil {
		o.subs = before.subs
	}
	o.level.Store(s.level)
	o.lists.o = o
	o.dialer = dialer{server: server, opts: &s.opts, opener: s.opener, notice: o.heard}
	o.begin()
	s.work.Go(func() {
		defer cancel(nil)
		o.run(ctx, s.life)
	})
	return o
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
// and no attempt has failed yet, Use waits, bounded by ctx; otherwise it fails at
// once. Its own errors are *fault.Error and mean that nothing was sent.
//
// Session names the downstream session that asks; all share one connection.
func (s *Set) Use(ctx context.Context, server, session string, fn func(Conn) error) error {
	o, err := s.owner(server)
	if err != nil {
		return err
	}
	return o.use(ctx, fn)
}

func (s *Set) owner(server string) (*owner, error) {
	if o := s.roster.Load().byName[server]; o != nil {
		return o, nil
	}
	return nil, fault.Of(fault.NotFound, server, "is not configured")
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

// Listings returns the last known listing of each server that has had one, in
// configuration order. The listing of a server that is not connected is marked stale.
func (s *Set) Listings() []*catalog.Listing {
	var all []*catalog.Listing
	for _, o := range s.roster.Load().order {
		if l := o.listing.Load(); l != nil {
			all = append(all, l)
		}
	}
	return all
}

// Changed brings a value after a status or a listing has changed. Changes that are
// not fetched fall together.
func (s *Set) Changed() <-chan struct{} { return s.changed }

// Settled returns a channel that is closed when every server of the last Apply is
// disabled, has connected and been listed, or has failed its first attempt.
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
	}
}

// Close ends all connections side by side and waits for everything the set has
// started. Calls in flight may finish for at most limits.drain; when ctx ends the
// rest is cut short. The error is the cause of ctx in that case.
func (s *Set) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	for _, o := range s.roster.Load().order {
		o.cancel(errShutdown)
	}
	s.mu.Unlock()
	stop := context.AfterFunc(ctx, s.kill)
	s.work.Wait()
	s.kill()
	if !stop() {
		return context.Cause(ctx)
	}
	return nil
}
