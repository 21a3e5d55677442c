package downstream

import (
	"context"
	"errors"
	"slices"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/wire"
)

// list answers with a page of the catalogue. The first lists wait a little for
// servers that are still starting. A list that no server has declared is empty in both
// eras and no error: servers come and go, clients ask without having looked at what we
// declare, and some give up over an error that an empty list would have spared them.
func (s *Server) list(ctx context.Context, q *request, kind catalog.Kind) router.Reply {
	s.router.Ready(ctx)
	if ctx.Err() != nil {
		return failed(ctx)
	}
	cursor, rpc := cursorOf(q)
	if rpc != nil {
		return router.Reply{Err: rpc}
	}
	gen := s.router.Generation()
	snapshot := gen.Catalog
	page := snapshot.Page
	switch {
	case allFailed(gen):
		return router.Reply{Err: noServer()}
	case q.era == wire.Modern:
		page = snapshot.PageModern
	case q.session != nil && cursor == "":
		// Legacy clients learned of capabilities once, long ago perhaps: those that
		// are gone are empty lists.
		q.session.listed(kind)
	}
	result, err := page(kind, cursor)
	if err != nil {
		return router.Reply{Err: invalidParams("invalid params: " + err.Error())}
	}
	return router.Reply{Result: result}
}

// cursorOf reads the cursor of a list request. Null and the empty string, which we
// never hand out, mean the beginning.
func cursorOf(q *request) (string, *wire.RPCError) {
	spans, err := q.msg.Body.Fields("cursor")
	if err != nil {
		return "", invalidParams("invalid params: " + err.Error())
	}
	raw := spans[0].Of(q.msg.Body.Raw)
	if len(raw) == 0 || raw[0] == 'n' {
		return "", nil
	}
	cursor, ok := wire.Unquote(raw)
	if !ok {
		return "", invalidParams("invalid params: cursor must be a string")
	}
	return cursor, nil
}

// capabilityOf says which capability covers a list.
var capabilityOf = map[catalog.Kind]string{
	catalog.Tools: "tools", catalog.Prompts: "prompts", catalog.Resources: "resources", catalog.Templates: "resources",
}

func declared(snapshot *catalog.Snapshot, kind catalog.Kind) bool {
	caps := snapshot.Capabilities()
	return wire.Field(caps, wire.Span{Lo: 0, Hi: len(caps)}, capabilityOf[kind]).OK()
}

// allFailed reports whether there are servers, but not one has ever offered anything,
// and none is still starting.
func allFailed(gen *router.Generation) bool {
	return !gen.Starting && len(gen.Catalog.Servers()) == 0 &&
		slices.ContainsFunc(gen.Config.Servers, func(c *config.Server) bool { return c.Enabled })
}

func noServer() *wire.RPCError {
	return &wire.RPCError{
		Code:    fault.Unreachable.Rule().RPC,
		Message: "No server is available: every server of the configuration has failed to start; its status says why",
		Data:    []byte(`{"code":"unreachable","retryable":true}`),
	}
}

// failed is the reply to a request whose context has ended.
func failed(ctx context.Context) router.Reply {
	var f *fault.Error
	if !errors.As(context.Cause(ctx), &f) {
		f = errCancelled
	}
	return router.Reply{Err: rpcError(f)}
}
