package upstream

import (
	"strconv"
	"sync"
	"time"

	"mcp-aggregator/internal/fault"
)

// A waiter is a call in flight. Whoever removes it from the table of the mux
// delivers its outcome, so there is exactly one.
type waiter struct {
	ready chan struct{} // one token when reply or err is set
	reply Reply
	err   error

	// Written before the waiter is in the table, then read under the lock of the mux.
	housekeeping bool
	opens        bool // it is part of the handshake
	listens      bool
	doubt        *time.Timer // fails the call unless its answer comes soon
	order        int64       // of registration on this connection
	session      string
	task         string

	// mu is held while events runs: Call takes it before it returns, so that no event
	// is delivered after the reply.
	mu     sync.Mutex
	id     int64 // 0 once the call is over
	events func(Event)
	asks   func(Ask) // nil: the client cannot be asked
}

// register puts a call into the table.
func (m *mux) register(r *Request) (*waiter, error) {
	w, _ := m.spare.Get().(*waiter)
	if w == nil {
		w = &waiter{ready: make(chan struct{}, 1)}
	}
	w.housekeeping, w.listens = isHousekeeping(r.Method), r.Method == "subscriptions/listen"
	w.opens = r.Method == "initialize" || r.Method == "server/discover"
	w.session, w.task = r.Session, r.Task
	w.mu.Lock()
	w.id, w.events, w.asks = r.ID, r.Events, r.Ask
	w.mu.Unlock()

	if err := m.enter(r.ID, w); err != nil {
		return nil, fault.Of(fault.Unreachable, m.server, "not connected: %w", err)
	}
	m.asks.began()
	return w, nil
}

func (m *mux) enter(id int64, w *waiter) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	m.order++
	w.order = m.order
	m.calls[id] = w
	if !w.housekeeping {
		m.owners++
	}
	m.newest = max(m.newest, id)
	return nil
}

// take removes a call from the table; nil if it is not there.
func (m *mux) take(id int64) *waiter {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.calls[id]
	if w == nil {
		return nil
	}
	delete(m.calls, id)
	if !w.housekeeping {
		m.owners--
	}
	if w.doubt != nil {
		w.doubt.Stop()
		w.doubt = nil
	}
	return w
}

// find returns the call with that id, nil if it is not in flight.
func (m *mux) find(id int64) *waiter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[id]
}

// listens reports whether id is that of a subscription.
func (m *mux) listens(id int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.calls[id]
	return w != nil && w.listens
}

// owner returns the call that a message without an address belongs to and its id:
// the only one in flight that can be the cause of messages, or one of several of the
// same session.
func (m *mux) owner() (one *waiter, its int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	alone := m.owners == 1 || m.asks.alone.Load()
	for id, w := range m.calls {
		switch {
		case w.housekeeping:
		case alone:
			return w, id
		case one != nil && w.session != one.session, w.session == "":
			return nil, 0
		default:
			one, its = w, id
		}
	}
	return one, its
}

// callOf returns a call of a session that can be the cause of messages, and its id.
func (m *mux) callOf(session string) (*waiter, int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, w := range m.calls {
		if session != "" && w.session == session && !w.housekeeping {
			return w, id
		}
	}
	return nil, 0
}

// suspects returns the calls in flight that can be the cause of a request.
func (m *mux) suspects() []suspect {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]suspect, 0, m.owners)
	for id, w := range m.calls {
		if !w.housekeeping && !w.opens {
			all = append(all, suspect{id: id, order: w.order, session: w.session, task: w.task, takes: w.asks != nil,
				deliver: func(a Ask) bool { return w.ask(id, a) }})
		}
	}
	return all
}

// fail ends a call with an error, unless it has ended already.
func (m *mux) fail(id int64, err error) bool {
	w := m.take(id)
	if w == nil {
		return false
	}
	m.asks.over(id)
	w.err = err
	w.ready <- struct{}{}
	return true
}

// suspect is told of a response that answers no call. If exactly one call is in
// flight, the response was most likely meant for it; the call fails unless the
// right answer still comes.
func (m *mux) suspect(reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.calls) != 1 {
		return
	}
	for id, w := range m.calls {
		if w.doubt == nil {
			w.doubt = time.AfterFunc(graceOfTheLost, func() {
				m.fail(id, fault.Of(fault.Protocol, m.server, "%s", reason))
			})
		}
	}
}

// deliver hands an event to the call, if that is still the one with this id.
func (w *waiter) deliver(id int64, e Event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.id != id {
		return false
	}
	if w.events != nil {
		w.events(e)
	}
	return true
}

// ask is deliver for a request of the server.
func (w *waiter) ask(id int64, a Ask) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.id != id || w.asks == nil {
		return false
	}
	w.asks(a)
	return true
}

// finish makes sure that no event is delivered any more.
func (w *waiter) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.id, w.events, w.asks = 0, nil, nil
}

// recycle lets another call use the waiter of one that is over, its outcome received.
func (m *mux) recycle(w *waiter) {
	w.finish()
	w.reply, w.err = Reply{}, nil
	m.spare.Put(w)
}

// isHousekeeping reports whether the method is one of our own that a server answers
// by itself. Such calls do not stand in the way when a message without an address
// is to be attributed to a client's call.
func isHousekeeping(method string) bool {
	switch method {
	case "ping", "server/discover", "logging/setLevel",
		"resources/subscribe", "resources/unsubscribe", "subscriptions/listen",
		"tools/list", "prompts/list", "resources/list", "resources/templates/list", "tasks/list", "tasks/cancel":
		return true
	}
	return false
}

func appendID(dst []byte, id int64) []byte { return strconv.AppendInt(dst, id, 10) }

// parseID reads an id or progress token of ours as servers give it back: the
// number, the number in quotes, or the number as a floating-point number.
func parseID(raw []byte) (int64, bool) {
	if n := len(raw); n > 2 && raw[0] == '"' && raw[n-1] == '"' {
		raw = raw[1 : n-1]
	}
	if len(raw) > 32 {
		return 0, false
	}
	if id, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return id, true
	}
	x, err := strconv.ParseFloat(string(raw), 64)
	if id := int64(x); err == nil && float64(id) == x && x > 0 && x < 1<<53 {
		return id, true
	}
	return 0, false
}
