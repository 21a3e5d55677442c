package bridge

import (
	"crypto/rand"
	"errors"
	"fmt"

	"mcp-aggregator/internal/wire"
)

// The members with which modern servers and clients exchange requests and answers
// (specification 2026-07-28, basic/patterns/mrtr).
const (
	inputRequests  = "inputRequests"
	inputResponses = "inputResponses"
	requestState   = "requestState"
)

// An Input is one request of a server to a client.
type Input struct {
	Key    string
	Method string
	Params []byte // raw, nil if there are none
}

// An Asking is a modern result that asks instead of answering.
type Asking struct {
	Inputs []Input
	State  []byte // raw JSON string, nil if there is none
}

// ReadAsking reads a result for which InputRequired is true. What it returns shares
// the bytes of the result.
func ReadAsking(result *wire.Object) (Asking, error) {
	spans, err := result.Fields(inputRequests, requestState)
	if err != nil {
		return Asking{}, fmt.Errorf("reading an input_required result: %w", err)
	}
	var a Asking
	if at := spans[1]; at.OK() {
		if a.State = at.Of(result.Raw); a.State[0] != '"' {
			return Asking{}, errors.New("reading an input_required result: requestState is no string")
		}
	}
	for m := range wire.Members(result.Raw, spans[0]) {
		in, ok := readInput(result.Raw, m)
		if !ok {
			return Asking{}, errors.New("reading an input_required result: one of inputRequests is no request")
		}
		a.Inputs = append(a.Inputs, in)
	}
	if a.State == nil && a.Inputs == nil {
		return Asking{}, errors.New("reading an input_required result: it asks for nothing")
	}
	return a, nil
}

func readInput(raw []byte, m wire.Member) (in Input, ok bool) {
	in.Key, ok = wire.Unquote(m.Key.Of(raw))
	spans, err := wire.Fields(raw, m.Val, "method", "params")
	if !ok || err != nil || !spans[0].OK() {
		return in, false
	}
	if in.Method, ok = wire.Unquote(spans[0].Of(raw)); !ok {
		return in, false
	}
	if at := spans[1]; at.OK() {
		if raw[at.Lo] != '{' {
			return in, false
		}
		in.Params = at.Of(raw)
	}
	switch in.Method {
	case Sampling, Elicitation, Roots:
		return in, true
	}
	return in, false
}

// AppendAsking appends an input_required result; state needs no escapes.
func AppendAsking(dst []byte, inputs []Input, state string) []byte {
	dst = append(dst, `{"resultType":"input_required","inputRequests":{`...)
	for i, in := range inputs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(wire.AppendQuote(dst, in.Key), `:{"method":`...)
		dst = wire.AppendQuote(dst, in.Method)
		dst = append(dst, `,"params":`...)
		if in.Params == nil {
			dst = append(dst, '{', '}') // may be left out, but clients exist that fail without
		}
		dst = append(append(dst, in.Params...), '}')
	}
	dst = append(dst, `},"requestState":"`...)
	return append(append(dst, state...), `"}`...)
}

// ReplaceState puts our own state in the place of the server's in an input_required
// result. A result without a state stays without.
func ReplaceState(v wire.Value, result *wire.Object, state string) wire.Value {
	if at := result.Field(requestState); at.OK() {
		return v.With(wire.Edit{Span: at, With: []byte(`"` + state + `"`)})
	}
	return v
}

// A Response is the answer to one Input.
type Response struct {
	Key    string
	Result []byte // raw object
}

// Continues reports whether the params of a client's request say that it continues
// an earlier one.
func Continues(params *wire.Object) bool {
	return params.Field(requestState).OK() || params.Field(inputResponses).OK()
}

