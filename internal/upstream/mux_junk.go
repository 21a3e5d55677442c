package upstream

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"regexp"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// An oversizeError reports a message above the limit, which is being skipped. If
// its end is not known yet, it comes again when it is.
type oversizeError struct {
	limit int
	again bool
	head  []byte // its first bytes, at most edge
	tail  []byte // its last bytes, at most edge; nil if they are not known yet

	line   *longLine // while its end is not known; nil where messages have frames
	broken bool      // at its end: it was never finished, another message is its end
}

// oversize reports a message of which b was read.
func oversize(limit int, b []byte) *oversizeError {
	return &oversizeError{limit: limit, head: bytes.Clone(b[:min(len(b), edge)])}
}

// end reports that all of the message was read.
func (e *oversizeError) end(tail lastBytes) *oversizeError {
	return &oversizeError{limit: e.limit, again: true, head: e.head, tail: tail.b}
}

func (e *oversizeError) Error() string {
	return fmt.Sprintf("message above the limit of %d bytes", e.limit)
}

// junkLogged is how many skipped messages of a connection are logged.
const junkLogged = 10

// junk counts a message that is none. If it can only be a broken answer to a call,
// the call fails now instead of waiting for its deadline.
func (m *mux) junk(msg *wire.Message, err error) {
	m.skip(msg.Raw, err)
	if id, ok := brokenAnswer(msg); ok {
		m.fail(id, fault.Of(fault.Protocol, m.server, "the server sent an answer that is not valid: %w", err))
	}
}

// oversized is junk for a message that was too large to be kept.
func (m *mux) oversized(e *oversizeError) {
	if !e.again {
		m.skip(e.head, e)
	}
	if e.line != nil {
		m.watch(e.line, int64(e.limit)*maxLongLine)
	}
	id, ok := headID(e.head)
	if !ok {
		id, ok = tailID(e.head, e.tail)
	}
	if ok {
		m.fail(id, fault.Of(fault.Protocol, m.server, "the answer exceeds the limit of %d bytes", e.limit))
	}
	if e.broken && m.waited(math.MaxInt64) {
		m.end(errBrokenLine) // whose answers the line has swallowed nobody knows
	}
}

func (m *mux) skip(raw []byte, err error) {
	if n := m.count.junk.Add(1); n <= junkLogged && m.log.Enabled(context.Background(), slog.LevelDebug) {
		m.log.Debug("skipped output that is no message", "server", m.server, "err", err,
			"text", printable(raw[:min(len(raw), 120)]))
	}
}

// brokenAnswer returns the id of the call that an unacceptable message was meant to
// answer. A log line in JSON may well have an id; it takes more to be an answer.
func brokenAnswer(msg *wire.Message) (int64, bool) {
	b := bytes.TrimSpace(msg.Raw)
	if len(b) == 0 || b[0] != '{' {
		return 0, false
	}
	if wire.Valid(b) != nil {
		// Not JSON at all: bad UTF-8, too deep. Its edges may be in order.
		if id, ok := headID(b); ok {
			return id, true
		}
		return tailID(b, b)
	}
	all := wire.Span{Hi: len(b)}
	if wire.Field(b, all, "method").OK() {
		return 0, false
	}
	if string(wire.Field(b, all, "jsonrpc").Of(b)) != `"2.0"` &&
		!wire.Field(b, all, "result").OK() && !wire.Field(b, all, "error").OK() {
		return 0, false
	}
	return parseID(wire.Field(b, all, "id").Of(b))
}

var (
	// The beginning of a response whose id comes first, as most libraries write it.
	idFirst = regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*"?(\d{1,18})"?\s*,\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"`)
	// A response that begins with its result has the id at its end.
	idLast = regexp.MustCompile(`"id"\s*:\s*"?(\d{1,18})"?\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
	// How such a response begins.
	resultFirst = regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"`)
)

// edge is how much of a large message is looked at on each side.
const edge = 1 << 10

// headID finds the id at the beginning of a response that cannot be read whole.
func headID(b []byte) (int64, bool) {
	if found := idFirst.FindSubmatch(b[:min(len(b), edge)]); found != nil {
		return parseID(found[1])
	}
	return 0, false
}

// tailID finds the id at the end of one that begins with its result.
func tailID(head, tail []byte) (int64, bool) {
	if !resultFirst.Match(head[:min(len(head), edge)]) {
		return 0, false
	}
	if found := idLast.FindSubmatch(tail[max(0, len(tail)-edge):]); found != nil {
		return parseID(found[1])
	}
	return 0, false
}

// lastBytes keeps the last bytes of what goes by.
type lastBytes struct{ b []byte }

func (l *lastBytes) add(p []byte) {
	if len(p) >= edge {
		l.b = append(l.b[:0], p[len(p)-edge:]...)
		return
	}
	over := max(0, len(l.b)+len(p)-edge)
	l.b = append(append(l.b[:0], l.b[over:]...), p...)
}
