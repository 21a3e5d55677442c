package bridge

import (
	"strconv"

	"mcp-aggregator/internal/wire"
)

// CodeURLRequired is the error with which a server of revision 2025-11-25 refuses a
// call until the user has visited an address (client/elicitation: URL Elicitation
// Required Error). Modern revisions have an input_required result for that.
const CodeURLRequired = -32042

// ReadURLRequired reads the elicitations of such an error as requests to a modern
// client; ok is false if it is none or holds none.
func ReadURLRequired(e *wire.RPCError) (inputs []Input, ok bool) {
	if e.Code != CodeURLRequired {
		return nil, false
	}
	for at := range wire.Elements(e.Data, member(e.Data, "elicitations")) {
		params := at.Of(e.Data)
		if params[0] != '{' || !isURL(params) {
			return nil, false
		}
		params = AskParams(wire.Modern, wire.Legacy, Elicitation, params)
		inputs = append(inputs, Input{Key: strconv.Itoa(len(inputs) + 1), Method: Elicitation, Params: params})
	}
	return inputs, inputs != nil
}

// Accepted reports whether the answer to an elicitation is accept.
func (r Response) Accepted() bool {
	action, _ := wire.Unquote(member(r.Result, "action").Of(r.Result))
	return action == "accept"
}
