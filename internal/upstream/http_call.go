package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// maxErrorBody bounds what is read of the body of a failed request.
const maxErrorBody = 1 << 20

// An httpCall is one call in flight.
type httpCall struct {
	t    *httpConn
	r    *Request
	data []byte // the message

	gone    bool   // the server does not know the session: it executed nothing
	inBand  bool   // gone was concluded from an answer that may be the tool's own
	session string // id that came with the answer to initialize
	junk    error  // why the last message that was no answer was passed over
	outside bool   // what comes on the stream of the call belongs to no call: a subscription
	shared  bool   // messages of the call can come over another stream, too

	order int64 // of registration, if shared

	mu   sync.Mutex // orders the events of a shared call
	over bool       // no event may be delivered any more
}

// Call implements [Conn].
func (t *httpConn) Call(ctx context.Context, r *Request) (Reply, error) {
	c := &httpCall{t: t, r: r}
	c.data = wire.AppendRequest(make([]byte, 0, 64+len(r.Method)+r.Params.Len()), r.ID, r.Method, r.Params)
	if t.flights.watched() {
		t.flights.add(c)
		t.asks.began()
	}
	reply, err := c.run(ctx)
	c.leave(ctx, err)
	return reply, err
}

// run makes the call, twice if the server has forgotten the session.
func (c *httpCall) run(ctx context.Context) (Reply, error) {
	t, r := c.t, c.r
	h, err := t.ready(ctx)
	if err != nil {
		return Reply{}, err
	}
	reply, err := c.exchange(ctx, h)
	for n := 0; c.gone && (n < maxRenewals || !c.inBand); n++ {
		if h, err = t.afterLoss(ctx, h, n); err != nil {
			return Reply{}, err
		}
		c.gone, c.inBand = false, false
		reply, err = c.exchange(ctx, h)
	}
	switch {
	case err != nil:
		t.afterFailure(ctx, h, c, err)
	case reply.Err != nil:
		t.asks.server().shown.noteError(reply.Err, r.Session)
	case r.Method == "initialize" && !h.modern():
		t.setSession(c.session)
	}
	return reply, err
}

// afterFailure does what a failed call leaves to do.
func (t *httpConn) afterFailure(ctx context.Context, h *httpHead, c *httpCall, err error) {
	late := fault.KindOf(err) == fault.Timeout
	if late {
		t.network.distrust()
	}
	if late || ctx.Err() != nil {
		t.cancel(ctx, h, c)
	}
}

// afterLoss returns the head for the next attempt of a message that was refused
// because its session is gone, after n renewals for its sake.
func (t *httpConn) afterLoss(ctx context.Context, h *httpHead, n int) (*httpHead, error) {
	if n == maxRenewals {
		return nil, &fault.Error{Kind: fault.Unreachable, Server: t.server, Final: true,
			Reason: "the server forgets its sessions faster than they can be renewed"}
	}
	if err := t.renew(ctx, h); err != nil {
		return nil, err
	}
	return t.ready(ctx)
}

// exchange sends the call and reads its response to the end.
func (c *httpCall) exchange(ctx context.Context, h *httpHead) (Reply, error) {
	l := c.t.leash(ctx, len(c.data))
	defer l.release()
	resp, err := c.t.send(c.t.request(l.ctx, http.MethodPost, c.t.callHeader(h, c.r), c.data))
	if err != nil {
		return Reply{}, c.t.failure(ctx, !unsent(err), err)
	}
	if c.r.Method == "initialize" {
		c.session = resp.Header.Get("Mcp-Session-Id")
	}
	form := formOf(resp.Header)
	if resp.StatusCode >= 400 || resp.StatusCode == http.StatusAccepted || resp.StatusCode == http.StatusNoContent ||
		form == formOther || resp.ContentLength == 0 {
		return c.refused(ctx, h, resp)
	}
	var reply Reply
	if form == formJSON {
		reply, err = c.readJSON(ctx, resp)
	} else {
		reply, err = c.readEvents(ctx, h, resp, &l)
	}
	if reply.Err != nil && h.session.id != "" && !h.modern() {
		c.gone = sessionGone(resp.StatusCode, reply.Err, nil)
		c.inBand = c.gone
	}
	return reply, err
}

