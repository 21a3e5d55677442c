//go:build e2e && linux

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// behind names the four servers: transport and era.
var behind = []string{"hl", "hm", "sl", "sm"}

// TestByteExact sends every sample through every cell of {HTTP, stdio} × {legacy,
// modern} on both sides.
func TestByteExact(t *testing.T) {
	config := func(t *testing.T) harness.Config {
		return harness.Servers(map[string]harness.Config{
			"hl": listen(t, awkwardServer("hl", mcptest.Legacy)),
			"hm": listen(t, awkwardServer("hm", mcptest.Modern)),
			"sl": harness.Child(t, "sl"),
			"sm": harness.Child(t, "sm"),
		})
	}
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		t.Run(fmt.Sprintf("%s client on HTTP", era), func(t *testing.T) {
			crossAll(t, harness.Serve(t, config(t)).Connect(t, era))
		})
		t.Run(fmt.Sprintf("%s client on stdio", era), func(t *testing.T) {
			_, c := harness.ServeStdio(t, config(t), era)
			crossAll(t, c)
		})
	}
}

func crossAll(t *testing.T, c *mcptest.Client) {
	awaitTools(t, c, len(behind)*(len(awkwardTools)+len(awkwardResults)+len(awkwardErrors)+1))
	for _, server := range behind {
		t.Run("server "+server, func(t *testing.T) {
			crossDefinitions(t, c, server)
			crossResults(t, c, server)
			crossParams(t, c, server)
		})
	}
}

// crossDefinitions compares the lists with what the server offered.
func crossDefinitions(t *testing.T, c *mcptest.Client, server string) {
	kinds := []struct {
		method, name, kind string
		samples            []sample
	}{
		{"tools/list", "name", server + "__t", awkwardTools},
		{"prompts/list", "name", server + "__p", awkwardPrompts},
		{"resources/list", "uri", server + "u", awkwardResources},
		{"resources/templates/list", "uriTemplate", server + "v", awkwardTemplates},
	}
	for _, k := range kinds {
		defs, _, err := c.List(harness.Context(t, 20*time.Second), k.method)
		if err != nil {
			t.Errorf("%s: %v", k.method, err)
			continue
		}
		listed := map[string]string{} // name → definition
		for _, def := range defs {
			var name string
			_ = json.Unmarshal(mcptest.Field(def, k.name), &name)
			listed[name] = string(def)
		}
		for i, s := range k.samples {
			want := s.named(k.kind, i)
			var name string
			_ = json.Unmarshal(mcptest.Field([]byte(want), k.name), &name)
			if got := listed[name]; got != want {
				t.Errorf("%s, %s:\n got %s\nwant %s", k.method, s.name, clip(got), clip(want))
			}
		}
	}
}

// crossResults compares answers with what the server answered.
func crossResults(t *testing.T, c *mcptest.Client, server string) {
	ctx := harness.Context(t, 60*time.Second)
	for i, s := range awkwardResults {
		wantResult(t, ctx, c, s, s.json, "tools/call", fmt.Sprintf(`{"name":"%s__r%d","arguments":{}}`, server, i))
	}
	for i, s := range awkwardMessages {
		wantResult(t, ctx, c, s, s.json, "prompts/get", fmt.Sprintf(`{"name":"%s__p%d"}`, server, i))
	}
	for i, s := range awkwardReads {
		wantResult(t, ctx, c, s, s.named(server+"u", i), "resources/read", fmt.Sprintf(`{"uri":"awk://%su%d"}`, server, i))
	}
	for i, s := range awkwardErrors {
		x, err := c.Call(ctx, "tools/call", fmt.Sprintf(`{"name":"%s__e%d","arguments":{}}`, server, i))
		if err != nil || string(x.Error) != s.json {
			t.Errorf("error %s: %v\n got %s\nwant %s", s.name, err, show(x), s.json)
		}
	}
}

func wantResult(t *testing.T, ctx context.Context, c *mcptest.Client, s sample, want, method, params string) {
	t.Helper()
	x, err := c.Call(ctx, method, params)
	if err != nil {
		t.Errorf("%s, %s: %v", method, s.name, err)
		return
	}
	if got := mcptest.WithoutEra(string(x.Result)); x.Result == nil || got != mcptest.WithoutEra(want) {
		t.Errorf("%s, %s:\n got %s\nwant %s", method, s.name, show(x), clip(want))
	}
	modern := mcptest.Field(x.Result, "resultType") != nil
	if x.Result != nil && modern != (c.Era == mcptest.Modern) {
		t.Errorf("%s, %s: resultType present: %v in the %s era", method, s.name, modern, c.Era)
	}
}

// awkwardArguments are parameters that must reach the server as they stand.
var awkwardArguments = []sample{
	{"numbers", `{"a":9007199254740993,"b":1.0,"c":1e400,"d":-0.0,"e":1E5}`},
	{"order and white space", "{ \"z\" : 1 ,\t\"a\":[ ] }"},
	{"null, false and empty", `{"n":null,"f":false,"s":"","o":{},"l":[]}`},
	{"escapes", `{"k\u0065y":"\ud83d\ude00 <b>&amp; \/ é"}`},
	{"duplicate keys", `{"o":{"a":1,"a":2}}`},
	{"empty", `{}`},
}

// crossParams compares what the server received with what was sent.
func crossParams(t *testing.T, c *mcptest.Client, server string) {
	ctx := harness.Context(t, 60*time.Second)
	for _, s := range awkwardArguments {
		// The object _meta is made anew on each hop; what others put there stays as it is.
		const meta = `{"com.example/trace":{"n":1.0},"traceparent":"00-ab-cd-01"}`
		params := `{"x-extra":1.0,"arguments":` + s.json + `,"name":"` + server + `__mirror","_meta":` + meta + `}`
		x, err := c.Call(ctx, "tools/call", params)
		if err != nil || x.Result == nil {
			t.Errorf("arguments %s: %v, %s", s.name, err, show(x))
			continue
		}
		var result struct{ Content []struct{ Text string } }
		if err := json.Unmarshal(x.Result, &result); err != nil || len(result.Content) == 0 {
			t.Errorf("arguments %s: %v", s.name, err)
			continue
		}
		got := mcptest.Put(mcptest.WithoutEra(result.Content[0].Text), "_meta",
			string(withoutToken(mcptest.Field([]byte(mcptest.WithoutEra(result.Content[0].Text)), "_meta"))))
		want := `{"x-extra":1.0,"arguments":` + s.json + `,"name":"mirror","_meta":` + meta + `}`
		if got != want {
			t.Errorf("arguments %s:\n got %s\nwant %s", s.name, got, want)
		}
	}
}

// withoutToken drops the progress token the aggregator may add for itself.
func withoutToken(meta json.RawMessage) json.RawMessage {
	return json.RawMessage(mcptest.Without(string(meta), "progressToken"))
}

func show(x *mcptest.Exchange) string {
	if x == nil {
		return "nothing"
	}
	if x.Raw == nil {
		return clip(string(x.Body))
	}
	return clip(string(x.Raw))
}

func clip(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) > 600 {
		return fmt.Sprintf("%s … (%d bytes)", s[:600], len(s))
	}
	return s
}
