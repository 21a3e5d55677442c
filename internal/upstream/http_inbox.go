package upstream

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcp-aggregator/internal/wire"
)

// maxAnswering bounds how many responses to requests of a server are on their way, ours
// and those of clients. A client's would be missed; they come at the pace of clients.
const (
	maxAnswering       = 64
	maxAnsweringClient = 1024
)

// aboutServer reports whether a notification says something about the server as a
// whole, even when it comes on the stream of a call: a tool can change the list of
// tools.
func aboutServer(method string) bool {
	return method == "notifications/resources/updated" || strings.HasSuffix(method, "/list_changed") ||
		method == "notifications/subscriptions/acknowledged"
}

// hasAddress reports whether a notification says itself whom it is for, so that the call
// which it comes with means nothing.
func hasAddress(method string) bool {
	return method == wire.TaskStatus || aboutServer(method)
}

// notification takes a notification that came on the stream of the call.
func (c *httpCall) notification(m *wire.Message) {
	switch {
	case c.outside || hasAddress(m.Method):
		c.t.announce(m, "")
	case m.Method == "notifications/cancelled":
		c.t.asks.withdraw(m.Body.Field("requestId").Of(m.Body.Raw))
	default:
		c.deliver(event(m))
	}
}

// request takes a request of the server that came on the stream of the call, which is
// the cause of it.
func (c *httpCall) request(m *wire.Message) {
	id := m.ID.Of(m.Raw)
	ours := c.outside || isHousekeeping(c.r.Method) // no call of a client is the cause
	switch {
	case m.Method == "ping", len(id) > maxForeignID, ours && !c.t.asks.alone.Load():
		c.t.serve(id, m.Method)
		return
	case ours:
		c.t.asks.arrive(id, m.Method, params(m))
		return
	}
	c.t.asks.give(c.suspect(), id, m.Method, params(m))
}

func (c *httpCall) suspect() suspect {
	return suspect{id: c.r.ID, order: c.order, session: c.r.Session, task: c.r.Task, takes: c.r.Ask != nil, deliver: c.ask}
}

// ask hands a request of the server to the caller, unless the call is over.
func (c *httpCall) ask(a Ask) bool {
	if c.shared {
		c.mu.Lock()
		defer c.mu.Unlock()
	}
	if c.over || c.r.Ask == nil {
		return false
	}
	c.r.Ask(a)
	return true
}

// leave takes a call that is over out of all tables. What the server asks is suspected
// to be meant for a call that was given up only where its requests come over a stream
// that belongs to no call.
func (c *httpCall) leave(ctx context.Context, err error) {
	if c.shared {
		c.t.flights.remove(c)
		if err != nil && ctx.Err() != nil && !isHousekeeping(c.r.Method) {
			c.t.asks.abandoned(c.r.ID, c.order, c.r.Session)
			return
		}
	}
	c.t.asks.over(c.r.ID)
}

// deliver hands an event to the caller, unless the call is over.
func (c *httpCall) deliver(ev Event) {
	if c.r.Events == nil {
		return
	}
	if c.shared {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.over {
			return
		}
	}
	c.r.Events(ev)
}

// announce hands a notification to the owner of the connection.
func (t *httpConn) announce(m *wire.Message, session string) {
	t.notice(Notice{Server: t.server, Session: session, Method: m.Method, Params: bytes.Clone(params(m))})
}

// standalone takes a message that came on the stream that belongs to no call. Some
// servers send there what belongs to one.
func (t *httpConn) standalone(raw []byte) {
	m, err := wire.Scan(raw)
	switch {
	case err != nil:
		t.skip(err.Error())
	case m.Kind == wire.Request:
		t.question(&m)
	case m.Kind == wire.Response:
		t.skip("a response on a stream that belongs to no call")
	case m.Method == "notifications/progress":
		if c := t.flights.byToken(m.Body.Field("progressToken").Of(m.Body.Raw)); c != nil {
			c.deliver(event(&m))
		} else {
			t.skip("progress of no call")
		}
	case m.Method == "notifications/cancelled":
		t.asks.withdraw(m.Body.Field("requestId").Of(m.Body.Raw))
	case hasAddress(m.Method):
		t.announce(&m, "")
	default:
		t.aside(&m)
	}
}

