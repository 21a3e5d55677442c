package downstream

import (
	"context"
	"net/http"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// codeNoSession is what servers in the field answer together with status 404 for a
// session they do not know; the specification leaves the body open.
const codeNoSession = -32001

// postLegacy serves a message of a legacy client.
func (s *Server) postLegacy(x *exchange) *refusal {
	if x.msg.Kind == wire.Request && x.msg.Method == "initialize" {
		return s.openSession(x)
	}
	sess, no := s.sessionOf(x.r)
	if no != nil {
		no.id = messageID(&x.msg)
		return no
	}
	switch x.msg.Kind {
	case wire.Response:
		sess.response(&x.msg)
		x.w.WriteHeader(http.StatusAccepted)
		return nil
	case wire.Notification:
		sess.touch()
		s.notification(sess, &x.msg)
		x.w.WriteHeader(http.StatusAccepted)
		return nil
	}
	ctx, cancel := context.WithCancelCause(x.r.Context())
	defer cancel(nil)
	x.session, x.cancel = sess, cancel
	if rpc := sess.begin(&x.msg, cancel); rpc != nil {
		// The answer must not look like one to the request that has this id.
		return &refusal{status: statusOfRefused(rpc), id: x.id(), err: rpc}
	}
	reply := s.dispatch(ctx, &x.request)
	sess.finish(x.id())
	x.answer(&reply, http.StatusOK)
	return nil
}

func statusOfRefused(rpc *wire.RPCError) int {
	if rpc.Code == wire.CodeInvalidRequest {
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}

// openSession serves initialize.
func (s *Server) openSession(x *exchange) *refusal {
	ctx := x.r.Context()
	sess := s.newSession(newSessionID(), principalOf(ctx))
	x.session = sess
	reply := s.dispatch(ctx, &x.request)
	if reply.Err == nil {
		if !s.sessions.add(sess) {
			return &refusal{status: http.StatusServiceUnavailable, id: x.id(),
				err: rpcError(fault.Of(fault.Overloaded, "", "http.max_sessions (%d) sessions are open", s.cfg.HTTP.MaxSessions))}
		}
		s.audience.join(sess)
		x.w.Header()[headerSession] = []string{sess.id}
	}
	x.answer(&reply, http.StatusOK)
	return nil
}

// sessionOf finds the session of a request by its header.
func (s *Server) sessionOf(r *http.Request) (*Session, *refusal) {
	id := one(r.Header, headerSession)
	if id == "" {
		return nil, &refusal{status: http.StatusBadRequest,
			err: invalidRequest("Bad Request: the Mcp-Session-Id header is missing; send initialize first, or the MCP-Protocol-Version header with a version in _meta")}
	}
	return s.findSession(id, r, false)
}

// findSession finds a session of Streamable HTTP, or of HTTP+SSE.
func (s *Server) findSession(id string, r *http.Request, sse bool) (*Session, *refusal) {
	sess := s.sessions.find(id)
	switch {
	case sess == nil || (sess.line != nil) != sse:
		return nil, &refusal{status: http.StatusNotFound, err: &wire.RPCError{Code: codeNoSession, Message: "Session not found"}}
	case sess.principal != principalOf(r.Context()):
		return nil, &refusal{status: http.StatusForbidden, err: invalidRequest("Forbidden: the session belongs to somebody else")}
	}
	return sess, nil
}

// openStream serves a GET: the stream for what belongs to no call. It is the newest
// of the session and gets its notifications until it ends.
func (s *Server) openStream(w http.ResponseWriter, r *http.Request) *refusal {
	if no := checkVersion(r.Header); no != nil {
		return no
	}
	if _, events := accepted(r.Header["Accept"]); !events {
		return &refusal{status: http.StatusNotAcceptable, err: invalidRequest("Accept must allow text/event-stream")}
	}
	sess, no := s.sessionOf(r)
	if no != nil {
		return no
	}
	out := s.newEvents()
	oldest, ok := sess.open(out)
	if !ok {
		return &refusal{status: http.StatusNotFound, err: &wire.RPCError{Code: codeNoSession, Message: "Session not found"}}
	}
	defer sess.shut(out)
	if oldest != nil {
		oldest.close()
	}
	if s.isClosing() {
		out.close() // it may have been opened behind the back of Close
	}
	to := newPatient(w, s.cfg.Limits.Write)
	defer to.done()
	if to.startEvents() == nil {
		_ = s.serveEvents(r.Context(), to, out)
	}
	return nil
}

var errDeleted = fault.Of(fault.Cancelled, "", "the client has ended the session")

// deleteSession serves a DELETE, which ends one session.
func (s *Server) deleteSession(w http.ResponseWriter, r *http.Request) *refusal {
	if no := checkVersion(r.Header); no != nil {
		return no
	}
	sess, no := s.sessionOf(r)
	if no != nil {
		return no
	}
	s.endSession(sess, errDeleted)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// checkVersion checks the version header of a GET or DELETE: modern revisions have
// neither.
func checkVersion(h http.Header) *refusal {
	v := one(h, headerVersion)
	if v == "" {
		return nil
	}
	switch era, known := wire.EraOf(v); {
	case !known:
		return &refusal{status: http.StatusBadRequest, err: unsupportedVersion(v)}
	case era == wire.Modern:
		return notAllowed("POST")
	}
	return nil
}
