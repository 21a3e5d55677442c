package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A plainTransport sends requests over plain HTTP/1.1: what servers next door speak.
// The transport of net/http hands each request to a goroutine that writes and its
// response to one that reads, which costs more than everything else in a small call:
// measured with an echo server in the same process, 24 µs of processor time against
// 16 µs here, where the goroutine of the call does both itself. Reading the head of a
// response and framing its body is left to net/http all the same, and so is whatever
// is not plain: TLS, HTTP/2, proxies, and bodies too large to be written in one go.
//
// It also knows for a fact whether a request was sent: nobody else writes.
type plainTransport struct {
	n    *httpNetwork
	addr string

	mu    sync.Mutex // guards what follows
	idle  []*plainConn
	sweep *time.Timer // closes what was idle for too long; nil if nothing is idle
}

// maxPlainBody bounds the body of a request. A larger one might fill the buffers
// between us and a server that answers without reading it, and both would wait.
const maxPlainBody = 64 << 10

// maxInformational bounds the 1xx responses before the real one.
const maxInformational = 8

// A plainConn is one connection; it belongs to a request, or is idle.
type plainConn struct {
	s     *httpSocket
	r     *bufio.Reader
	head  int       // bytes that the head of a response may still take, -1 in a body
	since time.Time // when it became idle
}

var errLongHead = errors.New("the head of the response is too long")

func (c *plainConn) Read(b []byte) (int, error) {
	if c.head < 0 {
		return c.s.Conn.Read(b)
	}
	if c.head == 0 {
		return 0, errLongHead
	}
	n, err := c.s.Conn.Read(b[:min(len(b), c.head)])
	c.head -= n
	return n, err
}

// abort breaks off what the connection is doing.
func (c *plainConn) abort() { _ = c.s.Close() }

// RoundTrip implements http.RoundTripper.
func (p *plainTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	message := plainMessages.Get().(*[]byte)
	defer plainMessages.Put(message)
	var err error
	if *message, err = appendPlain((*message)[:0], req); err != nil {
		return nil, &connectError{err}
	}
	for {
		c, used, err := p.conn(req.Context())
		if err != nil {
			return nil, err
		}
		resp, sent, err := p.exchange(c, req, *message)
		switch {
		case err == nil:
			return resp, nil
		case sent:
			return nil, err
		case !used || req.Context().Err() != nil:
			return nil, &connectError{err}
		}
	}
}

// plainMessages are buffers for requests. Whoever writes one waits until it is
// written, so they can be used again.
var plainMessages = sync.Pool{New: func() any { return new([]byte) }}

// appendPlain appends a whole request. Names and values that could change what the
// message says are refused.
func appendPlain(dst []byte, req *http.Request) ([]byte, error) {
	dst = append(dst, req.Method...)
	dst = append(dst, ' ')
	dst = append(dst, req.URL.RequestURI()...)
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	if req.Host != "" {
		dst = append(dst, req.Host...)
	} else {
		dst = append(dst, req.URL.Host...)
	}
	for name, values := range req.Header {
		switch name {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
			continue
		}
		for _, v := range values {
			if !plainName(name) || strings.ContainsAny(v, "\r\n\x00") {
				return dst, errors.New("a header of the request is not valid")
			}
			dst = append(dst, "\r\n"...)
			dst = append(dst, name...)
			dst = append(dst, ": "...)
			dst = append(dst, v...)
		}
	}
	if req.Body == nil {
		return append(dst, "\r\n\r\n"...), nil
	}
	dst = append(dst, "\r\nContent-Length: "...)
	dst = strconv.AppendInt(dst, req.ContentLength, 10)
	dst = append(dst, "\r\n\r\n"...)
	at, n := len(dst), int(req.ContentLength)
	if cap(dst) < at+n {
		dst = append(make([]byte, 0, at+n+512), dst...)
	}
	dst = dst[:at+n]
	_, err := io.ReadFull(req.Body, dst[at:])
	return dst, err
}

// plainName reports whether a header name cannot be taken for anything else.
func plainName(name string) bool {
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c == ':' || c >= 0x7f {
			return false
		}
	}
	return name != ""
}

// exchange sends the message and reads the head of its response. The connection then
// belongs to the response, or is closed. Sent says that the server can have seen
// something of the message.
func (p *plainTransport) exchange(c *plainConn, req *http.Request, message []byte) (_ *http.Response, sent bool, _ error) {
	ctx := req.Context()
	stop := context.AfterFunc(ctx, c.abort)
	n, wrote := c.s.Conn.Write(message)
	if wrote != nil && n == 0 {
		stop()
		c.abort()
		return nil, false, wrote
	}
	resp, err := c.readHead(req, p.n.timeout)
	if err != nil {
		stop()
		c.abort()
		if wrote != nil {
			err = wrote
		}
		return nil, true, err
	}
	body := &answerBody{p: p, c: c, r: resp.Body, stop: stop, keep: !resp.Close && wrote == nil && !req.Close}
	resp.Body = body
	if resp.ContentLength == 0 || body.r == http.NoBody {
		body.end()
	}
	return resp, true, nil
}