// ReadRetry reads what the params of a request say about earlier rounds. What it
// returns shares the bytes of the params, apart from the state, which is "" if there
// is none.
func ReadRetry(params *wire.Object) (state string, responses []Response, err error) {
	spans, err := params.Fields(requestState, inputResponses)
	if err != nil {
		return "", nil, err
	}
	if at := spans[0]; at.OK() {
		var ok bool
		if state, ok = wire.Unquote(at.Of(params.Raw)); !ok {
			return "", nil, errors.New("requestState is no string")
		}
	}
	if at := spans[1]; at.OK() && params.Raw[at.Lo] != '{' {
		return "", nil, errors.New("inputResponses is no object")
	}
	seen := map[string]bool{}
	for m := range wire.Members(params.Raw, spans[1]) {
		key, ok := wire.Unquote(m.Key.Of(params.Raw))
		if !ok || seen[key] || params.Raw[m.Val.Lo] != '{' {
			return "", nil, errors.New("one of inputResponses is no object or comes twice")
		}
		seen[key] = true
		responses = append(responses, Response{key, m.Val.Of(params.Raw)})
	}
	return state, responses, nil
}

// WithoutRounds takes what belongs to earlier rounds out of params.
func WithoutRounds(params *wire.Object) []wire.Edit {
	return wire.Without(params.Members(), func(m wire.Member) bool {
		key := m.Key.Of(params.Raw)
		return wire.KeyIs(key, requestState) || wire.KeyIs(key, inputResponses)
	})
}

// WithState returns the edits that make the params those of a retry at a modern
// server: its own state comes in the place of ours. A nil state is none.
func WithState(params *wire.Object, state []byte) []wire.Edit {
	if at := params.Field(requestState); state != nil && at.OK() {
		return []wire.Edit{{Span: at, With: state}}
	}
	return wire.Without(params.Members(), func(m wire.Member) bool {
		return wire.KeyIs(m.Key.Of(params.Raw), requestState)
	})
}

// Retry returns the params with which a legacy client's call is made again, now with
// the answers that the server has asked for. Params must not have any themselves.
func Retry(params wire.Value, state []byte, responses []Response) wire.Value {
	var b []byte
	if len(responses) > 0 {
		b = append(b, `"`+inputResponses+`":{`...)
		for i, r := range responses {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(wire.AppendQuote(b, r.Key), ':')
			b = append(b, r.Result...)
		}
		b = append(b, '}')
	}
	if state != nil {
		b = append(append(comma(b), `"`+requestState+`":`...), state...)
	}
	if len(b) == 0 {
		return params
	}
	return insertFirst(wire.Value{Raw: params.Bytes()}, b) // edits could lie where ours must
}

// AskParams makes the params of a server's request fit for the client, which sees them
// as they came wherever it can. What must go or come:
//
//   - task, since we declare to no server that clients run tasks, and a receiver that
//     has not declared it answers as if it were not there (specification 2025-11-25,
//     basic/utilities/tasks: Task Support and Handling);
//   - the progress token and the reserved keys of _meta, which belong to one hop;
//   - elicitationId, which legacy clients need to be asked to visit an address and
//     modern ones do not know.
func AskParams(client, upstream wire.Era, method string, params []byte) []byte {
	if len(params) == 0 || params[0] != '{' {
		return params
	}
	whole := wire.Span{Hi: len(params)}
	url := method == Elicitation && isURL(params)
	var inner []wire.Edit
	v := wire.Value{Raw: params}
	if url && client == wire.Legacy && upstream == wire.Modern && !member(params, "elicitationId").OK() {
		v = insertFirst(v, wire.AppendQuote([]byte(`"elicitationId":`), rand.Text()))
	}
	v = v.With(wire.Without(wire.Members(params, whole), func(m wire.Member) bool {
		switch key := m.Key.Of(params); {
		case wire.KeyIs(key, "task"):
			return true
		case wire.KeyIs(key, "elicitationId"):
			return url && client == wire.Modern
		case wire.KeyIs(key, "_meta"):
			var empty bool
			inner, empty = hopMeta(params, m.Val)
			return empty
		}
		return false
	})...).With(inner...)
	return v.Bytes()
}

// hopMeta returns the edits that take the members of one hop out of _meta, or reports
// that nothing would be left.
func hopMeta(raw []byte, meta wire.Span) (edits []wire.Edit, empty bool) {
	cut, kept := 0, 0
	edits = wire.Without(wire.Members(raw, meta), func(m wire.Member) bool {
		key := m.Key.Of(raw)
		if reserved(key) || wire.KeyIs(key, "progressToken") {
			cut++
			return true
		}
		kept++
		return false
	})
	if cut > 0 && kept == 0 {
		return nil, true
	}
	return edits, false
}
