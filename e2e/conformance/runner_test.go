//go:build e2e && linux

package conformance_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"mcp-aggregator/internal/mcptest"
)

const summary = `
=== SUMMARY ===
✓ ping: 2 passed, 0 failed
✗ tools-list: 1 passed, 2 failed
✗ tasks-x: 0 passed, 1 failed

Total: 3 passed, 3 failed

Not scored for 2025-11-25: 1 scenario(s) run, 1 failing. These do not affect conformance.
  ✗ tasks-x (extension)
`

func TestTheRunnerComplainsBothWays(t *testing.T) {
	v := parseVerdicts(summary)
	if passed, required := v.score(); passed != 1 || required != 2 {
		t.Errorf("score is %d of %d, want 1 of 2", passed, required)
	}
	tests := []struct {
		name     string
		expected []string
		want     []string
	}{
		{"an unlisted failure", nil, []string{"tools-list fails"}},
		{"a listed failure", []string{"tools-list"}, nil},
		{"a listed pass", []string{"tools-list", "ping"}, []string{"ping passes"}},
		{"a scenario that does not exist", []string{"tools-list", "nope"}, []string{"nope is listed"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := complaints(v, tt.expected)
			if len(got) != len(tt.want) || len(got) > 0 && !strings.HasPrefix(got[0], tt.want[0]) {
				t.Errorf("complaints are %q, want %q", got, tt.want)
			}
		})
	}
}

// The shim is proven against a server that really has prefixed names.
func TestTheShimMapsNamesBothWays(t *testing.T) {
	raw := &mcptest.Raw{
		Tools:   []string{`{"name":"p__echo","inputSchema":{"type":"object"}}`},
		Prompts: []string{`{"name":"p__ask"}`},
		Results: map[string]string{"prompts/get p__ask": `{"messages":[]}`},
	}
	for _, eventStream := range []bool{false, true} {
		raw.Change(func(r *mcptest.Raw) { r.EventStream = eventStream })
		srv := httptest.NewServer(raw)
		front := startShim(t, srv.URL, "p__")
		for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
			c, err := mcptest.ConnectHTTP(t.Context(), front, era, nil)
			if err != nil {
				t.Fatal(err)
			}
			tools, _, err := c.List(t.Context(), "tools/list")
			if err != nil || string(mcptest.Field(tools[0], "name")) != `"echo"` {
				t.Errorf("%s: listed %s, %v", era, tools, err)
			}
			for method, name := range map[string]string{"tools/call": "echo", "prompts/get": "ask"} {
				x, err := c.Call(t.Context(), method, `{"name":`+mcptest.Quote(name)+`,"arguments":{}}`)
				if err != nil || x.Result == nil {
					t.Errorf("%s: %s: %s, %v", era, method, x.Raw, err)
				}
			}
			if _, err := c.Call(t.Context(), "completion/complete", `{"ref":{"type":"ref/prompt","name":"ask"}}`); err != nil {
				t.Error(err)
			}
			c.Close()
		}
		srv.CloseClientConnections()
		srv.Close()
	}
	seen := raw.Received("completion/complete")
	if !slices.ContainsFunc(seen, func(q *mcptest.Request) bool { return strings.Contains(string(q.Raw), `"p__ask"`) }) {
		t.Error("the reference of a completion was not renamed")
	}
}

func TestTheShimPassesForeignHosts(t *testing.T) {
	var host string
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { host = r.Host }))
	defer srv.Close()
	front := startShim(t, srv.URL, "p__")
	if _, err := mcptest.Post(t.Context(), front, map[string]string{"Host": "evil.example"}, "{}"); err != nil && err != io.EOF {
		t.Log(err)
	}
	if host != "evil.example" {
		t.Errorf("host is %q", host)
	}
}
