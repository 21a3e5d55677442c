package router

import (
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
		f = &fault.Error{Kind: fault.KindOf(err), Reason: fault.KindOf(err).Rule().Hint}
	}
	if c.Method == "tools/call" && f.Kind != fault.Cancelled && f.Kind != fault.NotFound {
		return Reply{Result: wire.Value{Raw: toolError(c.Era, f)}}
	}
	return Reply{Err: &wire.RPCError{Code: f.Kind.Rule().RPC, Message: sentence(f), Data: describe(f)}}
}

// sentence says what happened, where, and what to do next.
func sentence(f *fault.Error) string { return f.Error() + "; " + f.Kind.Rule().Hint }

// toolError is a tools/call result with isError.
func toolError(era wire.Era, f *fault.Error) []byte {
	b := []byte(`{`)
	if era == wire.Modern {
		b = append(b, `"resultType":"complete",`...)
	}
	b = append(b, `"content":[{"type":"text","text":`...)
	b = wire.AppendQuote(b, sentence(f))
	b = append(b, `}],"isError":true,"_meta":{"mcp-aggregator/error":`...)
	b = append(b, describe(f)...)
	return append(b, `}}`...)
}

// describe is the machine-readable form of a failure.
func describe(f *fault.Error) []byte {
	rule := f.Kind.Rule()
	b := wire.AppendQuote([]byte(`{"code":`), rule.Code)
	b = append(b, `,"retryable":`...)
	if rule.Retryable {
		b = append(b, `true`...)
	} else {
		b = append(b, `false`...)
	}
	if f.Server != "" {
		b = wire.AppendQuote(append(b, `,"server":`...), f.Server)
	}
	if f.Tool != "" {
		b = wire.AppendQuote(append(b, `,"tool":`...), f.Tool)
	}
	return append(b, '}')
}