// aside hands on a notification that has no address, as that of a mux does.
func (t *httpConn) aside(m *wire.Message) {
	alone, session := t.asks.alone.Load(), ""
	c := t.flights.owner(alone)
	if m.Method == elicitationComplete && !alone {
		session = t.asks.server().shown.addressee(params(m))
		c = t.flights.callOf(session)
	}
	switch {
	case c != nil:
		c.deliver(event(m))
	case !alone && (m.Method == "notifications/message" || m.Method == elicitationComplete && session == ""):
		t.skip("a notification of no call in particular")
	default:
		t.announce(m, session)
	}
}

// question takes a request that came on the stream that belongs to no call.
func (t *httpConn) question(m *wire.Message) {
	id := m.ID.Of(m.Raw)
	if m.Method == "ping" || len(id) > maxForeignID {
		t.serve(id, m.Method)
		return
	}
	t.asks.arrive(id, m.Method, params(m))
}

// serve answers a request of the server that no client is asked about.
func (t *httpConn) serve(id []byte, method string) {
	if len(id) > maxForeignID {
		t.skip("a request with an endless id")
		return
	}
	t.answer(answerRequest(nil, id, method), false, nil)
}

// answer sends a response, of a client or of ours, in the background: the stream that
// the request came on must go on.
func (t *httpConn) answer(data []byte, clients bool, after <-chan struct{}) {
	limit := int32(maxAnswering)
	if clients {
		limit = maxAnsweringClient
	}
	if !t.postLater(data, limit, answerTimeout, after, func() {}) {
		t.skip("too many requests at a time")
	}
}

// tell sends a notification about a request of the server. It has less time than the
// response, which waits for it.
func (t *httpConn) tell(data []byte, after <-chan struct{}, sent func()) bool {
	return t.postLater(data, maxAnswering, answerTimeout/2, after, sent)
}

// postLater sends a message in the background, once after is closed, and then calls
// sent. False: too many are on their way.
func (t *httpConn) postLater(data []byte, limit int32, within time.Duration, after <-chan struct{}, sent func()) bool {
	size := int64(len(data))
	over := func() {
		t.answering.Add(-1)
		t.answers.Add(-size)
	}
	if all := t.answers.Add(size); t.answering.Add(1) > limit || all > outboxOffered && all > size {
		over()
		return false
	}
	started := t.background(within, func(ctx context.Context) {
		defer sent()
		defer over()
		if after != nil {
			select {
			case <-after:
			case <-ctx.Done():
			}
		}
		h := t.head.Load()
		if _, err := t.post(ctx, h, h.header, data); err != nil {
			t.log.Debug("answer not delivered", "server", t.server, "err", err)
		}
	})
	if !started {
		over()
	}
	return started
}

// httpFlights are the calls in flight, for messages that come on the stream that
// belongs to no call. While there is no such stream nothing is noted.
type httpFlights struct {
	watchers atomic.Int32 // open streams

	mu    sync.Mutex
	calls map[int64]*httpCall // request id, which is the progress token, to call
	order int64               // of the call added last
}

func (f *httpFlights) watch(n int32) { f.watchers.Add(n) }
func (f *httpFlights) watched() bool { return f.watchers.Load() > 0 }

func (f *httpFlights) add(c *httpCall) {
	c.shared = true
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls == nil {
		f.calls = map[int64]*httpCall{}
	}
	f.order++
	c.order = f.order
	f.calls[c.r.ID] = c
}

// remove ends the delivery of events; one that is being delivered is waited for.
func (f *httpFlights) remove(c *httpCall) {
	f.mu.Lock()
	delete(f.calls, c.r.ID)
	f.mu.Unlock()
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
}

// byToken finds the call with that raw progress token.
func (f *httpFlights) byToken(raw []byte) *httpCall {
	id, _ := parseID(raw)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[id]
}

// owner returns the call that a message without an address belongs to: the only one
// in flight that can be the cause of messages, or one of several of the same session,
// as all are on a connection that serves one alone.
func (f *httpFlights) owner(alone bool) (one *httpCall) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		switch {
		case isHousekeeping(c.r.Method):
		case one != nil && !alone && (c.r.Session != one.r.Session || c.r.Session == ""):
			return nil
		default:
			one = c
		}
	}
	return one
}

// callOf returns a call of a session that can be the cause of messages.
func (f *httpFlights) callOf(session string) *httpCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if session != "" && c.r.Session == session && !isHousekeeping(c.r.Method) {
			return c
		}
	}
	return nil
}

// suspects returns the calls in flight that can be the cause of a request.
func (f *httpFlights) suspects() (all []suspect) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if !isHousekeeping(c.r.Method) && c.r.Method != "initialize" {
			all = append(all, c.suspect())
		}
	}
	return all
}
