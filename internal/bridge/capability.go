package bridge

import (
	"strings"

	"mcp-aggregator/internal/wire"
)

// The requests with which servers ask clients.
const (
	Sampling    = "sampling/createMessage"
	Elicitation = "elicitation/create"
	Roots       = "roots/list"
)

// Askable reports whether a client with these raw capabilities can be asked anything.
func Askable(caps []byte) bool {
	return len(caps) > 2 && (has(caps, "sampling") || has(caps, "elicitation") || has(caps, "roots"))
}

// A Lack is what a client would have to declare for a request.
type Lack struct {
	Method   string
	Required string // raw ClientCapabilities

	// Part: the client knows the method, but not all of it.
	Part bool
}

// Lacking returns what the raw capabilities of a client lack for a request of a server,
// nil if nothing. Nobody declares what the specifications do not know.
//
// The values of includeContext that need sampling.context are not looked at: clients
// may ignore them (specification 2025-11-25, client/sampling: Capabilities).
func Lacking(caps []byte, method string, params []byte) *Lack {
	lack := func(part bool, required string) *Lack {
		return &Lack{Method: method, Required: required, Part: part}
	}
	switch method {
	case Sampling:
		tools := member(params, "tools").OK() || member(params, "toolChoice").OK()
		switch {
		case tools && !has(caps, "sampling", "tools"):
			return lack(has(caps, "sampling"), `{"sampling":{"tools":{}}}`)
		case !has(caps, "sampling"):
			return lack(false, `{"sampling":{}}`)
		}
	case Elicitation:
		known, url := has(caps, "elicitation"), has(caps, "elicitation", "url")
		switch form := known && (!url || has(caps, "elicitation", "form")); {
		case isURL(params) && !url:
			return lack(known, `{"elicitation":{"url":{}}}`)
		case !isURL(params) && !form:
			return lack(known, `{"elicitation":{"form":{}}}`)
		}
	case Roots:
		if !has(caps, "roots") {
			return lack(false, `{"roots":{}}`)
		}
	}
	return nil
}

// Refusal is the error for a legacy server that has asked for it. A mode that was not
// declared is a matter of the params, and roots have a code in the specification
// (2025-11-25, client/elicitation, client/roots: Error Handling). For the rest there is
// none; servers that pass a "method not found" on would have their own clients believe
// that the tool is not there.
func (l *Lack) Refusal() *wire.RPCError {
	e := &wire.RPCError{Code: wire.CodeInvalidRequest, Message: "The client of this call has not declared the capability " + l.Name()}
	switch {
	case l.Part:
		e.Code = wire.CodeInvalidParams
	case l.Method == Roots:
		e.Code = wire.CodeMethodNotFound
	}
	return e
}

// Error is the error for the client that would have to declare it (specification
// 2026-07-28, basic: Per-request protocol fields). Legacy revisions have no code for
// that; it is the same for their clients, since the number means nothing else to them.
func (l *Lack) Error() *wire.RPCError {
	return &wire.RPCError{
		Code:    wire.CodeMissingCapability,
		Message: "This request needs a client with the capability " + l.Name(),
		Data:    []byte(`{"requiredCapabilities":` + l.Required + `}`),
	}
}

// Name names the capability for people.
func (l *Lack) Name() string {
	words := strings.FieldsFunc(l.Required, func(r rune) bool { return strings.ContainsRune(`{}":`, r) })
	return strings.Join(words, ".")
}

// has reports whether there is an object at a path of member names.
func has(raw []byte, path ...string) bool {
	at := wire.Span{Hi: len(raw)}
	for _, name := range path {
		if at = wire.Field(raw, at, name); !at.OK() || raw[at.Lo] != '{' {
			return false
		}
	}
	return true
}

func member(raw []byte, name string) wire.Span {
	return wire.Field(raw, wire.Span{Hi: len(raw)}, name)
}

// isURL reports whether an elicitation sends the user to an address. One without a
// mode is a form.
func isURL(params []byte) bool {
	mode, _ := wire.Unquote(member(params, "mode").Of(params))
	return mode == "url"
}
