package upstream

import (
	"context"
	"slices"
	"sync"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// subscriptions counts which resources of a server clients want to hear about. The
// server is told about the first client and the last one only.
type subscriptions struct {
	changed chan struct{} // buffered 1: wants a listen stream of another extent
	acks    chan ack      // buffered: acknowledgements for the listener

	mu     sync.Mutex
	byURI  map[string]*subscription // guarded by mu
	extent extent                   // guarded by mu: what the listen stream covers
}

// A subscription is one resource. turn is held by whoever talks to the server
// about it, so that subscribing and unsubscribing cannot overtake each other.
type subscription struct {
	turn    chan struct{} // buffered 1: a lock that gives up with a context
	users   int           // guarded by subscriptions.mu: those inside subscribe and unsubscribe
	clients int           // guarded by subscriptions.mu: those subscribed
	coming  bool          // guarded by subscriptions.mu: the first client waits for the listen stream
	told    Conn          // guarded by subscriptions.mu: the connection on which the first client subscribed
}

// An extent says which set of resources the listen stream of a modern server
// covers. Sets are numbered in the order in which they were wanted.
type extent struct {
	wanted  int           // number of the newest set
	covered int           // number of the set that the stream was last opened for
	granted []string      // what the server agreed to; nil if it did not say
	err     error         // why the stream could not be opened
	news    chan struct{} // closed and replaced when covered changes
}

// maxSubscriptions bounds the resources of one server that clients are subscribed to.
const maxSubscriptions = 10_000

func newSubscriptions() *subscriptions {
	return &subscriptions{
		changed: make(chan struct{}, 1),
		acks:    make(chan ack, 4),
		byURI:   make(map[string]*subscription),
		extent:  extent{news: make(chan struct{})},
	}
}

// enter finds or makes the subscription of a resource and waits for its turn.
func (s *subscriptions) enter(ctx context.Context, server, uri string) (*subscription, error) {
	s.mu.Lock()
	sub := s.byURI[uri]
	if sub == nil {
		if len(s.byURI) >= maxSubscriptions {
			s.mu.Unlock()
			return nil, fault.Of(fault.Overloaded, server, "has too many resource subscriptions")
		}
		sub = &subscription{turn: make(chan struct{}, 1)}
		s.byURI[uri] = sub
	}
	sub.users++
	s.mu.Unlock()
	select {
	case sub.turn <- struct{}{}:
		return sub, nil
	case <-ctx.Done():
		s.forget(uri, sub)
		return nil, fault.Of(fault.KindOf(ctx.Err()), server, "gave up waiting to subscribe: %w", context.Cause(ctx))
	}
}

// leave gives the turn to the next.
func (s *subscriptions) leave(uri string, sub *subscription) {
	<-sub.turn
	s.forget(uri, sub)
}

// forget drops a subscription that nobody has or asks for.
func (s *subscriptions) forget(uri string, sub *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sub.users--; sub.users == 0 && sub.clients == 0 {
		delete(s.byURI, uri)
	}
}

// count changes the number of clients and returns the new one.
func (s *subscriptions) count(sub *subscription, by int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub.clients = max(sub.clients+by, 0)
	return sub.clients
}

// tell notes on which connection the server was told.
func (s *subscriptions) tell(sub *subscription, c Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub.told = c
}

// missing returns the resources that have clients and that the server was told of on
// another connection than c, sorted. One that was subscribed on c while c began is not
// repeated: its clients would be told of a change that never was.
func (s *subscriptions) missing(c Conn) []string {
	uris, _ := s.which(func(sub *subscription) bool { return sub.clients > 0 && sub.told != c })
	return uris
}

// want changes what the listen stream is to cover and returns the number of the
// new set.
func (s *subscriptions) want(sub *subscription, coming bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub.coming = coming
	s.extent.wanted++
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return s.extent.wanted
}

// cover notes what became of the listen stream for a set.
func (s *subscriptions) cover(set int, granted []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.extent.news)
	s.extent.news = make(chan struct{})
	s.extent.covered, s.extent.granted, s.extent.err = set, granted, err
}

// extentWanted returns the resources that the listen stream is to cover, sorted, and
// the number of the set.
func (s *subscriptions) extentWanted() ([]string, int) {
	return s.which(func(sub *subscription) bool { return sub.clients > 0 || sub.coming })
}

// subscribed returns the resources that have clients, sorted.
func (s *subscriptions) subscribed() []string {
	uris, _ := s.which(func(sub *subscription) bool { return sub.clients > 0 })
	return uris
}

