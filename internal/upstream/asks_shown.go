package upstream

import (
	"sync"

	"mcp-aggregator/internal/wire"
)

// shown are the elicitations that sessions were shown, for the notification that one is
// complete: it comes on a shared channel, mostly after the call has ended, and names
// nothing but the id (specification 2025-11-25, client/elicitation: Completion
// Notifications). The oldest are forgotten.
type shown struct {
	mu      sync.Mutex
	session map[string]string // elicitation id → session, "" if there are several
	order   []string          // ids, oldest first
}

const (
	maxShown   = 256 // of a server
	maxShownID = 256 // bytes
)

const (
	elicitationComplete = "notifications/elicitation/complete"
	codeURLRequired     = -32042 // specification 2025-11-25, client/elicitation: URL Elicitation Required Error
)

// noteAsk notes a request that a session's client is sent, if it is an elicitation.
func (s *shown) noteAsk(k *ask, session string) {
	if k.method == "elicitation/create" {
		s.note(k.params, wire.Span{Hi: len(k.params)}, session)
	}
}

// noteError notes the elicitations that the error of a session's call names.
func (s *shown) noteError(e *wire.RPCError, session string) {
	if e.Code != codeURLRequired {
		return
	}
	for at := range wire.Elements(e.Data, wire.Field(e.Data, wire.Span{Hi: len(e.Data)}, "elicitations")) {
		s.note(e.Data, at, session)
	}
}

// note notes the elicitation whose id is a member of the object at span.
func (s *shown) note(raw []byte, object wire.Span, session string) {
	id, ok := wire.Unquote(wire.Field(raw, object, "elicitationId").Of(raw))
	if !ok || session == "" || len(id) > maxShownID {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch known, again := s.session[id]; {
	case again && known != session:
		s.session[id] = ""
		return
	case again:
		return
	case len(s.order) == maxShown:
		delete(s.session, s.order[0])
		s.order = append(s.order[:0], s.order[1:]...)
	}
	if s.session == nil {
		s.session = map[string]string{}
	}
	s.session[id] = session
	s.order = append(s.order, id)
}

// addressee returns the session that was shown the elicitation which the params of a
// notification name, "" if that is not known.
func (s *shown) addressee(params []byte) string {
	id, ok := wire.Unquote(wire.Field(params, wire.Span{Hi: len(params)}, "elicitationId").Of(params))
	if !ok {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session[id]
}
