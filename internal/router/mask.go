package router

import (
	"context"
	"errors"
	"slices"
	"sync"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/mask"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// masked makes a call of a server that has a masker. It hides secrets in everything that
// the server says, before anybody else sees it: results and errors, progress and log
// messages, questions to the client.
func (r *Router) masked(ctx context.Context, c *Call, m *mask.Masker, send Handler) (Reply, error) {
	out := *c
	out.masker = &masker{m, r.count(c.Server), func() *mask.Masker { return r.Generation().Masks[c.Server] }}
	if asks := c.asks; asks != nil {
		out.asks = func(a upstream.Ask) {
			a.Params = out.masked(a.Params)
			asks(a)
		}
	}
	reply, err := send(ctx, &out)
	if err != nil {
		return reply, out.masker.fault(err)
	}
	if reply.Result.Len() >= heavy {
		leave, err := r.lanes.enter(ctx, c.Server)
		if err != nil {
			if reply.Release != nil {
				reply.Release()
			}
			return Reply{}, ending(ctx, c, "gave up while secrets in its result were looked for")
		}
		defer leave()
	}
	return out.masker.reply(reply), nil
}

// heavy is from how many bytes on the results of a server are masked one at a time. A
// text can be made such that a megabyte takes half a second; who sends many of those
// keeps one processor busy, and no more.
const heavy = 1 << 20

// lanes are the turns of servers with heavy results.
type lanes struct{ byServer sync.Map } // server name → chan struct{}, as full as somebody is in

func (l *lanes) enter(ctx context.Context, server string) (leave func(), err error) {
	lane, ok := l.byServer.Load(server)
	if !ok {
		lane, _ = l.byServer.LoadOrStore(server, make(chan struct{}, 1))
	}
	in := lane.(chan struct{})
	select {
	case in <- struct{}{}:
		return func() { <-in }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// hide hides secrets in what a server says outside of calls.
func (r *Router) hide(server string, params wire.Value) []byte {
	if m := r.Generation().Masks[server]; m != nil && len(params.Raw) > 0 {
		params = (&masker{Masker: m, count: r.count(server)}).value(params)
	}
	return params.Bytes()
}

// Hide hides secrets in a text of a server that is shown elsewhere.
func (r *Router) Hide(server, text string) string {
	if m := r.Generation().Masks[server]; m != nil {
		return string(m.Text([]byte(text), r.count(server)))
	}
	return text
}

// count tells the watch how often something was hidden.
func (r *Router) count(server string) mask.Count {
	if r.watch.Masked == nil {
		return nil
	}
	return func(kind string, n int) { r.watch.Masked(server, kind, n) }
}

// A masker is that of a call's server, and who counts.
type masker struct {
	*mask.Masker
	count mask.Count

	// latest is that of the configuration in force now, which may be another than when
	// the call began: its server has been given the new credentials already. It may be nil.
	latest func() *mask.Masker
}

// reply hides what a result or an error holds.
func (m *masker) reply(reply Reply) Reply {
	if e := reply.Err; e != nil {
		reply.Err = m.rpc(e)
		return reply
	}
	if reply.asking != nil {
		for i := range reply.asking.Inputs {
			reply.asking.Inputs[i].Params = m.bytes(reply.asking.Inputs[i].Params)
		}
		return reply
	}
	if len(reply.Result.Raw) > 0 {
		reply.Result = m.value(reply.Result)
	}
	return reply
}

// value hides what one JSON value holds, where it has not been replaced already.
func (m *masker) value(v wire.Value) wire.Value {
	for _, by := range m.all() {
		found := by.Edits(v.Raw, wire.Span{Hi: len(v.Raw)}, m.count)
		if len(found) > 0 {
			v = v.With(slices.DeleteFunc(found, func(f wire.Edit) bool { return within(v.Edits, f.Span) })...)
		}
	}
	return v
}

// text hides what a text holds.
func (m *masker) text(s string) string {
	for _, by := range m.all() {
		s = string(by.Text([]byte(s), m.count))
	}
	return s
}

// all are the maskers in the order in which they are asked.
func (m *masker) all() []*mask.Masker {
	all := []*mask.Masker{m.Masker}
	if m.latest != nil {
		if now := m.latest(); now != nil && now != m.Masker {
			all = append(all, now)
		}
	}
	return all
}

// within reports whether a span is touched by one of the edits.
func within(edits []wire.Edit, s wire.Span) bool {
	return slices.ContainsFunc(edits, func(e wire.Edit) bool { return e.Lo < s.Hi && s.Lo < e.Hi })
}

// fault hides what a failure says: it may quote what the server has written.
func (m *masker) fault(err error) error {
	if e, ok := errors.AsType[*wire.RPCError](err); ok {
		return m.rpc(e)
	}
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	out := *f
	out.Reason = m.text(f.Reason)
	return &out
}

// rpc hides what the error of a server holds. It goes to the client as it was received,
// if it was; what is read of it in here is hidden all the same.
func (m *masker) rpc(e *wire.RPCError) *wire.RPCError {
	out, rest := *e, *m
	if e.Raw != nil {
		out.Raw, rest.count = m.bytes(e.Raw), nil // counted once
	}
	out.Message = rest.text(e.Message)
	if len(e.Data) > 0 {
		out.Data = rest.bytes(e.Data)
	}
	return &out
}

// bytes hides what one JSON value holds.
func (m *masker) bytes(raw []byte) []byte {
	return m.value(wire.Value{Raw: raw}).Bytes()
}

// masked hides what one JSON value holds, if the server of the call has a masker.
func (c *Call) masked(raw []byte) []byte {
	if c.masker == nil || len(raw) == 0 {
		return raw
	}
	return c.masker.bytes(raw)
}
