package downstream

import (
	"context"
	"net/http"
	"net/url"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

var errHungUp = fault.Of(fault.Cancelled, "", "the client has closed its stream")

// openSSE serves the GET that opens a session of the older transport (specification
// 2024-11-05, transports: HTTP with SSE). The session lives as long as the stream.
func (s *Server) openSSE(w http.ResponseWriter, r *http.Request) *refusal {
	if _, events := accepted(r.Header["Accept"]); !events {
		return &refusal{status: http.StatusNotAcceptable, err: invalidRequest("Accept must allow text/event-stream")}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(errHungUp)
	out := s.newEvents()
	l := s.newLine(ctx, newSessionID(), principalOf(ctx), out)
	if !s.sessions.add(l.session) {
		return &refusal{status: http.StatusServiceUnavailable,
			err: rpcError(fault.Of(fault.Overloaded, "", "http.max_sessions (%d) sessions are open", s.cfg.HTTP.MaxSessions))}
	}
	defer s.endSession(l.session, errHungUp)
	s.audience.join(l.session)

	to := newPatient(w, s.cfg.Limits.Write)
	defer to.done()
	if to.startEvents() != nil {
		return nil
	}
	endpoint := "event: endpoint\ndata: " + pathMessages + "?sessionId=" + url.QueryEscape(l.session.id) + "\n\n"
	if to.send([]byte(endpoint)) != nil {
		return nil
	}
	if s.isClosing() {
		out.close() // it may have been opened behind the back of Close
	}
	_ = s.serveEvents(ctx, to, out)
	cancel(errHungUp)
	l.finish()
	return nil
}

// postSSE serves a POST with a message of a session of the older transport. The
// answer goes to the session's stream.
func (s *Server) postSSE(w http.ResponseWriter, r *http.Request) *refusal {
	if no := checkPost(r.Header); no != nil {
		return no
	}
	id := r.URL.Query().Get("sessionId")
	if id == "" {
		return &refusal{status: http.StatusBadRequest, err: invalidRequest("Bad Request: sessionId is missing")}
	}
	sess, no := s.findSession(id, r, true)
	if no != nil {
		return no
	}
	body, no := s.readBody(w, r)
	if no != nil {
		return no
	}
	m, err := wire.Scan(body.bytes)
	if err != nil {
		id, rpc := scanError(err)
		refuse(w, &refusal{status: http.StatusBadRequest, id: id, err: rpc})
		body.free()
		return nil
	}
	sess.line.receive(body, m, r.Header)
	w.WriteHeader(http.StatusAccepted)
	return nil
}
