package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"mcp-aggregator/internal/config"
)

const (
	dialTimeout       = 10 * time.Second
	idleTimeout       = 90 * time.Second
	maxIdle           = 256       // idle connections; calls come in bursts, and dialing costs more than a call
	maxResponseHeader = 256 << 10 // bytes
)

// An httpNetwork owns the TCP connections to one server. net/http pools them; it
// does not let go of busy ones, so the network remembers them all and can cut them.
type httpNetwork struct {
	current atomic.Pointer[http.Transport]
	dial    func(ctx context.Context, network, addr string) (net.Conn, error)
	tls     *tls.Config
	proxy   func(*http.Request) (*url.URL, error)

	timeout  time.Duration // for the header of an answer; 0: the time the call has
	patience time.Duration // for connecting, and again for the TLS handshake

	mu     sync.Mutex // guards what follows
	conns  map[*httpSocket]struct{}
	closed bool
	idle   time.Duration // idle timeout of current
}

func newHTTPNetwork(s *config.Server, u *url.URL) (*httpNetwork, error) {
	n := &httpNetwork{conns: map[*httpSocket]struct{}{}, timeout: s.Timeout, patience: dialTimeout, idle: idleTimeout}
	if s.Timeout > 0 {
		n.patience = min(n.patience, s.Timeout)
	}
	n.dial = (&net.Dialer{Timeout: n.patience, KeepAlive: 15 * time.Second}).DialContext
	var err error
	if n.tls, err = httpTLS(s.TLS); err != nil {
		return nil, err
	}
	// The address never changes, so neither does the proxy. Loopback has none.
	via, err := http.ProxyFromEnvironment(&http.Request{URL: u})
	if err == nil && via != nil {
		n.proxy = http.ProxyURL(via)
	}
	n.current.Store(n.transport(n.idle))
	return n, nil
}

// transport makes the pool of net/http. Buffers keep their default of 4 KiB: a small
// call fits, and large bodies bypass them.
func (n *httpNetwork) transport(idle time.Duration) *http.Transport {
	return &http.Transport{
		Proxy:                  n.proxy,
		DialContext:            n.connect,
		DialTLSContext:         n.connectTLS,
		TLSClientConfig:        n.tls.Clone(), // through a proxy
		TLSHandshakeTimeout:    n.patience,
		ResponseHeaderTimeout:  n.timeout,
		DisableCompression:     true, // compressing costs more than it saves next door
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        idle,
		MaxResponseHeaderBytes: maxResponseHeader,
		ForceAttemptHTTP2:      true, // for https; the functions above would turn it off
		// All calls share one HTTP/2 connection: if it died silently, they would wait
		// for their deadlines one after the other.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second},
	}
}

// httpTLS makes the TLS configuration.
func httpTLS(c config.TLS) (*tls.Config, error) {
	conf := &tls.Config{InsecureSkipVerify: c.InsecureSkipVerify, NextProtos: []string{"h2", "http/1.1"}}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, err
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New(c.CAFile + " holds no PEM certificate")
		}
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, err
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}

// An httpSocket is a connection that the network can cut, and that refuses to send a
// request when the server has closed it. net/http finds that out as well, but on
// another goroutine: under load it can take milliseconds, and what is sent meanwhile
// must be reported as lost. Refused before anything was written it is repeated on
// another connection.
type httpSocket struct {
	net.Conn
	n      *httpNetwork
	raw    syscall.RawConn // nil if there is no file descriptor
	look   func(fd uintptr)
	heard  atomic.Bool // nothing was written yet since it was opened or read from: a request begins
	closed bool        // set by look; used by the writer only
	byte   [1]byte
}

func newHTTPSocket(conn net.Conn, n *httpNetwork) *httpSocket {
	s := &httpSocket{Conn: conn, n: n}
	if c, ok := conn.(syscall.Conn); ok {
		s.raw, _ = c.SyscallConn()
	}
	s.heard.Store(true)
	s.look = func(fd uintptr) { s.closed = peek(fd, s.byte[:]) }
	return s
}

func (s *httpSocket) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if n > 0 {
		s.heard.Store(true)
	}
	return n, err
}

func (s *httpSocket) Write(b []byte) (int, error) {
	if s.raw != nil && s.heard.Swap(false) {
		if err := s.raw.Control(s.look); err == nil && s.closed {
			return 0, errServerClosed
		}
	}
	return s.Conn.Write(b)
}

var errServerClosed = errors.New("the server has closed the connection")

// A connectError is a failure to connect. It is the fact by which requests that were
// never sent are told from lost ones.
type connectError struct{ err error }

func (e *connectError) Error() string { return e.err.Error() }
func (e *connectError) Unwrap() error { return e.err }

// connect dials. net/http lets a dial go on when the call that wanted it is gone;
// the time-outs bound it.
func (n *httpNetwork) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := n.dial(ctx, network, addr)
	if err != nil {
		return nil, &connectError{err}
	}
	s := newHTTPSocket(conn, n)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		conn.Close()
		return nil, &connectError{errHTTPClosed}
	}
	n.conns[s] = struct{}{}
	return s, nil
}

// connectTLS dials and shakes hands. net/http would do that as well, but without
// telling whether it was the handshake that failed.
func (n *httpNetwork) connectTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := n.connect(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	conf := n.tls.Clone()
	conf.ServerName, _, _ = net.SplitHostPort(addr)
	c := tls.Client(conn, conf)
	ctx, cancel := context.WithTimeout(ctx, n.patience)
	defer cancel()
	if err := c.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, &connectError{err}
	}
	return c, nil
}

func (s *httpSocket) Close() error {
	s.n.mu.Lock()
	delete(s.n.conns, s)
	s.n.mu.Unlock()
	return s.Conn.Close()
}

// heed learns from a response how long the server keeps idle connections ("Keep-
// Alive: timeout=5" of Node.js) and gives them up a second earlier: a request that
// crosses the server's close on the wire is lost, and nobody can tell whether it was
// executed.
func (n *httpNetwork) heed(h http.Header) {
	v := h["Keep-Alive"]
	if len(v) == 0 {
		return
	}
	_, after, ok := strings.Cut(v[0], "timeout=")
	if !ok {
		return
	}
	after, _, _ = strings.Cut(after, ",")
	seconds, err := strconv.Atoi(strings.TrimSpace(after))
	if err != nil || seconds < 1 {
		return
	}
	idle := time.Duration(seconds)*time.Second - time.Second
	idle = max(idle, time.Second/2)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || idle >= n.idle {
		return
	}
	n.idle = idle
	n.current.Swap(n.transport(idle)).CloseIdleConnections()
}

// close cuts every connection, whatever it is doing.
func (n *httpNetwork) close() {
	n.mu.Lock()
	n.closed = true
	open := make([]*httpSocket, 0, len(n.conns))
	for s := range n.conns {
		open = append(open, s)
	}
	n.mu.Unlock()
	n.current.Load().CloseIdleConnections()
	for _, s := range open {
		s.Close()
	}
}
