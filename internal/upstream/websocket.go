package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
)

// A WebSocket without traffic is probed, because a peer that vanished says nothing.
const (
	pingEvery = 30 * time.Second
	pingWait  = 10 * time.Second
)

// openWebSocket connects to a server at a ws or wss address with the subprotocol
// mcp, one message in each text message. There is no such transport in the
// specification; this is what its users agree on.
func openWebSocket(ctx context.Context, s *config.Server, o *Options, notice func(Notice)) (transport, error) {
	return dialWebSocket(ctx, s, o, notice, pingEvery, pingWait)
}

func dialWebSocket(ctx context.Context, s *config.Server, o *Options, notice func(Notice), every, wait time.Duration) (transport, error) {
	as := *s
	if rest, ok := strings.CutPrefix(s.URL, "ws"); ok {
		as.URL = "http" + rest // what it begins as
	}
	web, err := webOf(&as, o)
	if err != nil {
		return nil, err
	}
	conn, err := upgrade(ctx, &as, web)
	if err != nil {
		_ = web.Close(ctx)
		return nil, err
	}
	conn.SetReadLimit(-1) // the limit is ours: too large a message must not end the connection
	m := newMux(s.Name, o.Log, notice)
	l := &socketLink{web: web, conn: conn, limit: web.limit}
	l.outbox = newOutbox(socketSink{l}, m.end)
	m.start(l)
	l.tasks.Go(func() { l.keepAlive(m, every, wait) })
	return m, nil
}

// webOf returns what Streamable HTTP and the transports here have in common: the
// network with its TLS settings, the headers, and how failures are classified.
func webOf(s *config.Server, o *Options) (*httpConn, error) {
	t, err := openHTTP(context.Background(), s, o, nil)
	if err != nil {
		return nil, err
	}
	return t.(*httpConn), nil
}

// upgrade does the opening handshake.
func upgrade(ctx context.Context, s *config.Server, web *httpConn) (*websocket.Conn, error) {
	// HTTP/2 has no upgrade, and a server that is offered it may choose it.
	pool := web.network.transport(idleTimeout)
	pool.ForceAttemptHTTP2, pool.HTTP2 = false, nil
	header := web.fixed.Clone()
	header.Del("Content-Type")
	header.Del("Accept")
	conn, resp, err := websocket.Dial(ctx, s.URL, &websocket.DialOptions{
		HTTPClient:   &http.Client{Transport: pool, CheckRedirect: sameOrigin},
		HTTPHeader:   header,
		Host:         web.base.Load().Host,
		Subprotocols: []string{"mcp"},
	})
	switch {
	case err == nil:
		return conn, nil
	case resp != nil && resp.StatusCode != http.StatusSwitchingProtocols:
		return nil, web.refusal(resp, nil)
	case resp != nil:
		return nil, fault.Of(fault.Protocol, s.Name, "the server does not speak WebSocket as it should: %w", err)
	}
	var in *url.Error // repeats the address, which may hold a token
	if errors.As(err, &in) {
		err = in.Err
	}
	return nil, web.failure(ctx, false, err)
}

// sameOrigin refuses redirects that would carry the credentials elsewhere.
func sameOrigin(req *http.Request, via []*http.Request) error {
	if first := via[0].URL; req.URL.Scheme != first.Scheme || req.URL.Host != first.Host || len(via) > maxRedirects {
		return http.ErrUseLastResponse
	}
	return nil
}

// A socketLink is the link over a WebSocket.
type socketLink struct {
	*outbox
	web   *httpConn
	conn  *websocket.Conn
	limit int

	// Of a message that is too large, owned by the reader.
	rest    io.Reader
	skipped *oversizeError
	tail    lastBytes

	received atomic.Int64 // grows with what is read, to tell a busy peer from a dead one
	tasks    sync.WaitGroup
}

func (l *socketLink) read() (*frame, error) {
	if l.rest != nil {
		return nil, l.skip()
	}
	_, r, err := l.conn.Reader(l.web.life)
	if err != nil {
		return nil, socketError(err)
	}
	f := newFrame(firstReadBuffer)
	for {
		if len(f.b) == cap(f.b) {
			f = f.grown(2 * cap(f.b))
		}
		n, err := r.Read(f.b[len(f.b):cap(f.b)])
		f.b = f.b[:len(f.b)+n]
		l.received.Add(1)
		switch {
		case len(f.b) > l.limit:
			l.rest, l.skipped, l.tail = r, oversize(l.limit, f.b), lastBytes{}
			l.tail.add(f.b)
			return nil, l.skipped
		case err == io.EOF:
			return f, nil
		case err != nil:
			return nil, socketError(err)
		}
	}
}

// skip reads the rest of a message that is too large.
func (l *socketLink) skip() error {
	buf := make([]byte, fullReadBuffer)
	for {
		n, err := l.rest.Read(buf)
		l.tail.add(buf[:n])
		l.received.Add(1)
		switch {
		case err == io.EOF:
			l.rest = nil
			return l.skipped.end(l.tail)
		case err != nil:
			return socketError(err)
		}
	}
}

// socketError words the end of a connection.
func socketError(err error) error {
	var closed websocket.CloseError
	if errors.As(err, &closed) {
		return fmt.Errorf("the server closed the connection (%v %s)", closed.Code, printable([]byte(closed.Reason)))
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the server cut the connection")
	}
	return err
}

func (l *socketLink) abort() []int64 {
	unsent := l.outbox.close()
	// The reader must go on, to see the answer to our closing.
	l.tasks.Go(func() { _ = l.conn.Close(websocket.StatusNormalClosure, "") })
	return unsent
}

// close gives the closing handshake a moment, then cuts the connection.
func (l *socketLink) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeGrace)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		l.web.end()
		l.web.network.close()
	})()
	l.tasks.Wait()
	l.outbox.wait()
	return l.web.Close(ctx)
}

// keepAlive ends the connection when the server answers no ping and sends nothing
// else either.
func (l *socketLink) keepAlive(m *mux, every, wait time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-m.done:
			return
		case <-tick.C:
		}
		before := l.received.Load()
		ctx, cancel := context.WithTimeout(l.web.life, wait)
		err := l.conn.Ping(ctx)
		cancel()
		if err != nil && l.received.Load() == before {
			m.end(errors.New("the server does not answer pings any more"))
			return
		}
	}
}

// A socketSink writes messages to a WebSocket.
type socketSink struct{ l *socketLink }

func (s socketSink) joins() bool { return false }

func (s socketSink) tryWrite([]byte) (int, error) { return 0, nil }

func (s socketSink) write(b []byte) (int, error) {
	if err := s.l.conn.Write(s.l.web.life, websocket.MessageText, b); err != nil {
		return 0, socketError(err)
	}
	return len(b), nil
}
