package router

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// An asking is a modern result that asks a legacy client, and who has asked.
type asking struct {
	bridge.Asking
	server, name string
}

// A talk is what servers ask during a call to its legacy client.
//
// Concurrency: each question has a goroutine that waits for the answer. All have ended
// when the call has.
type talk struct {
	r     *Router
	c     *Call
	clock clock
	open  atomic.Int32 // questions without an answer
	work  sync.WaitGroup
}

// talk makes a call of a legacy client that can be asked.
func (r *Router) talk(ctx context.Context, c *Call, next Handler) (Reply, error) {
	t := &talk{r: r, c: c}
	c.clock = &t.clock
	c.asks = func(a upstream.Ask) { t.take(ctx, a) }
	reply, err := next(ctx, c)
	t.work.Wait() // what is still asked ends with the call
	if err != nil || reply.asking == nil {
		return reply, err
	}
	return t.fulfil(ctx, reply.asking, next)
}

// take lets the client answer a request of a legacy server.
func (t *talk) take(ctx context.Context, a upstream.Ask) {
	if lack := bridge.Lacking(t.c.Caps, a.Method, a.Params); lack != nil {
		a.Answer(nil, lack.Refusal())
		return
	}
	if t.open.Add(1) > maxQuestions {
		t.open.Add(-1)
		a.Answer(nil, tooMany())
		return
	}
	t.work.Go(func() { t.pass(ctx, a) })
}

// pass waits for the answer to a request of a legacy server.
func (t *talk) pass(ctx context.Context, a upstream.Ask) {
	defer t.open.Add(-1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.work.Go(func() {
		select {
		case <-a.Done:
			cancel(errWithdrawn)
		case <-ctx.Done():
		}
	})
	t.clock.hold()
	defer t.clock.release()
	params, ours := t.r.related(t.c, bridge.AskParams(wire.Legacy, wire.Legacy, a.Method, a.Params))
	if !ours {
		a.Answer(nil, foreignTask())
		return
	}
	result, rpc := t.ask(ctx, a.Method, params, a.Progress)
	result = t.r.unrelated(t.c.owner(), t.c.Server, result)
	if ctx.Err() == nil { // else the server is about to hear that the call has ended, and should not end it by itself
		a.Answer(result, rpc)
	}
}

var errWithdrawn = fault.Of(fault.Cancelled, "", "the server does not wait for the answer any more")

// ask asks the client and waits for its answer, but not for ever.
func (t *talk) ask(ctx context.Context, method string, params []byte, progress func([]byte)) (result []byte, rpc *wire.RPCError) {
	patience := t.c.config().Limits.ParkedTTL
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if result, rpc = t.c.Ask(ctx, method, params, progress); rpc != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		rpc = &wire.RPCError{Code: wire.CodeInternal, Message: fmt.Sprintf("the client has not answered within parked_ttl (%v)", patience)}
	}
	return result, rpc
}

func tooMany() *wire.RPCError {
	return &wire.RPCError{Code: wire.CodeInternal, Message: fmt.Sprintf("the call has %d unanswered requests to its client already", maxQuestions)}
}

// fulfil makes the call again with the client's answers, as often as the modern server
// asks.
func (t *talk) fulfil(ctx context.Context, a *asking, next Handler) (Reply, error) {
	for round := range maxRounds {
		responses, err := t.collect(ctx, a)
		if err == nil && len(a.Inputs) == 0 {
			err = t.breathe(ctx, round)
		}
		if err != nil {
			return Reply{}, err
		}
		out, err := t.c.answering(a, responses)
		if err != nil {
			return Reply{}, err
		}
		reply, err := next(ctx, out)
		if err != nil || reply.asking == nil {
			return out.named(t.c, reply), err
		}
		a = reply.asking
	}
	return Reply{}, fault.Of(fault.Rejected, a.server, "it has asked for input %d times, and still asks", maxRounds+1)
}

// collect asks the client one thing after the other: most clients show them to a
// person.
func (t *talk) collect(ctx context.Context, a *asking) ([]bridge.Response, error) {
	for _, in := range a.Inputs {
		if lack := bridge.Lacking(t.c.Caps, in.Method, in.Params); lack != nil {
			return nil, t.c.lacks(lack)
		}
	}
	if len(a.Inputs) > 0 && t.c.Ask == nil {
		return nil, fault.Of(fault.Rejected, a.server, "it needs an answer of the client, which cannot be asked here")
	}
	responses := make([]bridge.Response, 0, len(a.Inputs))
	for _, in := range a.Inputs {
		result, rpc := t.ask(ctx, in.Method, bridge.AskParams(wire.Legacy, wire.Modern, in.Method, in.Params), nil)
		switch {
		case ctx.Err() != nil:
			return nil, ending(ctx, t.c, "gave up waiting for an answer of the client")
		case rpc != nil:
			return nil, fault.Of(fault.Rejected, a.server, "it needs an answer of the client, which has answered its %s with an error: %v", in.Method, rpc)
		case len(result) == 0 || result[0] != '{':
			return nil, fault.Of(fault.Rejected, a.server, "it needs an answer of the client, and that to its %s is no object", in.Method)
		}
		responses = append(responses, bridge.Response{Key: in.Key, Result: result})
	}
	return responses, nil
}

// breathe waits before the call is made again for a server that has asked for nothing
// but that: it sheds load.
func (t *talk) breathe(ctx context.Context, round int) error {
	pause := time.NewTimer(100 * time.Millisecond << min(round, 5))
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-ctx.Done():
		return ending(ctx, t.c, "gave up between two rounds")
	}
}

// answering returns the copy of a call that brings a modern server what it has asked.
func (c *Call) answering(a *asking, responses []bridge.Response) (*Call, error) {
	base := c
	if a.server != c.Server || a.name != c.Name {
		var err error
		if base, err = c.aside(fault.Name(a.server, a.name)); err != nil {
			return nil, err
		}
	}
	params := wire.Value{Raw: base.Params.Raw}.With(base.edits...).With(bridge.WithoutRounds(base.Params)...)
	out, err := base.rewritten(bridge.Retry(params, a.State, responses))
	if err != nil {
		return nil, err
	}
	out.standsIn, out.goesOn, out.spent = true, true, 0
	return out, nil
}

// named says in the reply which tool has stood in for the one of the call, if one has.
func (c *Call) named(asked *Call, reply Reply) Reply {
	if (c.Server != asked.Server || c.Name != asked.Name) && reply.Err == nil {
		reply.Result = marked(reply.Result, fault.Name(c.Server, c.Name))
	}
	return reply
}

// lacks is the error of a call of a legacy client that has not declared what the
// server needs. A tool's failure is for the model to read.
func (c *Call) lacks(lack *bridge.Lack) error {
	if c.Method != "tools/call" {
		return lack.Error()
	}
	return fault.Of(fault.Rejected, c.Server, "it needs a client with the capability %s, and this one has not declared it", lack.Name())
}
