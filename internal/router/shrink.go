package router

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/results"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// shrink makes large results of tools small, as the configuration of the tool that has
// answered wants it: that may be a fallback. It is inside of interact, so that the model
// of the calling client can be asked for a summary. What the aggregator offers itself is
// answered in here; no server sees that.
func (r *Router) shrink(next Handler) Handler {
	return func(ctx context.Context, c *Call) (Reply, error) {
		own := c.Server == catalog.Own && c.Entry != nil
		shrinks := r.results != nil && c.Gen.Shrinks && (c.Method == "tools/call" || c.Method == "tasks/result")
		switch {
		case own && shrinks:
			return r.shrunk(ctx, c, r.own)
		case own:
			return r.own(ctx, c)
		case shrinks:
			if c.task == nil {
				r.note(c)
			}
			return r.shrunk(ctx, c, next)
		}
		return next(ctx, c)
	}
}

// shrunk makes a call and its result small.
func (r *Router) shrunk(ctx context.Context, c *Call, next Handler) (Reply, error) {
	if c.furthest == nil { // else it is another round of a call
		c.furthest = new(atomic.Int64)
	}
	reply, err := next(ctx, c)
	if err != nil || reply.Err != nil || reply.ToolError || reply.asking != nil || reply.by == nil {
		return reply, err
	}
	return r.fit(ctx, c, reply)
}

// maxNoted bounds the arguments that are looked at to remember a call, in bytes.
const maxNoted = 64 << 10

// note remembers a call of a session, for summaries of later ones.
func (r *Router) note(c *Call) {
	if c.Session == "" {
		return
	}
	args := c.Params.Field("arguments").Of(c.Params.Raw)
	if len(args) > maxNoted {
		args = nil
	}
	if m := c.Gen.Masks[c.Server]; m != nil {
		args = (&masker{Masker: m}).bytes(args)
	}
	r.results.Note(c.Session, c.Entry.Exposed, args)
}

// fit replaces the result of a call by a smaller one if it is too large.
func (r *Router) fit(ctx context.Context, c *Call, reply Reply) (Reply, error) {
	by := reply.by
	rules, own := c.config().ResultsOf(by.server, by.override)
	if rules.Policy == config.PolicyPass {
		return reply, nil
	}
	job := r.job(c, by)
	job.Rules, job.Own = rules, own
	if reply.Result.Len() <= results.Least(job) {
		return reply, nil
	}
	if c.asks != nil && bridge.Lacking(c.capabilities(), bridge.Sampling, nil) == nil {
		ask, end := c.asker(ctx)
		defer end()
		job.Ask = ask
	}
	small, ok := r.reduced(ctx, job, reply.Result)
	if ctx.Err() != nil {
		if reply.Release != nil {
			reply.Release()
		}
		return Reply{}, ending(ctx, c, "gave up while its result was made smaller")
	}
	if !ok {
		return reply, nil
	}
	if reply.Release != nil {
		reply.Release()
	}
	return Reply{Result: wire.Value{Raw: small}, by: by, ToolError: rules.Policy == config.PolicyBlock}, nil
}

// reduced makes a result smaller. A defect in that costs nobody the result.
func (r *Router) reduced(ctx context.Context, job *results.Job, result wire.Value) (small []byte, ok bool) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("making a result smaller panicked, it is passed on whole", "server", job.Server, "tool", job.Tool,
				"kind", fault.Internal, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
			small, ok = nil, false
		}
	}()
	return r.results.Reduce(ctx, job, result)
}

