//go:build e2e && linux

package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"mcp-aggregator/internal/mcptest"
)

// A malformed request, and what must come back. Status 0 is any client error,
// -1 anything but a server error. Code 0 is any JSON-RPC error or none.
type malformed struct {
	name   string
	header map[string]string
	body   string
	status int
	code   int
}

// rpc is a request around a method and parameters.
func rpc(method, params string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":` + params + `}`
}

// brokenMessages are no messages in either era; over HTTP the status is 400.
var brokenMessages = []malformed{
	{name: "text", body: `hello`, code: -32700},
	{name: "half an object", body: `{"jsonrpc":"2.0","id":7,"method":"ping"`, code: -32700},
	{name: "two objects", body: `{"jsonrpc":"2.0","id":7,"method":"ping"}{}`, code: -32700},
	{name: "a trailing comma", body: `{"jsonrpc":"2.0","id":7,"method":"ping",}`, code: -32700},
	{name: "single quotes", body: `{'jsonrpc':'2.0','id':7,'method':'ping'}`, code: -32700},
	{name: "invalid UTF-8", body: "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\",\"params\":{\"a\":\"\xff\xfe\"}}", code: -32700},
	{name: "a control character in a string", body: "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\",\"params\":{\"a\":\"\x01\"}}", code: -32700},
	{name: "nesting of 20,000", body: rpc("ping", `{"a":`+strings.Repeat("[", 20000)+strings.Repeat("]", 20000)+`}`)},
	{name: "a number", body: `1`, code: -32600},
	{name: "null", body: `null`, code: -32600},
	{name: "a string", body: `"ping"`, code: -32600},
	{name: "an empty object", body: `{}`, code: -32600},
	{name: "an empty batch", body: `[]`, code: -32600},
	{name: "a batch", body: `[{"jsonrpc":"2.0","id":7,"method":"ping"},{"jsonrpc":"2.0","id":8,"method":"ping"}]`, code: -32600},
	{name: "no version", body: `{"id":7,"method":"ping"}`, code: -32600},
	{name: "version 1.0", body: `{"jsonrpc":"1.0","id":7,"method":"ping"}`, code: -32600},
	{name: "version as a number", body: `{"jsonrpc":2.0,"id":7,"method":"ping"}`, code: -32600},
	{name: "method as a number", body: `{"jsonrpc":"2.0","id":7,"method":7}`, code: -32600},
	{name: "no method and no result", body: `{"jsonrpc":"2.0","id":7}`, code: -32600},
	{name: "id null", body: `{"jsonrpc":"2.0","id":null,"method":"ping"}`, code: -32600},
	{name: "id as an object", body: `{"jsonrpc":"2.0","id":{},"method":"ping"}`, code: -32600},
	{name: "id true", body: `{"jsonrpc":"2.0","id":true,"method":"ping"}`, code: -32600},
	{name: "two ids", body: `{"jsonrpc":"2.0","id":7,"id":8,"method":"ping"}`, code: -32600},
	{name: "two methods", body: `{"jsonrpc":"2.0","id":7,"method":"ping","method":"tools/list"}`, code: -32600},
	{name: "two params", body: `{"jsonrpc":"2.0","id":7,"method":"ping","params":{},"params":{}}`, code: -32600},
	{name: "Method beside method", body: `{"jsonrpc":"2.0","id":7,"method":"ping","Method":"tools/list"}`, code: -32600},
	{name: "method spelt with an escape twice", body: `{"jsonrpc":"2.0","id":7,"method":"ping","\u006dethod":"tools/list"}`, code: -32600},
	{name: "result and error", body: `{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":"m"}}`, code: -32600},
	{name: "params as text", body: `{"jsonrpc":"2.0","id":7,"method":"ping","params":"x"}`, status: -1},
	{name: "params as an array", body: `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":[1]}`, status: -1},
}

