package downstream

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"sync"

	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/wire"
)

// inlineReply is the largest reply that is copied together with its envelope, to
// leave in one piece.
const inlineReply = 16 << 10

// An exchange is one POST with a request and its answer.
type exchange struct {
	request
	s *Server
	w http.ResponseWriter
	r *http.Request

	mu      sync.Mutex
	over    bool // the reply is being written: it is too late for anything else
	events  *outbox
	written chan struct{} // closed when the writer of events has ended
	err     error         // why it ended early; valid after written is closed
}

func (s *Server) newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{s: s, w: w, r: r}
	x.header, x.to = r.Header, x
	return x
}

// stream is for what comes ahead of the reply: asking for it turns the answer into an
// event stream, which from then on belongs to its writer.
func (x *exchange) stream() *outbox {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return nil
	}
	if x.events == nil {
		x.events = x.s.newEvents()
		x.written = make(chan struct{})
		go x.writeEvents()
	}
	return x.events
}

// writeEvents is the writer of an answer that became an event stream. It ends when the
// reply is there, not with the request's context: a call that is cut off has one, too.
func (x *exchange) writeEvents() {
	defer close(x.written)
	to := newPatient(x.w, x.s.cfg.Limits.Write)
	if x.err = to.startEvents(); x.err == nil {
		x.err = x.s.serveEvents(context.WithoutCancel(x.r.Context()), to, x.events)
	}
	x.events.close()
}

// endEvents waits until all notifications are written, and reports whether the
// answer is an event stream.
func (x *exchange) endEvents() bool {
	x.mu.Lock()
	x.over = true
	x.mu.Unlock()
	if x.events == nil {
		return false
	}
	x.events.close()
	<-x.written
	return true
}

// answer writes the reply: as JSON with this status, or as the last event. Line
// breaks between the tokens of a result would end an event: such a reply is framed
// line by line.
func (x *exchange) answer(reply *router.Reply, status int) {
	if reply.Release != nil {
		defer reply.Release()
	}
	events := x.endEvents()
	b := getScratch()
	defer b.free()
	if reply.Err != nil || reply.Result.Len() <= inlineReply || events && hasBreak(reply.Result) {
		b.bytes = appendReply(b.bytes, x.id(), reply)
		x.write(b.bytes, status)
		return
	}
	to := newPatient(x.w, x.s.cfg.Limits.Write)
	defer to.done()
	if !events {
		b.bytes = wire.AppendResultHead(b.bytes, x.id())
		x.head(len(b.bytes) + reply.Result.Len() + 1)
		to.pieces(b.bytes, reply.Result, "}")
	} else if x.err == nil {
		b.bytes = wire.AppendResultHead(append(b.bytes, "data: "...), x.id())
		to.pieces(b.bytes, reply.Result, "}\n\n")
		_ = to.rc.Flush()
	}
}

// head sets the header of a JSON answer of n bytes.
func (x *exchange) head(n int) {
	h := x.w.Header()
	h["Content-Type"] = contentJSON
	if n > 2000 { // net/http finds the length of shorter ones by itself
		h["Content-Length"] = []string{strconv.Itoa(n)}
	}
}

// write writes a whole message as the answer.
func (x *exchange) write(msg []byte, status int) {
	if !x.endEvents() {
		x.head(len(msg))
		if status != http.StatusOK {
			x.w.WriteHeader(status)
		}
		if len(msg) <= inlineReply {
			_, _ = x.w.Write(msg)
			return
		}
		to := newPatient(x.w, x.s.cfg.Limits.Write)
		_, _ = to.Write(msg)
		to.done()
		return
	}
	if x.err != nil {
		return // the client has stopped reading
	}
	to := newPatient(x.w, x.s.cfg.Limits.Write)
	defer to.done()
	b := getScratch()
	defer b.free()
	b.bytes = appendEvent(b.bytes, msg)
	_ = to.send(b.bytes)
}

// pieces writes a value between two pieces of text without copying it together.
func (p patient) pieces(head []byte, v wire.Value, tail string) {
	// After a failed write all others fail, too: looking at one error is enough,
	// and nobody could be told.
	_, _ = p.Write(head)
	at := 0
	for _, e := range v.Edits {
		_, _ = p.Write(v.Raw[at:e.Lo])
		_, _ = p.Write(e.With)
		at = e.Hi
	}
	_, _ = p.Write(v.Raw[at:])
	_, _ = p.Write([]byte(tail))
}

// appendReply appends the whole response message.
func appendReply(dst, id []byte, reply *router.Reply) []byte {
	if reply.Err != nil {
		return wire.AppendError(dst, id, reply.Err)
	}
	return wire.AppendResult(dst, id, reply.Result)
}

// hasBreak reports whether a value holds line breaks.
func hasBreak(v wire.Value) bool {
	broken := func(b []byte) bool { return bytes.IndexByte(b, '\n') >= 0 || bytes.IndexByte(b, '\r') >= 0 }
	for _, e := range v.Edits {
		if broken(e.With) {
			return true
		}
	}
	return broken(v.Raw)
}
