package upstream

import (
	"bytes"
	"io"
	"strconv"
	"time"

	"mcp-aggregator/internal/wire"
)

// eventSlack is the room that the fields beside the data of an event have.
const eventSlack = 4 << 10

// An eventReader reads server-sent events (WHATWG HTML, section 9.2) like
// [wire.EventReader], without copying: an event is a piece of the buffer it was read
// into, and the buffer of the last one can be taken along with the answer in it. For
// an answer of a megabyte that is a third of the time of the whole call.
type eventReader struct {
	r    io.Reader
	max  int // bytes of one event
	b    answerBuffer
	at   int   // the unread bytes are b.bytes[at:]
	cr   bool  // the last line ended in CR: a LF right behind it belongs to it
	fail error // what the last read reported beside its bytes

	begun bool // a line was read: no byte order mark can come any more
}

// A sentEvent is one event. Its bytes are valid until the next one is read.
type sentEvent struct {
	data, id []byte
	message  bool          // it has data and is of the type that carries messages
	retry    time.Duration // 0 if absent
}

func newEventReader(r io.Reader, max int) *eventReader {
	return &eventReader{r: r, max: max, b: newAnswerBuffer(1 << minPooled)}
}

// free gives the buffer back; no event may be used afterwards.
func (e *eventReader) free() {
	e.b.free()
	e.b = answerBuffer{class: -1}
}

// take hands out the buffer; the reader is of no use afterwards.
func (e *eventReader) take() answerBuffer {
	b := e.b
	e.b = answerBuffer{class: -1}
	return b
}

// next returns the next event that has data, an id or a retry field. At the end of
// the stream an unfinished event is dropped, as the standard demands.
func (e *eventReader) next() (sentEvent, error) {
	p := partEvent{}
	for pos := 0; ; {
		line, end, err := e.line(pos)
		if err != nil {
			return sentEvent{}, err
		}
		if !line.OK() && p.begun {
			b := e.unread()
			e.at += end
			if p.data.Hi-p.data.Lo > e.max {
				return sentEvent{}, wire.ErrTooLarge
			}
			return sentEvent{p.data.Of(b), p.id.Of(b), p.data.OK() && !p.other, p.retry}, nil
		}
		if p.take(e.unread(), line); p.begun {
			pos = end
		} else {
			e.at += end // nothing to keep: comments must not fill the buffer
		}
	}
}

// unread returns what was read and not yet returned.
func (e *eventReader) unread() []byte { return e.b.bytes[e.at:] }

// A partEvent is an event of which some lines were read. Spans are relative to the
// unread bytes, which begin with the first line that counts.
type partEvent struct {
	begun    bool // there is something to return
	other    bool // the type of the event is not "message"
	hasData  bool
	data, id wire.Span
	retry    time.Duration
}

// take adds a line. Data of several lines is put together in place: between two
// values lie a line end and the name of the field, more than the line feed needs.
func (p *partEvent) take(b []byte, line wire.Span) {
	if !line.OK() {
		p.other = false
		return
	}
	name, value, _ := bytes.Cut(line.Of(b), []byte(":"))
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	at := wire.Span{Lo: line.Hi - len(value), Hi: line.Hi}
	switch string(name) {
	case "data":
		if p.hasData {
			b[p.data.Hi] = '\n'
			at = wire.Span{Lo: p.data.Lo, Hi: p.data.Hi + 1 + copy(b[p.data.Hi+1:], value)}
		}
		p.data, p.hasData, p.begun = at, true, true
	case "event":
		p.other = len(value) > 0 && string(value) != "message"
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			p.id, p.begun = at, true
		}
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
			p.retry, p.begun = time.Duration(ms)*time.Millisecond, true
		}
	}
}

// line returns the line at pos of the unread bytes without its ending, and where the
// next one begins.
func (e *eventReader) line(pos int) (line wire.Span, end int, err error) {
	for from := pos; ; {
		b := e.unread()
		if e.cr && pos < len(b) {
			if e.cr = false; b[pos] == '\n' {
				pos++
				from = pos
			}
		}
		if i := lineEnd(b[from:]); i >= 0 {
			i += from
			e.cr = b[i] == '\r'
			if !e.begun && bytes.HasPrefix(b[pos:i], []byte("\xef\xbb\xbf")) {
				pos += 3
			}
			e.begun = true
			return wire.Span{Lo: pos, Hi: i}, i + 1, nil
		}
		from = len(b)
		if err := e.fill(); err != nil {
			return wire.Span{}, 0, err
		}
	}
}

// lineEnd finds the first CR or LF. Two fast searches beat one slow one.
func lineEnd(b []byte) int {
	i := bytes.IndexByte(b, '\n')
	if i >= 0 {
		b = b[:i]
	}
	if j := bytes.IndexByte(b, '\r'); j >= 0 {
		return j
	}
	return i
}

// fill reads more bytes, making room for them.
func (e *eventReader) fill() error {
	if e.fail != nil {
		return e.fail
	}
	b := e.b.bytes
	if len(b) == cap(b) {
		switch {
		case e.at > 0:
			b = b[:copy(b, b[e.at:])]
			e.at = 0
		case len(b) > e.max+eventSlack:
			return wire.ErrTooLarge
		default:
			e.b.grow(min(4*cap(b), e.max+2*eventSlack))
			b = e.b.bytes
		}
	}
	n, err := e.r.Read(b[len(b):cap(b)])
	e.b.bytes = b[:len(b)+n]
	if n > 0 {
		e.fail = err // deliver what came before the error
		return nil
	}
	return err
}