// wrongRequests are messages that ask for what there is not. They are the same
// in both eras, except that the modern one mirrors the code in the status.
var wrongRequests = []malformed{
	{name: "an unknown method", body: rpc("tools/explode", `{}`), code: -32601},
	{name: "an empty method", body: rpc("", `{}`), status: -1},
	{name: "a call without a name", body: rpc("tools/call", `{}`), code: -32602},
	{name: "a call by number", body: rpc("tools/call", `{"name":7}`), code: -32602},
	{name: "a call of two names", body: rpc("tools/call", `{"name":"echo__echo","name":"echo__x"}`)},
	{name: "a call of an unknown tool", body: rpc("tools/call", `{"name":"echo__nope","arguments":{}}`), code: -32602},
	{name: "a call of an unknown server", body: rpc("tools/call", `{"name":"nope__echo","arguments":{}}`), code: -32602},
	{name: "a call of a huge name", body: rpc("tools/call", `{"name":"`+strings.Repeat("x", 10000)+`"}`), code: -32602},
	{name: "a prompt without a name", body: rpc("prompts/get", `{}`), code: -32602},
	{name: "an unknown prompt", body: rpc("prompts/get", `{"name":"nope"}`), code: -32602},
	{name: "reading without a URI", body: rpc("resources/read", `{}`), code: -32602},
	{name: "reading by number", body: rpc("resources/read", `{"uri":7}`), code: -32602},
	{name: "a cursor that was never given out", body: rpc("tools/list", `{"cursor":"nope"}`), code: -32602},
	{name: "a cursor as a number", body: rpc("tools/list", `{"cursor":7}`), code: -32602},
	{name: "completion without a reference", body: rpc("completion/complete", `{}`), code: -32602},
	{name: "completion for an unknown prompt", body: rpc("completion/complete",
		`{"ref":{"type":"ref/prompt","name":"nope"},"argument":{"name":"a","value":""}}`), code: -32602},
}

