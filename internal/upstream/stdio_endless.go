package upstream

import (
	"bytes"
	"errors"
	"sync/atomic"
	"time"
)

// A server that begins a line above the limit and does not end it takes its
// connection with it: whatever it writes next belongs to that line and is lost.
// A huge answer is not such a line. However large, it grows, and when it ends its
// brackets are closed, so it costs nothing but the call it was meant for.

const (
	// lineStall is how long an unfinished line above the limit may stand still while
	// a call waits.
	lineStall = 2 * time.Second

	// maxLongLine bounds what is read of one line, in multiples of the limit: 1 GiB
	// with the default. No answer is so long, and reading on would cost a core for
	// ever.
	maxLongLine = 64
)

var (
	errStalledLine = errors.New("the server began a line above the size limit and does not end it")
	errEndlessLine = errors.New("the server writes a line without end")
	errBrokenLine  = errors.New("the server left a message above the size limit unfinished and wrote another on the same line")
)

// A longLine is a line above the limit whose end has not been read. The reader
// writes it, the timer of watch reads it.
type longLine struct {
	read atomic.Int64 // bytes so far
	over atomic.Bool
}

// watch ends the connection if the line stands still while a call waits, or grows
// beyond most bytes.
func (m *mux) watch(l *longLine, most int64) {
	read, newest := l.read.Load(), m.latest()
	time.AfterFunc(lineStall, func() {
		switch now := l.read.Load(); {
		case l.over.Load() || m.Err() != nil:
		case now > most:
			m.end(errEndlessLine)
		case now == read && m.waited(newest):
			m.end(errStalledLine)
		default:
			m.watch(l, most)
		}
	})
}

// latest returns the highest id used.
func (m *mux) latest() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.newest
}

// waited reports whether a call is in flight that is not newer than the one with
// that id. Subscriptions do not count, they wait for ever.
func (m *mux) waited(newest int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, w := range m.calls {
		if id <= newest && !w.listens {
			return true
		}
	}
	return false
}

// A nesting follows the brackets and strings of JSON text, of which it keeps nothing.
type nesting struct {
	first   byte // that is not a space
	depth   int
	text    bool // inside a string
	escaped bool // behind a backslash in it
}

func (n *nesting) add(p []byte) {
	if n.first == 0 {
		if p = bytes.TrimLeft(p, " \t\r"); len(p) == 0 {
			return
		}
		n.first = p[0]
	}
	for _, c := range p {
		switch {
		case n.escaped:
			n.escaped = false
		case n.text:
			n.escaped = c == '\\'
			n.text = c != '"'
		case c == '"':
			n.text = true
		case c == '{' || c == '[':
			n.depth++
		case c == '}' || c == ']':
			n.depth--
		}
	}
}

// broken reports whether a line with that end was the beginning of a message and
// the whole of another. A message that is just cut off ends otherwise.
func (n *nesting) broken(tail []byte) bool {
	return n.first == '{' && (n.text || n.depth > 0) && bytes.HasSuffix(bytes.TrimRight(tail, " \t\r"), []byte("}"))
}
