package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"

	"mcp-aggregator/internal/upstream"
)

// raceOptions spare the many short programs of these tests the second that each waits
// at its end, for late reports, when built with the race detector.
const raceOptions = "atexit_sleep_ms=0"

// TestMain makes this binary the programs that the scripts run.
func TestMain(m *testing.M) {
	upstream.RunKeeper()
	os.Setenv("GORACE", raceOptions)
	testscript.Main(m, map[string]func(){
		"mcp-aggregator": main,
		"mirror":         mirror,
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:      "testdata/script",
		Deadline: time.Now().Add(2 * time.Minute),
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", raceOptions)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status},
	})
}

// status runs a program and checks its exit code: status CODE PROGRAM [ARGUMENT]...
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status code program [argument]...")
	}
	got := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		e, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = strconv.Itoa(e.ExitCode())
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// mirror is an MCP server on standard input and output. Its tool "arguments" answers
// with the arguments as they arrived, "shapes" with every kind of content. Started with
// the argument "broken" it has prompts that it cannot list.
func mirror() {
	s := mcp.NewServer(&mcp.Implementation{Name: "mirror", Version: "1"}, nil)
	anything := map[string]any{"type": "object"}
	s.AddTool(&mcp.Tool{Name: "arguments", InputSchema: anything},
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(req.Params.Arguments)}}}, nil
		})
	s.AddTool(&mcp.Tool{Name: "shapes", InputSchema: anything, Title: "All \u202eshapes"},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{
				&mcp.AudioContent{MIMEType: "audio/wav", Data: []byte("12345")},
				&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "mirror://blob", MIMEType: "x/y", Blob: []byte("1")}},
				&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "mirror://text", Text: "embedded text"}},
			}}, nil
		})
	s.AddTool(&mcp.Tool{Name: "structured", InputSchema: anything},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{StructuredContent: map[string]any{"only": "this"}}, nil
		})
	if len(os.Args) > 1 && os.Args[1] == "broken" {
		s.AddPrompt(&mcp.Prompt{Name: "hidden"}, nil)
		s.AddReceivingMiddleware(refusePrompts)
	}
	if s.Run(context.Background(), &mcp.StdioTransport{}) != nil {
		os.Exit(1)
	}
}

func refusePrompts(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == "prompts/list" {
			return nil, errors.New("no prompts today")
		}
		return next(ctx, method, req)
	}
}
