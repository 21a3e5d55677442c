package downstream

import (
	"net/http"

	"mcp-aggregator/internal/wire"
)

// postModern serves a modern message. A session id is none of its business and
// ignored. The client's going away is the cancellation of the request
// (specification 2026-07-28, streamable-http: Cancellation).
func (s *Server) postModern(x *exchange, meta requestMeta) *refusal {
	switch x.msg.Kind {
	case wire.Response:
		return &refusal{status: http.StatusBadRequest, err: invalidRequest("Invalid request: clients do not send responses in revision " + wire.V20260728)}
	case wire.Notification:
		x.w.WriteHeader(http.StatusAccepted)
		return nil
	}
	rpc := meta.check()
	if rpc == nil {
		rpc = checkHeaders(x.r.Header, &x.msg, s.router.Generation().Catalog)
	}
	if rpc != nil {
		return &refusal{status: http.StatusBadRequest, id: x.id(), err: rpc}
	}
	x.level, x.caps = meta.level, meta.caps
	reply := s.dispatch(x.r.Context(), &x.request)
	x.answer(&reply, statusOf(&reply))
	return nil
}
