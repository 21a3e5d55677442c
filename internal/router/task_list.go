package router

import (
	"cmp"
	"context"
	"slices"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/wire"
)

// maxTaskLists is how many answers of servers one page of a client's list is made of at
// most; it goes on with the next.
const maxTaskLists = 20

// ListTasks answers tasks/list of a legacy client: the tasks that are its own, of all
// servers that can list them. A server that fails is left out.
func (r *Router) ListTasks(ctx context.Context, c *Call) Reply {
	at, err := r.taskPlace(c)
	if err != nil {
		return Reply{Err: err}
	}
	places := r.taskPlaces(c)
	i, exact := slices.BinarySearchFunc(places, at, comparePlaces)
	if !exact {
		at.Cursor = ""
	}
	out := []byte(`{"tasks":[`)
	empty, failed := len(out), (*wire.RPCError)(nil)
	answered := false
	for n := 0; i < len(places) && len(out) == empty && n < maxTaskLists; n++ {
		place := places[i]
		place.Cursor, at.Cursor = at.Cursor, ""
		var next string
		if out, next, err = r.appendTasks(ctx, c, place, out); err != nil {
			failed = err
		}
		answered = answered || err == nil
		if at.Cursor = next; next == "" {
			i++
		}
	}
	if failed != nil && !answered && i == len(places) {
		return Reply{Err: failed}
	}
	out = append(out, ']')
	for ; i < len(places); i++ {
		places[i].Cursor = at.Cursor
		if cursor, ok := r.lot.seal.PlaceTask(c.owner(), places[i]); ok {
			out = wire.AppendQuote(append(out, `,"nextCursor":`...), cursor)
			break
		}
		at.Cursor = "" // of endless length: with the next server, then
	}
	return Reply{Result: wire.Value{Raw: append(out, '}')}}
}

// taskPlace reads the cursor of a client.
func (r *Router) taskPlace(c *Call) (bridge.TaskPlace, *wire.RPCError) {
	if c.Params.Raw == nil {
		return bridge.TaskPlace{}, nil
	}
	spans, err := c.Params.Fields("cursor")
	if err != nil {
		return bridge.TaskPlace{}, &wire.RPCError{Code: wire.CodeInvalidParams, Message: "invalid params: " + err.Error()}
	}
	raw := spans[0].Of(c.Params.Raw)
	if len(raw) == 0 || raw[0] == 'n' || string(raw) == `""` {
		return bridge.TaskPlace{}, nil
	}
	cursor, _ := wire.Unquote(raw)
	p, ok := r.lot.seal.ReadPlace(c.owner(), cursor)
	if !ok {
		return p, &wire.RPCError{Code: wire.CodeInvalidParams, Message: "invalid params: invalid cursor"}
	}
	return p, nil
}

// taskPlaces returns where tasks of the client can be listed, in order.
func (r *Router) taskPlaces(c *Call) []bridge.TaskPlace {
	var places []bridge.TaskPlace
	for _, p := range r.tasks.places(c.owner()) {
		if c.Gen.Servers[p.Server] != nil && c.Gen.Catalog.ServerDeclares(p.Server, "tasks", "list") {
			places = append(places, p)
		}
	}
	slices.SortFunc(places, comparePlaces)
	return places
}

// comparePlaces orders places by server, those on connections of a session last. The
// zero place comes first.
func comparePlaces(a, b bridge.TaskPlace) int {
	rank := func(p bridge.TaskPlace) int {
		if p.Alone {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(rank(a), rank(b)))
}

// appendTasks appends those tasks of a page of a server's list that are the client's.
func (r *Router) appendTasks(ctx context.Context, c *Call, p bridge.TaskPlace, out []byte) (_ []byte, next string, _ *wire.RPCError) {
	params := []byte(`{}`)
	if p.Cursor != "" {
		params = append(wire.AppendQuote([]byte(`{"cursor":`), p.Cursor), '}')
	}
	ask, err := c.rewritten(wire.Value{Raw: params})
	if err != nil {
		return out, "", &wire.RPCError{Code: wire.CodeInternal, Message: "internal error"}
	}
	ask.target = target{Server: p.Server, Entry: &catalog.Entry{Server: p.Server}, task: &taskCall{Task: bridge.Task{Server: p.Server, Alone: p.Alone}}}
	// A server that is silent ends its own part only, and not the request of the client.
	ctx, cancel := context.WithTimeout(ctx, c.config().Limits.List)
	defer cancel()
	ask.Cancel = nil
	reply := r.Call(ctx, ask)
	if reply.Release != nil {
		defer reply.Release()
	}
	if reply.Err != nil {
		r.log.Debug("listing tasks", "server", p.Server, "err", reply.Err)
		return out, "", reply.Err
	}
	raw := reply.Result.Bytes()
	whole := wire.Span{Hi: len(raw)}
	first := len(out)
	for e := range wire.Elements(raw, wire.Field(raw, whole, "tasks")) {
		at := wire.Field(raw, e, "taskId")
		id, ok := stringAt(raw, at)
		t := bridge.Task{Server: p.Server, ID: id, Alone: p.Alone}
		if !ok || !r.tasks.has(c.owner(), t) || !r.tasks.allows(c.owner(), t) {
			continue
		}
		name, err := r.lot.seal.NameTask(c.owner(), t)
		if err != nil {
			continue
		}
		if len(out) > first {
			out = append(out, ',')
		}
		out = append(out, raw[e.Lo:at.Lo]...)
		out = wire.AppendQuote(out, name)
		out = append(out, raw[at.Hi:e.Hi]...)
	}
	next, _ = stringAt(raw, wire.Field(raw, whole, "nextCursor"))
	if next == p.Cursor {
		next = "" // it would go on for ever
	}
	return out, next, nil
}
