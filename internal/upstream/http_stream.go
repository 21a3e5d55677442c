package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

const (
	defaultRetry = time.Second            // before a broken stream is resumed, if the server names no time
	minRetry     = 100 * time.Millisecond // however short a time it names
	maxResumes   = 3                      // failures in a row
)

// A leash is the context of a request. Where answers come as event streams it is
// not that of the call: the stream must be read to its end after the answer, or its
// connection cannot be used again, and by then the caller has gone on. Elsewhere it
// is the call's own, which costs nothing, and over plainTransport, which can let go
// of the context later.
type leash struct {
	ctx    context.Context
	cancel context.CancelCauseFunc // nil if ctx is the call's own
	stop   func() bool
}

func (t *httpConn) leash(ctx context.Context, size int) leash {
	if !t.streams.Load() || t.network.plainly(size) {
		return leash{ctx: ctx}
	}
	l := leash{}
	l.ctx, l.cancel = context.WithCancelCause(t.life)
	l.stop = context.AfterFunc(ctx, func() { l.cancel(context.Cause(ctx)) })
	return l
}

// release ends the context of the request.
func (l *leash) release() {
	if l.cancel != nil {
		l.stop()
		l.cancel(nil)
	}
}

// finish reads a stream that has given its answer to its end, in the background:
// the server may take its time over it, or never end it.
func (l *leash) finish(t *httpConn, body io.ReadCloser) {
	d := &drain{body, *l}
	*l = leash{ctx: l.ctx} // release has nothing left to do
	if d.l.stop != nil {
		d.l.stop()
	}
	if plain, ok := body.(*answerBody); ok {
		plain.detach()
	}
	if !t.task(d.run) {
		d.close()
	}
}

// A drain reads the rest of a stream.
type drain struct {
	body io.ReadCloser
	l    leash
}

func (d *drain) run() {
	timer := time.AfterFunc(drainTimeout, d.close)
	_, _ = io.Copy(io.Discard, d.body)
	timer.Stop()
	d.close()
}

func (d *drain) close() {
	d.body.Close()
	d.l.release()
}

// readEvents reads an answer that comes as a stream of events: messages that belong
// to the call, and the response.
func (c *httpCall) readEvents(ctx context.Context, h *httpHead, resp *http.Response, l *leash) (Reply, error) {
	if !c.outside {
		c.t.streams.Store(true)
	}
	at := eventPosition{retry: defaultRetry}
	for {
		reply, done, err := c.follow(resp, &at)
		if done && err == nil {
			l.finish(c.t, resp.Body)
			return reply, nil
		}
		resp.Body.Close()
		switch {
		case done:
			return Reply{}, err
		case ctx.Err() != nil || errors.Is(err, wire.ErrTooLarge):
			return Reply{}, c.t.failure(ctx, true, err)
		case len(at.last) == 0 || !h.resumes():
			return Reply{}, c.unanswered(ctx, err)
		}
		if resp, err = c.t.resume(ctx, l.ctx, h, &at); err != nil {
			return Reply{}, c.unanswered(ctx, err)
		}
	}
}

// An eventPosition is where a stream can be resumed.
type eventPosition struct {
	last  []byte // id of the last event, empty if the server gives none
	retry time.Duration
}

func (p *eventPosition) reset() { p.last, p.retry = p.last[:0], defaultRetry }

// note remembers the position after an event.
func (p *eventPosition) note(ev *sentEvent) {
	if len(ev.id) > 0 {
		p.last = append(p.last[:0], ev.id...)
	}
	if ev.retry > 0 {
		p.retry = max(ev.retry, minRetry)
	}
}

// follow reads events until the answer, done, or until the stream ends, with an error.
func (c *httpCall) follow(resp *http.Response, at *eventPosition) (reply Reply, done bool, err error) {
	body, _, err := plainBody(resp)
	if err != nil {
		return Reply{}, true, c.t.garbled(err)
	}
	events := newEventReader(body, c.t.limit)
	defer events.free()
	for {
		ev, err := events.next()
		if err != nil {
			return Reply{}, false, err
		}
		if at.note(&ev); !ev.message {
			continue
		}
		if reply, done, err = c.message(ev.data, false); !done {
			continue
		}
		if err != nil {
			return Reply{}, true, err
		}
		return events.take().hold(reply), true, nil
	}
}

// unanswered is the error of a call whose stream ended without its response.
func (c *httpCall) unanswered(ctx context.Context, err error) error {
	if c.junk != nil && ctx.Err() == nil {
		return c.t.garbled(c.junk)
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the stream ended")
	}
	return c.t.failure(ctx, true, err)
}

// resume goes on with a broken stream of a legacy server (2025-11-25, transports:
// Resumability and Redelivery), after the time the server asked for.
func (t *httpConn) resume(ctx, request context.Context, h *httpHead, at *eventPosition) (*http.Response, error) {
	wait := at.retry
	for failures := 1; ; failures++ {
		if err := sleep(ctx, wait); err != nil {
			return nil, err
		}
		resp, err := t.send(t.request(request, http.MethodGet, h.getHeader(string(at.last)), nil))
		if err == nil && resp.StatusCode == http.StatusOK && formOf(resp.Header) == formEvents {
			return resp, nil
		}
		if err == nil {
			t.drop(resp)
			err = &statusError{resp.StatusCode}
			if resp.StatusCode < 500 {
				return nil, err
			}
		}
		if failures == maxResumes {
			return nil, err
		}
		wait = max(2*wait, defaultRetry)
	}
}

// sleep waits, unless ctx ends before.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// bound returns a context that ends with ctx, the session and the connection.
func (h *httpHead) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(h.session.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// listen implements listenTransport: a subscription of a modern server is a call
// whose response stream stays open (2026-07-28, patterns: Subscriptions).
func (t *httpConn) listen(ctx context.Context, params wire.Value) error {
	h, err := t.ready(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := h.bound(ctx)
	defer cancel()
	r := &Request{ID: NextID(), Method: "subscriptions/listen", Params: params}
	c := &httpCall{t: t, r: r, outside: true}
	c.data = wire.AppendRequest(nil, r.ID, r.Method, params)
	reply, err := c.exchange(ctx, h)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil && reply.Err != nil:
		return fault.Of(fault.Rejected, t.server, "the server refused the subscription: %w", reply.Err)
	}
	return err
}