// readJSON reads an answer that is one message.
func (c *httpCall) readJSON(ctx context.Context, resp *http.Response) (Reply, error) {
	defer resp.Body.Close()
	body, n, err := plainBody(resp)
	if err != nil {
		return Reply{}, c.t.garbled(err)
	}
	if c.t.Info().Version == wire.V20250326 {
		n = -1 // it may be a batch, which is refused at its first byte: read it whole
	}
	b, m, err := readAnswer(body, n, c.t.limit)
	if bad := (*wire.ScanError)(nil); err != nil && !errors.As(err, &bad) {
		b.free()
		return Reply{}, c.t.failure(ctx, true, err)
	}
	reply, done, err := c.take(&m, err, true)
	if err == nil && !done {
		err = c.t.garbled(c.junk)
	}
	if err != nil {
		b.free()
		return Reply{}, err
	}
	return b.hold(reply), nil
}

// refused reads a response that is not the usual one: a JSON-RPC error under a
// failure status, or something else.
func (c *httpCall) refused(ctx context.Context, h *httpHead, resp *http.Response) (Reply, error) {
	text, e := c.t.readRefusal(resp)
	c.gone = h.session.id != "" && !h.modern() && sessionGone(resp.StatusCode, e, text)
	if e != nil && !byStatus(resp) {
		return Reply{Err: e}, nil
	}
	if ctx.Err() != nil {
		return Reply{}, c.t.failure(ctx, true, ctx.Err())
	}
	return Reply{}, c.t.refusal(resp, text)
}

// readRefusal reads the body of a failed request. The id of an error in it is not
// looked at: servers that could not or would not read the request invent one.
func (t *httpConn) readRefusal(resp *http.Response) ([]byte, *wire.RPCError) {
	defer resp.Body.Close()
	body, _, err := plainBody(resp)
	if err != nil {
		return nil, nil
	}
	text, _ := io.ReadAll(io.LimitReader(body, int64(min(t.limit, maxErrorBody))))
	if resp.StatusCode < 400 {
		return text, nil
	}
	if m, err := wire.Scan(text); err == nil && m.Kind == wire.Response && m.Error.OK() {
		return text, wire.ParseRPCError(m.Error.Of(text))
	}
	return text, nil
}

// message takes one message of the response. Done says that it is the answer; it
// refers to raw. Alone says that it is the only message there is: an error without
// an id must then be ours.
func (c *httpCall) message(raw []byte, alone bool) (reply Reply, done bool, err error) {
	m, err := wire.Scan(raw)
	return c.take(&m, err, alone)
}

// take is message for bytes that were scanned, with the error of that.
func (c *httpCall) take(m *wire.Message, err error, alone bool) (Reply, bool, error) {
	raw := m.Raw
	if err != nil {
		return c.unreadable(raw, alone, err)
	}
	switch m.Kind {
	case wire.Response:
		id := m.ID.Of(raw)
		if !c.ours(id) && !(alone && m.Error.OK() && (len(id) == 0 || string(id) == "null")) {
			c.passOver(errors.New("a response with another id"))
			return Reply{}, false, nil
		}
		if m.Error.OK() {
			return Reply{Err: wire.ParseRPCError(m.Error.Of(raw))}, true, nil
		}
		return c.result(m)
	case wire.Notification:
		c.notification(m)
	case wire.Request:
		c.request(m)
	}
	if alone {
		c.junk = errors.New("a message of the server in the place of the response")
	}
	return Reply{}, false, nil
}

