package downstream

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// Bounds of what one session can make us keep.
const (
	maxStreams       = 4       // GET streams open at the same time; the oldest gives way
	maxSubscriptions = 1000    // resources a session, or one listen request, hears about
	maxURI           = 8 << 10 // bytes of the URI of such a resource
	maxClientCaps    = 8 << 10 // bytes of declared capabilities
)

// A Session is what is known about one legacy client: over Streamable HTTP from
// initialize to DELETE or expiry, over stdio and HTTP+SSE as long as the connection.
type Session struct {
	id        string // unguessable; also the key for upstreams that are not shared
	principal string // who opened it
	line      *line  // its connection over HTTP+SSE and stdio, nil over Streamable HTTP

	maxCalls    int
	maxQuestion int           // bytes of the params of a request to the client
	patience    time.Duration // how long such a request waits for the client to read what comes before it
	used        atomic.Int64  // when a request or stream last began or ended, Unix nanoseconds

	mu      sync.Mutex
	version string                             // agreed on by initialize, "" before
	caps    []byte                             // what the client can be asked for, raw; replaced whole
	able    bool                               // it can be asked for anything at all
	level   string                             // set by logging/setLevel, "" if never
	begun   bool                               // notifications may be sent
	ended   bool                               // no more requests or streams
	calls   map[string]context.CancelCauseFunc // raw request id → cancels it
	streams []*outbox                          // where notifications go: to the last one
	missed  catalog.Changes                    // list changes that found no stream
	subs    map[string]bool                    // URI the client wants to hear of → an update found no stream

	questions questions
}

func (s *Server) newSession(id, principal string) *Session {
	l := &s.cfg.Limits
	sess := &Session{id: id, principal: principal, maxCalls: l.InFlight, maxQuestion: l.Answer, patience: l.Write}
	sess.touch()
	return sess
}

func (sess *Session) touch() { sess.used.Store(time.Now().UnixNano()) }

// agree notes the outcome of initialize. What changed before is no news to the
// client: the start of a session fires no notification.
func (sess *Session) agree(version string, caps []byte) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	sess.version, sess.caps, sess.missed = version, slices.Clone(caps), catalog.Changes{}
	sess.able = false
	for range wire.Members(caps, wire.Span{Lo: 0, Hi: len(caps)}) {
		sess.able = true
	}
}

// terms returns what the session's calls are carried out under: the capabilities of the
// client, whether there are any, and the log level it has set.
func (sess *Session) terms() (caps []byte, able bool, level string) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	return sess.caps, sess.able, sess.level
}

// agreed returns the revision that initialize agreed on, "" before.
func (sess *Session) agreed() string {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	return sess.version
}

// begin registers a request in flight. The error is to be answered instead. A ping
// is never one too many: a busy client is alive.
func (sess *Session) begin(m *wire.Message, cancel context.CancelCauseFunc) *wire.RPCError {
	id := m.ID.Of(m.Raw)
	sess.touch()
	sess.mu.Lock()
	defer sess.mu.Unlock()
	switch {
	case sess.ended:
		return rpcError(fault.Of(fault.ShuttingDown, "", "the session has ended"))
	case sess.calls[string(id)] != nil:
		return &wire.RPCError{Code: wire.CodeInvalidRequest, Message: "a request with this id is still in flight"}
	case len(sess.calls) >= sess.maxCalls && m.Method != "ping":
		return rpcError(fault.Of(fault.Overloaded, "", "%d requests of this session are in flight", len(sess.calls)))
	}
	if sess.calls == nil {
		sess.calls = map[string]context.CancelCauseFunc{}
	}
	sess.calls[string(id)] = cancel
	sess.startLocked()
	return nil
}

// finish takes a request out of flight.
func (sess *Session) finish(id []byte) {
	sess.touch()
	sess.mu.Lock()
	defer sess.mu.Unlock()
	delete(sess.calls, string(id))
}

// errCancelled is the cause of a request's end when its client has cancelled it.
var errCancelled = fault.Of(fault.Cancelled, "", "cancelled by the client")

// cancel ends the request that a notifications/cancelled names, if it is in flight.
func (sess *Session) cancel(params *wire.Object) {
	id := params.Field("requestId")
	if !id.OK() {
		return
	}
	sess.mu.Lock()
	cancel := sess.calls[string(id.Of(params.Raw))]
	sess.mu.Unlock()
	if cancel != nil {
		cancel(errCancelled)
	}
}

// start lets notifications through: the client says that it is initialized.
func (sess *Session) start() {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	sess.startLocked()
}

// startLocked is also called for the first request after initialize, which shows
// the same.
func (sess *Session) startLocked() {
	if !sess.begun && sess.version != "" {
		sess.begun = true
		sess.catchUpLocked()
	}
}

// open adds a stream for notifications. It returns a stream that must end in its
// place, if any, and false when the session has ended.
func (sess *Session) open(out *outbox) (oldest *outbox, ok bool) {
	sess.touch()
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if sess.ended {
		return nil, false
	}
	if len(sess.streams) == maxStreams {
		oldest = sess.streams[0]
		sess.streams = slices.Delete(sess.streams, 0, 1)
	}
	sess.streams = append(sess.streams, out)
	sess.catchUpLocked()
	return oldest, true
}

// shut removes a stream.
func (sess *Session) shut(out *outbox) {
	sess.touch()
	sess.mu.Lock()
	defer sess.mu.Unlock()
	sess.streams = slices.DeleteFunc(sess.streams, func(o *outbox) bool { return o == out })
}

// hangUp ends the streams.
func (sess *Session) hangUp() {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	for _, out := range sess.streams {
		out.close()
	}
}

// end lets nothing more begin, cancels what is in flight and closes the streams.
// It reports whether the session was still alive.
func (sess *Session) end(cause *fault.Error) bool {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if sess.ended {
		return false
	}
	sess.ended = true
	sess.silenceLocked(cause)
	for _, cancel := range sess.calls {
		cancel(cause)
	}
	for _, out := range sess.streams {
		out.close()
	}
	return true
}

// over reports whether the session has ended.
func (sess *Session) over() bool {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	return sess.ended
}

// idleSince reports since when nothing has happened, and false while something does.
func (sess *Session) idleSince() (time.Time, bool) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	return time.Unix(0, sess.used.Load()), len(sess.calls) == 0 && len(sess.streams) == 0
}
