package router

import (
	"context"
	"net/http"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// A Generation is everything calls see of the configuration and of the upstreams'
// offers. It is replaced whole, never modified.
type Generation struct {
	Number  int64
	Config  *config.Config
	Servers map[string]*config.Server // server name → its configuration
	Catalog *catalog.Snapshot

	// Starting: some server may still bring its first listing; no attempt to connect
	// it has failed yet.
	Starting bool
}

// A Call is one request of a client for an upstream. Whoever gets a Call may read
// it and pass on a changed copy.
type Call struct {
	Gen    *Generation
	Method string
	Params *wire.Object // as the client sent them; its bytes are the caller's again once the call is over

	Era      wire.Era // the client's
	Session  string   // key of the client's session, "" if it has none
	LogLevel string   // the least log level the client wants, "" if it named none

	// Events receives what the upstream says during the call, ready for the client,
	// in order and before the reply. It must not block. nil: nobody listens.
	Events func(upstream.Event)

	// Cancel ends the context of the call with a cause; nil if the caller has no such
	// context. With it a deadline costs a timer and not a context of its own.
	Cancel context.CancelCauseFunc

	// Header are the HTTP headers of the client's request, read only; nil on stdio.
	Header http.Header

	target             // set by resolve
	meta   bridge.Meta // of Params
}

// target is where a call goes.
type target struct {
	Server string // "" until resolved
	Entry  *catalog.Entry
	Name   string      // the upstream's own name or URI
	edits  []wire.Edit // put Name in the place of what the client wrote
}

// A Reply answers a call: exactly one of Result and Err is set.
type Reply struct {
	Result wire.Value
	Err    *wire.RPCError

	// Release gives the buffer under Result back once it has been written; nil if
	// there is nothing to give back.
	Release func()
}

// A Handler carries a call on. Its error is a *fault.Error, or a *wire.RPCError to
// be answered as it is.
type Handler func(ctx context.Context, c *Call) (Reply, error)

// A Stage is one step of the path, around the next.
type Stage func(next Handler) Handler