// legacyRequests are wrong only in a legacy session.
var legacyRequests = []malformed{
	{name: "an unknown resource", body: rpc("resources/read", `{"uri":"nope://x"}`), status: 200, code: -32002},
	{name: "a log level that does not exist", body: rpc("logging/setLevel", `{"level":"loud"}`), status: 200, code: -32602},
	{name: "subscribing to nothing", body: rpc("resources/subscribe", `{}`), status: 200, code: -32602},
	{name: "a modern method", body: rpc("server/discover", `{}`), code: 0, status: -1},
	{name: "an unknown version header", header: map[string]string{"Mcp-Protocol-Version": "1999-01-01"}, body: rpc("ping", `{}`), status: 400},
	{name: "no session", header: map[string]string{"Mcp-Session-Id": ""}, body: rpc("tools/list", `{}`), status: 400},
	{name: "an unknown session", header: map[string]string{"Mcp-Session-Id": "nope"}, body: rpc("tools/list", `{}`), status: 404},
	{name: "half a session", header: map[string]string{"Mcp-Session-Id": "SESSION-HALF"}, body: rpc("tools/list", `{}`), status: 404},
	{name: "a response nobody waits for", body: `{"jsonrpc":"2.0","id":99,"result":{}}`, status: -1},
	{name: "cancelling nothing", body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":12345}}`, status: 202},
	{name: "cancelling without an id", body: `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, status: -1},
	{name: "an unknown notification", body: `{"jsonrpc":"2.0","method":"notifications/whatever","params":{}}`, status: 202},
	{name: "progress for nothing", body: `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"nope","progress":1}}`, status: 202},
	{name: "modern metadata without the header", header: map[string]string{"Mcp-Protocol-Version": ""},
		body: rpc("tools/list", mcptest.ModernParams("{}", "{}")), status: 400, code: -32020},
}

// transportRequests are wrong at the HTTP level in any era.
var transportRequests = []malformed{
	{name: "text/plain", header: map[string]string{"Content-Type": "text/plain"}, body: rpc("ping", `{}`)},
	{name: "no content type", header: map[string]string{"Content-Type": ""}, body: rpc("ping", `{}`)},
	{name: "accepting HTML only", header: map[string]string{"Accept": "text/html"}, body: rpc("ping", `{}`)},
	{name: "a foreign host", header: map[string]string{"Host": "evil.example"}, body: rpc("ping", `{}`), status: 403},
	{name: "a foreign origin", header: map[string]string{"Origin": "https://evil.example"}, body: rpc("ping", `{}`), status: 403},
	{name: "no body", body: ``, status: 400, code: -32700},
	{name: "5 MiB of body", body: rpc("ping", `{"a":"`+strings.Repeat("x", 5<<20)+`"}`)},
}

// modernRequests are wrong only in the modern era.
func modernRequests() []malformed {
	list := mcptest.ModernParams("{}", "{}")
	call := mcptest.ModernParams(`{"name":"echo__echo","arguments":{}}`, "{}")
	drop := func(params, key string) string {
		meta := string(mcptest.Field([]byte(params), "_meta"))
		return mcptest.Put(params, "_meta", mcptest.Without(meta, "io.modelcontextprotocol/"+key))
	}
	version := func(params, v string) string {
		meta := string(mcptest.Field([]byte(params), "_meta"))
		return mcptest.Put(params, "_meta", mcptest.Put(meta, "io.modelcontextprotocol/protocolVersion", mcptest.Quote(v)))
	}
	return []malformed{
		{"no version header", map[string]string{"Mcp-Protocol-Version": ""}, rpc("tools/list", list), 400, -32020},
		{"another version in the header", map[string]string{"Mcp-Protocol-Version": "2025-11-25"}, rpc("tools/list", list), 400, -32020},
		{"no method header", map[string]string{"Mcp-Method": ""}, rpc("tools/list", list), 400, -32020},
		{"another method in the header", map[string]string{"Mcp-Method": "tools/call"}, rpc("tools/list", list), 400, -32020},
		{"the method in other case", map[string]string{"Mcp-Method": "Tools/List"}, rpc("tools/list", list), 400, -32020},
		{"no name header", map[string]string{"Mcp-Name": ""}, rpc("tools/call", call), 400, -32020},
		{"another name in the header", map[string]string{"Mcp-Name": "echo__other"}, rpc("tools/call", call), 400, -32020},
		{"an encoded other name", map[string]string{"Mcp-Name": "=?base64?eA==?="}, rpc("tools/call", call), 400, -32020},
		{"an encoding that is none", map[string]string{"Mcp-Name": "=?base64?%%%?="}, rpc("tools/call", call), 400, -32020},
		{"no capabilities", nil, rpc("tools/list", drop(list, "clientCapabilities")), 400, -32602},
		{"no version in the body", nil, rpc("tools/list", drop(list, "protocolVersion")), 400, 0},
		{"no metadata", nil, rpc("tools/list", `{}`), 400, 0},
		{"metadata as text", nil, rpc("tools/list", `{"_meta":"x"}`), 400, 0},
		{"a version of the future", map[string]string{"Mcp-Protocol-Version": "2099-01-01"}, rpc("tools/list", version(list, "2099-01-01")), 400, -32022},
		{"a version that is none", map[string]string{"Mcp-Protocol-Version": "latest"}, rpc("tools/list", version(list, "latest")), 400, -32022},
		{"ping, which was removed", nil, rpc("ping", list), 404, -32601},
		{"initialize, which was removed", nil, rpc("initialize", list), 404, -32601},
		{"setting a level, which was removed", nil, rpc("logging/setLevel", mcptest.Put(list, "level", `"info"`)), 404, -32601},
		{"subscribing, which was removed", nil, rpc("resources/subscribe", mcptest.Put(list, "uri", `"x:y"`)), 404, -32601},
		{"an unknown resource", nil, rpc("resources/read", mcptest.Put(list, "uri", `"nope://x"`)), 400, -32602},
		{"listening without a filter", nil, rpc("subscriptions/listen", list), 400, -32602},
	}
}

// asModern gives a request the metadata of the modern era and the status its code
// has there. Without a name it is the missing header that may be complained about.
func (m malformed) asModern() malformed {
	if params := mcptest.Field([]byte(m.body), "params"); params != nil {
		m.body = mcptest.Put(m.body, "params", mcptest.ModernParams(string(params), "{}"))
	}
	switch m.code {
	case -32601:
		m.status = 404
	case -32602:
		m.status = 400
	}
	if q, err := mcptest.ParseRequest([]byte(m.body)); err == nil && q.Name == "" && m.code == -32602 && !strings.Contains(q.Method, "list") {
		m.code = 0
	}
	return m
}

// headersFor mirrors the body in headers, as a client of the modern era does;
// header has the last word.
func headersFor(body string, header map[string]string) map[string]string {
	h := map[string]string{"Mcp-Protocol-Version": mcptest.ModernVersion}
	if q, err := mcptest.ParseRequest([]byte(body)); err == nil {
		h["Mcp-Method"] = q.Method
		h["Mcp-Name"] = q.Name
	}
	for k, v := range header {
		h[k] = v
	}
	return h
}

// problem compares what came back with what must.
func (m malformed) problem(x *mcptest.Exchange) string {
	switch {
	case m.status > 0 && x.Status != m.status:
		return fmt.Sprintf("status %d, want %d", x.Status, m.status)
	case m.status == 0 && (x.Status < 400 || x.Status > 499):
		return fmt.Sprintf("status %d, want a client error", x.Status)
	case m.status < 0 && x.Status >= 500:
		return fmt.Sprintf("status %d", x.Status)
	case m.code != 0 && x.Code() != m.code:
		return fmt.Sprintf("code %d, want %d", x.Code(), m.code)
	case x.Status == 200 && x.Error == nil:
		return "no error"
	case x.Error != nil && !goodError(x.Error):
		return "the error has no message"
	case x.ID != nil && string(x.ID) != "7" && string(x.ID) != "null":
		return fmt.Sprintf("id %s is not the request's", x.ID)
	}
	return ""
}

func goodError(e json.RawMessage) bool {
	var message string
	return json.Unmarshal(mcptest.Field(e, "message"), &message) == nil && len(message) > 5
}
