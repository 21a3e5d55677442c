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

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/e2e/harness"
)

// A tour is what a client saw of the reference servers behind the aggregator.
type tour struct {
	Tools          []string       `json:"tools"`
	Echo           string         `json:"echo"`
	Sum            string         `json:"sum"`
	Structured     map[string]any `json:"structured"`
	Image          []string       `json:"image"`
	Links          []string       `json:"links"`
	Progress       []float64      `json:"progress"`
	Long           string         `json:"long"`
	WrongArguments bool           `json:"wrongArguments"` // refused
	Resources      int            `json:"resources"`
	Resource       bool           `json:"resource"`
	Templates      []string       `json:"templates"`
	Template       bool           `json:"template"`
	Prompts        int            `json:"prompts"`
	Prompt         string         `json:"prompt"`
	Completion     []string       `json:"completion"`
	File           string         `json:"file"`
	Outside        bool           `json:"outside"` // refused
	Memory         bool           `json:"memory"`
	Unknown        any            `json:"unknown"`
}

// wanted is what every client sees, tools and progress aside.
var wanted = tour{
	Echo:           "Echo: héllo 😀",
	Sum:            "The sum of 2 and 40 is 42.",
	Structured:     map[string]any{"temperature": 36.0, "conditions": "Light rain / drizzle", "humidity": 82.0},
	Image:          []string{"text", "image", "text"},
	Links:          []string{"text", "resource_link", "resource_link"},
	Long:           "Long running operation completed. Duration: 0.5 seconds, Steps: 5.",
	WrongArguments: true,
	Resources:      7,
	Resource:       true,
	Templates:      []string{"demo://resource/dynamic/blob/{resourceId}", "demo://resource/dynamic/text/{resourceId}"},
	Template:       true,
	Prompts:        4,
	Prompt:         "What's weather in Graz?",
	Completion:     []string{"Sales", "Support"},
	File:           "line 1\nline 2 é",
	Outside:        true,
	Memory:         true,
	Unknown:        -32602.0,
}

var wantedTools = []string{"everything__echo", "everything__get-sum", "everything__trigger-long-running-operation",
	"files__read_text_file", "files__write_file", "memory__open_nodes", "memory__create_entities"}

func (got tour) check(t *testing.T) {
	t.Helper()
	for _, name := range wantedTools {
		if !slices.Contains(got.Tools, name) {
			t.Errorf("%s is not listed among %d tools", name, len(got.Tools))
		}
	}
	if len(got.Tools) < 36 {
		t.Errorf("%d tools are listed, want all of the three servers: %s", len(got.Tools), got.Tools)
	}
	// The TypeScript SDK drops a progress notification that arrives right before the answer.
	if len(got.Progress) < 4 || !slices.IsSorted(got.Progress) || got.Progress[0] != 1 {
		t.Errorf("progress was %v, want 1 to 5", got.Progress)
	}
	got.Tools, got.Progress = nil, nil
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("the tour differs (-want +got):\n%s", diff)
	}
}

// referenceServers configures the three reference servers; server-everything is
// reached over stdio, or over HTTP if it has an address.
func referenceServers(t *testing.T, folder, everythingURL string) harness.Config {
	t.Helper()
	node := harness.Node(t)
	server := func(name string, args ...string) harness.Config {
		return harness.Config{"command": node,
			"args": append([]string{harness.Peer(t, "@modelcontextprotocol", name, "dist", "index.js")}, args...)}
	}
	everything := server("server-everything", "stdio")
	if everythingURL != "" {
		everything = harness.Config{"url": everythingURL}
	}
	return harness.Servers(map[string]harness.Config{
		"everything": everything,
		"files":      server("server-filesystem", folder),
		"memory":     server("server-memory").With("env", map[string]string{"MEMORY_FILE_PATH": folder + "/memory.jsonl"}),
	})
}

// startEverything runs server-everything on HTTP.
func startEverything(t *testing.T) (url string) {
	t.Helper()
	addr := harness.FreeAddr(t)
	cmd := exec.Command(harness.Node(t), harness.Peer(t, "@modelcontextprotocol", "server-everything", "dist", "index.js"), "streamableHttp")
	cmd.Env = append(os.Environ(), "PORT="+addr[strings.LastIndex(addr, ":")+1:])
	harness.Start(t, cmd).AwaitListening(t, addr, 10*time.Second)
	return "http://" + addr + "/mcp"
}

// realFolder is a folder by its real path, as server-filesystem wants it.
func realFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "e2e-files-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestTypeScriptClients(t *testing.T) {
	folder := realFolder(t)
	overStdio := referenceServers(t, folder, "")
	a := harness.Serve(t, referenceServers(t, folder, startEverything(t)))
	fronts := map[string]map[string]any{
		"HTTP": {"url": a.URL},
		"stdio": {"command": harness.Binary(t),
			"args": []string{"serve", "--config", overStdio.Write(t), "--stdio"}},
	}
	for _, generation := range []string{"v1", "v2"} {
		for name, front := range fronts {
			t.Run(generation+" on "+name, func(t *testing.T) {
				runTour(t, generation, front, folder).check(t)
			})
		}
	}
}

// runTour runs the tour of the TypeScript SDK.
func runTour(t *testing.T, generation string, front map[string]any, folder string) tour {
	t.Helper()
	target, _ := json.Marshal(front)
	where, _ := json.Marshal(map[string]string{
		"everything": "everything__", "files": "files__", "memory": "memory__", "folder": folder})
	var out, errs harness.Log
	cmd := exec.CommandContext(harness.Context(t, time.Minute), harness.Node(t),
		harness.Script(t, "tour.mjs"), generation, string(target), string(where))
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("the client failed: %v\n%s", err, errs.Tail(4000))
	}
	var got tour
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatalf("the client printed %q: %v", out.String(), err)
	}
	return got
}
