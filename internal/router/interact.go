package router

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"time"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// Bounds of what servers may ask during one call.
const (
	maxQuestions = 16 // open at the same time
	maxRounds    = 16 // of a call, each with any number of questions
)

// passedTTL is how long a modern server's state is good for: it costs us nothing, and a
// user may take his time.
const passedTTL = 24 * time.Hour

// interact joins the calls whose servers ask their clients something with the answers.
// Clients and servers of one era each have their own way; there are four of them:
//
//   - legacy and legacy: the server's request goes to the client while the call waits
//     (talk.take);
//   - a legacy client and a modern server: the call is made again with the client's
//     answers, until the server asks no more (talk.fulfil);
//   - a modern client and a legacy server: the call waits without its client, which
//     comes back with the answers (parked);
//   - modern and modern: the client does all of that itself. What the server gives it
//     to remember is sealed, and bound to who it is and what it has called.
//
// It is outside of everything that a call takes a place of, so that one that waits for
// its client keeps its places.
func (r *Router) interact(next Handler) Handler {
	return func(ctx context.Context, c *Call) (Reply, error) {
		if c.Era == wire.Legacy {
			if c.Ask != nil && bridge.Askable(c.Caps) {
				return r.talk(ctx, c, next)
			}
			reply, err := next(ctx, c)
			if err == nil && reply.asking != nil {
				return (&talk{c: c}).fulfil(ctx, reply.asking, next)
			}
			return reply, err
		}
		if !hasRounds(c.Method) {
			return next(ctx, c)
		}
		c.asked = &asked{c.Server, c.Name}
		if c.resumes() {
			return r.resume(ctx, c, next)
		}
		return r.begin(ctx, c, next)
	}
}

// asked is what the client has called, whatever came to stand in for it.
type asked struct{ server, name string }

// hasRounds reports whether a modern client can be asked something during the call
// (specification 2026-07-28, basic/patterns/mrtr: Supported Requests).
func hasRounds(method string) bool {
	return method == "tools/call" || method == "prompts/get" || method == "resources/read"
}

// resumes reports whether the call goes on with an earlier one of its modern client.
func (c *Call) resumes() bool {
	return c.Era == wire.Modern && hasRounds(c.Method) && bridge.Continues(c.Params)
}

// begin makes a call of a modern client. Only one that can be asked, by a server that may
// be a legacy one or for a summary, needs a goroutine to wait in.
func (r *Router) begin(ctx context.Context, c *Call, next Handler) (Reply, error) {
	if bridge.Askable(c.meta.Capabilities) && r.mayAsk(c) {
		return r.host(ctx, c, next)
	}
	return next(ctx, c)
}

// mayAsk reports whether the call may come to a legacy server, or its result to the
// client's own model.
func (r *Router) mayAsk(c *Call) bool {
	legacy := func(server string) bool {
		era, known := r.upstreams.EraOf(server)
		return !known || era == wire.Legacy
	}
	if legacy(c.Server) || r.asksModel(c, c.Server, c.Name) {
		return true
	}
	if c.override != nil && !c.standsIn {
		for _, f := range c.override.Fallback {
			if e, ok := c.Gen.Catalog.Tool(f.Tool); ok && (legacy(e.Server) || r.asksModel(c, e.Server, e.Name)) {
				return true
			}
		}
	}
	return false
}

// resume goes on with a call whose client has been asked something.
func (r *Router) resume(ctx context.Context, c *Call, next Handler) (Reply, error) {
	sealed, responses, err := bridge.ReadRetry(c.Params)
	if err != nil {
		return Reply{}, &wire.RPCError{Code: wire.CodeInvalidParams, Message: "invalid params: " + err.Error()}
	}
	if sealed == "" && !c.Params.Field("requestState").OK() {
		r.started(c)
		return r.begin(ctx, c, next) // modern servers need not give a state
	}
	st, refusal := r.open(c, sealed)
	if refusal != nil {
		return Reply{}, refusal
	}
	if st.Kind == bridge.Parked {
		return r.lot.resume(ctx, c, st, responses)
	}
	r.started(c)
	switch st.Kind {
	case bridge.Anew:
		for _, a := range responses {
			if !a.Accepted() {
				return Reply{}, fault.Of(fault.Rejected, c.Server, "it needs its user to visit an address first, and the user has not agreed to")
			}
		}
		out, err := c.withoutRounds()
		if err != nil {
			return Reply{}, err
		}
		return r.begin(ctx, out, next)
	case bridge.Passed:
		out, err := c.continued(st)
		if err != nil {
			return Reply{}, err
		}
		reply, err := r.begin(ctx, out, next)
		return out.named(c, reply), err
	}
	return Reply{}, refuse("forged", bridge.ErrForged.Error())
}

