//go:build e2e && linux

package e2e_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/e2e/harness"
)

// printed is what a TypeScript client prints that has been asked.
type printed struct {
	Results   map[string]string `json:"results"` // tool → text
	Questions []string          `json:"questions"`
}

// runAsked runs the calls with a client of the TypeScript SDK called tim.
func runAsked(t *testing.T, generation string, front map[string]any, calls [][2]any) (got printed) {
	t.Helper()
	target, _ := json.Marshal(front)
	wanted, _ := json.Marshal(calls)
	var out, errs harness.Log
	cmd := exec.CommandContext(harness.Context(t, time.Minute), harness.Node(t),
		harness.Script(t, "asked.mjs"), generation, string(target), "tim", string(wanted))
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("the client failed: %v\n%s", err, errs.Tail(4000))
	}
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatalf("the client printed %q: %v", out.String(), err)
	}
	return got
}

// throughTypeScript runs f for each generation of the SDK on each transport.
func throughTypeScript(t *testing.T, config harness.Config, f func(t *testing.T, generation string, front map[string]any)) {
	a := harness.Serve(t, config)
	fronts := map[string]map[string]any{
		"HTTP":  {"url": a.URL},
		"stdio": {"command": harness.Binary(t), "args": []string{"serve", "--config", config.Write(t), "--stdio"}},
	}
	for _, generation := range []string{"v1", "v2"} {
		for name, front := range fronts {
			t.Run(generation+" on "+name, func(t *testing.T) { f(t, generation, front) })
		}
	}
}

func TestTypeScriptClientsAreAsked(t *testing.T) {
	throughTypeScript(t, curiousServers(t), func(t *testing.T, generation string, front map[string]any) {
		var calls [][2]any
		want := printed{Results: map[string]string{}}
		for _, server := range []string{"hl", "hm", "sl", "sm"} {
			for _, c := range [][2]string{{"elicit", "x: accept tim"}, {"visit", "x: accept"}, {"sample", "tim: x"}, {"roots", "file:///home/tim"}, {"twice", "tim and tim"}} {
				calls = append(calls, [2]any{server + "__" + c[0], map[string]string{"text": "x"}})
				want.Results[server+"__"+c[0]] = c[1]
			}
			want.Questions = append(want.Questions, "x", "x", "x", "x", "x again tim")
		}
		if diff := cmp.Diff(want, runAsked(t, generation, front, calls)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// The reference server of the older SDK asks for its roots by itself and registers the
// tools that need a client only where the client can do it.
func TestTypeScriptServersAskClients(t *testing.T) {
	node, program := harness.Node(t), harness.Peer(t, "@modelcontextprotocol", "server-everything", "dist", "index.js")
	config := harness.Servers(map[string]harness.Config{
		"pipes": {"command": node, "args": []string{program, "stdio"}},
		"web":   {"url": startEverything(t)},
	})
	throughTypeScript(t, config, func(t *testing.T, generation string, front map[string]any) {
		for _, server := range []string{"pipes", "web"} {
			got := runAsked(t, generation, front, [][2]any{
				{server + "__trigger-elicitation-request", map[string]any{}},
				{server + "__trigger-sampling-request", map[string]any{"prompt": "hello", "maxTokens": 10}},
				{server + "__trigger-url-elicitation", map[string]any{"url": "https://example.com/", "message": "go there"}},
			})
			for tool, want := range map[string]string{
				"trigger-elicitation-request": "- Name: tim",
				"trigger-sampling-request":    `"model": "tim"`,
				"trigger-url-elicitation":     "accept",
			} {
				if text := got.Results[server+"__"+tool]; !strings.Contains(text, want) {
					t.Errorf("%s of %s: %.400q", tool, server, text)
				}
			}
			if len(got.Questions) != 3 {
				t.Errorf("%s asked %q", server, got.Questions)
			}
		}
	})
}