// readHead reads the head of the response, over informational ones.
func (c *plainConn) readHead(req *http.Request, limit time.Duration) (*http.Response, error) {
	if limit > 0 {
		_ = c.s.SetReadDeadline(time.Now().Add(limit))
		defer func() { _ = c.s.SetReadDeadline(time.Time{}) }()
	}
	c.head = maxResponseHeader
	defer func() { c.head = -1 }()
	for range maxInformational {
		resp, err := http.ReadResponse(c.r, req)
		switch broken := net.Error(nil); {
		case err == nil && resp.StatusCode >= 200:
			return resp, nil
		case err == nil && resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, &headError{errors.New("the server switches to another protocol")}
		case err == nil:
		case errors.As(err, &broken) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return nil, err
		default:
			return nil, &headError{err}
		}
	}
	return nil, &headError{errors.New("no end of informational responses")}
}

// A headError says that what came is not the head of a response. Its text can repeat
// what the server sent.
type headError struct{ err error }

func (e *headError) Error() string { return e.err.Error() }
func (e *headError) Unwrap() error { return e.err }

// A answerBody is the body of a response. Read to its end it gives its connection
// back, closed before it closes it. One goroutine reads; any may close.
type answerBody struct {
	p    *plainTransport
	c    *plainConn
	r    io.Reader
	stop func() bool // ends the watch over the context of the request
	keep bool        // the connection can be used again
	over atomic.Bool // the connection is not ours any more
	err  error       // of the reader, from then on
}

func (b *answerBody) Read(to []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.over.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.r.Read(to)
	if err == io.EOF {
		b.end()
		b.err = err
	} else if err != nil {
		b.Close()
		b.err = err
	}
	return n, err
}

// end gives the connection back after the whole body was read.
func (b *answerBody) end() {
	if b.over.Swap(true) {
		return
	}
	if !b.stop() || !b.keep || b.c.r.Buffered() > 0 {
		b.c.abort()
		return
	}
	b.p.put(b.c)
}

// Close breaks off a body that was not read to its end.
func (b *answerBody) Close() error {
	if !b.over.Swap(true) {
		b.stop()
		b.c.abort()
	}
	return nil
}

// detach lets the body be read after the context of its request has ended. It
// reports false if it has ended already.
func (b *answerBody) detach() bool {
	ok := b.stop()
	b.stop = func() bool { return ok }
	return ok
}

// conn takes an idle connection or opens one; used says which.
func (p *plainTransport) conn(ctx context.Context) (c *plainConn, used bool, err error) {
	for c := p.take(); c != nil; c = p.take() {
		if time.Since(c.since) < p.n.idleLimit() && c.s.pending() == pendingNothing {
			return c, true, nil
		}
		c.abort() // too old, closed by the server, or it said something nobody has asked for
	}
	conn, err := p.n.connect(ctx, "tcp", p.addr)
	if err != nil {
		return nil, false, err
	}
	c = &plainConn{s: conn.(*httpSocket), head: -1}
	c.r = bufio.NewReader(c)
	return c, false, nil
}

// take returns the connection that became idle last, nil if there is none.
func (p *plainTransport) take() *plainConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle) - 1
	if n < 0 {
		return nil
	}
	c := p.idle[n]
	p.idle[n] = nil
	p.idle = p.idle[:n]
	return c
}

// put keeps a connection for another request.
func (p *plainTransport) put(c *plainConn) {
	c.since = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == maxIdle {
		c.abort()
		return
	}
	p.idle = append(p.idle, c)
	if p.sweep == nil {
		p.sweep = time.AfterFunc(p.n.idleLimit(), p.expire)
	}
}

// expire closes the connections that were idle for too long.
func (p *plainTransport) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	limit, now := p.n.idleLimit(), time.Now()
	old := 0
	for old < len(p.idle) && now.Sub(p.idle[old].since) >= limit {
		p.idle[old].abort()
		old++
	}
	p.idle = slices.Delete(p.idle, 0, old)
	switch {
	case len(p.idle) > 0:
		p.sweep.Reset(limit - now.Sub(p.idle[0].since))
	case p.sweep != nil:
		p.sweep.Stop()
		p.sweep = nil
	}
}

// drop closes the idle connections.
func (p *plainTransport) drop() {
	for c := p.take(); c != nil; c = p.take() {
		c.abort()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sweep != nil && len(p.idle) == 0 {
		p.sweep.Stop()
		p.sweep = nil
	}
}
