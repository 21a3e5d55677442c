package bridge_test

import (
	"net/http"
	"testing"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/wire"
)

var self = bridge.NewIdentity("agg", "1")

const ours = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"agg","version":"1"},"io.modelcontextprotocol/clientCapabilities":`

const info = `"io.modelcontextprotocol/logLevel":"info"`

// object scans text the way a message's params or result are scanned.
func object(t *testing.T, text string) *wire.Object {
	t.Helper()
	if text == "" {
		return &wire.Object{}
	}
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":` + text + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return &m.Body
}

func TestParamsCrossTheEras(t *testing.T) {
	const theirs = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}`
	for _, c := range []struct {
		name             string
		client, upstream wire.Era
		level            string
		params, want     string
	}{
		{"legacy to legacy changes nothing", wire.Legacy, wire.Legacy, "", `{"name":"x", "_meta":{"a/b":1.0}}`, `{"name":"x", "_meta":{"a/b":1.0}}`},
		{"a legacy token is replaced alone", wire.Legacy, wire.Legacy, "", `{"_meta":{"k":null,"progressToken" : "t\u0031"}}`, `{"_meta":{"k":null,"progressToken" : 77}}`},
		{"a second token cannot name another client's call", wire.Legacy, wire.Legacy, "", `{"_meta":{"progressToken":1,"progressToken":5,"progress\u0054oken":"6"}}`, `{"_meta":{"progressToken":77,"progressToken":77,"progress\u0054oken":77}}`},
		{"a legacy client cannot smuggle reserved keys", wire.Legacy, wire.Legacy, "", `{"_meta":{` + theirs + `,"k":1}}`, `{"_meta":{"k":1}}`},
		{"modern keys end at a legacy upstream", wire.Modern, wire.Legacy, "info", `{"name":"x","_meta":{` + theirs + `,"k":{"z":1,"a":2}}}`, `{"name":"x","_meta":{"k":{"z":1,"a":2}}}`},
		{"an empty _meta goes too", wire.Modern, wire.Legacy, "", `{"_meta":{` + theirs + `},"name":"x"}`, `{"name":"x"}`},
		{"a modern upstream gets our keys", wire.Legacy, wire.Modern, "", `{"name":"x"}`, `{"_meta":{` + ours + `{},` + info + `},"name":"x"}`},
		{"absent params become an object", wire.Legacy, wire.Modern, "", ``, `{"_meta":{` + ours + `{},` + info + `}}`},
		{"empty params become an object with one member", wire.Legacy, wire.Modern, "", `{}`, `{"_meta":{` + ours + `{},` + info + `}}`},
		{"own keys of a legacy client go on", wire.Legacy, wire.Modern, "error", `{"_meta":{"progressToken":5,"k":[1e400]}}`, `{"_meta":{` + ours + `{},"io.modelcontextprotocol/logLevel":"error","progressToken":77,"k":[1e400]}}`},
		{"between modern peers identity is ours, capabilities are the client's", wire.Modern, wire.Modern, "", `{"_meta":{"progressToken":"t",` + theirs + `},"name":"x"}`, `{"_meta":{` + ours + `{"elicitation":{}},"progressToken":77},"name":"x"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := object(t, c.params)
			hop := bridge.Hop{Client: c.client, Upstream: c.upstream, ID: 77, LogLevel: c.level}
			got := self.ParamEdits(hop, p, bridge.ReadMeta(p))
			if string(got.Bytes()) != c.want {
				t.Errorf("got  %s\nwant %s", got.Bytes(), c.want)
			}
			if got.Len() != len(c.want) {
				t.Errorf("Len = %d, want %d", got.Len(), len(c.want))
			}
		})
	}
}

