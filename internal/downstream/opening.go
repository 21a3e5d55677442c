package downstream

import (
	"context"
	"slices"
	"strconv"
	"time"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/wire"
)

// initialize opens a legacy session. A version we do not know is answered with the
// newest of its era, never with an error (specification 2025-11-25, lifecycle:
// Version Negotiation).
func (s *Server) initialize(ctx context.Context, q *request) router.Reply {
	raw := q.msg.Body.Raw
	spans, err := q.msg.Body.Fields("protocolVersion", "capabilities", "clientInfo")
	if err != nil {
		return router.Reply{Err: invalidParams("invalid params: " + err.Error())}
	}
	version, ok := wire.Unquote(spans[0].Of(raw))
	if !ok {
		return router.Reply{Err: invalidParams("invalid params: protocolVersion must be a string")}
	}
	caps := spans[1].Of(raw)
	if len(caps) > maxClientCaps {
		return router.Reply{Err: invalidParams("invalid params: capabilities are too large")}
	}
	if !slices.Contains(wire.LegacyVersions, version) {
		version = wire.LegacyVersions[0]
	}
	s.introduce(ctx)
	if ctx.Err() != nil {
		return failed(ctx)
	}
	q.session.agree(version, caps)
	name, _ := wire.Unquote(wire.Field(raw, spans[2], "name").Of(raw))
	s.log.Debug("session opened", "session", shown(q.session.id), "version", version, "client", name[:min(len(name), 100)])

	b := wire.AppendQuote([]byte(`{"protocolVersion":`), version)
	b = append(append(b, `,"capabilities":`...), s.capabilities()...)
	b = append(append(b, `,"serverInfo":`...), s.identity.Info()...)
	b = s.appendInstructions(b)
	return router.Reply{Result: wire.Value{Raw: append(b, '}')}}
}

// discover answers a modern client's first question (specification 2026-07-28,
// server/discover). All revisions listed are served at the same address.
func (s *Server) discover(ctx context.Context, q *request) router.Reply {
	s.introduce(ctx)
	if ctx.Err() != nil {
		return failed(ctx)
	}
	scope := "private"
	if s.router.Generation().Catalog.Public() {
		scope = "public"
	}
	b := append([]byte(`{"resultType":"complete","supportedVersions":`), supportedVersions...)
	b = append(append(b, `,"capabilities":`...), s.router.Generation().Catalog.ModernCapabilities()...)
	b = s.appendInstructions(b)
	b = append(b, `,"ttlMs":0,"cacheScope":"`+scope+`","_meta":{"`+wire.MetaServerInfo+`":`...)
	b = append(append(b, s.identity.Info()...), `}}`...)
	return router.Reply{Result: wire.Value{Raw: b}}
}

// introductionWait is how long the answer to a first question waits for servers that
// are still starting. Clients are told the instructions of servers once, so those of
// servers that start quickly should be in it; but nobody may have to wait for a
// server that is silent, as a list does. Longer than the changes of starting servers
// are collected, and too short for a person to notice.
const introductionWait = 300 * time.Millisecond

// introduce waits until what we say of ourselves is worth saying. Capabilities need
// no waiting: while servers start the catalogue declares all that may come.
func (s *Server) introduce(ctx context.Context) {
	if s.router.IsReady() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, introductionWait)
	defer cancel()
	s.router.Ready(ctx)
}

// supportedVersions is a JSON array of all revisions, newest first.
var supportedVersions = func() []byte {
	b := []byte{'['}
	for i, v := range slices.Concat(wire.ModernVersions, wire.LegacyVersions) {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendQuote(b, v)
	}
	return append(b, ']')
}()

func (s *Server) capabilities() []byte {
	if caps := s.router.Generation().Catalog.Capabilities(); len(caps) > 0 {
		return caps
	}
	return []byte(`{}`)
}

func (s *Server) appendInstructions(b []byte) []byte {
	if text := s.router.Generation().Catalog.Instructions(); text != "" {
		b = wire.AppendQuote(append(b, `,"instructions":`...), text)
	}
	return b
}

// setLevel notes which log messages a legacy client wants.
func (s *Server) setLevel(q *request) router.Reply {
	level, ok := wire.Unquote(q.msg.Body.Field("level").Of(q.msg.Body.Raw))
	if !ok || !slices.Contains(bridge.Levels, level) {
		return router.Reply{Err: invalidParams("invalid params: level must be one of the levels of RFC 5424, debug to emergency")}
	}
	q.session.setLogLevel(level)
	s.router.SetLevel(q.session.id, level)
	if q.session.over() { // nobody would take the wish back
		s.router.SetLevel(q.session.id, "")
	}
	return empty()
}

func (sess *Session) setLogLevel(level string) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	sess.level = level
}
