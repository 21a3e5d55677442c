package upstream

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"mcp-aggregator/internal/wire"
)

// maxAnswering bounds how many requests of a server are being answered at a time.
const maxAnswering = 64

// aboutServer reports whether a notification says something about the server as a
// whole, even when it comes on the stream of a call: a tool can change the list of
// tools.
func aboutServer(method string) bool {
	return method == "notifications/resources/updated" || strings.HasSuffix(method, "/list_changed")
}

// notification takes a notification that came on the stream of the call.
func (c *httpCall) notification(m *wire.Message) {
	if c.outside || aboutServer(m.Method) {
		c.t.announce(m)
		return
	}
	c.deliver(event(m))
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
		t.serve(m.ID.Of(raw), m.Method)
	case m.Kind == wire.Response:
		t.skip("a response on a stream that belongs to no call")
	case m.Method == "notifications/progress":
		if c := t.flights.byToken(m.Body.Field("progressToken").Of(m.Body.Raw)); c != nil {
			c.deliver(event(&m))
		} else {
			t.skip("progress of no call")
		}
	case m.Method == "notifications/message":
		if c := t.flights.only(); c != nil {
			c.deliver(event(&m))
		} else {
			t.skip("a log message of no call in particular")
		}
	case m.Method == "notifications/cancelled":
		// A request of the server's own, which has had its answer already.
	default:
		t.announce(&m)
	}
}

// serve answers a request of the server, in the background: the stream it came on
// must go on.
func (t *httpConn) serve(id []byte, method string) {
	if t.answering.Add(1) > maxAnswering || len(id) > maxForeignID {
		t.answering.Add(-1)
		t.skip("a request with an endless id, or too many at a time")
		return
	}
	data := answerRequest(nil, id, method)
	started := t.background(answerTimeout, func(ctx context.Context) {
		defer t.answering.Add(-1)
		h := t.head.Load()
		if _, err := t.post(ctx, h, h.header, data); err != nil {
			t.log.Debug("answer not delivered", "server", t.server, "method", method, "err", err)
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

// only returns the call that a message without an address belongs to: the only one
// in flight that can be the cause of messages.
func (f *httpFlights) only() (one *httpCall) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		switch {
		case isHousekeeping(c.r.Method):
		case one != nil:
			return nil
		default:
			one = c
		}
	}
	return one
}