// job says what a result is and whose.
func (r *Router) job(c, by *Call) *results.Job {
	raw := c.Params.Raw
	meta := c.meta.Span
	intent, _ := wire.Unquote(wire.Field(raw, meta, results.IntentKey).Of(raw))
	host, _ := strconv.Atoi(string(wire.Field(raw, meta, results.HostKey).Of(raw)))
	j := &results.Job{
		Call: c.id, Server: by.Server, Tool: by.tool(), Exposed: by.Entry.Exposed, Def: by.Entry.Def,
		Arguments: by.masked(c.Params.Field("arguments").Of(raw)), HostChars: host, Intent: intent,
		Session: c.Session, Owner: c.Principal, Links: c.Links || c.Era == wire.Modern,
	}
	if by.masker != nil {
		j.Intent, j.Hide = by.masker.text(intent), by.masker.text
	}
	if c.meta.ProgressToken != nil || c.host != nil { // with a host it depends on who waits then
		j.Progress = c.tell
	}
	return j
}

// asksModel reports whether the client's own model may be asked to summarize results of
// a tool.
func (r *Router) asksModel(c *Call, server, tool string) bool {
	s := c.Gen.Servers[server]
	if r.results == nil || c.Method != "tools/call" || !c.Gen.Shrinks || s == nil || bridge.Lacking(c.capabilities(), bridge.Sampling, nil) != nil {
		return false
	}
	rules, _ := c.config().ResultsOf(s, s.ToolOverrides[tool])
	return rules.Policy == config.PolicySummarize && (rules.Summarizers == nil || slices.Contains(rules.Summarizers, config.SummarizerSampling))
}

// capabilities are those of the client, raw.
func (c *Call) capabilities() []byte {
	if c.Era == wire.Modern {
		return c.meta.Capabilities
	}
	return c.Caps
}

// errOver ends the questions of a summary that goes on without the call it was begun for.
var errOver = errors.New("the call is over")

// asker returns a function that asks the client in the way in which servers ask it, and
// waits for the answer. Summaries can go on for other calls than the one that has begun
// them; after end, nothing is asked any more.
func (c *Call) asker(call context.Context) (ask func(ctx context.Context, method string, params []byte) ([]byte, error), end func()) {
	type answer struct {
		result []byte
		err    *wire.RPCError
	}
	var mu sync.Mutex
	over := false
	begin := func(a upstream.Ask) bool {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			c.asks(a)
		}
		return !over
	}
	ask = func(ctx context.Context, method string, params []byte) ([]byte, error) {
		got := make(chan answer, 1)
		waits, withdraw := context.WithCancel(ctx)
		defer withdraw()
		if !begin(upstream.Ask{Method: method, Params: params, Done: waits.Done(), Answer: func(result []byte, err *wire.RPCError) {
			select {
			case got <- answer{bytes.Clone(result), err}:
			default: // the first one counts
			}
		}}) {
			return nil, errOver
		}
		select {
		case a := <-got:
			if a.err != nil {
				return nil, a.err
			}
			return a.result, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-call.Done():
			return nil, errOver
		}
	}
	return ask, func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
	}
}

// nothingHigher is the progress of a server that none of ours can exceed.
const nothingHigher = math.MaxInt64

// tell sends the client a progress notification of ours, behind those of the server:
// each must be higher than the one before (specification, utilities/progress).
func (c *Call) tell(message string) {
	if c.furthest.Load() == nothingHigher {
		return
	}
	params := strconv.AppendInt([]byte(`{"progressToken":0,"progress":`), c.furthest.Add(1), 10)
	ev := upstream.Event{Method: "notifications/progress", Params: append(wire.AppendQuote(append(params, `,"message":`...), message), '}')}
	switch {
	case c.host != nil:
		c.host.relay(nil, false)(ev)
	case c.Events != nil:
		ev.Params = bridge.ProgressEdits(ev.Params, c.meta.ProgressToken).Bytes()
		c.Events(ev)
	}
}

// passed remembers how far the server says it is.
func (c *Call) passed(params []byte) {
	n, _ := strconv.ParseFloat(string(wire.Field(params, wire.Span{Hi: len(params)}, "progress").Of(params)), 64) // 0 or infinite, if it cannot
	switch {
	case n <= float64(c.furthest.Load()):
	case n < 1<<53:
		c.furthest.Store(int64(n) + 1)
	default:
		c.furthest.Store(nothingHigher)
	}
}
