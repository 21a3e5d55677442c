package upstream

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/wire"
)

type seenEvent struct {
	Data, ID string
	Message  bool
	Retry    int64
}

// readAll reads a stream with the reader under test, in pieces of at most n bytes.
func readEventReader(stream []byte, n, max int) (seen []seenEvent, err error) {
	e := newEventReader(&pieces{stream, n}, max)
	defer e.free()
	for {
		ev, err := e.next()
		if err != nil {
			return seen, err
		}
		seen = append(seen, seenEvent{string(ev.data), string(ev.id), ev.message, int64(ev.retry)})
	}
}

// readWire reads it with the plain reader of package wire.
func readWire(stream []byte, max int) (seen []seenEvent, err error) {
	e := wire.NewEventReader(bytes.NewReader(stream), max)
	for {
		ev, err := e.Next()
		if err != nil {
			return seen, err
		}
		message := len(ev.Data) > 0 && (ev.Name == "" || ev.Name == "message")
		seen = append(seen, seenEvent{string(ev.Data), ev.ID, message, int64(ev.Retry)})
	}
}

type pieces struct {
	rest []byte
	n    int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.n)], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// FuzzEventReader holds the fast reader against the plain one, whatever the stream
// and however it is cut.
func FuzzEventReader(f *testing.F) {
	for _, s := range []string{
		"data: a\n\n", "\ufeffdata: a\r\ndata:b\rdata\r\r", ": c\n\nid: 1\nretry: 5\n\nevent: x\ndata: y\n\n",
		"event: x\n\ndata: y\n\n", "data\n\ndata:\ndata:\n\n", "id: a\x00b\ndata: 1\n\n", "data: cut", "data: a\n\r\n\r\n", "retry: 0\n\nretry: x\ndata: 1\n\n",
		"data:  two\n\n", "x: y\ndata\r\n\r\n",
	} {
		f.Add([]byte(s), 1)
		f.Add([]byte(s), 1000)
	}
	f.Fuzz(func(t *testing.T, stream []byte, n int) {
		if n < 1 || len(stream) > 1<<16 {
			return
		}
		want, wantErr := readWire(stream, 1<<20)
		got, err := readEventReader(stream, n, 1<<20)
		if d := cmp.Diff(want, got); d != "" || err != wantErr {
			t.Errorf("%q in pieces of %d: %v, %v\n%s", stream, n, err, wantErr, d)
		}
	})
}

func TestEventReaderGrows(t *testing.T) {
	long := strings.Repeat("x", 300<<10)
	stream := "data: 1\n\ndata: " + long + "\ndata: " + long + "\nid: 9\n\ndata: 2\n\n"
	for _, n := range []int{1 << 10, 1 << 20} {
		got, err := readEventReader([]byte(stream), n, 1<<20)
		want := []seenEvent{{Data: "1", Message: true}, {Data: long + "\n" + long, ID: "9", Message: true}, {Data: "2", Message: true}}
		if d := cmp.Diff(want, got); d != "" || err != io.EOF {
			t.Errorf("%v %.200s", err, d)
		}
	}
}

func TestEventReaderLimit(t *testing.T) {
	const limit = 10 << 10
	for name, stream := range map[string]io.Reader{
		"one event":           strings.NewReader("data: " + strings.Repeat("x", limit+1) + "\n\n"),
		"one endless line":    endless("data: "),
		"one endless comment": endless(": "),
		"endless data lines":  endless("data: \n"),
	} {
		e := newEventReader(stream, limit)
		if _, err := e.next(); !errors.Is(err, wire.ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
		if cap(e.b.bytes) > 4*limit {
			t.Errorf("%s: a buffer of %d bytes", name, cap(e.b.bytes))
		}
	}
	// Comments that come for ever are no event, and need no memory.
	e := newEventReader(io.LimitReader(endless(": keep-alive\n\n"), 1<<20), limit)
	if _, err := e.next(); err != io.EOF || cap(e.b.bytes) > 1<<minPooled {
		t.Errorf("%v, %d", err, cap(e.b.bytes))
	}
}

type endless string

func (e endless) Read(b []byte) (int, error) {
	n := 0
	for n+len(e) <= len(b) {
		n += copy(b[n:], e)
	}
	if n == 0 {
		n = copy(b, e)
	}
	return n, nil
}

func TestEventReaderReportsErrors(t *testing.T) {
	e := newEventReader(iotest.DataErrReader(io.MultiReader(strings.NewReader("data: 1\n\ndata: 2"), iotest.ErrReader(io.ErrUnexpectedEOF))), 1<<10)
	if ev, err := e.next(); err != nil || string(ev.data) != "1" {
		t.Errorf("%q %v", ev.data, err)
	}
	if _, err := e.next(); err != io.ErrUnexpectedEOF {
		t.Error(err)
	}
}