// any reports whether any resource has clients.
func (s *subscriptions) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.byURI {
		if sub.clients > 0 {
			return true
		}
	}
	return false
}

func (s *subscriptions) which(is func(*subscription) bool) (uris []string, set int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uri, sub := range s.byURI {
		if is(sub) {
			uris = append(uris, uri)
		}
	}
	slices.Sort(uris)
	return uris, s.extent.wanted
}

// subscribe adds a client to a resource.
func (o *owner) subscribe(ctx context.Context, uri string) error {
	sub, err := o.subs.enter(ctx, o.name, uri)
	if err != nil {
		return err
	}
	defer o.subs.leave(uri, sub)
	if o.subs.count(sub, 0) == 0 {
		err = o.use(ctx, "", func(c Conn) error {
			err := o.enlist(ctx, c, sub, uri)
			if err == nil {
				o.subs.tell(sub, c)
			}
			return err
		})
	}
	if err == nil {
		o.subs.count(sub, 1)
	} else if o.subs.count(sub, 0) == 0 {
		o.subs.want(sub, false)
	}
	return err
}

// unsubscribe takes a client away. Whatever the server says to it, the client is
// not subscribed any more.
func (o *owner) unsubscribe(ctx context.Context, uri string) error {
	sub, err := o.subs.enter(ctx, o.name, uri)
	if err != nil {
		return err
	}
	defer o.subs.leave(uri, sub)
	if o.subs.count(sub, 0) == 0 || o.subs.count(sub, -1) > 0 {
		return nil
	}
	o.subs.want(sub, false)
	l := o.live.Load()
	if l == nil || !l.acquire() { // the next connection will not have it
		return nil
	}
	return lend(l, func(c Conn) error {
		if c.Info().Era == wire.Modern {
			return nil
		}
		return o.tell(ctx, c, "resources/unsubscribe", uri)
	})
}

// enlist makes the server send updates of a resource.
func (o *owner) enlist(ctx context.Context, c Conn, sub *subscription, uri string) error {
	info := c.Info()
	if !parseCapabilities(info).subscribe {
		return fault.Of(fault.Rejected, o.name, "does not offer subscriptions to resources")
	}
	if info.Era != wire.Modern {
		return o.tell(ctx, c, "resources/subscribe", uri)
	}
	return o.covered(ctx, c, o.subs.want(sub, true), uri)
}

// tell sends a legacy request about one resource.
func (o *owner) tell(ctx context.Context, c Conn, method, uri string) error {
	params := append(wire.AppendQuote([]byte(`{"uri":`), uri), '}')
	reply, err := c.Call(ctx, &Request{ID: NextID(), Method: method, Name: uri, Params: wire.Value{Raw: params}})
	if err != nil {
		return err
	}
	defer reply.Release()
	if reply.Err != nil {
		return fault.Of(fault.Rejected, o.name, "refused %s: %w", method, reply.Err)
	}
	return nil
}

// covered waits until the listen stream covers a set of resources.
func (o *owner) covered(ctx context.Context, c Conn, set int, uri string) error {
	for {
		o.subs.mu.Lock()
		e := o.subs.extent
		o.subs.mu.Unlock()
		switch {
		case e.covered < set:
		case e.err != nil:
			return e.err
		case e.granted != nil && !slices.Contains(e.granted, uri):
			return fault.Of(fault.Rejected, o.name, "does not offer updates of this resource")
		default:
			return nil
		}
		select {
		case <-e.news:
		case <-c.Done():
			return lossOf(o.name, c)
		case <-ctx.Done():
			return fault.Of(fault.KindOf(ctx.Err()), o.name, "has not confirmed the subscription: %w", context.Cause(ctx))
		}
	}
}

// resume repeats the subscriptions on a new legacy connection and tells the clients
// to look again, since updates may have been missed. It is the body of a goroutine
// of serve.
func (o *owner) resume(ctx context.Context, c Conn, uris []string) {
	for _, uri := range uris {
		if err := o.tell(ctx, c, "resources/subscribe", uri); err != nil {
			o.log.Warn("subscription not resumed", "err", o.plain(err))
			if fault.KindOf(err) != fault.Rejected {
				return
			}
			continue
		}
		o.updated(uri)
	}
}

// updated tells clients that a resource may have changed.
func (o *owner) updated(uri string) {
	o.heard(Notice{
		Method: "notifications/resources/updated",
		Params: append(wire.AppendQuote([]byte(`{"uri":`), uri), '}'),
	})
}
