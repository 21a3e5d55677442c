package downstream

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/router"
)

// serverName is how we introduce ourselves to clients.
const serverName = "mcp-aggregator"

// Options are what New needs.
type Options struct {
	Config  *config.Config
	Log     *slog.Logger // nil discards
	Version string       // ours, for serverInfo
}

// A Server serves MCP clients.
type Server struct {
	router   *router.Router
	carry    func(context.Context, *router.Call) router.Reply // Call of the router; tests put themselves in its place
	cfg      *config.Config
	log      *slog.Logger
	identity bridge.Identity
	guard    guard

	sessions sessions
	audience audience
	busy     busy
	levels   levelsHeard
	dropped  atomic.Int64 // messages that found a full queue

	closing   chan struct{} // closed when Close begins: streams end in order
	closeOnce sync.Once

	// base is the context of everything that outlives a request, and through
	// HTTPServer of all requests. Close ends it with kill when its own time is over.
	base context.Context
	kill context.CancelCauseFunc
	own  crew // goroutines that belong to no request
}

// New returns a server that carries calls to r. Close must be called in the end.
func New(r *router.Router, o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		router:   r,
		carry:    r.Call,
		cfg:      o.Config,
		log:      o.Log,
		identity: bridge.NewIdentity(serverName, o.Version),
		guard:    newGuard(o.Config),
		sessions: newSessions(o.Config.HTTP.MaxSessions),
		closing:  make(chan struct{}),
	}
	s.base, s.kill = context.WithCancelCause(context.Background())
	s.own.start(func() { s.janitor(s.base) })
	return s
}

// HTTPServer returns a server for Handler with the limits of the configuration. It
// has no write time-out, because streams stay open: each write has its own.
func (s *Server) HTTPServer() *http.Server {
	l := &s.cfg.Limits
	return &http.Server{
		Handler:                      s.Handler(),
		ReadHeaderTimeout:            l.ReadHeader,
		IdleTimeout:                  l.ConnectionIdle,
		MaxHeaderBytes:               l.Headers,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		BaseContext:                  func(net.Listener) context.Context { return s.base },
	}
}

// Close stops accepting, ends all streams in order and what upstreams have asked
// clients, and waits for the calls in flight. Those that are left when ctx ends are cancelled. When Close returns,
// everything the server started has ended, but for a stdio reader or writer that
// hangs in the operating system.
func (s *Server) Close(ctx context.Context) {
	idle := s.busy.close()
	s.closeOnce.Do(func() { close(s.closing) })
	for _, sess := range s.sessions.all() {
		sess.silence(errStopping) // people may take longer than we have
		if l := sess.line; l != nil {
			s.own.start(l.finish) // its stream is needed for the replies to come
		} else {
			sess.hangUp()
		}
	}
	select {
	case <-idle:
	case <-ctx.Done():
		s.log.Warn("calls in flight are cut off")
	}
	s.kill(errCutOff)
	for _, sess := range s.sessions.all() {
		s.endSession(sess, errCutOff)
	}
	s.own.finish()
	// Requests end with their context; one that does not is not worth hanging for.
	select {
	case <-idle:
	case <-time.After(time.Second):
	}
}

// isClosing reports whether Close has begun.
func (s *Server) isClosing() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// Stats are numbers about the face.
type Stats struct {
	Sessions  int   // legacy sessions over HTTP
	Listeners int   // sessions and subscriptions that hear of changes
	InFlight  int   // requests and streams
	Dropped   int64 // messages that clients did not read in time
}

// Stats returns the numbers of the moment.
func (s *Server) Stats() Stats {
	return Stats{s.sessions.count(), s.audience.count(), s.busy.count(), s.dropped.Load()}
}

// busy counts what is under way, so that Close can refuse more and wait for the rest.
type busy struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   chan struct{} // closed once closed is set and n is 0; made by close
}

// begin counts one more, unless it is too late.
func (b *busy) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.n++
	return true
}

func (b *busy) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n--; b.n == 0 && b.closed {
		close(b.idle)
	}
}

// close refuses whatever begins from now on; the channel is closed when the rest
// has ended. It may be called again.
func (b *busy) close() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		b.idle = make(chan struct{})
		if b.n == 0 {
			close(b.idle)
		}
	}
	return b.idle
}

func (b *busy) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n
}
