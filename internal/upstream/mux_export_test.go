package upstream

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	"mcp-aggregator/internal/config"
)

// What the tests of the transports below a handshake need.

type Transport = transport

var (
	OpenStdio     opener = openStdio
	OpenWebSocket opener = openWebSocket
	OpenSSE       opener = openSSE
	OpenBuiltin   opener = openBuiltin
)

// Bounds that tests go up to.
const (
	OutboxBytes   = outboxBytes
	OutboxOffers  = outboxOffers
	OutboxOffered = outboxOffered
	Grace         = graceOfTheLost
)

// SetInfo is setInfo.
func SetInfo(t Transport, i *Info) { t.setInfo(i) }

// Pid, Stderr and Skipped are what a processTransport tells.
func Pid(t Transport) int         { return t.(processTransport).pid() }
func Stderr(t Transport) []string { return t.(processTransport).stderrTail() }
func Skipped(t Transport) int64   { return t.(interface{ skippedLines() int64 }).skippedLines() }

// Counts are the counters of a mux.
type Counts struct{ Junk, Late, Dropped, Refused int64 }

// CountsOf returns the counters of a transport of OpenConn.
func CountsOf(t Transport) Counts {
	c := &t.(*mux).count
	return Counts{c.junk.Load(), c.late.Load(), c.dropped.Load(), c.refused.Load()}
}

// A Sink is the writing end of an outbox, made of functions.
type Sink struct{ Write, TryWrite func(b []byte) (int, error) }

func (s Sink) write(b []byte) (int, error)    { return s.Write(b) }
func (s Sink) tryWrite(b []byte) (int, error) { return s.TryWrite(b) }
func (s Sink) joins() bool                    { return true }

// An Outbox sends plain bytes.
type Outbox struct{ o *outbox }

// NewOutbox returns an outbox that writes to s.
func NewOutbox(s Sink, lost func(error)) Outbox { return Outbox{newOutbox(s, lost)} }

// Send sends b as the message of a call; false means that nothing of it was sent.
func (o Outbox) Send(ctx context.Context, id int64, b []byte) bool {
	return o.o.send(ctx, &Request{ID: id}, frameOf(b)) == nil
}

// Close closes the outbox and returns the calls that were not sent.
func (o Outbox) Close() []int64 {
	unsent := o.o.close()
	o.o.wait()
	return unsent
}

// Waiting is how many messages wait in the outbox of a transport of OpenConn.
func Waiting(t Transport) int {
	o := t.(*mux).link.(*connLink).outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue)
}

// OpenConn speaks in lines over any connection, with nothing behind it.
func OpenConn(conn net.Conn, limit int, log *slog.Logger, notice func(Notice)) Transport {
	m := newMux("beta", log, notice)
	m.start(&connLink{lineLink{newOutbox(connSink{conn}, m.end), newLineReader(conn, limit)}, conn})
	return m
}

type connLink struct {
	lineLink
	conn net.Conn
}

func (l *connLink) abort() []int64 {
	unsent := l.outbox.close()
	_ = l.conn.Close()
	return unsent
}

func (l *connLink) close(context.Context) error {
	l.outbox.wait()
	return nil
}

// OpenPingedWebSocket is OpenWebSocket with other times between pings.
func OpenPingedWebSocket(ctx context.Context, s *config.Server, o *Options, every, wait time.Duration) (Transport, error) {
	return dialWebSocket(ctx, s, o, nil, every, wait)
}

// ReadLines reads lines as a connection does: whole ones, and how many exceeded the
// limit.
func ReadLines(r io.Reader, limit int) (lines [][]byte, large int, err error) {
	l := newLineReader(r, limit)
	for {
		f, err := l.next()
		var over *oversizeError
		switch {
		case err == nil:
			lines = append(lines, f.b)
		case !errors.As(err, &over):
			return lines, large, err
		case !over.again:
			large++
		}
	}
}
