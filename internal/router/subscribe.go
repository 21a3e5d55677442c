package router

import (
	"context"
	"slices"
	"sync"
	"time"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/wire"
)

// subscriptions remembers who listens to which resource.
type subscriptions struct {
	mu   sync.Mutex
	held map[string]map[string]*catalog.Entry // session → exposed URI → where it is
}

// Subscribe tells the owner of a resource that a session wants its updates. The
// session is any key; updates come to the aggregator once, however many sessions
// listen.
func (r *Router) Subscribe(ctx context.Context, session, uri string) *wire.RPCError {
	e, ok := r.Generation().Catalog.Resource(uri)
	if !ok {
		return unknownResource(wire.Legacy, uri)
	}
	if !r.subs.add(session, uri, e) {
		return nil
	}
	if err := r.upstreams.Subscribe(ctx, e.Server, e.Name); err != nil {
		r.subs.remove(session, uri)
		reply := r.failure(&Call{Method: "resources/subscribe"}, err)
		return reply.Err
	}
	return nil
}

// unsubscribeTimeout bounds telling upstreams that nobody listens any more.
const unsubscribeTimeout = 5 * time.Second

// Unsubscribe ends one subscription of a session, or with an empty uri all of them.
// It has its own time limit, because the client it is about may be gone.
func (r *Router) Unsubscribe(session, uri string) {
	ctx, cancel := context.WithTimeout(context.Background(), unsubscribeTimeout)
	defer cancel()
	for _, e := range r.subs.remove(session, uri) {
		if err := r.upstreams.Unsubscribe(ctx, e.Server, e.Name); err != nil {
			r.log.Debug("unsubscribing", "server", e.Server, "err", err)
		}
	}
}

func (s *subscriptions) add(session, uri string, e *catalog.Entry) (added bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held = map[string]map[string]*catalog.Entry{}
	}
	if s.held[session] == nil {
		s.held[session] = map[string]*catalog.Entry{}
	}
	if s.held[session][uri] != nil {
		return false
	}
	s.held[session][uri] = e
	return true
}

func (s *subscriptions) remove(session, uri string) (removed []*catalog.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for u, e := range s.held[session] {
		if uri == "" || u == uri {
			removed = append(removed, e)
			delete(s.held[session], u)
		}
	}
	if len(s.held[session]) == 0 {
		delete(s.held, session)
	}
	return removed
}

// levels remembers the log level each session asked for.
type levels struct {
	mu     sync.Mutex
	wanted map[string]string // session → level
}

// SetLevel notes the log level a session asks for; "" forgets the session. Upstreams
// are asked for the most verbose level anybody wants.
func (r *Router) SetLevel(session, level string) {
	if most, changed := r.levels.set(session, level); changed {
		r.upstreams.SetLevel(most)
	}
}

func (l *levels) set(session, level string) (most string, changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.mostLocked()
	if l.wanted == nil {
		l.wanted = map[string]string{}
	}
	if level == "" {
		delete(l.wanted, session)
	} else {
		l.wanted[session] = level
	}
	most = l.mostLocked()
	return most, most != before && most != ""
}

func (l *levels) mostLocked() string {
	at := len(bridge.Levels)
	for _, level := range l.wanted {
		if i := slices.Index(bridge.Levels, level); i >= 0 {
			at = min(at, i)
		}
	}
	if at == len(bridge.Levels) {
		return ""
	}
	return bridge.Levels[at]
}
