package router

import (
	"context"
	"errors"
	"strings"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/results"
	"mcp-aggregator/internal/wire"
)

// The tools that offer resources to clients that know tools only (DOWN-5).
const (
	ListResources = "list_resources"
	ReadResource  = "read_resource"
)

// ResourceTools are their definitions.
func ResourceTools() [][]byte {
	return [][]byte{
		[]byte(`{"name":"` + ListResources + `","title":"List resources","description":"Lists the resources of all servers with their URIs, and on the first page the URI templates.",` +
			`"inputSchema":{"type":"object","properties":{"cursor":{"type":"string","description":"nextCursor of the page before"}}},` +
			`"annotations":{"readOnlyHint":true,"openWorldHint":true}}`),
		[]byte(`{"name":"` + ReadResource + `","title":"Read a resource","description":"Reads a resource by its URI, as a list or a link names it.",` +
			`"inputSchema":{"type":"object","properties":{"uri":{"type":"string","description":"URI of the resource"}},"required":["uri"]},` +
			`"annotations":{"readOnlyHint":true,"openWorldHint":true}}`),
	}
}

// listResources is one page of the resources, as JSON.
func (r *Router) listResources(c *Call, args []byte) ([]byte, error) {
	cursor, err := argument(args, "cursor")
	if err != nil {
		return nil, err
	}
	page, err := c.Gen.Catalog.Page(catalog.Resources, cursor)
	if err != nil {
		return nil, errors.New("cursor: " + err.Error())
	}
	if cursor != "" {
		return page.Bytes(), nil
	}
	templates, err := c.Gen.Catalog.Page(catalog.Templates, "")
	if err != nil {
		return nil, err
	}
	raw := templates.Bytes()
	out := append([]byte(`{"resourceTemplates":`), wire.Field(raw, wire.Span{Hi: len(raw)}, "resourceTemplates").Of(raw)...)
	return append(append(out, ','), page.Bytes()[1:]...), nil
}

// readResource reads a resource by a call of its own and shows it as the result of a
// tool. The client cannot be asked during it: its answers would come back for the tool.
func (r *Router) readResource(ctx context.Context, c *Call, args []byte) (Reply, error) {
	uri, err := argument(args, "uri")
	if err == nil && uri == "" {
		err = errors.New("uri is missing")
	}
	if err != nil {
		return c.ours(nil, err)
	}
	if strings.HasPrefix(uri, results.Scheme) { // large as it is, it is read in pieces
		return r.readKept(ctx, c, append(wire.AppendQuote([]byte(`{"handle":`), uri), '}'))
	}
	params := append(wire.AppendQuote([]byte(`{"uri":`), uri), '}')
	m, err := wire.Scan(wire.AppendRequest(nil, 1, "resources/read", wire.Value{Raw: params}))
	if err != nil {
		return c.ours(nil, err)
	}
	reply, err := r.handle(ctx, &Call{
		Gen: c.Gen, Method: m.Method, Params: &m.Body, Era: c.Era, Session: c.Session,
		LogLevel: c.LogLevel, Events: c.Events, Principal: c.Principal, Header: c.Header,
	})
	if rpc, ok := errors.AsType[*wire.RPCError](err); ok {
		reply.Err, err = rpc, nil
	}
	switch {
	case err != nil:
		return Reply{}, err
	case reply.Err != nil:
		return c.ours(nil, errors.New(reply.Err.Message))
	}
	return c.shown(reply)
}

// shown turns what was read into content of a tool: texts as texts, all else as embedded
// resources (specification 2025-11-25, server/tools: Embedded Resources).
func (c *Call) shown(read Reply) (Reply, error) {
	raw := read.Result.Bytes()
	if read.Release != nil {
		defer read.Release()
	}
	contents := wire.Field(raw, wire.Span{Hi: len(raw)}, "contents")
	if !contents.OK() || raw[contents.Lo] != '[' {
		return c.ours(nil, errors.New("the server gave no contents; it may want to ask something first"))
	}
	out := []byte(`{`)
	if c.Era == wire.Modern {
		out = append(out, `"resultType":"complete",`...)
	}
	out = append(out, `"content":[`...)
	first := true
	for at := range wire.Elements(raw, contents) {
		if !first {
			out = append(out, ',')
		}
		first = false
		if text := wire.Field(raw, at, "text"); text.OK() && raw[text.Lo] == '"' {
			out = append(append(append(out, `{"type":"text","text":`...), text.Of(raw)...), '}')
		} else {
			out = append(append(append(out, `{"type":"resource","resource":`...), at.Of(raw)...), '}')
		}
	}
	reply := Reply{Result: wire.Value{Raw: append(out, `]}`...)}}
	if in := read.by; in != nil { // its server's rules are for large results of this, too
		by := *c
		by.Server, by.server, by.masker, by.override = in.Server, in.server, in.masker, nil
		reply.by = &by
	}
	return reply, nil
}

// argument reads one text argument, "" if it is not there.
func argument(args []byte, name string) (string, error) {
	spans, err := wire.Fields(args, wire.Span{Hi: len(args)}, name)
	if err != nil || !spans[0].OK() {
		return "", err
	}
	if s, ok := wire.Unquote(spans[0].Of(args)); ok {
		return s, nil
	}
	return "", errors.New(name + " must be a string")
}
