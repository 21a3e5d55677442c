package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
)

// Time limits of what the connection does on its own account.
const (
	cancelTimeout = 5 * time.Second // telling a server that a call is cancelled
	answerTimeout = 5 * time.Second // answering a request of a server
	deleteTimeout = 2 * time.Second // ending the session
	drainTimeout  = time.Second     // waiting for a stream to end after its answer
	closeGrace    = time.Second     // letting the tasks above finish when closing
)

// defaultAnswer bounds an answer when no limit is configured.
const defaultAnswer = 64 << 20

// An httpConn is a connection to a Streamable HTTP server of either era
// (specification 2025-11-25, basic: transports; 2026-07-28, basic/transports:
// streamable-http). It keeps no connection in the sense of TCP: each call is a POST
// of its own on a pooled one, so whatever its response carries belongs to that call.
//
// Concurrency: a call runs on the goroutine of its caller from end to end. What
// requests carry besides the call (headers, session) is an immutable httpHead behind
// an atomic pointer. Goroutines of the connection are background tasks with a time
// limit, see background; they end with life, and Close waits for them.
type httpConn struct {
	server  string
	base    atomic.Pointer[http.Request] // method, URL and host; copied for each request
	fixed   http.Header                  // headers of every request, never modified
	network *httpNetwork
	limit   int // bytes of one answer or event
	timeout time.Duration
	log     *slog.Logger
	notice  func(Notice)

	life context.Context // of background tasks and streams; ended by Close
	end  context.CancelFunc

	streams atomic.Bool  // the server answers calls with event streams
	skipped atomic.Int64 // messages that were none, or belonged to nobody
	flights httpFlights
	asks    *asks

	answering atomic.Int32 // requests of the server
	answers   atomic.Int64 // bytes of these answers
	head      atomic.Pointer[httpHead]

	mu      sync.Mutex // guards the writing of head and what follows
	reinit  func(context.Context) error
	err     error // why done is closed
	done    chan struct{}
	closing bool
	tasks   sync.WaitGroup
}

// openHTTP prepares a connection to the server at s.URL. It sends nothing: the
// handshake is the first to find out whether the server is there.
func openHTTP(_ context.Context, s *config.Server, o *Options, notice func(Notice)) (transport, error) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" {
		return nil, &fault.Error{Kind: fault.Unreachable, Server: s.Name, Reason: "url is not a valid address"}
	}
	network, err := newHTTPNetwork(s, u)
	if err != nil {
		return nil, fault.Of(fault.Unreachable, s.Name, "cannot use the TLS settings: %w", err)
	}
	return newHTTPConn(s, o, u, network, notice), nil
}

func newHTTPConn(s *config.Server, o *Options, u *url.URL, network *httpNetwork, notice func(Notice)) *httpConn {
	t := &httpConn{
		server:  s.Name,
		fixed:   fixedHeader(s, o.Version),
		network: network,
		limit:   o.Limits.Answer,
		timeout: s.InitTimeout,
		log:     o.Log,
		notice:  notice,
		done:    make(chan struct{}),
	}
	if t.limit <= 0 {
		t.limit = defaultAnswer
	}
	if t.timeout <= 0 {
		t.timeout = 30 * time.Second
	}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	if t.notice == nil {
		t.notice = func(Notice) {}
	}
	t.asks = newAsks(t.flights.suspects, t.answer)
	t.asks.tell = t.tell
	base := &http.Request{Method: http.MethodPost, URL: u, Host: t.fixed.Get("Host"),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	t.fixed.Del("Host")
	if password, ok := u.User.Password(); ok && t.fixed["Authorization"] == nil {
		(&http.Request{Header: t.fixed}).SetBasicAuth(u.User.Username(), password)
	}
	t.base.Store(base)
	t.life, t.end = context.WithCancel(context.Background())
	t.head.Store(&httpHead{header: t.fixed, info: &Info{}, session: newHTTPSession(t.life, "")})
	return t
}

// questions implements askingTransport.
func (t *httpConn) questions() *asks { return t.asks }

// Info is what setInfo was given last, never nil.
func (t *httpConn) Info() *Info { return t.head.Load().info }

func (t *httpConn) setInfo(info *Info) {
	t.update(func(h *httpHead) { h.info = info })
}

// Done is closed by Close, and when the session is lost and cannot be replaced. A
// server that cannot be reached for a while does not end the connection: there is
// nothing to reconnect, the next call simply finds it back.
func (t *httpConn) Done() <-chan struct{} { return t.done }

// Err says why Done is closed.
func (t *httpConn) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// lose ends the connection for a reason.
func (t *httpConn) lose(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
		close(t.done)
		t.asks.close()
	}
}

// skippedLines counts what the server sent and nobody could use.
func (t *httpConn) skippedLines() int64 { return t.skipped.Load() }

// skip notes something the server sent that nobody can use.
func (t *httpConn) skip(why string) {
	t.log.Debug("message skipped", "server", t.server, "why", why, "count", t.skipped.Add(1))
}

var errHTTPClosed = errors.New("the connection was closed")

// Close ends what still runs: streams at once, background tasks after a short grace,
// then the session on the server, and by closing their connections the calls in
// flight.
func (t *httpConn) Close(ctx context.Context) error {
	t.lose(errHTTPClosed)
	t.mu.Lock()
	first := !t.closing
	t.closing = true
	t.mu.Unlock()
	t.head.Load().session.end()
	grace, cancel := context.WithTimeout(ctx, closeGrace)
	stop := context.AfterFunc(grace, t.end)
	t.tasks.Wait()
	stop()
	cancel()
	if first {
		t.deleteSession(ctx)
	}
	t.end()
	t.network.close()
	return nil
}

// task runs f on a goroutine that Close waits for. It reports false, and does not run
// f, while the connection is being closed.
func (t *httpConn) task(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing {
		return false
	}
	t.tasks.Go(f)
	return true
}

// background is task for what talks to the server: with a time limit, and cut off
// by Close.
func (t *httpConn) background(limit time.Duration, f func(context.Context)) bool {
	return t.task(func() {
		ctx, cancel := context.WithTimeout(t.life, limit)
		defer cancel()
		f(ctx)
	})
}