func TestResultsCrossTheEras(t *testing.T) {
	for _, c := range []struct {
		name             string
		method           string
		client, upstream wire.Era
		result, want     string
	}{
		{"legacy to legacy changes nothing", "tools/call", wire.Legacy, wire.Legacy, `{"resultType":1,"content":[]}`, `{"resultType":1,"content":[]}`},
		{"a modern client learns the type", "tools/call", wire.Modern, wire.Legacy, `{"content":[1.0]}`, `{"resultType":"complete","content":[1.0]}`},
		{"an empty result too", "prompts/get", wire.Modern, wire.Legacy, `{}`, `{"resultType":"complete"}`},
		{"a read is cacheable", "resources/read", wire.Modern, wire.Legacy, `{"contents":[]}`, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","contents":[]}`},
		{"hints of a modern server stay", "resources/read", wire.Modern, wire.Modern, `{"resultType":"complete","ttlMs":5,"cacheScope":"public"}`, `{"resultType":"complete","ttlMs":5,"cacheScope":"public"}`},
		{"input required is not cacheable", "resources/read", wire.Modern, wire.Modern, `{"resultType":"input_required","requestState":"s"}`, `{"resultType":"input_required","requestState":"s"}`},
		{"the server's identity becomes ours", "tools/call", wire.Modern, wire.Modern, `{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"up"},"k":1}}`, `{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"agg","version":"1"},"k":1}}`},
		{"modern fields end at a legacy client", "resources/read", wire.Legacy, wire.Modern, `{"resultType":"complete","contents":[],"ttlMs":5,"cacheScope":"public"}`, `{"contents":[]}`},
		{"also as the last members", "tools/call", wire.Legacy, wire.Modern, `{"content":[],"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{}}}`, `{"content":[]}`},
		{"other keys of _meta stay", "tools/call", wire.Legacy, wire.Modern, `{"_meta":{"k":1,"io.modelcontextprotocol/serverInfo":{}},"resultType":"complete"}`, `{"_meta":{"k":1}}`},
		{"a result that is no object stays", "tools/call", wire.Modern, wire.Legacy, `[1]`, `[1]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := self.ResultEdits(c.method, c.client, c.upstream, object(t, c.result))
			if string(got.Bytes()) != c.want {
				t.Errorf("got  %s\nwant %s", got.Bytes(), c.want)
			}
		})
	}
}

func TestLogMessagesPassTheClientsLevel(t *testing.T) {
	for _, c := range []struct {
		era   wire.Era
		level string
		got   string
		want  bool
	}{
		{wire.Legacy, "", `{"level":"debug"}`, true},
		{wire.Modern, "", `{"level":"emergency"}`, false},
		{wire.Modern, "info", `{"level":"debug"}`, false},
		{wire.Modern, "info", `{"level":"info"}`, true},
		{wire.Legacy, "error", `{"level":"warning"}`, false},
		{wire.Legacy, "error", `{"level":"own"}`, true},
	} {
		if got := bridge.LogWanted(c.era, c.level, []byte(c.got)); got != c.want {
			t.Errorf("%v client at %q, message %s: %v, want %v", c.era, c.level, c.got, got, c.want)
		}
	}
}

func TestParamHeadersMirrorArguments(t *testing.T) {
	args := []byte(`{"region":"us-west1","s":{"deep":"Hello, 世界"},"n":42,"b":true,"nil":null,"pad":" x ","obj":{},"sent":"=?base64?literal?="}`)
	h := http.Header{}
	for name, path := range map[string][]string{"Region": {"region"}, "Deep": {"s", "deep"}, "N": {"n"}, "B": {"b"}, "Nil": {"nil"}, "Pad": {"pad"}, "Obj": {"obj"}, "Gone": {"x", "y"}, "Sent": {"sent"}} {
		bridge.ParamHeader(h, name, path, args)
	}
	want := map[string]string{"Region": "us-west1", "Deep": "=?base64?SGVsbG8sIOS4lueVjA==?=", "N": "42", "B": "true", "Nil": "", "Obj": "", "Gone": "", "Sent": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="}
	want["Pad"] = "=?base64?IHgg?="
	for name, v := range want {
		if got := h.Get("Mcp-Param-" + name); got != v {
			t.Errorf("%s = %q, want %q", name, got, v)
		}
	}
}

func TestAnAmbiguousArgumentHasNoHeader(t *testing.T) {
	for _, args := range []string{`{"v":"a","v":"b"}`, `{"v":"a","\u0076":"b"}`, `{"s":{"v":1},"s":{"v":2}}`, `{"s":{"v":1,"v":1}}`} {
		h := http.Header{}
		bridge.ParamHeader(h, "V", []string{"v"}, []byte(args))
		bridge.ParamHeader(h, "S", []string{"s", "v"}, []byte(args))
		if len(h) > 0 {
			t.Errorf("%s: %v", args, h)
		}
	}
	h := http.Header{}
	bridge.ParamHeader(h, "V", []string{"v"}, []byte(`{"V":1,"v":2}`))
	if h.Get("Mcp-Param-V") != "2" {
		t.Errorf("arguments that differ in case: %v", h)
	}
}
