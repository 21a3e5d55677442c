package downstream

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// A request is one request of a client, whatever transport it came by.
type request struct {
	msg     wire.Message // its bytes are the transport's, for as long as dispatch runs
	era     wire.Era
	level   string      // the log level a modern request asks for
	caps    []byte      // the capabilities a modern request declares, raw
	session *Session    // nil for a modern request over HTTP
	header  http.Header // read only; nil on stdio

	cancel context.CancelCauseFunc // ends the context that dispatch is given; nil if that is not ours

	to streamer // the way of what the client gets before the reply

	answered bool           // upstreams may ask nothing more; guarded by the lock of the session
	asking   sync.WaitGroup // counts what they have asked

	call router.Call // here to save an allocation
}

// A streamer is where the messages of one request go.
type streamer interface {
	// stream returns the queue of what leaves before the reply, nil when it is too late.
	stream() *outbox
}

// notify puts a notification on its way to the client, before the reply. It never
// blocks and does not keep msg.
func (q *request) notify(msg []byte) {
	if out := q.to.stream(); out != nil {
		out.offer(msg)
	}
}

// id returns the raw id of the request.
func (q *request) id() []byte { return q.msg.ID.Of(q.msg.Raw) }

// dispatch carries out one request. It always ends in a reply: a panic costs the
// request and nothing else.
func (s *Server) dispatch(ctx context.Context, q *request) (reply router.Reply) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("request panicked", "method", q.msg.Method, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
			reply = router.Reply{Err: rpcError(fault.Of(fault.Internal, "", "internal error"))}
		}
	}()
	legacy := q.era == wire.Legacy
	switch m := q.msg.Method; {
	case m == "tools/call", m == "prompts/get", m == "resources/read", m == "completion/complete":
		return s.call(ctx, q)
	case m == "tools/list":
		return s.list(ctx, q, catalog.Tools)
	case m == "prompts/list":
		return s.list(ctx, q, catalog.Prompts)
	case m == "resources/list":
		return s.list(ctx, q, catalog.Resources)
	case m == "resources/templates/list":
		return s.list(ctx, q, catalog.Templates)
	case m == "tasks/get", m == "tasks/cancel", (m == "tasks/result" || m == "tasks/list") && legacy, m == "tasks/update" && !legacy:
		return s.task(ctx, q)
	case m == "initialize" && legacy:
		return s.initialize(ctx, q)
	case m == "ping" && legacy:
		return empty()
	case m == "logging/setLevel" && legacy:
		return s.setLevel(q)
	case m == "resources/subscribe" && legacy:
		return s.subscribe(ctx, q)
	case m == "resources/unsubscribe" && legacy:
		return s.unsubscribe(q)
	case m == "server/discover" && !legacy:
		return s.discover(ctx, q)
	case m == "subscriptions/listen" && !legacy:
		return s.listen(ctx, q)
	}
	return router.Reply{Err: methodNotFound(q.msg.Method)}
}

func empty() router.Reply { return router.Reply{Result: wire.Value{Raw: []byte(`{}`)}} }

// call carries a request to the upstream it concerns.
func (s *Server) call(ctx context.Context, q *request) router.Reply { return s.callBy(ctx, q, s.carry) }

// callBy is call with another way to the upstream.
func (s *Server) callBy(ctx context.Context, q *request, carry carrier) router.Reply {
	c := &q.call
	*c = router.Call{
		Gen:       s.router.Generation(),
		Method:    q.msg.Method,
		Params:    &q.msg.Body,
		Cancel:    q.cancel,
		Era:       q.era,
		LogLevel:  q.level,
		Events:    q.relay,
		Header:    q.header,
		Principal: principalOf(ctx),
		Caps:      q.caps,
	}
	if q.session != nil {
		c.Session = q.session.id
	}
	if q.era == wire.Modern {
		if q.level != "" {
			s.wantLevel(q.level)
		}
		return carry(ctx, c)
	}
	able := false
	c.Links = q.session.agreed() >= "2025-06-18" // server/tools: Resource Links
	if c.Caps, able, c.LogLevel = q.session.terms(); !able {
		return carry(ctx, c)
	}
	c.Ask = q.ask
	defer q.session.conclude(q)
	return carry(ctx, c)
}

// relay passes on what an upstream says during the call.
func (q *request) relay(ev upstream.Event) {
	b := getScratch()
	b.bytes = wire.AppendNotification(b.bytes[:0], ev.Method, wire.Value{Raw: ev.Params})
	q.notify(b.bytes)
	b.free()
}

// notification takes a client's notification. Unknown ones are ignored, as the
// specification asks.
func (s *Server) notification(sess *Session, m *wire.Message) {
	switch m.Method {
	case "notifications/cancelled":
		sess.cancel(&m.Body)
	case "notifications/initialized":
		sess.start()
	case "notifications/progress":
		sess.progress(&m.Body)
	case "notifications/roots/list_changed":
		s.rootsChanged(sess)
	}
}
