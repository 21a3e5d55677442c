package downstream_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
)

// annotated is a tool with parameters that modern HTTP clients repeat as headers.
func annotated() catalog.Input {
	in := tools("plain")
	in.Tools = append(in.Tools, []byte(`{"name":"sql","inputSchema":{"type":"object","properties":{`+
		`"region":{"type":"string","x-mcp-header":"Region"},`+
		`"limit":{"type":"integer","x-mcp-header":"Limit"},`+
		`"deep":{"type":"object","properties":{"dry":{"type":"boolean","x-mcp-header":"Dry"}}}}}}`))
	return in
}

func TestMalformedPostsGetTheirError(t *testing.T) {
	b := newBare(t, tools("a"), func(c *config.Config) { c.Limits.Body = 4096 })
	url := b.serve(t)
	session := open(t, url)
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, c := range []struct {
		name   string
		header map[string]string
		body   string
		status int
		want   string
	}{
		{"no JSON", nil, `{"jsonrpc"`, 400, `"id":null,"error":{"code":-32700`},
		{"empty body", nil, ``, 400, `-32700`},
		{"text behind the message", nil, ping + `x`, 400, `-32700`},
		{"bad UTF-8", nil, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", 400, `-32700`},
		{"deep nesting", nil, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":` + strings.Repeat("[", 1500) + strings.Repeat("]", 1500) + `}}`, 400, `-32700`},
		{"a number", nil, `5`, 400, `-32600`},
		{"duplicate envelope key", nil, `{"jsonrpc":"2.0","id":7,"method":"ping","method":"tools/list"}`, 400, `"id":7,"error":{"code":-32600`},
		{"wrong version of JSON-RPC", nil, `{"jsonrpc":"1.0","id":7,"method":"ping"}`, 400, `"id":7,"error":{"code":-32600`},
		{"null id", nil, `{"jsonrpc":"2.0","id":null,"method":"ping"}`, 400, `-32600`},
		{"a body above the limit", legacyHeaders(session), `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` + strings.Repeat("x", 5000) + `"}}`, 413, `limits.body`},
		{"text", map[string]string{"Content-Type": "text/plain"}, ping, 415, `application/json`},
		{"no content type", map[string]string{"Content-Type": ""}, ping, 415, `application/json`},
		{"compressed", map[string]string{"Content-Encoding": "gzip"}, ping, 415, `Content-Encoding`},
		{"a client that takes no events", map[string]string{"Accept": "application/json"}, ping, 406, `event-stream`},
		{"a client that takes no JSON", map[string]string{"Accept": "text/event-stream, application/json;q=0"}, ping, 406, `application/json`},
		{"parameters of the content type", with(legacyHeaders(session), "Content-Type", "Application/JSON; charset=utf-8"), ping, 200, `"result":{}`},
		{"a client that takes anything", with(legacyHeaders(session), "Accept", "*/*"), ping, 200, `"result":{}`},
		{"ranges", with(legacyHeaders(session), "Accept", "application/*, text/*;q=0.5"), ping, 200, `"result":{}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := post(t, url, c.header, c.body)
			if a.status != c.status || !strings.Contains(a.body, c.want) {
				t.Errorf("%d %s, want %d %s", a.status, a.body, c.status, c.want)
			}
			if ct := a.header.Get("Content-Type"); ct != "application/json" {
				t.Errorf("content type %q", ct)
			}
		})
	}
	if a := post(t, url, legacyHeaders(session), ping); a.status != 200 {
		t.Errorf("the session did not survive: %d %s", a.status, a.body)
	}
}

func TestChunkedBodiesAreBounded(t *testing.T) {
	b := newBare(t, tools("a"), func(c *config.Config) { c.Limits.Body = 1 << 20 })
	url := b.serve(t)
	resp, err := http.DefaultTransport.RoundTrip(newRequest(t, http.MethodPost, url, nil, zeros{}))
	if err != nil {
		return // the connection was closed before the client looked for an answer
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestEraIsChosenPerRequest(t *testing.T) {
	b := newBare(t, tools("a"))
	url := b.serve(t)
	session := open(t, url)
	discover := `{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{` + meta + `}}`
	other := strings.Replace(discover, "2026-07-28", "v999", 1)
	for _, c := range []struct {
		name   string
		header map[string]string
		body   string
		status int
		want   string
	}{
		{"modern", modernHeaders("server/discover"), discover, 200, `"id":"d","result":{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"`},
		{"a session id means nothing to a modern request", with(modernHeaders("server/discover"), "Mcp-Session-Id", "none"), discover, 200, `"result"`},
		{"modern version without the header", nil, discover, 400, `"id":"d","error":{"code":-32020`},
		{"header of one era, _meta of the other", with(modernHeaders("server/discover"), "Mcp-Protocol-Version", "2025-11-25"), discover, 400, `-32020`},
		{"header and _meta disagree before either is known", with(modernHeaders("server/discover"), "Mcp-Protocol-Version", "2026-07-28"), other, 400, `-32020`},
		{"unknown version", with(modernHeaders("server/discover"), "Mcp-Protocol-Version", "v999"), other, 400, `{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28",`},
		{"unknown version is repeated", with(modernHeaders("server/discover"), "Mcp-Protocol-Version", "v999"), other, 400, `"requested":"v999"`},
		{"unknown version on a session", with(legacyHeaders(session), "Mcp-Protocol-Version", "1999-01-01"), `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 400, `-32022`},
		{"no version on a session", with(legacyHeaders(session), "Mcp-Protocol-Version", ""), `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 200, `"result":{}`},
		{"older version on a session", with(legacyHeaders(session), "Mcp-Protocol-Version", "2025-06-18"), `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 200, `"result":{}`},
		{"no version and no session", nil, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 400, `"id":1,"error":{"code":-32600`},
		{"initialize with a future version", nil, strings.Replace(initialize, "2025-11-25", "2031-01-01", 1), 200, `"protocolVersion":"2025-11-25"`},
		{"initialize with an old version", nil, strings.Replace(initialize, "2025-11-25", "2024-11-05", 1), 200, `"protocolVersion":"2024-11-05"`},
		{"initialize without a version", nil, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, 200, `-32602`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := post(t, url, c.header, c.body)
			if a.status != c.status || !strings.Contains(a.body, c.want) {
				t.Errorf("%d %s, want %d %s", a.status, a.body, c.status, c.want)
			}
		})
	}
}

func TestModernRequestsAreValidated(t *testing.T) {
	b := newBare(t, annotated())
	url := b.serve(t)
	list := modernHeaders("tools/list")
	call := with(modernHeaders("tools/call"), "Mcp-Name", "lab__sql")
	body := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":3,"method":"` + method + `","params":{` + params + `}}`
	}
	args := func(a string) string { return body("tools/call", `"name":"lab__sql","arguments":`+a+`,`+meta) }
	for _, c := range []struct {
		name   string
		header map[string]string
		body   string
		status int
		want   string
	}{
		{"a list", list, body("tools/list", meta), 200, `"tools":[`},
		{"no _meta", list, body("tools/list", ``), 400, `-32602`},
		{"no params", list, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`, 400, `-32602`},
		{"_meta without a version", list, body("tools/list", `"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}`), 400, `-32602`},
		{"_meta without capabilities", list, body("tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`), 400, `-32602`},
		{"capabilities that are no object", list, body("tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":[]}`), 400, `-32602`},
		{"a version twice", list, body("tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`), 400, `-32602`},
		{"a log level that is none", list, body("tools/list", `"_meta":{"io.modelcontextprotocol/logLevel":"loud","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`), 400, `-32602`},
		{"no Mcp-Method", with(list, "Mcp-Method", ""), body("tools/list", meta), 400, `-32020`},
		{"another Mcp-Method", with(list, "Mcp-Method", "prompts/list"), body("tools/list", meta), 400, `-32020`},
		{"Mcp-Method in another case", with(list, "Mcp-Method", "TOOLS/LIST"), body("tools/list", meta), 400, `-32020`},
		{"no Mcp-Name", with(call, "Mcp-Name", ""), args(`{}`), 400, `-32020`},
		{"another Mcp-Name", with(call, "Mcp-Name", "lab__plain"), args(`{}`), 400, `-32020`},
		{"Mcp-Name that is bad Base64", with(call, "Mcp-Name", "=?base64?bGFiX19zcWw?="), args(`{}`), 400, `-32020`},
		{"a name that is no string", call, body("tools/call", `"name":5,`+meta), 400, `-32602`},
		{"a header for a missing argument", with(call, "Mcp-Param-Region", "eu"), args(`{}`), 400, `-32020`},
		{"a header for a null argument", with(call, "Mcp-Param-Region", "eu"), args(`{"region":null}`), 400, `-32020`},
		{"no header for an argument", call, args(`{"region":"eu"}`), 400, `-32020`},
		{"another value", with(call, "Mcp-Param-Region", "us"), args(`{"region":"eu"}`), 400, `-32020`},
		{"bad padding", with(call, "Mcp-Param-Region", "=?base64?SGVsbG8?="), args(`{"region":"Hello"}`), 400, `-32020`},
		{"bad characters", with(call, "Mcp-Param-Region", "=?base64?SGVs!!!bG8=?="), args(`{"region":"Hello"}`), 400, `-32020`},
		{"not ASCII", with(call, "Mcp-Param-Region", "Zürich"), args(`{"region":"Zürich"}`), 400, `-32020`},
		{"another number", with(call, "Mcp-Param-Limit", "43"), args(`{"limit":42}`), 400, `-32020`},
		{"a notation that JSON does not have", with(call, "Mcp-Param-Limit", "0x2Ap0"), args(`{"limit":42}`), 400, `-32020`},
		{"an argument of another type", with(call, "Mcp-Param-Region", "{}"), args(`{"region":{}}`), 400, `-32020`},
		{"an ambiguous argument", with(call, "Mcp-Param-Region", "eu"), args(`{"region":"eu","region":"us"}`), 400, `-32020`},
		{"a nested argument", call, args(`{"deep":{"dry":true}}`), 400, `-32020`},
		{"initialize is gone", modernHeaders("initialize"), body("initialize", meta), 404, `-32601`},
		{"ping is gone", modernHeaders("ping"), body("ping", meta), 404, `-32601`},
		{"logging/setLevel is gone", modernHeaders("logging/setLevel"), body("logging/setLevel", meta), 404, `-32601`},
		{"resources/subscribe is gone", modernHeaders("resources/subscribe"), body("resources/subscribe", meta), 404, `-32601`},
		{"unknown method", modernHeaders("no/such"), body("no/such", meta), 404, `"id":3,"error":{"code":-32601`},
		{"a list of what nobody offers", modernHeaders("prompts/list"), body("prompts/list", meta), 200, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","prompts":[]`},
		{"a bad cursor", list, body("tools/list", `"cursor":"nonsense",`+meta), 400, `-32602`},
		{"a cursor that is no string", list, body("tools/list", `"cursor":5,`+meta), 400, `-32602`},
		{"a response", list, `{"jsonrpc":"2.0","id":3,"result":{}}`, 400, `-32600`},
		{"a batch", list, `[` + body("tools/list", meta) + `]`, 400, `-32600`},
		{"a filter that is none", modernHeaders("subscriptions/listen"), body("subscriptions/listen", meta), 400, `-32602`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := post(t, url, c.header, c.body)
			if a.status != c.status || !strings.Contains(a.body, c.want) {
				t.Errorf("%d %s, want %d %s", a.status, a.body, c.status, c.want)
			}
		})
	}
	if a := post(t, url, modernHeaders("notifications/other"), `{"jsonrpc":"2.0","method":"notifications/other"}`); a.status != 202 || a.body != "" {
		t.Errorf("notification: %d %s", a.status, a.body)
	}
}

func TestLegacySessionsLiveAndDie(t *testing.T) {
	b := newBare(t, tools("a"))
	url := b.serve(t)
	one, two := open(t, url), open(t, url)
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	check := func(what string, a answer, status int, want string) {
		t.Helper()
		if a.status != status || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s, want %d %s", what, a.status, a.body, status, want)
		}
	}
	if len(one) < 26 || one == two {
		t.Errorf("session ids %q and %q", one, two)
	}
	check("unknown session", post(t, url, legacyHeaders("nobody"), ping), 404, `"id":1,"error":{"code":-32001`)
	check("DELETE without a session", send(t, "DELETE", url, nil, ""), 400, `-32600`)
	check("DELETE of an unknown session", send(t, "DELETE", url, legacyHeaders("nobody"), ""), 404, ``)
	check("unknown method", post(t, url, legacyHeaders(one), `{"jsonrpc":"2.0","id":"x","method":"no/such"}`), 200, `"id":"x","error":{"code":-32601`)
	check("notification", post(t, url, legacyHeaders(one), `{"jsonrpc":"2.0","method":"notifications/no/such"}`), 202, ``)
	check("response", post(t, url, legacyHeaders(one), `{"jsonrpc":"2.0","id":9,"result":{}}`), 202, ``)
	check("an empty list", post(t, url, legacyHeaders(one), `{"jsonrpc":"2.0","id":2,"method":"prompts/list"}`), 200, `"prompts":[]`)
	check("a bad cursor", post(t, url, legacyHeaders(one), `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"zzz"}}`), 200, `-32602`)
	check("a level that is none", post(t, url, legacyHeaders(one), `{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"loud"}}`), 200, `-32602`)
	check("modern methods", post(t, url, legacyHeaders(one), `{"jsonrpc":"2.0","id":2,"method":"server/discover"}`), 200, `-32601`)
	check("a batch of another revision", post(t, url, legacyHeaders(one), `[`+ping+`]`), 400, `-32600`)
	check("DELETE", send(t, "DELETE", url, legacyHeaders(one), ""), 204, ``)
	check("a deleted session", post(t, url, legacyHeaders(one), ping), 404, ``)
	check("the other session", post(t, url, legacyHeaders(two), ping), 200, `"result":{}`)
	check("a stream without a session", send(t, "GET", url, map[string]string{"Accept": "text/event-stream"}, ""), 400, ``)
	check("a stream of a modern client", send(t, "GET", url, map[string]string{"Accept": "text/event-stream", "Mcp-Protocol-Version": "2026-07-28"}, ""), 405, ``)
	check("a stream nobody takes", send(t, "GET", url, with(legacyHeaders(two), "Accept", "application/json"), ""), 406, ``)
	for _, method := range []string{"PUT", "OPTIONS", "PATCH"} {
		a := send(t, method, url, nil, "")
		check(method, a, 405, ``)
		if allow := a.header.Get("Allow"); allow != "POST, GET, DELETE" {
			t.Errorf("%s: Allow %q", method, allow)
		}
	}
	check("another path", post(t, strings.Replace(url, "/mcp", "/other", 1), nil, ping), 404, ``)
}

func TestBatchesOfTheRevisionThatHasThem(t *testing.T) {
	b := newBare(t, tools("a"))
	url := b.serve(t)
	a := post(t, url, nil, strings.Replace(initialize, "2025-11-25", "2025-03-26", 1))
	h := map[string]string{"Mcp-Session-Id": a.header.Get("Mcp-Session-Id")}
	for _, c := range []struct {
		name, body string
		status     int
		want       string
	}{
		{"requests", `[{"jsonrpc":"2.0","id":1,"method":"ping"}, {"jsonrpc":"2.0","id":"2","method":"ping"}]`, 200, `[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":"2","result":{}}]`},
		{"everything mixed", `[{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":5,"result":{}},{"jsonrpc":"2.0","id":1,"method":"no/such"},7]`, 200, `[{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found: no/such"}},{"jsonrpc":"2.0","id":null,"error":{"code":-32600`},
		{"notifications only", `[{"jsonrpc":"2.0","method":"notifications/initialized"}]`, 202, ``},
		{"initialize", `[` + initialize + `]`, 200, `"id":0,"error":{"code":-32600`},
		{"nothing", `[ ]`, 400, `-32600`},
		{"no JSON", `[{"jsonrpc":`, 400, `-32700`},
		{"too many", `[` + strings.Repeat(`1,`, 1000) + `1]`, 400, `-32600`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := post(t, url, h, c.body)
			if a.status != c.status || !strings.HasPrefix(a.body, c.want) && !strings.Contains(a.body, c.want) {
				t.Errorf("%d %s, want %d %s", a.status, a.body, c.status, c.want)
			}
		})
	}
}

func TestWebPagesStayOut(t *testing.T) {
	b := newBare(t, tools("a"), func(c *config.Config) {
		c.HTTP.AllowedOrigins = []string{"https://app.example.com"}
		c.HTTP.AllowedHosts = []string{"gateway.example.com", "other.example.com:8443"}
	})
	url := b.serve(t)
	port := url[strings.LastIndex(url, ":") : len(url)-len("/mcp")]
	for _, c := range []struct {
		name   string
		header map[string]string
		status int
	}{
		{"no page", nil, 200},
		{"a page of this machine", map[string]string{"Host": "localhost" + port, "Origin": "http://localhost:6274"}, 200},
		{"a page of this machine by address", map[string]string{"Origin": "http://[::1]:3000"}, 200},
		{"an allowed page", map[string]string{"Origin": "https://App.example.com"}, 200},
		{"a foreign page", map[string]string{"Origin": "https://evil.example.com"}, 403},
		{"a page without origin", map[string]string{"Origin": "null"}, 403},
		{"a name that looks local", map[string]string{"Origin": "http://localhost.evil.example.com"}, 403},
		{"a foreign name", map[string]string{"Host": "evil.example.com", "Origin": "http://evil.example.com"}, 403},
		{"a foreign name without a page", map[string]string{"Host": "evil.example.com"}, 403},
		{"an allowed name", map[string]string{"Host": "gateway.example.com:9000"}, 200},
		{"an allowed name with its port", map[string]string{"Host": "other.example.com:8443"}, 200},
		{"an allowed name with another port", map[string]string{"Host": "other.example.com:1"}, 403},
		{"a local page at an allowed name", map[string]string{"Host": "gateway.example.com", "Origin": "http://localhost:1"}, 403},
		{"our own page at an allowed name", map[string]string{"Host": "gateway.example.com", "Origin": "http://gateway.example.com"}, 200},
		{"IPv6", map[string]string{"Host": "[::1]" + port}, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			if a := post(t, url, c.header, initialize); a.status != c.status {
				t.Errorf("%d %s, want %d", a.status, a.body, c.status)
			}
		})
	}
	t.Run("too many headers", func(t *testing.T) {
		h := map[string]string{}
		for i := range 120 {
			h[fmt.Sprintf("X-%d", i)] = "1"
		}
		if a := post(t, url, h, initialize); a.status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

func TestListsOfNobody(t *testing.T) {
	b := newBare(t, tools("a"))
	url := b.serve(t)
	h := legacyHeaders(open(t, url))
	b.fail()
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`
	if a := post(t, url, h, list+`}}`); a.status != 200 || !strings.Contains(a.body, `"code":"unreachable"`) {
		t.Errorf("every server has failed: %d %s", a.status, a.body)
	}
	if a := post(t, url, modernHeaders("tools/list"), list+meta+`}}`); a.status != 200 || !strings.Contains(a.body, `-32603`) {
		t.Errorf("every server has failed, modern: %d %s", a.status, a.body)
	}
	b.cfg.Servers[0].Enabled = false
	if a := post(t, url, h, list+`}}`); a.status != 200 || !strings.Contains(a.body, `"tools":[]`) {
		t.Errorf("there is no server: %d %s", a.status, a.body)
	}
}

func TestSessionsAreCapped(t *testing.T) {
	b := newBare(t, tools("a"), func(c *config.Config) { c.HTTP.MaxSessions = 3 })
	url := b.serve(t)
	first := open(t, url)
	open(t, url)
	open(t, url)
	if a := post(t, url, nil, initialize); a.status != 503 || a.header.Get("Mcp-Session-Id") != "" || !strings.Contains(a.body, "overloaded") {
		t.Errorf("%d %s", a.status, a.body)
	}
	send(t, "DELETE", url, legacyHeaders(first), "")
	open(t, url)
}
