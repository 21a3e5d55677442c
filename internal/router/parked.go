package router

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// together is how long a question waits for others, to be asked with them.
const together = 3 * time.Millisecond

// A parked is a call of a modern client that may have to wait without the client. It
// runs on a goroutine and under a context of its own, while requests of the client come
// and go: the first one makes the call, the others bring answers and wait on. There is
// one at a time, or none, which is when the call is really parked: then its time stands
// still, and it ends if the client does not come back.
type parked struct {
	r      *Router
	call   *Call // our copy; the parts that run does not change
	cancel context.CancelCauseFunc
	clock  clock
	wake   chan struct{} // buffered 1: there is something new for the visitor

	mu       sync.Mutex
	visitor  *visitor // the request that waits; nil: the client is away
	given    bool     // the end has been given to a visitor, or the call given up: nobody comes any more
	caps     []byte   // what the client last declared
	open     []*question
	keys     int // given to questions so far
	id       uint64
	round    uint64
	timeout  *time.Timer // while the client is away
	finished bool        // reply and err are set
	reply    Reply
	err      error
}

// A visitor is a request of the client that waits for the call.
type visitor struct {
	events func(upstream.Event)
	token  []byte // raw progress token, nil if it has none
	level  string
}

func (c *Call) visitor() *visitor { return &visitor{c.Events, c.meta.ProgressToken, c.LogLevel} }

// A question is a request of the server without an answer.
type question struct {
	bridge.Input
	told   bool // the client knows of it
	answer func(result []byte, err *wire.RPCError)
	done   <-chan struct{}
}

// withdrawn reports whether the server does not wait for the answer any more.
func (q *question) withdrawn() bool {
	select {
	case <-q.done:
		return true
	default:
		return false
	}
}

// host makes a call that may have to wait without its client.
func (r *Router) host(ctx context.Context, c *Call, next Handler) (Reply, error) {
	own := c.owned()
	p := &parked{r: r, call: own, caps: own.meta.Capabilities, visitor: c.visitor(), wake: make(chan struct{}, 1)}
	if err := r.lot.enter(p); err != nil {
		return Reply{}, err
	}
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	p.cancel = cancel
	run := *own
	run.Cancel, run.Events = cancel, nil
	run.host, run.clock, run.asks = p, &p.clock, p.ask
	go p.run(running, &run, next)
	return p.stay(ctx)
}

// owned returns a copy of the call that does not need the client's request any more.
func (c *Call) owned() *Call {
	out := *c
	params := *c.Params
	params.Raw = bytes.Clone(params.Raw)
	out.Params = &params
	out.meta = bridge.ReadMeta(out.Params)
	out.Caps = bytes.Clone(out.Caps)
	return &out
}

// run is the goroutine of the call.
func (p *parked) run(ctx context.Context, c *Call, next Handler) {
	defer p.r.lot.leave(p)
	defer p.cancel(nil)
	reply, err := p.guarded(ctx, c, next)
	p.mu.Lock()
	p.finished, p.reply, p.err, p.open = true, reply, err, nil
	given := p.given
	p.mu.Unlock()
	if given && reply.Release != nil {
		reply.Release()
	}
	p.nudge()
}

// guarded is next, whose panics cost this call alone.
func (p *parked) guarded(ctx context.Context, c *Call, next Handler) (reply Reply, err error) {
	defer func() {
		if v := recover(); v != nil {
			p.r.log.Error("call panicked", "kind", fault.Internal, "err", fmt.Sprint(v), "stack", string(debug.Stack()))
			reply, err = Reply{}, fault.Of(fault.Internal, "", "internal error")
		}
	}()
	return next(ctx, c)
}

func (p *parked) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// stay waits, for the visitor, for the end of the call or for questions to the client.
// A visitor that goes away takes the call with it.
func (p *parked) stay(ctx context.Context) (Reply, error) {
	var timer *time.Timer
	var due <-chan time.Time // when the questions there are go to the client
	gone := ctx.Done()
	for {
		p.mu.Lock()
		over, waiting := p.finished, p.pendingLocked()
		if over {
			p.visitor, p.given = nil, true
		}
		p.mu.Unlock()
		if over {
			return p.reply, p.err
		}
		if waiting && due == nil && gone != nil {
			timer = time.NewTimer(together)
			defer timer.Stop()
			due = timer.C
		}
		select {
		case <-p.wake:
		case <-due:
			if reply, ok := p.park(); ok {
				return reply, nil
			}
			due = nil
		case <-gone:
			p.cancel(context.Cause(ctx))
			gone, due = nil, nil
		}
	}
}

// pendingLocked forgets questions that nobody waits for, and reports whether others
// are left.
func (p *parked) pendingLocked() bool {
	p.open = slices.DeleteFunc(p.open, (*question).withdrawn)
	return len(p.open) > 0
}

// ask takes a question of the server.
func (p *parked) ask(a upstream.Ask) {
	if refusal := p.note(a); refusal != nil {
		a.Answer(nil, refusal)
		return
	}
	p.nudge()
}

