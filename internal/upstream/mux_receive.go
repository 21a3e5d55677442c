package upstream

import (
	"bytes"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// maxForeignID bounds the ids that servers may choose for their own requests.
const maxForeignID = 1 << 10

// receive handles one message or batch and gives f back, unless a reply takes it.
func (m *mux) receive(f *frame) {
	if wire.IsBatch(f.b) {
		m.receiveBatch(f)
		return
	}
	var err error
	msg := &m.msg
	*msg, err = wire.Scan(f.b)
	switch {
	case err != nil:
		m.junk(msg, err)
	case msg.Kind == wire.Response:
		if m.respond(msg, f) {
			return
		}
	case msg.Kind == wire.Notification:
		m.notification(msg)
	default:
		m.request(msg)
	}
	f.put()
}

// receiveBatch takes a JSON-RPC batch apart, which servers of revision 2025-03-26
// may send.
func (m *mux) receiveBatch(f *frame) {
	defer f.put()
	if err := wire.Valid(f.b); err != nil {
		m.junk(&wire.Message{Raw: f.b}, err)
		return
	}
	for e := range wire.Elements(f.b, wire.Span{Hi: len(f.b)}) {
		if b := e.Of(f.b); !wire.IsBatch(b) {
			m.receive(frameOf(b))
		}
	}
}

// respond hands a response to its call. It returns true if the reply keeps f.
func (m *mux) respond(msg *wire.Message, f *frame) bool {
	id, ok := parseID(msg.ID.Of(msg.Raw))
	var w *waiter
	if ok {
		w = m.take(id)
	}
	if w == nil {
		m.count.late.Add(1)
		m.asks.late(id)
		if !ok || m.unused(id) {
			m.suspect("the server answered with an id that nobody has asked with")
		}
		return false
	}
	m.answered = m.answered || !w.opens
	m.asks.over(id)
	switch {
	case msg.Error.OK():
		w.reply.Err = wire.ParseRPCError(msg.Error.Of(msg.Raw))
		m.asks.server().shown.noteError(w.reply.Err, w.session)
	case msg.Body.Raw[0] == '{':
		w.reply.Result = msg.Body
	case string(msg.Body.Raw) == "null" && w.housekeeping:
		// What returns nothing in many languages. Nobody looks at these results.
		w.reply.Result = wire.Object{Raw: []byte("{}")}
	default:
		w.err = fault.Of(fault.Protocol, m.server, "the server answered with a result that is not an object")
		w.ready <- struct{}{}
		return false
	}
	w.reply.release = f.put
	w.ready <- struct{}{}
	return true
}

// unused reports whether id cannot be that of a call which has ended before.
func (m *mux) unused(id int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return id <= 0 || id > m.newest
}

// notification hands a notification to the call it belongs to, or to the notice
// function if it belongs to none.
func (m *mux) notification(msg *wire.Message) {
	switch msg.Method {
	case "notifications/progress":
		m.progress(msg)
	case "notifications/cancelled":
		m.cancelled(msg)
	default:
		if hasAddress(msg.Method) {
			m.announce(msg, "")
			return
		}
		m.aside(msg)
	}
}

// aside hands on a notification that has no address: to the call whose it is, or to the
// session, if either is clear.
func (m *mux) aside(msg *wire.Message) {
	alone, session := m.asks.alone.Load(), ""
	w, id := m.owner()
	if msg.Method == elicitationComplete && !alone {
		session = m.asks.server().shown.addressee(params(msg))
		w, id = m.callOf(session)
	}
	switch {
	case w != nil && w.deliver(id, event(msg)):
	case !alone && (msg.Method == "notifications/message" || msg.Method == elicitationComplete && session == ""):
		m.count.dropped.Add(1)
	default:
		m.announce(msg, session)
	}
}

// announce hands a notification to the owner of the connection.
func (m *mux) announce(msg *wire.Message, session string) {
	m.notice(Notice{Server: m.server, Session: session, Method: msg.Method, Params: bytes.Clone(params(msg))})
}

// progress finds the call by the token, which is the id of its request.
func (m *mux) progress(msg *wire.Message) {
	if id, ok := parseID(msg.Body.Field("progressToken").Of(msg.Body.Raw)); ok {
		if w := m.find(id); w != nil && w.deliver(id, event(msg)) {
			return
		}
	}
	m.count.late.Add(1)
}

// cancelled ends a request of the server's own, or a subscription, the only request of
// ours that a server may cancel (specification 2026-07-28, basic: Cancellation).
func (m *mux) cancelled(msg *wire.Message) {
	raw := msg.Body.Field("requestId").Of(msg.Body.Raw)
	if m.asks.withdraw(raw) {
		return
	}
	if id, ok := parseID(raw); ok && m.listens(id) {
		m.fail(id, fault.Of(fault.Lost, m.server, "the server ended the subscription"))
	}
}

// request answers a request of the server, or has a client answer it. What servers ask
// for on a shared connection before they have answered anything but the handshake, they
// ask because of the handshake, even if a client's call is waiting already: who asks for
// roots then would keep those of one client for all.
func (m *mux) request(msg *wire.Message) {
	id := msg.ID.Of(msg.Raw)
	switch {
	case len(id) > maxForeignID:
		m.count.refused.Add(1)
		return
	case msg.Method == "ping", msg.Method == "roots/list" && !m.answered && !m.asks.alone.Load():
	default:
		m.asks.arrive(id, msg.Method, params(msg))
		return
	}
	f := newFrame(len(id) + 128)
	f.b = answerRequest(f.b, id, msg.Method)
	m.offer(f)
}

func event(msg *wire.Message) Event {
	return Event{Method: msg.Method, Params: params(msg)}
}

// params returns the raw params, nil if there are none.
func params(msg *wire.Message) []byte {
	if !msg.Params.OK() {
		return nil
	}
	return msg.Params.Of(msg.Raw)
}
