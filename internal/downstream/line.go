package downstream

import (
	"context"
	"errors"
	"net/http"

	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/wire"
)

// A line is a connection whose replies travel back on one shared stream: stdio, or
// the event stream of HTTP+SSE. It is one session, and its requests run side by
// side, each on a goroutine of the line.
type line struct {
	s       *Server
	session *Session
	out     *outbox
	modern  bool // messages of the modern era are served, too

	ctx   context.Context // of the line's requests; ends with the line
	calls crew
}

// newLine returns a line for a session, which hears notifications on it.
func (s *Server) newLine(ctx context.Context, id, principal string, out *outbox) *line {
	l := &line{s: s, session: s.newSession(id, principal), out: out, ctx: ctx}
	l.session.line = l
	l.session.open(out)
	return l
}

// receive takes one message and the buffer it lies in. It returns as soon as the
// message is understood; what must be answered is put on the stream. Header is nil
// on stdio.
func (l *line) receive(buf *buffer, m wire.Message, header http.Header) {
	keep := false
	defer func() {
		if !keep {
			buf.free()
		}
	}()
	switch m.Kind {
	case wire.Response:
		l.session.response(&m)
		return
	case wire.Notification:
		l.session.touch()
		l.s.notification(l.session, &m)
		return
	}
	q := &request{msg: m, session: l.session, header: header, to: l}
	if rpc := l.admit(q); rpc != nil {
		l.reply(q.id(), &router.Reply{Err: rpc})
		return
	}
	ctx, cancel := context.WithCancelCause(l.ctx)
	q.cancel = cancel
	if rpc := l.begin(q, cancel); rpc != nil {
		cancel(nil)
		l.reply(q.id(), &router.Reply{Err: rpc})
		return
	}
	keep = true
	run := func() {
		defer cancel(nil)
		defer buf.free()
		l.run(ctx, q)
	}
	// These change what later messages mean, so later messages wait for them.
	if m.Method == "initialize" || m.Method == "logging/setLevel" || !l.calls.start(run) {
		run()
	}
}

// finish lets no more requests begin, waits for those in flight and closes the
// stream behind their replies.
func (l *line) finish() {
	l.calls.finish()
	l.out.close()
}

// admit finds out by which rules a request is served, and whether it may be.
func (l *line) admit(q *request) *wire.RPCError {
	if l.modern {
		meta, rpc := readMeta(&q.msg.Body)
		if rpc != nil {
			return rpc
		}
		if era, known := wire.EraOf(meta.version); meta.version != "" && (!known || era == wire.Modern) {
			if !known {
				return unsupportedVersion(meta.version)
			}
			q.era, q.level, q.caps = wire.Modern, meta.level, meta.caps
			return meta.check()
		}
	}
	switch q.msg.Method {
	case "initialize", "ping":
		return nil
	}
	if l.session.agreed() == "" {
		if l.modern {
			return invalidParams("Invalid params: send initialize first, or _meta with " + wire.MetaVersion)
		}
		return invalidRequest("Invalid request: send initialize first")
	}
	return nil
}

// begin registers a request in flight.
func (l *line) begin(q *request, cancel context.CancelCauseFunc) *wire.RPCError {
	if !l.s.busy.begin() {
		return rpcError(errStopping)
	}
	rpc := l.session.begin(&q.msg, cancel)
	if rpc != nil {
		l.s.busy.end()
	}
	return rpc
}

// run carries out a request and puts its reply on the stream. A cancelled one gets
// none, as the specification asks.
func (l *line) run(ctx context.Context, q *request) {
	defer l.s.busy.end()
	reply := l.s.dispatch(ctx, q)
	l.session.finish(q.id())
	if errors.Is(context.Cause(ctx), errCancelled) {
		if reply.Release != nil {
			reply.Release()
		}
		return
	}
	l.reply(q.id(), &reply)
	if q.msg.Method == "subscriptions/listen" && reply.Err == nil {
		// On a shared channel the end of a stream is also said by a cancellation
		// (specification 2026-07-28, basic/patterns/cancellation).
		params := append(append([]byte(`{"requestId":`), q.id()...), '}')
		_ = l.out.put(l.ctx, wire.AppendNotification(nil, "notifications/cancelled", wire.Value{Raw: params}))
	}
}

// reply puts a reply on the stream, waiting for room. It fails only when the line
// has ended.
func (l *line) reply(id []byte, reply *router.Reply) {
	if reply.Release != nil {
		defer reply.Release()
	}
	b := getBuffer(reply.Result.Len() + 1<<10)
	b.bytes = appendReply(b.bytes, id, reply)
	_ = l.out.put(l.ctx, b.bytes)
	b.free()
}

// stream is the one that all messages of the line share.
func (l *line) stream() *outbox { return l.out }
