//go:build e2e && linux

package e2e_test

import (
	"encoding/json"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// The TypeScript SDK and its reference server, which have tasks of 2025-11-25 on both
// sides: the task asks its user during tasks/result, and everything goes by one name.
func TestTasksOfTheTypeScriptSDK(t *testing.T) {
	node, program := harness.Node(t), harness.Peer(t, "@modelcontextprotocol", "server-everything", "dist", "index.js")
	pipes := harness.Config{"command": node, "args": []string{program, "stdio"}}
	config := harness.Servers(map[string]harness.Config{
		"pipes": pipes, "own": pipes.With("sharing", "session"), "web": {"url": startEverything(t)},
	})
	a := harness.Serve(t, config)
	fronts := map[string]map[string]any{
		"HTTP":  {"url": a.URL},
		"stdio": {"command": harness.Binary(t), "args": []string{"serve", "--config", config.Write(t), "--stdio"}},
	}
	for front, target := range fronts {
		for _, server := range []string{"pipes", "own", "web"} {
			t.Run(server+" to a client on "+front, func(t *testing.T) {
				t.Parallel() // the tasks take seconds, and must not get in each other's way
				checkTasks(t, server, runTasks(t, target, server+"__simulate-research-query"))
			})
		}
	}
}

// tasksSeen is what tasks.mjs prints.
type tasksSeen struct {
	Task, Got, End, Text, Second, Cancelled string
	Listed, Statuses                        []string
	Questions                               []struct{ Message, Task string }
	Again, Forged, Unknown                  int
}

func runTasks(t *testing.T, front map[string]any, tool string) (got tasksSeen) {
	t.Helper()
	target, _ := json.Marshal(front)
	var out, errs harness.Log
	cmd := exec.CommandContext(harness.Context(t, time.Minute), harness.Node(t), harness.Script(t, "tasks.mjs"), string(target), tool)
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

func checkTasks(t *testing.T, server string, got tasksSeen) {
	if !strings.HasPrefix(got.Task, server+":") || got.Got != got.Task {
		t.Errorf("the task is called %q when it is made and %q when it is asked for", got.Task, got.Got)
	}
	if len(got.Questions) != 1 || got.Questions[0].Task != got.Task || !strings.Contains(got.Text, "python (snake)") {
		t.Errorf("asked %+v, and the end was %.200q", got.Questions, got.Text)
	}
	if !slices.Contains(got.Statuses, "input_required") || got.End != "completed" {
		t.Errorf("went through %q to %q", got.Statuses, got.End)
	}
	// Tasks of other clients are on the same server.
	if want := []string{got.Task, got.Second}; !slices.Equal(sorted(got.Listed), sorted(want)) {
		t.Errorf("listed %q, want %q", got.Listed, want)
	}
	if got.Cancelled != "cancelled" || got.Again != -32602 {
		t.Errorf("cancelled: %q, and again: %d", got.Cancelled, got.Again)
	}
	if got.Forged != -32602 || got.Unknown != -32602 {
		t.Errorf("a forged name was refused with %d, an unknown one with %d", got.Forged, got.Unknown)
	}
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }

// The client of the tasks extension: the server makes a task of the call, the client polls
// it and answers what it asks.
func TestTasksOfTheExtension(t *testing.T) {
	const id = "job/1 ☃"
	task := `"taskId":` + mcptest.Quote(id) + `,"createdAt":"2026-11-21T10:30:00Z","lastUpdatedAt":"2026-11-21T10:30:00Z","ttlMs":60000,"pollIntervalMs":10`
	raw := &mcptest.Raw{Era: mcptest.Modern, Stateless: true, Capabilities: `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`,
		Tools: []string{`{"name":"work","inputSchema":{"type":"object"}}`}}
	raw.Answer = func(q *mcptest.Request) *mcptest.Answer {
		answered := raw.Received("tasks/update")
		switch {
		case q.Method == "tools/call":
			return &mcptest.Answer{Result: `{"resultType":"task","status":"working",` + task + `}`}
		case q.Method == "tasks/update":
			return &mcptest.Answer{Result: `{}`}
		case q.Method != "tasks/get" || q.Name != id:
			return nil
		case len(answered) == 0:
			return &mcptest.Answer{Result: `{"status":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"mode":"form","message":"who?","requestedSchema":{"type":"object","properties":{"who":{"type":"string"}}}}}},` + task + `}`}
		}
		said := string(mcptest.Field(answered[0].Params, "inputResponses"))
		return &mcptest.Answer{Result: `{"status":"completed","result":{"resultType":"complete","content":[{"type":"text","text":` + mcptest.Quote(said) + `}]},` + task + `}`}
	}
	web := httptest.NewServer(raw)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	a := harness.Serve(t, harness.Servers(map[string]harness.Config{"srv": {"url": web.URL}}))

	var out, errs harness.Log
	cmd := exec.CommandContext(harness.Context(t, 30*time.Second), harness.Node(t), harness.Script(t, "tasks_extension.mjs"), a.URL, "srv__work")
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("the client failed: %v\n%s", err, errs.Tail(4000))
	}
	var got struct {
		Text               string
		Questions, Methods []string
	}
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatalf("the client printed %q: %v", out.String(), err)
	}
	if !strings.Contains(got.Text, `"who":"tim"`) || !slices.Equal(got.Questions, []string{"who?"}) || !slices.Contains(got.Methods, "tasks/update") {
		t.Errorf("%+v", got)
	}
}
