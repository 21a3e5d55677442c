package downstream

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"mcp-aggregator/internal/wire"
)

// keepAliveComment is an event stream's comment: no event, but traffic.
var keepAliveComment = []byte(": keep-alive\n\n")

// keepAlive tells when a stream has been quiet for too long. A nil one never does.
type keepAlive struct {
	timer *time.Timer
	every time.Duration
}

func newKeepAlive(every time.Duration) *keepAlive {
	return &keepAlive{time.NewTimer(every), every}
}

func (k *keepAlive) c() <-chan time.Time {
	if k == nil {
		return nil
	}
	return k.timer.C
}

func (k *keepAlive) reset() {
	if k != nil {
		k.timer.Reset(k.every)
	}
}

func (k *keepAlive) stop() {
	if k != nil {
		k.timer.Stop()
	}
}

// patient writes to a client that may read slowly, but must read: each piece has
// its own time limit. The limit stays on the connection until done lifts it.
type patient struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	wait time.Duration
}

// patientPiece is how much a client must take within the time limit.
const patientPiece = 64 << 10

// A client that takes a piece this quickly gets larger ones: fewer system calls, and
// its deadline is far away.
const (
	quickPiece = 5 * time.Millisecond
	maxPiece   = 1 << 20
)

func newPatient(w http.ResponseWriter, wait time.Duration) patient {
	return patient{w, http.NewResponseController(w), wait}
}

// Write implements io.Writer. A ResponseWriter without deadlines is written to
// without them.
func (p patient) Write(b []byte) (int, error) {
	n, piece, now := 0, patientPiece, time.Now()
	for n < len(b) {
		_ = p.rc.SetWriteDeadline(now.Add(p.wait))
		m, err := p.w.Write(b[n:min(n+piece, len(b))])
		if n += m; err != nil {
			return n, err
		}
		if n == len(b) {
			break
		}
		began := now
		if now = time.Now(); now.Sub(began) < quickPiece {
			piece = min(2*piece, maxPiece)
		} else {
			piece = patientPiece
		}
	}
	return n, nil
}

// send writes one piece of a stream and sees to it that it leaves.
func (p patient) send(b []byte) error {
	if _, err := p.Write(b); err != nil {
		return err
	}
	return p.rc.Flush()
}

// done lifts the time limit: the connection may serve other requests.
func (p patient) done() { _ = p.rc.SetWriteDeadline(time.Time{}) }

// startEvents begins an event stream: the header leaves at once, before any event.
func (p patient) startEvents() error {
	h := p.w.Header()
	h["Content-Type"] = contentEvents
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
	_ = p.rc.SetWriteDeadline(time.Now().Add(p.wait))
	p.w.WriteHeader(http.StatusOK)
	return p.rc.Flush()
}

// Header values are shared and never modified.
var (
	contentEvents = []string{"text/event-stream"}
	contentJSON   = []string{"application/json"}
	noCache       = []string{"no-cache, no-transform"}
	noBuffering   = []string{"no"} // tells nginx to pass events on as they come
)

// newEvents returns an outbox whose messages become server-sent events.
func (s *Server) newEvents() *outbox {
	l := &s.cfg.Limits
	return newOutbox(l.QueueMessages, l.QueueBytes, appendEvent, s.countDropped)
}

func (s *Server) countDropped() { s.dropped.Add(1) }

// appendEvent frames a message as an event. JSON may hold a lone carriage return
// between tokens, which would end the line; such a message loses its line breaks.
func appendEvent(dst, msg []byte) []byte {
	if bytes.IndexByte(msg, '\r') >= 0 {
		msg = wire.Compact(nil, msg)
	}
	return wire.AppendEvent(dst, "", msg)
}

// serveEvents writes the events of an outbox to the client until the outbox is
// closed, the client goes away or takes nothing any more, or ctx ends.
func (s *Server) serveEvents(ctx context.Context, to patient, out *outbox) error {
	tick := newKeepAlive(s.cfg.HTTP.KeepAlive)
	defer tick.stop()
	return out.drain(ctx, to.send, tick)
}
