package builtin_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/builtin"
)

// eras maps a name for the reader to the revision a client asks for.
var eras = map[string]string{"legacy": "2025-11-25", "modern": "2026-07-28"}

// inEachEra runs a test as a client of each era, in a bubble: time is fake, and a
// goroutine that outlives its session fails the test.
func inEachEra(t *testing.T, test func(t *testing.T, version string)) {
	for era, version := range eras {
		t.Run(era, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, version) })
		})
	}
}

// dial connects a client to a new instance of a built-in server.
func dial(t *testing.T, name, version string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	return join(t, builtin.Servers()[name](), version, opts)
}

// join connects a client to s.
func join(t *testing.T, s *mcp.Server, version string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	c, _ := pair(t, s, version, opts)
	return c
}

// pair connects a client to s and returns both ends.
func pair(t *testing.T, s *mcp.Server, version string, opts *mcp.ClientOptions) (*mcp.ClientSession, *mcp.ServerSession) {
	t.Helper()
	near, far := mcp.NewInMemoryTransports()
	served, err := s.Connect(t.Context(), far, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts).
		Connect(t.Context(), near, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.InitializeResult().ProtocolVersion; got != version {
		t.Fatalf("speaking %s, want %s", got, version)
	}
	t.Cleanup(func() {
		c.Close()
		served.Wait()
	})
	return c, served
}

// call calls a tool and fails the test on a protocol error.
func call(t *testing.T, c *mcp.ClientSession, tool string, arguments any) *mcp.CallToolResult {
	t.Helper()
	res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("calling %s: %v", tool, err)
	}
	return res
}

// textOf joins the text blocks of a result.
func textOf(res *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range res.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

// encoded is v as JSON, for comparison with what a reader of the test can see.
func encoded(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// codeOf is the JSON-RPC code of an error, 0 if it has none.
func codeOf(err error) int64 {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return e.Code
	}
	return 0
}

func TestServersShareNothing(t *testing.T) {
	inEachEra(t, func(t *testing.T, version string) {
		one, other := dial(t, "notes", version, nil), dial(t, "notes", version, nil)
		call(t, one, "add_note", map[string]any{"title": "mine"})
		if got := textOf(call(t, other, "list_notes", nil)); got != "There are no notes yet." {
			t.Errorf("a note of one instance shows in the other: %s", got)
		}
	})
}

func TestEveryToolHasTitleAndAnnotations(t *testing.T) {
	inEachEra(t, func(t *testing.T, version string) {
		for name := range builtin.Servers() {
			c := dial(t, name, version, nil)
			for tool, err := range c.Tools(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				if tool.Title == "" || tool.Description == "" || tool.Annotations == nil {
					t.Errorf("%s: tool %s lacks a title, a description or annotations", name, tool.Name)
				}
			}
		}
	})
}
