package router

import (
	"context"
	"net/http"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// send is the end of the path: it translates between the client's era and that of the
// connection, and waits for the answer. Each target of a call has the masker of its own
// server.
func (r *Router) send(ctx context.Context, c *Call) (Reply, error) {
	if m := c.Gen.Masks[c.Server]; m != nil && c.masker == nil {
		return r.masked(ctx, c, m, r.send)
	}
	info := c.conn.Info()
	if c.task != nil || c.creates {
		out, err := r.fitTask(c)
		if err != nil {
			return Reply{}, err
		}
		c = out
	}
	if bridge.Continues(c.Params) && !c.goesOn && !c.answers && (info.Era == wire.Legacy || c.Era == wire.Legacy) {
		out, err := c.withoutRounds()
		if err != nil {
			return Reply{}, err
		}
		c = out
	}
	hop := bridge.Hop{Client: c.Era, Upstream: info.Era, ID: upstream.NextID(), LogLevel: c.LogLevel}
	if c.Era == wire.Legacy && c.asks != nil {
		hop.Caps = c.Caps
	}
	req := upstream.Request{ID: hop.ID, Method: c.Method, Name: c.Name, Session: c.Session, Events: c.events(r), Ask: c.asks}
	if c.task != nil {
		req.Task = c.task.ID
	}
	req.Params = r.identity.ParamEdits(hop, c.Params, c.meta)
	if len(c.edits) > 0 {
		req.Params = req.Params.With(c.edits...)
	}
	req.Header = c.headers(info.Era)
	answer, err := c.conn.Call(ctx, &req)
	if err != nil {
		return Reply{}, err
	}
	return r.answer(c, info.Era, &answer)
}

// answer makes the upstream's answer fit for the client.
func (r *Router) answer(c *Call, era wire.Era, a *upstream.Reply) (Reply, error) {
	if a.Err != nil {
		return r.answerError(c, era, a.Err)
	}
	reply := Reply{Result: r.identity.ResultEdits(c.Method, c.Era, era, &a.Result), by: c}
	if bridge.InputRequired(&a.Result) || era == wire.Legacy && hasRounds(c.Method) && bridge.StillAsks(&a.Result) {
		return r.asks(c, reply, a)
	}
	if c.task != nil || c.creates || era == wire.Modern && c.Method == "tools/call" && bridge.IsTask(&a.Result) {
		out, err := r.nameTasks(c, era, reply, &a.Result)
		if err != nil || out.Err != nil {
			return out, err
		}
		reply = out
	}
	if c.Method == "tools/call" {
		failed := a.Result.Field("isError")
		reply.ToolError = failed.OK() && string(failed.Of(a.Result.Raw)) == "true"
	}
	return reply.over(a), nil
}

// over returns the reply that gives the buffer of the upstream's answer back.
func (reply Reply) over(a *upstream.Reply) Reply {
	if a.Pooled() {
		kept := *a
		reply.Release = kept.Release
	}
	return reply
}

// answerError makes the upstream's error fit for the client.
func (r *Router) answerError(c *Call, era wire.Era, e *wire.RPCError) (Reply, error) {
	switch {
	case c.Era == wire.Modern && era == wire.Legacy && hasRounds(c.Method):
		if inputs, ok := bridge.ReadURLRequired(e); ok {
			return r.visit(c, inputs), nil
		}
	case c.Era == wire.Legacy && era == wire.Modern && e.Code == wire.CodeMissingCapability && c.Method == "tools/call":
		return Reply{}, fault.Of(fault.Rejected, c.Server, "it needs a client with other capabilities: %s", e.Message)
	}
	return Reply{Err: translateError(c, era, e)}, nil
}

// translateError passes an upstream's error on with code, message and data as they
// came. Only "resource not found" is spelled differently by the eras: legacy has a
// code for it, modern has invalid params with the uri in data.
func translateError(c *Call, era wire.Era, e *wire.RPCError) *wire.RPCError {
	switch {
	case c.Method != "resources/read":
	case c.Era == wire.Modern && e.Code == wire.CodeResourceNotFound:
		return &wire.RPCError{Code: wire.CodeInvalidParams, Message: e.Message, Data: e.Data}
	case c.Era == wire.Legacy && era == wire.Modern && e.Code == wire.CodeInvalidParams && wire.Field(e.Data, wire.Span{Hi: len(e.Data)}, "uri").OK():
		return &wire.RPCError{Code: wire.CodeResourceNotFound, Message: e.Message, Data: e.Data}
	}
	return e
}

// events returns the sink for what the upstream says during the call: its progress
// gets the client's own token back, its log messages pass the client's level.
func (c *Call) events(r *Router) func(upstream.Event) {
	if c.host != nil {
		return c.hiding(c.host.relay(c.progress, c.mute))
	}
	sink, token, progress, mute := c.Events, c.meta.ProgressToken, c.progress, c.mute
	if sink == nil && progress == nil {
		return nil
	}
	return c.hiding(func(ev upstream.Event) {
		switch {
		case ev.ID != nil, c.Era == wire.Modern && ev.Method == elicitationComplete:
			return // requests are no events; and modern clients wait for no end of an elicitation
		case c.conn.Info().Era == wire.Legacy && r.hidden(c, &ev):
			return
		case ev.Method == "notifications/progress":
			if progress != nil {
				progress()
			}
			if token == nil || sink == nil || mute {
				return
			}
			ev.Params = bridge.ProgressEdits(ev.Params, token).Bytes()
		case ev.Method == "notifications/message":
			if !bridge.LogWanted(c.Era, c.LogLevel, ev.Params) {
				return
			}
		}
		if sink != nil {
			sink(ev)
		}
	})
}

// hiding is a sink for what a server says that gets it masked.
func (c *Call) hiding(sink func(upstream.Event)) func(upstream.Event) {
	if c.masker == nil && c.furthest == nil {
		return sink
	}
	return func(ev upstream.Event) {
		if c.furthest != nil && ev.Method == "notifications/progress" {
			c.passed(ev.Params)
		}
		ev.Params = c.masked(ev.Params)
		sink(ev)
	}
}

// elicitationComplete tells a legacy client that its user has done what an address
// asks for (specification 2025-11-25, client/elicitation: Completion Notifications).
const elicitationComplete = "notifications/elicitation/complete"

// headers are what this call adds to the request of an HTTP upstream: the client's
// headers that the configuration allows by name, and on a modern hop the parameters
// that the tool wants to see as headers.
func (c *Call) headers(era wire.Era) http.Header {
	s := c.server
	modern := era == wire.Modern && len(c.Entry.Headers) > 0
	if !modern && (s == nil || len(s.ForwardHeaders) == 0 || c.Header == nil) {
		return nil
	}
	h := http.Header{}
	if s != nil {
		for _, name := range s.ForwardHeaders {
			if v := c.Header.Values(name); len(v) > 0 {
				h[http.CanonicalHeaderKey(name)] = v
			}
		}
	}
	if modern {
		if args := c.Params.Field("arguments"); args.OK() {
			for _, p := range c.Entry.Headers {
				bridge.ParamHeader(h, p.Name, p.Path, args.Of(c.Params.Raw))
			}
		}
	}
	return h
}
