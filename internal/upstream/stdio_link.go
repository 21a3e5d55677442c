package upstream

import (
	"bytes"
	"context"
)

// A lineLink is the part of a link that separates messages by line breaks.
type lineLink struct {
	*outbox
	lines *lineReader
}

func (l *lineLink) read() (*frame, error) { return l.lines.next() }

func (l *lineLink) send(ctx context.Context, r *Request, f *frame) error {
	f.b = oneLine(f.b)
	return l.outbox.send(ctx, r, f)
}

func (l *lineLink) offer(f *frame) bool {
	f.b = oneLine(f.b)
	return l.outbox.offer(f)
}

// oneLine makes a message fit for a transport that separates messages by line
// breaks: those inside, which JSON has only between tokens, become spaces.
func oneLine(b []byte) []byte {
	for _, c := range []byte("\n\r") {
		for at := 0; ; at++ {
			i := bytes.IndexByte(b[at:], c)
			if i < 0 {
				break
			}
			at += i
			b[at] = ' '
		}
	}
	return append(b, '\n')
}
