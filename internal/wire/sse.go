package wire

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// ErrTooLarge is returned for an event or line above the reader's limit.
var ErrTooLarge = errors.New("message exceeds the size limit")

// An Event is one server-sent event.
type Event struct {
	Name  string        // the event field; "" means "message"
	ID    string        // the id field of this event
	Data  []byte        // data lines joined by line feeds; valid until the next call of Next
	Retry time.Duration // the retry field, 0 if absent
}

// An EventReader reads a stream of server-sent events (WHATWG HTML, section 9.2).
// It tolerates a byte order mark, comments, empty data lines and all three line
// endings.
type EventReader struct {
	r     io.Reader
	buf   []byte // unread bytes are buf[lo:hi]
	lo    int
	hi    int
	max   int
	data  []byte
	start bool
	cr    bool // the last line ended in CR: a LF right behind it belongs to it
	err   error
}

// NewEventReader reads events of at most max bytes of data each.
func NewEventReader(r io.Reader, max int) *EventReader {
	return &EventReader{r: r, buf: make([]byte, 4096), max: max, start: true}
}

// Next returns the next event that has data, an id or a retry field. At the end of
// the stream an unfinished event is dropped, as the standard demands, and the error
// is io.EOF.
func (e *EventReader) Next() (Event, error) {
	var ev Event
	e.data = e.data[:0]
	hasData, any := false, false
	for {
		line, err := e.line()
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			if hasData || any {
				ev.Data = e.data
				return ev, nil
			}
			ev.Name = ""
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			if hasData {
				e.data = append(e.data, '\n')
			}
			if len(e.data)+len(value) > e.max {
				return Event{}, ErrTooLarge
			}
			e.data = append(e.data, value...)
			hasData = true
		case "event":
			ev.Name = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				ev.ID, any = string(value), true
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				ev.Retry, any = time.Duration(ms)*time.Millisecond, true
			}
		}
	}
}

// line returns the next line without its ending; it stays valid until the next call.
func (e *EventReader) line() ([]byte, error) {
	scanned := 0
	for {
		if e.cr && e.lo < e.hi {
			if e.cr = false; e.buf[e.lo] == '\n' {
				e.lo++
			}
		}
		if i := bytes.IndexAny(e.buf[e.lo+scanned:e.hi], "\r\n"); i >= 0 {
			i += e.lo + scanned
			line := e.buf[e.lo:i]
			e.cr = e.buf[i] == '\r'
			e.lo = i + 1
			if e.start {
				e.start = false
				line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
			}
			return line, nil
		}
		scanned = e.hi - e.lo
		if err := e.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads more bytes, growing the buffer up to the limit of one line.
func (e *EventReader) fill() error {
	if e.err != nil {
		return e.err
	}
	if e.hi == len(e.buf) {
		if e.lo > 0 {
			e.hi = copy(e.buf, e.buf[e.lo:e.hi])
			e.lo = 0
		} else if len(e.buf) >= e.max+len("data: ")+2 {
			return ErrTooLarge
		} else {
			grown := make([]byte, min(2*len(e.buf), max(e.max, 4096)+16))
			copy(grown, e.buf[:e.hi])
			e.buf = grown
		}
	}
	n, err := e.r.Read(e.buf[e.hi:])
	e.hi += n
	if n > 0 {
		e.err = err // deliver what came before the error
		return nil
	}
	if err == nil {
		return nil
	}
	return err
}

// AppendEvent appends one event. Data with line breaks is split over several data
// lines; id is left out when empty.
func AppendEvent(dst []byte, id string, data []byte) []byte {
	if id != "" {
		dst = append(dst, "id: "...)
		dst = append(dst, id...)
		dst = append(dst, '\n')
	}
	for {
		dst = append(dst, "data: "...)
		i := bytes.IndexByte(data, '\n')
		if i < 0 {
			break
		}
		dst = append(dst, bytes.TrimSuffix(data[:i], []byte("\r"))...)
		dst = append(dst, '\n')
		data = data[i+1:]
	}
	dst = append(dst, data...)
	return append(dst, '\n', '\n')
}
