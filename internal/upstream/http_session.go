package upstream

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// An httpSession is a session of a legacy server, or the lack of one (id ""). Its
// context ends when another takes its place, and with it the streams that belong to it.
type httpSession struct {
	id  string
	ctx context.Context
	end context.CancelFunc
}

func newHTTPSession(life context.Context, id string) *httpSession {
	ctx, end := context.WithCancel(life)
	return &httpSession{id, ctx, end}
}

// An httpRenewal is one attempt to replace a lost session. All calls that need the
// session wait for the same attempt.
type httpRenewal struct {
	done chan struct{}
	err  error // valid when done is closed
}

type renewalKey struct{}

// maxRenewals is how often one message is repeated on a new session. A server that
// forgets its sessions every few calls refuses some of many callers several times in
// a row, because they share the new session too.
const maxRenewals = 3

// setReinit sets how a lost session is replaced: initialize, notifications/initialized
// and whatever the server must be told again, sent on this connection with the
// context given to the hook.
func (t *httpConn) setReinit(f func(context.Context) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reinit = f
}

// setSession notes the session that an initialize has opened.
func (t *httpConn) setSession(id string) {
	var old *httpSession
	t.update(func(h *httpHead) {
		old, h.session = h.session, newHTTPSession(t.life, id)
	})
	old.end()
}

// ready returns the head to send with, after a renewal under way has ended.
func (t *httpConn) ready(ctx context.Context) (*httpHead, error) {
	for {
		h := t.head.Load()
		select {
		case <-t.done:
			return nil, fault.Of(fault.Unreachable, t.server, "the connection has ended: %w", t.Err())
		default:
		}
		if h.renewal == nil || ctx.Value(renewalKey{}) == h.renewal {
			return h, nil
		}
		if err := t.await(ctx, h.renewal); err != nil {
			return nil, err
		}
	}
}

// renew replaces the session of h, which the server does not know any more, unless
// that has happened already.
func (t *httpConn) renew(ctx context.Context, h *httpHead) error {
	if ctx.Value(renewalKey{}) != nil {
		return &fault.Error{Kind: fault.Protocol, Server: t.server, Reason: "the server forgets its sessions at once"}
	}
	t.mu.Lock()
	now := t.head.Load()
	r := now.renewal
	if r == nil && now.session == h.session {
		r = &httpRenewal{done: make(chan struct{})}
		t.updateLocked(func(h *httpHead) { h.renewal = r })
		t.mu.Unlock()
		if !t.background(t.timeout, func(ctx context.Context) { t.runRenewal(ctx, r) }) {
			t.endRenewal(r, &fault.Error{Kind: fault.Unreachable, Server: t.server, Reason: errHTTPClosed.Error()})
		}
	} else {
		t.mu.Unlock()
	}
	if r == nil {
		return nil
	}
	return t.await(ctx, r)
}

// await waits for a renewal. The callers have sent nothing that was executed.
func (t *httpConn) await(ctx context.Context, r *httpRenewal) error {
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return t.failure(ctx, false, ctx.Err())
	}
}

func (t *httpConn) runRenewal(ctx context.Context, r *httpRenewal) {
	t.mu.Lock()
	reinit := t.reinit
	t.mu.Unlock()
	err := errors.New("nothing knows how to open a new one")
	if reinit != nil {
		err = reinit(context.WithValue(ctx, renewalKey{}, r))
	}
	if err == nil {
		t.log.Info("session renewed", "server", t.server)
		t.endRenewal(r, nil)
		return
	}
	kind := fault.Unreachable // the calls that wait were not executed, whatever has happened to the handshake
	if fault.KindOf(err) == fault.Unauthorized {
		kind = fault.Unauthorized
	}
	failed := fault.Of(kind, t.server, "the session was lost and could not be renewed: %w", err)
	switch fault.KindOf(err) {
	case fault.Unreachable, fault.Lost, fault.Timeout, fault.Cancelled, fault.Overloaded, fault.RateLimited:
		// The server is away for a moment; the next call tries again.
	default:
		t.lose(failed)
	}
	t.endRenewal(r, failed)
}

func (t *httpConn) endRenewal(r *httpRenewal, err error) {
	r.err = err
	t.update(func(h *httpHead) { h.renewal = nil })
	close(r.done)
}

// deleteSession ends the session on the server, which may refuse that.
func (t *httpConn) deleteSession(ctx context.Context) {
	h := t.head.Load()
	if h.session.id == "" || h.modern() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	resp, err := t.send(t.request(ctx, http.MethodDelete, h.getHeader(""), nil))
	if err != nil {
		t.log.Debug("session not ended", "server", t.server, "err", err)
		return
	}
	resp.Body.Close()
}

// sessionGone reports whether an answer says that the server does not know the
// session of the request any more. The specification has one way to say it, a 404;
// servers have several: a 400 or a 200 with an error, of code -32001, -32600 or
// -32000, that mentions the session. All of them mean that nothing was executed.
// Text is what a failed request was answered with when that was no JSON-RPC error.
func sessionGone(status int, e *wire.RPCError, text []byte) bool {
	switch {
	case e == nil:
		return status == http.StatusNotFound || status == http.StatusBadRequest && mentionsSession(string(text))
	case status == http.StatusNotFound:
		return e.Code != wire.CodeMethodNotFound && e.Code != wire.CodeInvalidParams && e.Code != wire.CodeResourceNotFound
	case e.Code == codeSessionGone && status >= 400:
		return true
	case e.Code == codeSessionGone || e.Code == wire.CodeInvalidRequest || e.Code == codeServerError:
		return mentionsSession(e.Message)
	}
	return false
}

// Codes that servers use for a lost session; they have no meaning in MCP.
const (
	codeServerError = -32000
	codeSessionGone = -32001
)

func mentionsSession(message string) bool {
	s := strings.ToLower(message)
	if !strings.Contains(s, "session") {
		return false
	}
	for _, word := range []string{"not found", "expired", "invalid", "unknown", "no valid", "not exist", "no longer", "terminated", "missing", "not initialized"} {
		if strings.Contains(s, word) {
			return true
		}
	}
	return false
}
