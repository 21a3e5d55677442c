package router

import (
	"context"
	"errors"
	"slices"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/mask"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// mask hides secrets in everything that a server says during a call, before anybody
// else sees it: results and errors, progress and log messages, questions to the client.
// It is next to send, so that each target of a call has the masker of its own server.
func (r *Router) mask(next Handler) Handler {
	return func(ctx context.Context, c *Call) (Reply, error) {
		m := c.Gen.Masks[c.Server]
		if m == nil {
			return next(ctx, c)
		}
		out := *c
		out.masker = &masker{m, r.count(c)}
		if asks := c.asks; asks != nil {
			out.asks = func(a upstream.Ask) {
				a.Params = out.masked(a.Params)
				asks(a)
			}
		}
		reply, err := next(ctx, &out)
		if err != nil {
			return reply, out.masker.fault(err)
		}
		return out.masker.reply(reply), nil
	}
}

// count tells the watch how often something was hidden.
func (r *Router) count(c *Call) mask.Count {
	if r.watch.Masked == nil {
		return nil
	}
	server := c.Server
	return func(kind string, n int) { r.watch.Masked(server, kind, n) }
}

// A masker is that of a call's server, and who counts.
type masker struct {
	*mask.Masker
	count mask.Count
}

// reply hides what a result or an error holds. Members that were replaced already are
// not looked at.
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
	v := reply.Result
	if len(v.Raw) == 0 {
		return reply
	}
	found := m.Edits(v.Raw, wire.Span{Hi: len(v.Raw)}, m.count)
	if len(found) == 0 {
		return reply
	}
	reply.Result = v.With(slices.DeleteFunc(found, func(f wire.Edit) bool { return within(v.Edits, f.Span) })...)
	return reply
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
	out.Reason = string(m.Text([]byte(f.Reason), m.count))
	return &out
}

// rpc hides what the error of a server holds. It goes to the client as it was received,
// if it was; what is read of it in here is hidden all the same.
func (m *masker) rpc(e *wire.RPCError) *wire.RPCError {
	out, count := *e, m.count
	if e.Raw != nil {
		out.Raw, count = m.bytes(e.Raw), nil // counted once
	}
	out.Message = string(m.Text([]byte(e.Message), count))
	if edits := m.Edits(e.Data, wire.Span{Hi: len(e.Data)}, count); len(edits) > 0 {
		out.Data = wire.Value{Raw: e.Data, Edits: edits}.Bytes()
	}
	return &out
}

// bytes hides what one JSON value holds.
func (m *masker) bytes(raw []byte) []byte {
	edits := m.Edits(raw, wire.Span{Hi: len(raw)}, m.count)
	if len(edits) == 0 {
		return raw
	}
	return wire.Value{Raw: raw, Edits: edits}.Bytes()
}

// masked hides what one JSON value holds, if the server of the call has a masker.
func (c *Call) masked(raw []byte) []byte {
	if c.masker == nil || len(raw) == 0 {
		return raw
	}
	return c.masker.bytes(raw)
}
