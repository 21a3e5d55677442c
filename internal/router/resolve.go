package router

import (
	"strings"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/wire"
)

// lookup finds the target of a call, or the *wire.RPCError to answer. A name that a
// filter hides gets the same answer as one that does not exist.
func (r *Router) lookup(c *Call) (target, error) {
	switch c.Method {
	case "tools/call":
		return lookupName(c, "tool", c.Gen.Catalog.Tool)
	case "prompts/get":
		return lookupName(c, "prompt", c.Gen.Catalog.Prompt)
	case "resources/read":
		return r.lookupRead(c)
	case "completion/complete":
		return lookupReference(c)
	case "tasks/get", "tasks/result", "tasks/cancel", "tasks/update":
		return r.lookupTask(c)
	case "tasks/list":
		if c.Server != "" {
			return c.target, nil // one server's part, see ListTasks
		}
	}
	return target{}, &wire.RPCError{Code: wire.CodeMethodNotFound, Message: "Method not found: " + short(c.Method)}
}

// routing lists, per method, the members of params that decide where a call goes
// or what runs there: none of them may be ambiguous.
var routing = map[string][]string{
	"tools/call":          {"name", "arguments", "_meta", "task"},
	"prompts/get":         {"name", "arguments", "_meta"},
	"resources/read":      {"uri", "_meta"},
	"completion/complete": {"ref", "_meta"},
	"tasks/get":           {"taskId", "_meta"},
	"tasks/result":        {"taskId", "_meta"},
	"tasks/cancel":        {"taskId", "_meta"},
	"tasks/update":        {"taskId", "inputResponses", "_meta"},
}

func lookupName(c *Call, what string, find func(string) (*catalog.Entry, bool)) (target, error) {
	spans, err := fieldsOf(c, routing[c.Method]...)
	if err != nil {
		return target{}, err
	}
	name, ok := stringAt(c.Params.Raw, spans[0])
	if !ok {
		return target{}, &wire.RPCError{Code: wire.CodeInvalidParams, Message: "invalid params: name must be a string"}
	}
	if args := spans[1]; args.OK() && c.Params.Raw[args.Lo] != '{' && c.Params.Raw[args.Lo] != 'n' {
		return target{}, &wire.RPCError{Code: wire.CodeInvalidParams, Message: "invalid params: arguments must be an object"}
	}
	e, ok := find(name)
	if !ok {
		return target{}, notFound(what, name)
	}
	return newTarget(e, name, spans[0]), nil
}

func (r *Router) lookupRead(c *Call) (target, error) {
	spans, err := fieldsOf(c, routing[c.Method]...)
	if err != nil {
		return target{}, err
	}
	uri, ok := stringAt(c.Params.Raw, spans[0])
	if !ok {
		return target{}, &wire.RPCError{Code: wire.CodeInvalidParams, Message: "invalid params: uri must be a string"}
	}
	if t, ok := r.kept(uri); ok {
		return t, nil
	}
	if e, ok := c.Gen.Catalog.Resource(uri); ok {
		return newTarget(e, uri, spans[0]), nil
	}
	return unlisted(c, uri, spans[0])
}

// unlisted routes a URI that no list shows, as links in results often are: to the
// only server it can belong to.
func unlisted(c *Call, uri string, at wire.Span) (target, error) {
	servers, name := c.Gen.Catalog.Owners(uri)
	if len(servers) != 1 {
		return target{}, unknownResource(c.Era, uri)
	}
	return newTarget(&catalog.Entry{Kind: catalog.Resources, Server: servers[0], Name: name, Exposed: uri}, uri, at), nil
}

// lookupReference routes completion by the prompt or template it is about.
func lookupReference(c *Call) (target, error) {
	spans, err := fieldsOf(c, routing[c.Method]...)
	if err != nil {
		return target{}, err
	}
	raw := c.Params.Raw
	inner, err := wire.Fields(raw, spans[0], "type", "name", "uri")
	if err != nil {
		return target{}, &wire.RPCError{Code: wire.CodeInvalidParams, Message: "invalid params: " + err.Error()}
	}
	kind, _ := stringAt(raw, inner[0])
	find, at, what := c.Gen.Catalog.Prompt, inner[1], "prompt"
	switch kind {
	case "ref/prompt":
	case "ref/resource":
		find, at, what = c.Gen.Catalog.Resource, inner[2], "resource template"
	default:
		return target{}, &wire.RPCError{Code: wire.CodeInvalidParams, Message: "invalid params: ref.type must be ref/prompt or ref/resource"}
	}
	name, ok := stringAt(raw, at)
	if !ok {
		return target{}, &wire.RPCError{Code: wire.CodeInvalidParams, Message: "invalid params: ref names nothing"}
	}
	e, ok := find(name)
	if !ok {
		return target{}, notFound(what, name)
	}
	return newTarget(e, name, at), nil
}

// newTarget notes where a call goes; asked is what the client wrote at span.
func newTarget(e *catalog.Entry, asked string, at wire.Span) target {
	t := target{Server: e.Server, Entry: e, Name: e.Name}
	if t.Name != asked {
		t.edits = []wire.Edit{{Span: at, With: wire.AppendQuote(nil, t.Name)}}
	}
	return t
}

func stringAt(raw []byte, s wire.Span) (string, bool) {
	if !s.OK() {
		return "", false
	}
	return wire.Unquote(s.Of(raw))
}

func notFound(what, name string) *wire.RPCError {
	return &wire.RPCError{Code: wire.CodeInvalidParams, Message: "Unknown " + what + ": " + short(name)}
}

// maxEcho bounds, in bytes, what an error repeats of what the client named.
const maxEcho = 256

func short(name string) string {
	if len(name) <= maxEcho {
		return name
	}
	return strings.ToValidUTF8(name[:maxEcho], "") + "…"
}

// unknownResource answers as the client's era does: legacy revisions have a code of
// their own, modern ones use invalid params (specification 2026-07-28, changelog).
func unknownResource(era wire.Era, uri string) *wire.RPCError {
	e := &wire.RPCError{Code: wire.CodeResourceNotFound, Message: "Resource not found: " + short(uri)}
	if era == wire.Modern {
		e.Code = wire.CodeInvalidParams
	}
	e.Data = append(wire.AppendQuote([]byte(`{"uri":`), short(uri)), '}')
	return e
}