// unreadable takes bytes that are not a message. If they bear the id of the call
// nothing better will come. Revision 2025-03-26 allows batches.
func (c *httpCall) unreadable(raw []byte, alone bool, err error) (Reply, bool, error) {
	if wire.IsBatch(raw) && wire.Valid(raw) == nil && c.t.Info().Version == wire.V20250326 {
		for e := range wire.Elements(raw, wire.Span{Lo: 0, Hi: len(raw)}) {
			if wire.IsBatch(e.Of(raw)) {
				break
			}
			if reply, done, err := c.message(e.Of(raw), alone); done || err != nil {
				return reply, done, err
			}
		}
		return Reply{}, false, nil
	}
	var bad *wire.ScanError
	if errors.As(err, &bad) && c.ours(bad.ID) {
		return Reply{}, true, c.t.garbled(err)
	}
	c.passOver(err)
	return Reply{}, false, nil
}

func (c *httpCall) passOver(why error) {
	c.junk = why
	c.t.skip(why.Error())
}

// ours reports whether a raw id is that of the call.
func (c *httpCall) ours(raw []byte) bool {
	id, ok := parseID(raw)
	return ok && id == c.r.ID
}

// result takes the result of the answer, which must be an object.
func (c *httpCall) result(m *wire.Message) (Reply, bool, error) {
	switch {
	case m.Body.Raw[0] == '{':
		return Reply{Result: m.Body}, true, nil
	case string(m.Body.Raw) == "null" && isHousekeeping(c.r.Method):
		// What returns nothing in many languages. Nobody looks at these results.
		return Reply{Result: wire.Object{Raw: []byte("{}")}}, true, nil
	}
	return Reply{}, true, c.t.garbled(errors.New("the result is not an object"))
}

// Notify implements [Conn].
func (t *httpConn) Notify(ctx context.Context, method string, params wire.Value) error {
	h, err := t.ready(ctx)
	if err != nil {
		return err
	}
	r := &Request{Method: method}
	data := wire.AppendNotification(nil, method, params)
	gone, err := t.post(ctx, h, t.callHeader(h, r), data)
	for n := 0; gone; n++ {
		if h, err = t.afterLoss(ctx, h, n); err != nil {
			return err
		}
		gone, err = t.post(ctx, h, t.callHeader(h, r), data)
	}
	return err
}

// post sends a message that has no answer. Gone says that the server does not know
// the session.
func (t *httpConn) post(ctx context.Context, h *httpHead, header http.Header, data []byte) (gone bool, err error) {
	resp, err := t.send(t.request(ctx, http.MethodPost, header, data))
	if err != nil {
		return false, t.failure(ctx, !unsent(err), err)
	}
	if resp.StatusCode < 300 {
		t.drop(resp)
		return false, nil
	}
	text, e := t.readRefusal(resp)
	gone = h.session.id != "" && !h.modern() && sessionGone(resp.StatusCode, e, text)
	if e != nil && !byStatus(resp) {
		return gone, fault.Of(fault.Rejected, t.server, "the server refused a notification: %w", e)
	}
	return gone, t.refusal(resp, text)
}

// cancel tells a legacy server that nobody waits for a call any more. A modern one
// sees the response being closed (2026-07-28, streamable-http: Cancellation). It
// must not be sent for initialize.
func (t *httpConn) cancel(ctx context.Context, h *httpHead, c *httpCall) {
	if h.modern() || c.r.Method == "initialize" {
		return
	}
	reason := "cancelled by the client"
	if fault.KindOf(context.Cause(ctx)) == fault.Timeout || ctx.Err() == nil {
		reason = "timeout"
	}
	params := wire.Value{Raw: fmt.Appendf(nil, `{"requestId":%d,"reason":%q}`, c.r.ID, reason)}
	data := wire.AppendNotification(nil, "notifications/cancelled", params)
	t.background(cancelTimeout, func(ctx context.Context) {
		if _, err := t.post(ctx, h, h.header, data); err != nil {
			t.log.Debug("cancellation not delivered", "server", t.server, "err", err)
		}
	})
}
