package upstream

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
)

// An order is what people want of a server at run time (UP-13). The configuration
// gives the first one. It is never modified.
type order struct {
	hidden bool         // disabled: it exposes nothing
	veil   *fault.Error // with hidden: what callers are told
	down   bool         // it is not to be connected
	again  int          // number of Reconnects
	since  time.Time    // of hidden
}

// orders is the order of the moment and what it takes to carry it out at once.
type orders struct {
	newest atomic.Pointer[order]

	mu      sync.Mutex              // orders give and during; guards what follows
	attempt context.CancelCauseFunc // ends the attempt to connect under way; nil: none is
}

func (s *orders) now() *order { return s.newest.Load() }

// firstOrder is what the configuration says.
func firstOrder(s *config.Server) *order {
	first := &order{down: !s.Enabled}
	if !s.Enabled {
		first.hide(s.Name, "is disabled by the configuration")
	}
	return first
}

func (n *order) hide(server, reason string) {
	n.hidden, n.since = true, time.Now()
	n.veil = &fault.Error{Kind: fault.Unreachable, Server: server, Reason: reason, Code: fault.CodeShuttingDown}
}

// during notes how to end the attempt that begins, which carries out the Reconnect
// number again. The function it returns must be called when the attempt is over.
func (s *orders) during(cancel context.CancelCauseFunc, again int) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempt = cancel
	if now := s.now(); now.down || now.again != again {
		cancel(errOrdered)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.attempt = nil
	}
}

// order changes what is wanted of the server. Callers see the difference, and an
// attempt to connect is told to end, before it returns; the rest is up to the owner's
// goroutine.
func (o *owner) order(change func(*order)) {
	s := &o.orders
	s.mu.Lock()
	old := s.now()
	next := *old
	change(&next)
	s.newest.Store(&next)
	if old.down && !next.down {
		o.front.show(face{}) // whoever comes now waits
	}
	if next.hidden != old.hidden {
		o.front.cover(next.veil)
	}
	if s.attempt != nil && (next.down || next.again != old.again) {
		s.attempt(errOrdered)
	}
	s.mu.Unlock()
	if next.down || next.again != old.again {
		o.dedicated.endAll(errOrdered)
	}
	o.nudge()
	o.signal()
}

// want ends the waiting of an owner that could connect: for users, or for the time of
// the next attempt.
func (o *owner) want() {
	o.wanted.Store(true)
	o.hurry.Store(true)
	o.nudge()
}

// disobeys reports whether an order demands the end of what the owner does now.
func (o *owner) disobeys() bool {
	now := o.orders.now()
	return now.down || now.again != o.obeyed
}

// stayDown waits until a connection is wanted.
func (o *owner) stayDown(ctx context.Context) {
	o.gone()
	o.showDown()
	o.settle()
	for o.orders.now().down {
		select {
		case <-o.wake:
		case <-ctx.Done():
			return
		}
	}
	o.resting = false
	o.afresh()
}
