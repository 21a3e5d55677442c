//go:build e2e && linux

package e2e_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
)

// TestInspector drives the inspector's command line, one connection per question.
// On stdio that is one aggregator per question, which asks once: its first list
// must wait for all servers, however slow the machine.
func TestInspector(t *testing.T) {
	folder := realFolder(t)
	a := harness.Serve(t, referenceServers(t, folder, startEverything(t)))
	fronts := map[string][]string{
		"HTTP":  {"--transport", "http", "--server-url", a.URL},
		"stdio": {"--config", inspectorConfig(t, referenceServers(t, folder, "").With("list_wait", "20s")), "--server", "all"},
	}
	questions := []struct {
		name string
		args []string
		want []string // in what the inspector prints
	}{
		{"tools", []string{"--method", "tools/list"}, wantedTools},
		{"prompts", []string{"--method", "prompts/list"}, []string{"everything__simple-prompt", "everything__args-prompt"}},
		{"resources", []string{"--method", "resources/list"}, []string{"demo://resource/static/document/features.md"}},
		{"templates", []string{"--method", "resources/templates/list"}, []string{"demo://resource/dynamic/text/{resourceId}"}},
		{"a call", []string{"--method", "tools/call", "--tool-name", "everything__get-sum", "--tool-arg", "a=2", "b=40"},
			[]string{"The sum of 2 and 40 is 42."}},
		{"a prompt", []string{"--method", "prompts/get", "--prompt-name", "everything__args-prompt", "--prompt-args", "city=Graz"},
			[]string{"What's weather in Graz?"}},
		{"a resource", []string{"--method", "resources/read", "--uri", "demo://resource/dynamic/text/7"},
			[]string{"demo://resource/dynamic/text/7"}},
	}
	for name, front := range fronts {
		for _, q := range questions {
			t.Run(q.name+" on "+name, func(t *testing.T) {
				out := inspect(t, slices.Concat(front, q.args))
				for _, want := range q.want {
					if !strings.Contains(out, want) {
						t.Errorf("the inspector does not show %q:\n%s", want, clip(out))
					}
				}
				if !json.Valid([]byte(out)) {
					t.Errorf("the inspector printed no JSON: %s", clip(out))
				}
			})
		}
	}
}

// inspectorConfig is the aggregator as a server in a file of the inspector, whose
// command line has a flag --config of its own.
func inspectorConfig(t *testing.T, config harness.Config) string {
	t.Helper()
	return harness.Config{"mcpServers": map[string]any{"all": map[string]any{
		"type": "stdio", "command": harness.Binary(t),
		"args": []string{"serve", "--config", config.Write(t), "--stdio"},
	}}}.Write(t)
}

func inspect(t *testing.T, args []string) string {
	t.Helper()
	cli := harness.Peer(t, "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
	cmd := exec.CommandContext(harness.Context(t, time.Minute), harness.Node(t), append([]string{cli, "--cli"}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir()) // the inspector keeps a catalogue there
	cmd.WaitDelay = 5 * time.Second
	var out, errs harness.Log
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Errorf("the inspector failed: %v\n%s", err, errs.Tail(3000))
	}
	return out.String()
}
