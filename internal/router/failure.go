package router

import (
	"context"
	"errors"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// failure is the reply for a call that ended in an error: protocol errors are
// answered as such; a tool that failed is answered with a result that the model can
// read and act on, as the specification asks (server/tools: Error Handling).
func (r *Router) failure(c *Call, err error) Reply {
	var rpc *wire.RPCError
	if errors.As(err, &rpc) {
		return Reply{Err: rpc}
	}
	var f *fault.Error
	if !errors.As(err, &f) {
		f = &fault.Error{Kind: fault.KindOf(err), Reason: "the call failed", Err: err}
	}
	if c.Method == "tools/call" && !wantsTask(c) && f.Kind != fault.Cancelled && f.Kind != fault.NotFound {
		return Reply{Result: wire.Value{Raw: toolError(c.Era, f)}, ToolError: true}
	}
	return Reply{Err: &wire.RPCError{Code: f.Kind.Rule().RPC, Message: f.Sentence(), Data: f.Describe()}}
}

// toolError is a tools/call result with isError.
func toolError(era wire.Era, f *fault.Error) []byte {
	b := []byte(`{`)
	if era == wire.Modern {
		b = append(b, `"resultType":"complete",`...)
	}
	b = append(b, `"content":[{"type":"text","text":`...)
	b = wire.AppendQuote(b, f.Sentence())
	b = append(b, `}],"isError":true,"_meta":{"mcp-aggregator/error":`...)
	b = append(b, f.Describe()...)
	return append(b, `}}`...)
}

// ending is the error of a wait that ctx has ended.
func ending(ctx context.Context, c *Call, what string) *fault.Error {
	cause := context.Cause(ctx)
	f := fault.Of(fault.KindOf(cause), c.Server, "%s: %w", what, cause)
	if f.Kind == fault.Internal {
		f.Kind = fault.Cancelled
	}
	return f
}