// open returns what a state says, if this client may use it for this call.
func (r *Router) open(c *Call, sealed string) (*bridge.State, *wire.RPCError) {
	st, err := r.lot.seal.Open(sealed, time.Now())
	switch {
	case err == bridge.ErrExpired:
		return nil, refuse("expired", err.Error()+"; make the call again, without it")
	case err != nil:
		return nil, refuse("forged", err.Error())
	case st.Principal != c.Principal:
		return nil, refuse("foreign", "the requestState was given to another client")
	case st.Method != c.Method || st.Server != c.Server || st.Name != c.Name:
		return nil, refuse("foreign", "the requestState belongs to another request")
	}
	return st, nil
}

// refuse is the error for a state that is no good.
func refuse(reason, message string) *wire.RPCError {
	return &wire.RPCError{Code: wire.CodeInvalidParams, Message: message, Data: []byte(`{"reason":"` + reason + `"}`)}
}

// continued returns a copy of the call that goes to the modern server which has given
// the client its state, and to no other.
func (c *Call) continued(st *bridge.State) (*Call, error) {
	out, err := c.rewritten(wire.Value{Raw: c.Params.Raw}.With(c.edits...).With(bridge.WithState(c.Params, st.Upstream)...))
	if err != nil {
		return nil, err
	}
	out.standsIn, out.answers = true, true
	if st.From == "" {
		return out, nil
	}
	if out, err = out.aside(st.From); err != nil {
		return nil, refuse("foreign", "the requestState comes from a tool that cannot be called any more")
	}
	return out, nil
}

// aside returns a copy of the call that goes to one of its fallbacks.
func (c *Call) aside(tool string) (*Call, error) {
	if c.override != nil {
		for _, f := range c.override.Fallback {
			if f.Tool == tool {
				return c.towards(f)
			}
		}
	}
	return nil, fault.Of(fault.NotFound, c.Server, "%s is no fallback any more", tool)
}

// asks takes a modern server's result that asks the client. A modern client gets it with
// its state in ours; a legacy client gets nothing of it, but is asked.
func (r *Router) asks(c *Call, reply Reply, a *upstream.Reply) (Reply, error) {
	if !hasRounds(c.Method) {
		return Reply{}, fault.Of(fault.Protocol, c.Server, "its answer to %s asks the client for something, which is not allowed", c.Method)
	}
	if c.Era == wire.Legacy {
		a.Result.Raw = bytes.Clone(a.Result.Raw)
	}
	got, err := bridge.ReadAsking(&a.Result)
	if err != nil {
		return Reply{}, fault.Of(fault.Protocol, c.Server, "%w", err)
	}
	if c.Era == wire.Legacy {
		return Reply{asking: &asking{got, c.Server, c.Name}}, nil
	}
	for _, in := range got.Inputs {
		if lack := bridge.Lacking(c.meta.Capabilities, in.Method, in.Params); lack != nil {
			return Reply{Err: lack.Error()}, nil
		}
	}
	if got.State != nil {
		st := c.state(bridge.Passed, time.Now().Add(passedTTL))
		st.Upstream = got.State
		reply.Result = bridge.ReplaceState(reply.Result, &a.Result, r.lot.seal.Seal(st))
	}
	return reply.over(a), nil
}

// visit turns the refusal of a legacy server, which wants the user to visit an address
// first, into a question for a modern client.
func (r *Router) visit(c *Call, inputs []bridge.Input) Reply {
	for _, in := range inputs {
		if lack := bridge.Lacking(c.meta.Capabilities, in.Method, in.Params); lack != nil {
			return Reply{Err: lack.Error()}
		}
	}
	st := c.state(bridge.Anew, time.Now().Add(passedTTL))
	raw := bridge.AppendAsking(nil, inputs, "")
	state := wire.Field(raw, wire.Span{Hi: len(raw)}, "requestState")
	return Reply{Result: wire.Value{Raw: raw}.With(wire.Edit{Span: state, With: []byte(`"` + r.lot.seal.Seal(st) + `"`)})} // nobody else edits what is edited
}

// state makes a state for the client of the call.
func (c *Call) state(kind bridge.StateKind, expires time.Time) *bridge.State {
	st := &bridge.State{Kind: kind, Expires: expires, Principal: c.Principal, Method: c.Method, Server: c.asked.server, Name: c.asked.name}
	if c.Server != c.asked.server || c.Name != c.asked.name {
		st.From = fault.Name(c.Server, c.Name)
	}
	return st
}

// number returns a number that nobody can guess and no other process has used.
func number() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}
