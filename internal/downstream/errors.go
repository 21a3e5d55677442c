package downstream

import (
	"errors"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// errStopping is why nothing more is accepted.
var errStopping = fault.Of(fault.ShuttingDown, "", "the aggregator is stopping")

// errCutOff is the end of a call in flight when the time for draining is over. It is
// not errStopping, which says that nothing has happened and invites to a repetition.
var errCutOff = fault.Of(fault.Cancelled, "", "the aggregator has stopped during the call, which may have been executed")

// rpcError makes a failure of our own into the error to answer: what happened, what
// to do next, and the same for machines in data.
func rpcError(f *fault.Error) *wire.RPCError {
	return &wire.RPCError{Code: f.Kind.Rule().RPC, Message: f.Sentence(), Data: f.Describe()}
}

// scanError makes a message that could not be read into the error to answer and the
// id to answer with, nil if there is none.
func scanError(err error) ([]byte, *wire.RPCError) {
	var e *wire.ScanError
	if !errors.As(err, &e) {
		return nil, &wire.RPCError{Code: wire.CodeParse, Message: "Parse error"}
	}
	what := map[int]string{wire.CodeParse: "Parse error", wire.CodeInvalidRequest: "Invalid request", wire.CodeInvalidParams: "Invalid params"}
	return e.ID, &wire.RPCError{Code: e.Code, Message: what[e.Code] + ": " + e.Error()}
}

func invalidRequest(message string) *wire.RPCError {
	return &wire.RPCError{Code: wire.CodeInvalidRequest, Message: message}
}

func invalidParams(message string) *wire.RPCError {
	return &wire.RPCError{Code: wire.CodeInvalidParams, Message: message}
}

func methodNotFound(method string) *wire.RPCError {
	return &wire.RPCError{Code: wire.CodeMethodNotFound, Message: "Method not found: " + method}
}
