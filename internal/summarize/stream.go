package summarize

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"time"

	"mcp-aggregator/internal/wire"
)

// An api is what one HTTP API means by what it sends.
type api interface {
	// event takes the data of one event of a stream. Done means that nothing of use
	// follows; a complaint is the error that the event tells.
	event(d *draft, data []byte) (done bool, complaint string, err error)
	// whole takes an answer that is one JSON object.
	whole(d *draft, body []byte) (complaint string, err error)
}

// grace is for how long a complete answer waits for the count of its tokens, which
// some servers send behind it.
const grace = 2 * time.Second

// receive reads an answer. What it is shows by how it begins: servers that cannot
// stream send one JSON object instead, and content types are often wrong. Stop ends
// the reading.
func (o *remote) receive(ctx context.Context, body io.Reader, a api, d *draft, stop func()) *Error {
	r := bufio.NewReaderSize(body, 4096)
	first, err := begin(r)
	switch {
	case err != nil:
		return o.unread(ctx, err)
	case first == '{':
		return o.receiveWhole(ctx, r, a, d)
	case first == '<':
		return o.broken(ctx, "answered with a web page (check its url)")
	case bytes.IndexByte([]byte("dei:r"), first) < 0: // data, event, id, a comment, retry
		return o.broken(ctx, "answered with something that is neither a stream of events nor JSON")
	}
	return o.receiveEvents(ctx, wire.NewEventReader(r, maxAnswer), a, d, stop)
}

// begin returns the first byte that is no space, and leaves it unread.
func begin(r *bufio.Reader) (byte, error) {
	for {
		c, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		switch c {
		case ' ', '\t', '\r', '\n', 0xEF, 0xBB, 0xBF: // or of a byte order mark
		default:
			return c, r.UnreadByte()
		}
	}
}

func (o *remote) receiveWhole(ctx context.Context, r io.Reader, a api, d *draft) *Error {
	body, err := io.ReadAll(r)
	if err != nil {
		return o.unread(ctx, err)
	}
	said, err := a.whole(d, body)
	switch {
	case err != nil:
		return o.broken(ctx, "answered with JSON that is no answer of this API")
	case said != "":
		return o.broken(ctx, "answered with an error: "+o.clean(said))
	}
	return nil
}

// receiveEvents reads a stream. Once the model has said why it ended the answer is
// complete, whatever becomes of the stream.
func (o *remote) receiveEvents(ctx context.Context, events *wire.EventReader, a api, d *draft, stop func()) *Error {
	var hurry *time.Timer
	for {
		ev, err := events.Next()
		if err != nil {
			if d.finished {
				return nil
			}
			return o.unread(ctx, err)
		}
		if len(ev.Data) == 0 {
			continue
		}
		done, said, err := a.event(d, ev.Data)
		switch {
		case err != nil:
			return o.broken(ctx, "sent an event that is no piece of an answer")
		case said != "":
			return o.broken(ctx, "sent an error: "+o.clean(said))
		case done:
			return nil
		}
		if d.finished && hurry == nil {
			hurry = time.AfterFunc(grace, stop)
			defer hurry.Stop()
		}
	}
}
