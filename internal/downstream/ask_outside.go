package downstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// What passes between an upstream and the client of a session on no call's account: it
// came on a connection that belongs to this session alone.

// Ask puts a request of an upstream to the legacy client of a session. False: the client
// cannot be asked outside of calls now. It does not wait.
func (s *Server) Ask(session string, a upstream.Ask) bool {
	sess := s.sessions.of(session)
	if sess == nil || sess.stream() == nil {
		return false
	}
	caps, able, _ := sess.terms()
	if !able {
		return false
	}
	if lack := bridge.Lacking(caps, a.Method, a.Params); lack != nil {
		a.Answer(nil, lack.Refusal())
		return true
	}
	return s.own.start(func() { s.askOutside(sess, a) })
}

// askOutside waits for the answer, but not for ever.
func (s *Server) askOutside(sess *Session, a upstream.Ask) {
	patience := s.cfg.Limits.ParkedTTL
	ctx, cancel := context.WithTimeout(s.base, patience)
	defer cancel()
	s.own.start(func() {
		select {
		case <-a.Done:
			cancel()
		case <-ctx.Done():
		}
	})
	params := bridge.AskParams(wire.Legacy, wire.Legacy, a.Method, a.Params)
	result, rpc := sess.ask(ctx, &question{progress: a.Progress}, sess.stream, a.Method, params)
	if rpc != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		rpc = &wire.RPCError{Code: wire.CodeInternal, Message: fmt.Sprintf("the client has not answered within parked_ttl (%v)", patience)}
	}
	a.Answer(result, rpc)
}

// stream returns where messages go that belong to no call, nil while there is nothing.
func (sess *Session) stream() *outbox {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if !sess.begun || len(sess.streams) == 0 {
		return nil
	}
	return sess.streams[len(sess.streams)-1]
}

// Tell passes a notification of an upstream on to the legacy client of a session. One
// that does not get there is counted.
func (s *Server) Tell(session, method string, params []byte) {
	sess := s.sessions.of(session)
	if sess == nil || !sess.inform(method, params) {
		s.countDropped()
	}
}

// inform queues a notification for the client, unless it is a log message below its level.
func (sess *Session) inform(method string, params []byte) bool {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if method == "notifications/message" && !bridge.LogWanted(wire.Legacy, sess.level, params) {
		return true
	}
	return sess.sendLocked(wire.AppendNotification(nil, method, wire.Value{Raw: params}))
}

// Declared returns the capabilities that the legacy client of a session has declared;
// false if there is no such session, or its client is a modern one.
func (s *Server) Declared(session string) (caps []byte, ok bool) {
	sess := s.sessions.of(session)
	if sess == nil || sess.agreed() == "" {
		return nil, false
	}
	caps, _, _ = sess.terms()
	return slices.Clone(caps), true
}

// rootsChanged takes the news of a client that its roots have changed. One that has not
// declared any could not be asked for them.
func (s *Server) rootsChanged(sess *Session) {
	if caps, _, _ := sess.terms(); bridge.Lacking(caps, bridge.Roots, nil) == nil {
		s.router.RootsChanged(sess.id)
	}
}

// withToken asks for progress: it puts a progress token, raw, into the params of a
// question.
func withToken(params, token []byte) []byte {
	if len(params) == 0 {
		params = []byte(`{}`)
	}
	whole := wire.Span{Hi: len(params)}
	v := wire.Value{Raw: params}
	if meta := wire.Field(params, whole, "_meta"); meta.OK() && params[meta.Lo] == '{' {
		v = v.With(insertFirst(params, meta, `"progressToken":`, token, ""))
	} else if !meta.OK() {
		v = v.With(insertFirst(params, whole, `"_meta":{"progressToken":`, token, "}"))
	}
	return v.Bytes()
}

// progress takes progress of the client on a question. What belongs to none is dropped.
func (sess *Session) progress(params *wire.Object) {
	id, ok := readQuestionID(params.Field("progressToken").Of(params.Raw))
	if !ok {
		return
	}
	sess.mu.Lock()
	a := sess.questions.open[id]
	sess.mu.Unlock()
	if a != nil && a.progress != nil {
		a.progress(bytes.Clone(params.Raw))
	}
}
