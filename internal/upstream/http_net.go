package upstream

import (
	"cmp"
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
	"time"
	"unicode/utf8"

	"mcp-aggregator/internal/config"
)

const (
	dialTimeout       = 10 * time.Second
	idleTimeout       = 90 * time.Second
	maxIdle           = 256       // idle connections; calls come in bursts, and dialing costs more than a call
	maxResponseHeader = 256 << 10 // bytes
)

// An httpNetwork owns the TCP connections to one server, whoever pools them. It
// remembers those in use as well and can cut them all.
type httpNetwork struct {
	plain   *plainTransport                // nil where it cannot be used
	current atomic.Pointer[http.Transport] // for everything else
	dial    func(ctx context.Context, network, addr string) (net.Conn, error)
	tls     *tls.Config
	proxy   func(*http.Request) (*url.URL, error)

	timeout  time.Duration // for the header of an answer; 0: the time the call has
	patience time.Duration // for connecting, and again for the TLS handshake

	idle atomic.Int64 // how long a connection may be idle, as a time.Duration

	mu     sync.Mutex // guards what follows, and the writing of idle
	conns  map[*httpSocket]struct{}
	closed bool
}

func newHTTPNetwork(s *config.Server, u *url.URL) (*httpNetwork, error) {
	n := &httpNetwork{conns: map[*httpSocket]struct{}{}, timeout: s.Timeout, patience: dialTimeout}
	n.idle.Store(int64(idleTimeout))
	if s.Timeout > 0 {
		n.patience = min(n.patience, s.Timeout)
	}
	alive := net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}
	n.dial = (&net.Dialer{Timeout: n.patience, KeepAliveConfig: alive}).DialContext
	var err error
	if n.tls, err = httpTLS(s.TLS); err != nil {
		return nil, err
	}
	// The address never changes, so neither does the proxy. Loopback has none.
	via, err := http.ProxyFromEnvironment(&http.Request{URL: u})
	if err == nil && via != nil {
		n.proxy = http.ProxyURL(via)
	}
	n.current.Store(n.transport(idleTimeout))
	if u.Scheme == "http" && n.proxy == nil && canPeek && isASCII(u.Host) {
		n.plain = &plainTransport{n: n, addr: net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "80"))}
	}
	return n, nil
}

// isASCII reports whether a host needs no translation to be looked up.
func isASCII(host string) bool {
	return !strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf })
}

// plainly reports whether a request with a body of size bytes goes over
// plainTransport.
func (n *httpNetwork) plainly(size int) bool { return n.plain != nil && size <= maxPlainBody }

// RoundTrip implements http.RoundTripper.
func (n *httpNetwork) RoundTrip(req *http.Request) (*http.Response, error) {
	if n.plainly(int(req.ContentLength)) {
		return n.plain.RoundTrip(req)
	}
	return n.current.Load().RoundTrip(req)
}

// idleLimit is how long a connection may be idle.
func (n *httpNetwork) idleLimit() time.Duration { return time.Duration(n.idle.Load()) }

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

// forget drops a connection that is being closed.
func (n *httpNetwork) forget(s *httpSocket) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, s)
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
	idle := max(time.Duration(seconds)*time.Second-time.Second, time.Second/2)
	n.mu.Lock()
	shorter := !n.closed && idle < n.idleLimit()
	if shorter {
		n.idle.Store(int64(idle))
	}
	n.mu.Unlock()
	if !shorter {
		return
	}
	n.current.Swap(n.transport(idle)).CloseIdleConnections()
	if n.plain != nil {
		n.plain.expire()
	}
}

// distrust gives up the idle connections, after a request that got no answer in
// time: the network may have swallowed them all, and each would cost another call
// its time.
func (n *httpNetwork) distrust() {
	n.current.Load().CloseIdleConnections()
	if n.plain != nil {
		n.plain.drop()
	}
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
	n.distrust()
	for _, s := range open {
		s.Close()
	}
}
