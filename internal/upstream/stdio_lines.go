package upstream

import (
	"bytes"
	"io"
)

// The read buffer of a connection starts small, because most connections are idle,
// and grows as far as a busy pipe can fill it.
const (
	firstReadBuffer = 4 << 10
	fullReadBuffer  = 64 << 10
)

// A lineReader reads lines of bounded length. It tolerates a byte order mark at the
// start, CRLF, and a last line without an end.
type lineReader struct {
	r     io.Reader
	limit int

	buf     []byte // unread bytes are buf[lo:hi]
	lo, hi  int
	begun   bool
	skipped *oversizeError // a line above the limit is being skipped,
	tail    lastBytes      // whose last bytes so far are these,
	nest    nesting        // and whose brackets are these
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: r, limit: limit, buf: make([]byte, firstReadBuffer)}
}

// next returns the next line without its ending. A line above the limit is
// reported by an *oversizeError as soon as that is known and once more at its end.
// Other errors are those of the reader and final.
func (l *lineReader) next() (*frame, error) {
	if l.skipped != nil {
		return nil, l.skip()
	}
	if !l.begun {
		if err := l.begin(); err != nil {
			return nil, err
		}
	}
	for seen := 0; ; {
		if i := bytes.IndexByte(l.buf[l.lo+seen:l.hi], '\n'); i >= 0 {
			line := l.buf[l.lo : l.lo+seen+i]
			l.lo += seen + i + 1
			return l.whole(frameOf(line))
		}
		if seen = l.hi - l.lo; seen == len(l.buf) {
			return l.long()
		}
		if err := l.fill(); err != nil {
			if seen == 0 {
				return nil, err
			}
			f := frameOf(l.buf[l.lo:l.hi])
			l.lo, l.hi = 0, 0
			return l.whole(f)
		}
	}
}

// begin drops a byte order mark.
func (l *lineReader) begin() error {
	const mark = "\xef\xbb\xbf"
	for l.hi < len(mark) && bytes.HasPrefix([]byte(mark), l.buf[:l.hi]) {
		if err := l.fill(); err != nil && l.hi == 0 {
			return err
		} else if err != nil {
			break
		}
	}
	if bytes.HasPrefix(l.buf[:l.hi], []byte(mark)) {
		l.lo = len(mark)
	}
	l.begun = true
	return nil
}

// fill reads at least one byte behind hi.
func (l *lineReader) fill() error {
	if l.lo == l.hi {
		l.lo, l.hi = 0, 0
	}
	if l.hi == len(l.buf) {
		l.hi = copy(l.buf, l.buf[l.lo:l.hi])
		l.lo = 0
	}
	n, err := readSome(l.r, l.buf[l.hi:])
	l.hi += n
	if l.hi == len(l.buf) && len(l.buf) < fullReadBuffer {
		l.buf = append(l.buf, make([]byte, len(l.buf))...)
	}
	return err
}

// long continues a line that is longer than the buffer straight into its frame.
func (l *lineReader) long() (*frame, error) {
	f := newFrame(2 * len(l.buf))
	f.b = append(f.b, l.buf[l.lo:l.hi]...)
	l.lo, l.hi = 0, 0
	for {
		at := len(f.b)
		if at > l.limit {
			l.skipped, l.tail, l.nest = oversize(l.limit, f.b), lastBytes{}, nesting{}
			l.skipped.line = &longLine{}
			l.pass(f.b)
			f.put()
			return nil, l.skipped
		}
		if cap(f.b)-at < fullReadBuffer/4 {
			f = f.grown(min(2*cap(f.b), l.limit+2*fullReadBuffer))
		}
		n, err := readSome(l.r, f.b[at:min(cap(f.b), at+len(l.buf))])
		f.b = f.b[:at+n]
		if i := bytes.IndexByte(f.b[at:], '\n'); i >= 0 {
			l.hi = copy(l.buf, f.b[at+i+1:])
			f.b = f.b[:at+i]
			return l.whole(f)
		}
		if err != nil {
			return l.whole(f)
		}
	}
}

// whole finishes a line.
func (l *lineReader) whole(f *frame) (*frame, error) {
	if n := len(f.b); n > l.limit {
		var nest nesting
		nest.add(f.b)
		err := oversize(l.limit, f.b)
		err.tail, err.broken = f.b, nest.broken(f.b)
		return nil, err
	} else if n > 0 && f.b[n-1] == '\r' {
		f.b = f.b[:n-1]
	}
	return f, nil
}

// skip reads to the end of a line without keeping more than its last bytes.
func (l *lineReader) skip() error {
	for {
		part := l.buf[l.lo:l.hi]
		i := bytes.IndexByte(part, '\n')
		if i >= 0 {
			part = part[:i]
		}
		l.pass(part)
		if i >= 0 {
			l.lo += i + 1
			err := l.skipped.end(l.tail)
			err.broken = l.nest.broken(l.tail.b)
			l.unskip()
			return err
		}
		l.lo, l.hi = 0, 0
		if err := l.fill(); err != nil {
			l.unskip()
			return err
		}
	}
}

// pass notes a part of a line that is not kept.
func (l *lineReader) pass(part []byte) {
	l.tail.add(part)
	l.nest.add(part)
	l.skipped.line.read.Add(int64(len(part)))
}

func (l *lineReader) unskip() {
	l.skipped.line.over.Store(true)
	l.skipped = nil
}

// readSome reads at least one byte or returns an error.
func readSome(r io.Reader, p []byte) (int, error) {
	for range 100 {
		if n, err := r.Read(p); n > 0 {
			return n, nil // an error comes again
		} else if err != nil {
			return 0, err
		}
	}
	return 0, io.ErrNoProgress
}
