package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

const (
	maxPosting  = 64             // messages on their way to a server at a time
	longestCall = 24 * time.Hour // for a POST that is answered when the call is; call_timeout allows no more
)

// openSSE connects to a server of the older HTTP+SSE transport (specification
// 2024-11-05, basic: Transports): everything the server says comes on one event
// stream, whose first event names the address to which messages are posted.
func openSSE(ctx context.Context, s *config.Server, o *Options, notice func(Notice)) (transport, error) {
	web, err := webOf(s, o)
	if err != nil {
		return nil, err
	}
	m := newMux(s.Name, o.Log, notice)
	l := &sseLink{web: web, m: m, posting: semaphore.NewWeighted(maxPosting)}
	var life context.Context
	life, l.cancel = context.WithCancel(web.life)
	stop := context.AfterFunc(ctx, l.cancel)
	err = l.open(life)
	if !stop() || err != nil {
		l.cancel()
		_ = web.Close(ctx)
		if ctx.Err() != nil {
			err = web.failure(ctx, true, ctx.Err())
		}
		return nil, err
	}
	m.start(l)
	return &sseConn{m, web}, nil
}

// An sseConn is a mux whose requests carry headers.
type sseConn struct {
	*mux
	web *httpConn
}

func (c *sseConn) setInfo(i *Info) {
	c.mux.setInfo(i)
	c.web.setInfo(i)
}

// An sseLink is the link over HTTP+SSE. Each message is a POST of its own, so that
// a slow one holds up no other.
type sseLink struct {
	web     *httpConn
	m       *mux
	cancel  context.CancelFunc // of the stream
	body    io.Closer
	events  *wire.EventReader
	posting *semaphore.Weighted
}

// open opens the stream and waits for the address to post to.
func (l *sseLink) open(ctx context.Context) error {
	resp, err := l.web.send(l.web.request(ctx, http.MethodGet, l.web.head.Load().getHeader(""), nil))
	if err != nil {
		return l.web.failure(ctx, false, err)
	}
	l.body = resp.Body
	if resp.StatusCode != http.StatusOK || formOf(resp.Header) != formEvents {
		defer resp.Body.Close()
		return l.web.refusal(resp, nil)
	}
	body, _, err := plainBody(resp)
	if err != nil {
		return l.web.garbled(err)
	}
	l.events = wire.NewEventReader(body, l.web.limit)
	for {
		ev, err := l.events.Next()
		if err != nil {
			return fault.Of(fault.Protocol, l.web.server, "the event stream ended before it named an endpoint: %w", err)
		}
		if ev.Name == "endpoint" {
			return l.postTo(resp.Request, string(ev.Data))
		}
	}
}

// postTo sets the address for messages, which must be of the origin that has the
// credentials.
func (l *sseLink) postTo(stream *http.Request, endpoint string) error {
	u, err := stream.URL.Parse(endpoint)
	if err != nil {
		return fault.Of(fault.Protocol, l.web.server, "the endpoint named by the server is not an address")
	}
	if u.Scheme != stream.URL.Scheme || u.Host != stream.URL.Host {
		return fault.Of(fault.Protocol, l.web.server, "the server wants messages to go to %s://%s, which would get its credentials", u.Scheme, u.Host)
	}
	base := *l.web.base.Load()
	base.URL = u
	l.web.base.Store(&base)
	return nil
}

func (l *sseLink) read() (*frame, error) {
	for {
		ev, err := l.events.Next()
		switch {
		case err == io.EOF:
			return nil, errors.New("the server ended the event stream")
		case errors.Is(err, wire.ErrTooLarge):
			return nil, fmt.Errorf("the server sent an event above the limit of %d bytes", l.web.limit)
		case err != nil:
			return nil, err
		case len(ev.Data) > 0 && (ev.Name == "" || ev.Name == "message"):
			return frameOf(ev.Data), nil
		}
	}
}

// send posts in the background when an answer is awaited anyway: it may come on the
// stream before the POST is answered. A notification is posted before send returns,
// so that initialized is there before anything else is.
func (l *sseLink) send(ctx context.Context, r *Request, f *frame) error {
	if l.m.Err() != nil || l.posting.Acquire(ctx, 1) != nil {
		return errNotSent
	}
	if r == nil {
		defer l.posting.Release(1)
		return l.post(ctx, nil, f)
	}
	posting := l.web.background(longestCall, func(context.Context) {
		defer l.posting.Release(1)
		if err := l.post(ctx, r, f); err != nil {
			l.m.fail(r.ID, err)
		}
	})
	if !posting {
		l.posting.Release(1)
		return errNotSent
	}
	return nil
}

// post sends one message. Its frame is not reused: the HTTP client may go on reading
// the bytes after it has returned.
func (l *sseLink) post(ctx context.Context, r *Request, f *frame) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.web.life, cancel)()
	h := l.web.head.Load()
	header := h.header
	if r != nil {
		header = l.web.callHeader(h, r)
	}
	_, err := l.web.post(ctx, h, header, f.b)
	var status *statusError
	if errors.As(err, &status) && status.status == http.StatusNotFound {
		err = fault.Of(fault.Unreachable, l.web.server, "the server does not know the session any more: %w", status)
		if r != nil {
			l.m.fail(r.ID, err)
		}
		l.m.end(err)
	}
	return err
}

func (l *sseLink) offer(f *frame) bool {
	if !l.posting.TryAcquire(1) {
		return false
	}
	posted := l.web.background(cancelTimeout, func(ctx context.Context) {
		defer l.posting.Release(1)
		if err := l.post(ctx, nil, f); err != nil {
			l.web.log.Debug("message not delivered", "server", l.web.server, "err", err)
		}
	})
	if !posted {
		l.posting.Release(1)
	}
	return posted
}

func (l *sseLink) retract(int64) bool { return false }

func (l *sseLink) abort() []int64 {
	l.cancel()
	return nil
}

func (l *sseLink) close(ctx context.Context) error {
	_ = l.body.Close()
	return l.web.Close(ctx)
}
