package router

import (
	"bytes"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// Tasks pass through within an era: those of 2025-11-25 between legacy clients and legacy
// servers, those of the extension of 2026-07-28 between modern ones. Clients know a task
// by a name of ours (bridge.Seal.NameTask), which says where it lives and is of use to
// its owner alone; the payloads stay as they are.

// A taskCall is what a request about a task is about.
type taskCall struct {
	bridge.Task
	name []byte // as the client has spelled it, raw
}

// owner is whose the tasks are that the call makes and may reach: the session's of a
// legacy client, which is all that tells clients without authentication apart; of modern
// clients, which have none, the principal's. An anonymous modern client owns what it can
// name.
func (c *Call) owner() string {
	if c.Era == wire.Modern {
		return "p" + c.Principal
	}
	return "s" + c.Session
}

// wantsTask reports whether the params of a call of a tool ask for a task in place of the
// result, in the way of legacy clients.
func wantsTask(c *Call) bool {
	if c.Method != "tools/call" {
		return false
	}
	at := c.Params.Field("task")
	return at.OK() && c.Params.Raw[at.Lo] != 'n'
}

// lookupTask routes a request about a task by its name. A name that somebody else was
// given gets the same answer as one that nobody was.
func (r *Router) lookupTask(c *Call) (target, error) {
	spans, err := fieldsOf(c, routing[c.Method]...)
	if err != nil {
		return target{}, err
	}
	name, ok := stringAt(c.Params.Raw, spans[0])
	if !ok {
		return target{}, &wire.RPCError{Code: wire.CodeInvalidParams, Message: "invalid params: taskId must be a string"}
	}
	t, ok := r.lot.seal.ReadTask(c.owner(), name)
	if !ok || c.Gen.Servers[t.Server] == nil {
		return target{}, unknownTask()
	}
	return target{
		Server: t.Server, Name: t.ID, Entry: &catalog.Entry{Server: t.Server, Name: t.ID, Exposed: name},
		edits: []wire.Edit{{Span: spans[0], With: wire.AppendQuote(nil, t.ID)}},
		task:  &taskCall{t, spans[0].Of(c.Params.Raw)},
	}, nil
}

// unknownTask is the answer about a task that does not exist, or not for this client
// (specification 2025-11-25, basic/utilities/tasks: Protocol Errors).
func unknownTask() *wire.RPCError {
	return &wire.RPCError{Code: wire.CodeInvalidParams, Message: "Failed to retrieve task: Task not found"}
}

// fitTask makes a call that is about a task, or asks for one, fit for the connection it
// has been lent. A task is reached on the kind of connection that it was made on only:
// on another one its id may be that of somebody else's task.
func (r *Router) fitTask(c *Call) (*Call, error) {
	info := c.conn.Info()
	switch {
	case c.task != nil:
		if info.Era != c.Era || c.task.Alone != upstream.Alone(c.conn) || !r.tasks.allows(c.owner(), c.task.Task) {
			return nil, unknownTask()
		}
	case c.Era == wire.Modern:
		// It does not mean a task by that, and could not do anything with one.
		if info.Era == wire.Legacy {
			out, err := c.rewritten(wire.Value{Raw: c.Params.Raw}.With(c.edits...).With(bridge.WithoutTask(c.Params)...))
			if err != nil {
				return nil, err
			}
			out.creates = false
			return out, nil
		}
	case !(info.Era == wire.Legacy && bridge.TakesTasks(info.Capabilities)) &&
		c.Gen.Catalog.Declares(wire.Legacy, "tasks", "requests", "tools", "call"):
		// The client has heard of tasks from us, and does not look for an ordinary result.
		return nil, &wire.RPCError{Code: wire.CodeMethodNotFound, Message: "Tool " + short(c.Name) + " of " + c.Server + " cannot be called as a task: the server does not support it"}
	}
	return c, nil
}

// nameTasks puts our names of tasks into an answer of the server.
func (r *Router) nameTasks(c *Call, era wire.Era, reply Reply, result *wire.Object) (Reply, error) {
	if c.task != nil {
		reply.Result = reply.Result.With(bridge.WithTaskID(result, c.task.name)...)
		return reply, nil
	}
	at, err := bridge.CreatedTask(era, result)
	switch {
	case err != nil:
		return Reply{}, fault.Of(fault.Protocol, c.Server, "%w", err)
	case !at.OK():
		return reply, nil
	case c.Era != era:
		return Reply{}, fault.Of(fault.Rejected, c.Server, "it has made a task of the call, and this client cannot be told of tasks of revision %s", c.conn.Info().Version)
	case era == wire.Modern && !bridge.KnowsTasks(c.meta.Capabilities):
		return Reply{Err: bridge.NoTasks()}, nil
	}
	id, _ := wire.Unquote(at.Of(result.Raw))
	t := bridge.Task{Server: c.Server, ID: id, Alone: upstream.Alone(c.conn)}
	name, err := r.lot.seal.NameTask(c.owner(), t)
	if err != nil {
		return Reply{}, fault.Of(fault.Protocol, c.Server, "%w", err)
	}
	r.tasks.note(c.owner(), t)
	quoted := wire.AppendQuote(nil, name)
	edits := []wire.Edit{{Span: at, With: quoted}}
	if related := wire.RelatedTask(result.Raw); related.OK() {
		edits = append(edits, wire.Edit{Span: related, With: quoted})
	}
	reply.Result = reply.Result.With(edits...)
	return reply, nil
}

// related puts our name into what a legacy server says for the sake of a task during a
// call. It is false if the task is not this client's: then the client must not
// hear of it, whatever call it came with.
func (r *Router) related(c *Call, params []byte) ([]byte, bool) {
	at := wire.RelatedTask(params)
	if !at.OK() {
		return params, true
	}
	id, _ := wire.Unquote(at.Of(params))
	if c.task != nil && c.task.ID == id {
		return wire.Value{Raw: params}.With(wire.Edit{Span: at, With: c.task.name}).Bytes(), true
	}
	if named, ok := r.named(c.owner(), c.Server, params, at); ok {
		return wire.Value{Raw: params}.With(named).Bytes(), true
	}
	// It may be the one that is just being made, unless that is known to be somebody's.
	return params, c.creates && c.Era == wire.Legacy &&
		r.tasks.allows(c.owner(), bridge.Task{Server: c.Server, ID: id, Alone: upstream.Alone(c.conn)})
}

// foreignTask is what a server is told that asks for the sake of a task during a call of
// another client.
func foreignTask() *wire.RPCError {
	return &wire.RPCError{Code: wire.CodeInvalidParams, Message: "the task of this request is not one of the client whose call is running"}
}

// named puts the owner's name of a task in the place of the server's id at a span.
func (r *Router) named(owner, server string, params []byte, at wire.Span) (wire.Edit, bool) {
	id, _ := wire.Unquote(at.Of(params))
	t, ok := r.tasks.find(owner, server, id)
	if !ok {
		return wire.Edit{}, false
	}
	name, err := r.lot.seal.NameTask(owner, t)
	return wire.Edit{Span: at, With: wire.AppendQuote(nil, name)}, err == nil
}

// unrelated is the other way: the answer of a client names the task as the server does.
func (r *Router) unrelated(owner, server string, result []byte) []byte {
	at := wire.RelatedTask(result)
	name, _ := wire.Unquote(at.Of(result))
	t, ok := r.lot.seal.ReadTask(owner, name)
	if !at.OK() || !ok || t.Server != server {
		return result
	}
	return wire.Value{Raw: result}.With(wire.Edit{Span: at, With: wire.AppendQuote(nil, t.ID)}).Bytes()
}

// TaskFor makes the params of a message of a server fit for the client of a session, on
// whose own connection it came outside of calls: a task that it belongs to gets the name
// that the client knows. One that we do not know is left as the server calls it: the
// connection serves nobody else. Secrets are hidden.
func (r *Router) TaskFor(session, server string, params []byte) []byte {
	v := wire.Value{Raw: params}
	if at := wire.RelatedTask(params); at.OK() {
		if named, ok := r.named("s"+session, server, params, at); ok {
			v = v.With(named)
		}
	}
	return r.hide(server, v)
}

// AskFor is TaskFor for a request and its answer.
func (r *Router) AskFor(session, server string, a upstream.Ask) upstream.Ask {
	related := wire.RelatedTask(a.Params).OK()
	a.Params = r.TaskFor(session, server, a.Params)
	if !related {
		return a
	}
	answer := a.Answer
	a.Answer = func(result []byte, err *wire.RPCError) { answer(r.unrelated("s"+session, server, result), err) }
	return a
}

// TaskStatus returns for whom a notification about the status of a task is, by session,
// and its params as that client must see them; false if it is for nobody we know.
func (r *Router) TaskStatus(n upstream.Notice) (session string, params []byte, ok bool) {
	at := wire.Field(n.Params, wire.Span{Hi: len(n.Params)}, "taskId")
	id, ok := stringAt(n.Params, at)
	if !ok {
		return "", nil, false
	}
	t := bridge.Task{Server: n.Server, ID: id, Alone: n.Session != ""}
	owner, ok := "s"+n.Session, true
	if t.Alone {
		ok = r.tasks.has(owner, t)
	} else {
		owner, ok = r.tasks.holder(t)
	}
	if !ok || owner[0] != 's' {
		return "", nil, false
	}
	name, err := r.lot.seal.NameTask(owner, t)
	if err != nil {
		return "", nil, false
	}
	quoted := wire.AppendQuote(nil, name)
	edits := []wire.Edit{{Span: at, With: quoted}}
	if related := wire.RelatedTask(n.Params); related.OK() {
		edits = append(edits, wire.Edit{Span: related, With: quoted})
	}
	return owner[1:], r.hide(n.Server, wire.Value{Raw: n.Params}.With(edits...)), true
}

// hidden reports whether what a server says during a call is for the client of another
// task, and puts our name into it otherwise.
func (r *Router) hidden(c *Call, ev *upstream.Event) bool {
	if !bytes.Contains(ev.Params, []byte("related-task")) {
		return false
	}
	params, ok := r.related(c, ev.Params)
	ev.Params = params
	return !ok
}
