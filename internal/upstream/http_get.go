package upstream

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"mcp-aggregator/internal/fault"
)

// streamDelays are the waits before a stream that failed is opened again.
var streamDelays = []time.Duration{1 * time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second}

// steadyStream is how long a stream must live to count as working although nothing
// came on it.
const steadyStream = 10 * time.Second

// openStream implements streamTransport (2025-11-25, transports: Listening for
// Messages from the Server). It returns nil when ctx or the connection ends.
func (t *httpConn) openStream(ctx context.Context, opened, missed func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.life, cancel)()
	t.flights.watch(1)
	defer t.flights.watch(-1)
	for s := (getStream{t: t, begun: opened, missed: missed}); ; {
		final, err := s.follow(ctx)
		switch {
		case ctx.Err() != nil || t.Err() != nil:
			return nil
		case final:
			return err
		}
		if sleep(ctx, s.delay(err)) != nil {
			return nil
		}
	}
}

// A getStream is the stream of what belongs to no call, over its reconnections.
type getStream struct {
	t        *httpConn
	session  *httpSession  // of the last attempt
	at       eventPosition // in the streams of session
	opened   bool          // the stream of session was open before
	worked   bool          // the server offers the stream
	begun    func()        // the stream is open
	missed   func()        // what came between two streams of a session is not known
	failures int           // in a row
}

// delay is the time to wait after the stream has ended: none if it ended with its
// session, what the server asked for if it worked, a growing time after failures.
func (s *getStream) delay(err error) time.Duration {
	if err != nil {
		d := streamDelays[min(s.failures, len(streamDelays)-1)]
		s.failures++
		return max(s.at.retry, jitter(d))
	}
	s.failures = 0
	if s.session.ctx.Err() != nil {
		return 0
	}
	return s.at.retry
}

// jitter varies a time by a fifth, so that many connections do not act at once.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

// follow opens the stream once and reads it to its end. The error is nil if the
// stream worked; final says that trying again makes no sense.
func (s *getStream) follow(ctx context.Context) (final bool, err error) {
	h, err := s.t.ready(ctx)
	if err != nil {
		return false, err
	}
	if h.session != s.session {
		s.session, s.opened = h.session, false
		s.at.reset()
	}
	bound, cancel := h.bound(ctx)
	defer cancel()
	resp, err := s.t.send(s.t.request(bound, http.MethodGet, h.getHeader(string(s.at.last)), nil))
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK && formOf(resp.Header) == formEvents {
		// A server that numbers its events sends what was missed when it is told the last
		// number. Of a new session the lists are read anyway.
		if s.opened && len(s.at.last) == 0 {
			s.missed()
		}
		s.begun()
		s.worked, s.opened = true, true
		return false, s.read(resp)
	}
	return s.refused(ctx, h, resp)
}

// refused decides what an answer that is no stream means. Servers without the stream
// should answer 405, but also answer 404, which to a session can mean that it is gone.
func (s *getStream) refused(ctx context.Context, h *httpHead, resp *http.Response) (final bool, err error) {
	text, e := s.t.readRefusal(resp)
	status := &statusError{resp.StatusCode}
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return true, s.t.refusal(resp, text)
	case code == http.StatusRequestTimeout || code == http.StatusTooManyRequests || code >= 500 && code != http.StatusNotImplemented:
		s.at.retry = max(s.at.retry, min(retryAfter(resp.Header), time.Minute))
		return false, status
	case h.session.id != "" && code == http.StatusNotFound && (s.worked || mentionsSession(string(text))),
		h.session.id != "" && e != nil && sessionGone(code, e, text):
		if err := s.t.renew(ctx, h); err != nil {
			return false, err
		}
		return false, status
	}
	return true, fault.Of(fault.NotFound, s.t.server, "the server offers no stream for notifications: %w", status)
}

// read hands on what comes until the stream ends. The error is nil if something came.
func (s *getStream) read(resp *http.Response) error {
	body, _, err := plainBody(resp)
	if err != nil {
		return err
	}
	opened := time.Now()
	events := newEventReader(body, s.t.limit)
	defer events.free()
	for some := false; ; some = true {
		ev, err := events.next()
		if err != nil && (some || time.Since(opened) >= steadyStream || s.session.ctx.Err() != nil) {
			return nil
		}
		if err != nil {
			return err
		}
		s.at.note(&ev)
		if ev.message {
			s.t.standalone(ev.data)
		}
	}
}
