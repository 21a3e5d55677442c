package upstream_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/upstream"
)

// A webHost is a host with an HTTP server and the network to it, inside a bubble.
type webHost struct {
	server http.Server

	mu    sync.Mutex
	state hostState
	conns []net.Conn // ends of the server
}

type hostState int

const (
	hostUp    hostState = iota
	hostDown            // refuses connections, those that were open are reset
	hostBlack           // swallows everything
)

func newWebHost(t *testing.T, h http.Handler) *webHost {
	w := &webHost{server: http.Server{Handler: h}}
	t.Cleanup(func() { _ = w.server.Close() })
	return w
}

func (w *webHost) become(s hostState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = s
	if s == hostDown {
		for _, c := range w.conns {
			_ = c.Close()
		}
		w.conns = nil
	}
}

func (w *webHost) is(s hostState) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state == s
}

// dial opens a connection to the server.
func (w *webHost) dial(ctx context.Context) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch w.state {
	case hostDown:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case hostBlack:
		w.mu.Unlock()
		defer w.mu.Lock()
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	near, far := net.Pipe()
	w.conns = append(w.conns, far)
	go func() {
		_ = w.server.Serve(&oneConn{conn: leakyConn{far, w}, addr: far.LocalAddr(), done: make(chan struct{})})
	}()
	return leakyConn{near, w}, nil
}

// cut resets the connections that are open.
func (w *webHost) cut() {
	w.become(hostDown)
	w.become(hostUp)
}

// A leakyConn loses what is written to it while the host is black.
type leakyConn struct {
	net.Conn
	host *webHost
}

func (c leakyConn) Write(b []byte) (int, error) {
	if c.host.is(hostBlack) {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// oneConn is a listener that has one connection.
type oneConn struct {
	conn  net.Conn
	addr  net.Addr
	taken bool
	close sync.Once
	done  chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if l.taken {
		<-l.done
		return nil, errors.New("closed")
	}
	l.taken = true
	return l.conn, nil
}

func (l *oneConn) Close() error {
	l.close.Do(func() { close(l.done) })
	return nil
}

func (l *oneConn) Addr() net.Addr { return l.addr }

func web(name string) *config.Server {
	s := config.DefaultServer(name)
	s.Type, s.URL = config.TypeHTTP, "http://127.0.0.1:1/mcp"
	return s
}

// newWebSet makes a set with one server of type http, beta, on a host.
func newWebSet(t *testing.T, opts upstream.Options, w *webHost) *upstream.Set {
	t.Helper()
	s := upstream.NewWebSet(opts, w.dial)
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("closing the set: %v", err)
		}
	})
	s.Apply([]*config.Server{web("beta")})
	<-s.Settled()
	return s
}

// callIn is call with a deadline.
func callIn(t *testing.T, limit time.Duration, s *upstream.Set, server, name string) error {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return call(ctx, s, server, name)
}

// untilOK calls every interval until a call succeeds and returns how long that took.
func untilOK(t *testing.T, s *upstream.Set, server string, limit, interval time.Duration) time.Duration {
	t.Helper()
	begin := time.Now()
	for {
		err := callIn(t, limit, s, server, "a")
		if err == nil {
			return time.Since(begin)
		}
		if time.Since(begin) > 5*time.Minute {
			t.Fatalf("no call succeeds any more: %v", err)
		}
		time.Sleep(interval)
	}
}
