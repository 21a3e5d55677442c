package downstream

import (
	"context"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/wire"
)

// subscribe lets a legacy client hear of changes of a resource.
func (s *Server) subscribe(ctx context.Context, q *request) router.Reply {
	uri, rpc := uriOf(q)
	if rpc != nil {
		return router.Reply{Err: rpc}
	}
	if !q.session.subscribe(uri) {
		return router.Reply{Err: rpcError(fault.Of(fault.Overloaded, "", "a session can subscribe to %d resources", maxSubscriptions))}
	}
	s.audience.follow(q.session, uri)
	if rpc := s.router.Subscribe(ctx, q.session.id, uri); rpc != nil {
		s.forget(q.session, uri)
		return router.Reply{Err: rpc}
	}
	if q.session.over() { // nobody would end the subscription
		s.router.Unsubscribe(q.session.id, uri)
		s.forget(q.session, uri)
	}
	return empty()
}

func (s *Server) unsubscribe(q *request) router.Reply {
	uri, rpc := uriOf(q)
	if rpc != nil {
		return router.Reply{Err: rpc}
	}
	s.router.Unsubscribe(q.session.id, uri)
	s.forget(q.session, uri)
	return empty()
}

func (s *Server) forget(sess *Session, uri string) {
	sess.unsubscribe(uri)
	s.audience.unfollow(sess, uri)
}

func uriOf(q *request) (string, *wire.RPCError) {
	spans, err := q.msg.Body.Fields("uri")
	if err != nil {
		return "", invalidParams("invalid params: " + err.Error())
	}
	uri, ok := wire.Unquote(spans[0].Of(q.msg.Body.Raw))
	if !ok || uri == "" || len(uri) > maxURI {
		return "", invalidParams("invalid params: uri must be a string of reasonable length")
	}
	return uri, nil
}
