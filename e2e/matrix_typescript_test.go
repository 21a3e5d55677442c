//go:build e2e && linux

package e2e_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// generations are the TypeScript SDKs of the eras.
var generations = map[mcptest.Era]string{mcptest.Legacy: "v1", mcptest.Modern: "v2"}

// TestMatrixOfTypeScriptServers is the matrix with servers of the TypeScript SDK.
func TestMatrixOfTypeScriptServers(t *testing.T) {
	throughTheMatrix(t, behindTypeScript)
}

// behindTypeScript is the TypeScript SDK's versatile server, as a configuration.
func behindTypeScript(t *testing.T, era mcptest.Era, transport string) harness.Config {
	t.Helper()
	node, script := harness.Node(t), harness.Script(t, "versatile.mjs")
	if transport == "stdio" {
		return harness.Config{"command": node, "args": []string{script, generations[era], "stdio"}, "protocol": era.String()}
	}
	addr := harness.FreeAddr(t)
	_, port, _ := strings.Cut(addr, ":")
	harness.Start(t, exec.Command(node, script, generations[era], port)).AwaitListening(t, addr, 15*time.Second)
	return harness.Config{"url": "http://" + addr + "/mcp", "protocol": era.String()}
}

// TestMatrixOfTypeScriptClients is the matrix with clients of the TypeScript SDK. A client
// is a process that tries all features and prints what it saw.
func TestMatrixOfTypeScriptClients(t *testing.T) {
	throughTheCells(t, func(t *testing.T, client, server mcptest.Era, front, back string) {
		config := harness.Servers(map[string]harness.Config{"s": behindOne(t, server, back)})
		target := map[string]any{"command": harness.Binary(t), "args": []string{"serve", "--config", config.Write(t), "--stdio"}}
		if front == "HTTP" {
			target = map[string]any{"url": harness.Serve(t, config).URL}
		}
		got := runVisitor(t, generations[client], target)
		for _, f := range features {
			t.Run(f.name, func(t *testing.T) {
				if diff := cmp.Diff(wantSeen(server)[f.name], got[f.name]); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	})
}

// runVisitor tries all features with the TypeScript SDK: feature → what it saw.
func runVisitor(t *testing.T, generation string, target map[string]any) (got map[string][]string) {
	t.Helper()
	where, _ := json.Marshal(target)
	cmd := exec.Command(harness.Node(t), harness.Script(t, "visitor.mjs"), generation, string(where), filepath.Join(t.TempDir(), "call"))
	var out harness.Log
	cmd.Stdout = &out
	if code, err := harness.Start(t, cmd).Wait(time.Minute); code != 0 {
		t.Fatalf("the client failed with %d, %v", code, err)
	}
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatalf("the client printed %q: %v", out.String(), err)
	}
	return got
}

// wantSeen is what a client sees of each feature, and what it is asked.
func wantSeen(server mcptest.Era) map[string][]string {
	const form = `form: your name {"who":{"type":"string"}}`
	known := `{"arguments":{"before":"3"}}`
	return map[string][]string{
		"tools":            {"s__ask", "s__echo", "s__grow", "s__hang", "s__talk", "s__touch", "é😀 over " + versions[server]},
		"resources":        {"r://ask", "r://one", "at r://one", "at r://number/5"},
		"prompts":          {"s__ask", "s__greet", "hello you"},
		"completion":       {"greet", "n=4", known, "7 true", "r://number/{n}", "n=4", known, "7 true"},
		"list changes":     {"new"},
		"resource updates": {},
		"progress":         {"1", "2", "3"},
		"logging":          {},
		"cancellation":     {"next over " + versions[server]},
		"elicitation form": {"accept map[who:Vera]", "hello accept map[who:Vera]", "accept map[who:Vera]", form, form, form},
		"elicitation URL":  {"accept map[]", "url: go there https://example.com/pay"},
		"sampling":         {"m1, endTurn: pong", "be brief | user ping"},
		"sampling with tools": {"m1, toolUse: both; use c sub map[x:7]; use d add map[y:3]",
			" | user what is 1+2 and 3+4? | assistant use a add {\"x\":1}; use b add {\"x\":3} | user result of a 3; result of b 7 | tool add | tool sub | choose required"},
		"roots": {"home file:///home/v, tmp file:///tmp"},
	}
}
