package downstream_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Clients of the official library, which shares no code with ours, over every
// transport and in both eras.
func TestOfficialClients(t *testing.T) {
	for _, c := range []struct {
		name    string
		version string
		connect func(t *testing.T, h *house) mcp.Transport
	}{
		{"modern HTTP", "2026-07-28", overHTTP},
		{"legacy HTTP", "2025-11-25", overHTTP},
		{"modern stdio", "2026-07-28", overStdio},
		{"legacy stdio", "2025-11-25", overStdio},
		{"HTTP+SSE", "2025-11-25", func(t *testing.T, h *house) mcp.Transport {
			return &mcp.SSEClientTransport{Endpoint: strings.Replace(h.serve(t), "/mcp", "/sse", 1), HTTPClient: httpClient(t)}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			h := newHouse(t)
			heard := make(chan string, 100)
			client := mcp.NewClient(&mcp.Implementation{Name: "peer", Version: "1"}, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
					heard <- "progress " + r.Params.Message
				},
				ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { heard <- "tools changed" },
				ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
					heard <- "updated " + r.Params.URI
				},
			})
			session, err := client.Connect(ctx, c.connect(t, h), &mcp.ClientSessionOptions{ProtocolVersion: c.version})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			exercise(ctx, t, session, heard)
		})
	}
}

// exercise goes through what every client does.
func exercise(ctx context.Context, t *testing.T, session *mcp.ClientSession, heard chan string) {
	if got := session.InitializeResult().ServerInfo.Name; got != "mcp-aggregator" {
		t.Errorf("server %q", got)
	}
	var names []string
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	if !slices.Contains(names, "lab__echo") || !slices.Contains(names, "everything__echo") {
		t.Errorf("tools %v", names)
	}
	params := &mcp.CallToolParams{Name: "lab__talk", Arguments: map[string]any{"n": 1, "text": "hi"}}
	params.SetProgressToken("token")
	result, err := session.CallTool(ctx, params)
	if err != nil {
		t.Fatal(err)
	}
	if text := result.Content[0].(*mcp.TextContent).Text; text != "said hi" {
		t.Errorf("result %q", text)
	}
	if !heardWithin(heard, "progress hi", 5*time.Second) {
		t.Error("no progress")
	}
	if r, err := session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "lab://note"}); err != nil || r.Contents[0].Text != "hello" {
		t.Errorf("resource: %v, %v", r, err)
	}
	if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "lab__none"}); err == nil || !strings.Contains(err.Error(), "lab__none") {
		t.Errorf("unknown tool: %v", err)
	}
	if err := session.Subscribe(ctx, &mcp.SubscribeParams{URI: "lab://note"}); err != nil {
		t.Errorf("subscribing: %v", err)
	}
	// Over stdio the client does not wait until it is subscribed: it may be too early.
	for tool, want := range map[string]string{"touch": "updated lab://note", "grow": "tools changed"} {
		for try := 0; try == 0 || !heardWithin(heard, want, 2*time.Second); try++ {
			if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "lab__" + tool, Arguments: map[string]any{"text": "grown"}}); err != nil {
				t.Fatal(err)
			}
			if try == 3 {
				t.Fatalf("never heard %q", want)
			}
		}
	}
	if r, err := session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "everything__greet"}); err != nil || len(r.Messages) == 0 {
		t.Errorf("prompt: %v, %v", r, err)
	}
}

// heardWithin waits for one message among others.
func heardWithin(heard <-chan string, want string, limit time.Duration) bool {
	deadline := time.After(limit)
	for {
		select {
		case got := <-heard:
			if got == want {
				return true
			}
		case <-deadline:
			return false
		}
	}
}

func httpClient(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func overHTTP(t *testing.T, h *house) mcp.Transport {
	return &mcp.StreamableClientTransport{Endpoint: h.serve(t), HTTPClient: httpClient(t)}
}

func overStdio(t *testing.T, h *house) mcp.Transport {
	t.Cleanup(func() { h.close(t) })
	p := h.servePipe(t)
	t.Cleanup(p.stop)
	return &mcp.IOTransport{Reader: p.out, Writer: p.in}
}
