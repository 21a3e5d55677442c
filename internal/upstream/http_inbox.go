package upstream

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"sync/atomic"

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

// notification takes a notification that came on the stream of the call.
func (c *httpCall) notification(m *wire.Message) {
	switch {
	case c.outside || aboutServer(m.Method):
		c.t.announce(m)
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
	if m.Method == "ping" || c.outside || isHousekeeping(c.r.Method) || len(id) > maxForeignID {
		c.t.serve(id, m.Method)
		return
	}
	c.t.asks.give(c.suspect(), id, m.Method, params(m))
}

func (c *httpCall) suspect() suspect {
	return suspect{id: c.r.ID, order: c.order, session: c.r.Session, takes: c.r.Ask != nil, deliver: c.ask}
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
func (t *httpConn) announce(m *wire.Message) {
	t.notice(Notice{Server: t.server, Method: m.Method, Params: bytes.Clone(params(m))})
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
	case m.Method == "notifications/message":
		if c := t.flights.owner(t.asks.alone.Load()); c != nil {
			c.deliver(event(&m))
		} else {
			t.skip("a log message of no call in particular")
		}
	case m.Method == "notifications/cancelled":
		t.asks.withdraw(m.Body.Field("requestId").Of(m.Body.Raw))
	case aboutServer(m.Method):
		t.announce(&m)
	default:
		if c := t.flights.owner(t.asks.alone.Load()); c != nil {
			c.deliver(event(&m))
		} else {
			t.announce(&m)
		}
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
	t.answer(answerRequest(nil, id, method), false)
}

// answer sends a response, of a client or of ours, in the background: the stream that
// the request came on must go on.
func (t *httpConn) answer(data []byte, clients bool) {
	limit := int32(maxAnswering)
	if clients {
		limit = maxAnsweringClient
	}
	if t.answering.Add(1) > limit {
		t.answering.Add(-1)
		t.skip("too many requests at a time")
		return
	}
	started := t.background(answerTimeout, func(ctx context.Context) {
		defer t.answering.Add(-1)
		h := t.head.Load()
		if _, err := t.post(ctx, h, h.header, data); err != nil {
			t.log.Debug("answer not delivered", "server", t.server, "err", err)
		}
	})
	if !started {
		t.answering.Add(-1)
	}
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
