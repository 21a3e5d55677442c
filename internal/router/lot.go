package router

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/fault"
)

// A lot is where the calls of modern clients wait whose legacy servers have asked the
// client something. It has a place for as many as the configuration says.
//
// Locks: that of a parked call is taken before that of the lot.
type lot struct {
	seal *bridge.Seal

	expired, refused, dropped atomic.Int64

	mu     sync.Mutex
	closed bool
	empty  chan struct{}        // closed when the last call has ended; nil: nobody waits for that
	calls  map[*parked]struct{} // whose servers may ask
	away   map[uint64]*parked   // id → the call whose client is away
}

// Parked is what the lot has seen, for status.
type Parked struct {
	Calls   int   // waiting for their clients now
	Expired int64 // given up because the client did not come back
	Refused int64 // questions refused because there were too many
	Dropped int64 // notifications for clients that were away
}

// Parked returns what is known about calls that wait for their clients.
func (r *Router) Parked() Parked {
	l := &r.lot
	l.mu.Lock()
	defer l.mu.Unlock()
	return Parked{len(l.away), l.expired.Load(), l.refused.Load(), l.dropped.Load()}
}

// Close ends all calls that wait for their clients, and those that might have to, and
// waits for them as long as ctx allows. Others are their callers' to end.
func (r *Router) Close(ctx context.Context) {
	l := &r.lot
	l.mu.Lock()
	l.closed = true
	all := make([]*parked, 0, len(l.calls))
	for p := range l.calls {
		all = append(all, p)
	}
	for _, p := range l.away { // also those that have ended without their clients
		all = append(all, p)
	}
	if l.empty == nil {
		l.empty = make(chan struct{})
		if len(l.calls) == 0 {
			close(l.empty)
		}
	}
	empty := l.empty
	l.mu.Unlock()
	for _, p := range all {
		p.end(0, fault.Of(fault.ShuttingDown, "", "the aggregator is stopping"))
	}
	select {
	case <-empty:
	case <-ctx.Done():
	}
}

// enter registers a call whose server may ask.
func (l *lot) enter(p *parked) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fault.Of(fault.ShuttingDown, "", "the aggregator is stopping")
	}
	if l.calls == nil {
		l.calls, l.away = map[*parked]struct{}{}, map[uint64]*parked{}
	}
	l.calls[p] = struct{}{}
	return nil
}

// leave takes a call out that has ended.
func (l *lot) leave(p *parked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, p)
	if l.empty != nil && len(l.calls) == 0 {
		close(l.empty) // once: nobody enters any more
	}
}

// park gives a call a place to wait for its client.
func (l *lot) park(p *parked, limit int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errors.New("the aggregator is stopping")
	}
	if len(l.away) >= limit {
		l.refused.Add(1)
		return fmt.Errorf("%d calls are waiting for answers of their clients already", len(l.away))
	}
	for p.id == 0 || l.away[p.id] != nil && l.away[p.id] != p {
		p.id = number()
	}
	l.away[p.id] = p
	return nil
}

// unpark gives the place of a call back.
func (l *lot) unpark(p *parked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.away, p.id)
}

// resume goes on with a parked call that its client has come back to.
func (l *lot) resume(ctx context.Context, c *Call, st *bridge.State, responses []bridge.Response) (Reply, error) {
	l.mu.Lock()
	p := l.away[st.ID]
	l.mu.Unlock()
	if p == nil || !p.claim(c, st.Round, responses) {
		return Reply{}, refuse("replayed", "the requestState has been used already, or the call it belongs to is over; make the call again, without it")
	}
	c.id, c.host = p.call.id, p
	return p.stay(ctx)
}