// note keeps a question for the client, or says why not.
func (p *parked) note(a upstream.Ask) *wire.RPCError {
	switch a.Method {
	case bridge.Sampling, bridge.Elicitation, bridge.Roots:
	default:
		return &wire.RPCError{Code: wire.CodeMethodNotFound, Message: "The client of this call speaks revision " + wire.V20260728 + " and cannot be sent this request"}
	}
	if _, ours := p.r.related(p.call, a.Params); !ours {
		return foreignTask()
	}
	params := bridge.AskParams(wire.Modern, wire.Legacy, a.Method, a.Params)
	p.mu.Lock()
	defer p.mu.Unlock()
	if lack := bridge.Lacking(p.caps, a.Method, a.Params); lack != nil {
		return lack.Refusal()
	}
	p.pendingLocked()
	switch {
	case p.given || p.finished:
		return &wire.RPCError{Code: wire.CodeInternal, Message: "the call is over"}
	case len(p.open) >= maxQuestions:
		p.r.lot.refused.Add(1)
		return tooMany()
	}
	p.keys++
	p.open = append(p.open, &question{
		Input:  bridge.Input{Key: strconv.Itoa(p.keys), Method: a.Method, Params: params},
		answer: a.Answer, done: a.Done,
	})
	return nil
}

// park sends the visitor away with the open questions. It does not if there are none,
// or no place to wait: then the server is told so, and the call goes on.
func (p *parked) park() (Reply, bool) {
	p.mu.Lock()
	if p.finished || !p.pendingLocked() {
		p.mu.Unlock()
		return Reply{}, false
	}
	limits := &p.call.config().Limits
	if err := p.r.lot.park(p, limits.Parked); err != nil {
		open := p.open
		p.open = nil
		p.mu.Unlock()
		refuseAll(open, err.Error())
		return Reply{}, false
	}
	defer p.mu.Unlock()
	p.visitor = nil
	p.clock.hold()
	p.round++
	round := p.round
	gone := fault.Of(fault.Cancelled, "", "the client has not come back with the answers that the server has asked for")
	p.timeout = time.AfterFunc(limits.ParkedTTL, func() {
		if p.end(round, gone) {
			p.r.lot.expired.Add(1)
		}
	})
	inputs := make([]bridge.Input, len(p.open))
	for i, q := range p.open {
		q.told, inputs[i] = true, q.Input
	}
	st := p.call.state(bridge.Parked, time.Now().Add(limits.ParkedTTL))
	st.ID, st.Round = p.id, round
	return Reply{Result: wire.Value{Raw: bridge.AppendAsking(nil, inputs, p.r.lot.seal.Seal(st))}, parked: true}, true
}

// refuseAll answers questions that never reach the client. It must not be called with a
// lock held: it takes those of connections, which wait for ours.
func refuseAll(open []*question, why string) {
	for _, q := range open {
		q.answer(nil, &wire.RPCError{Code: wire.CodeInternal, Message: why})
	}
}

// claim makes a request of the client the visitor, unless another one was first, and
// hands its answers to the server. Answers that nobody has asked for are ignored, and
// what the client has not answered is asked again, as the specification wants.
func (p *parked) claim(c *Call, round uint64, responses []bridge.Response) bool {
	type answer struct {
		to     *question
		result []byte
	}
	var answers []answer
	p.mu.Lock()
	if p.given || p.visitor != nil || p.round != round {
		p.mu.Unlock()
		return false
	}
	p.timeout.Stop()
	p.r.lot.unpark(p)
	p.visitor, p.caps = c.visitor(), bytes.Clone(c.meta.Capabilities)
	p.open = slices.DeleteFunc(p.open, func(q *question) bool {
		i := slices.IndexFunc(responses, func(r bridge.Response) bool { return r.Key == q.Key })
		if i < 0 || !q.told {
			return false
		}
		answers = append(answers, answer{q, bytes.Clone(responses[i].Result)})
		return true
	})
	p.clock.release()
	p.mu.Unlock()
	for _, a := range answers {
		a.to.answer(a.result, nil)
	}
	return true
}

// end gives the call up. A visitor gets its end as a reply. With a round, it does so
// only if the client has not come back since.
func (p *parked) end(round uint64, cause error) bool {
	p.mu.Lock()
	if round != 0 && (p.given || p.visitor != nil || p.round != round) {
		p.mu.Unlock()
		return false
	}
	open := p.open
	p.open = nil
	var kept func()
	alone := p.visitor == nil && !p.given
	if alone {
		p.given = true
		p.timeout.Stop()
		p.r.lot.unpark(p)
		p.clock.release()
		kept = p.reply.Release // if it has ended without its client
	}
	p.mu.Unlock()
	p.cancel(cause)
	refuseAll(open, "the call has been given up") // not every server stops waiting when its call is cancelled
	if kept != nil {
		kept()
	}
	if alone {
		p.r.tellEnd(p.call, fault.KindOf(cause).String())
	}
	return true
}

// relay is the sink for what the server says during the call. Who is there hears it, as
// it has asked for; while the client is away, it is lost.
func (p *parked) relay(progress func(), mute bool) func(upstream.Event) {
	return func(ev upstream.Event) {
		if progress != nil && ev.Method == "notifications/progress" {
			progress()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		v := p.visitor
		switch {
		case v == nil:
			p.r.lot.dropped.Add(1)
			return
		case v.events == nil, ev.ID != nil, ev.Method == elicitationComplete, p.r.hidden(p.call, &ev):
			return
		case ev.Method == "notifications/progress":
			if v.token == nil || mute {
				return
			}
			ev.Params = bridge.ProgressEdits(ev.Params, v.token).Bytes()
		case ev.Method == "notifications/message" && !bridge.LogWanted(wire.Modern, v.level, ev.Params):
			return
		}
		v.events(ev)
	}
}
