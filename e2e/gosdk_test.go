//go:build e2e && linux

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

func TestGoSDKClients(t *testing.T) {
	folder := realFolder(t)
	a := harness.Serve(t, referenceServers(t, folder, startEverything(t)))
	overStdio := referenceServers(t, folder, "").Write(t)
	fronts := map[string]func() mcp.Transport{
		"HTTP": func() mcp.Transport { return &mcp.StreamableClientTransport{Endpoint: a.URL} },
		"stdio": func() mcp.Transport {
			return &mcp.CommandTransport{Command: exec.Command(harness.Binary(t), "serve", "--config", overStdio, "--stdio")}
		},
	}
	for _, version := range []string{mcptest.LegacyVersion, mcptest.ModernVersion} {
		for name, front := range fronts {
			t.Run(version+" on "+name, func(t *testing.T) {
				goTour(t, front(), version, folder).check(t)
			})
		}
	}
}

// goTour is the tour of the Go SDK.
func goTour(t *testing.T, transport mcp.Transport, version, folder string) (got tour) {
	t.Helper()
	ctx := harness.Context(t, time.Minute)
	var progress struct {
		sync.Mutex
		seen []float64
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "tour", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			progress.Lock()
			defer progress.Unlock()
			progress.seen = append(progress.seen, req.Params.Progress)
		},
	})
	session, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if got := session.InitializeResult().ProtocolVersion; got != version {
		t.Fatalf("the session speaks %s, want %s", got, version)
	}
	g := guide{t, ctx, session}
	harness.Eventually(t, 20*time.Second, "three servers are listed", func() bool {
		got.Tools = g.tools()
		return len(got.Tools) >= 36
	})
	g.everything(&got)
	progress.Lock()
	got.Progress = progress.seen
	progress.Unlock()
	g.filesAndMemory(&got, folder, version)
	_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "no_such_tool"})
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		got.Unknown = float64(wire.Code)
	}
	return got
}

// guide fails the test where the tour does not go on.
type guide struct {
	t       *testing.T
	ctx     context.Context
	session *mcp.ClientSession
}

func (g guide) tools() (names []string) {
	for tool, err := range g.session.Tools(g.ctx, nil) {
		if err != nil {
			g.t.Fatalf("listing tools: %v", err)
		}
		names = append(names, tool.Name)
	}
	return names
}

func (g guide) call(name string, args map[string]any) *mcp.CallToolResult {
	g.t.Helper()
	params := &mcp.CallToolParams{Name: name, Arguments: args}
	if strings.HasSuffix(name, "operation") {
		params.SetProgressToken("long")
	}
	res, err := g.session.CallTool(g.ctx, params)
	if err != nil {
		g.t.Fatalf("calling %s: %v", name, err)
	}
	return res
}

func texts(content []mcp.Content) (text string, kinds []string) {
	var parts []string
	for _, c := range content {
		kind := strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", c), "*mcp."), "Content"))
		if _, ok := c.(*mcp.ResourceLink); ok {
			kind = "resource_link"
		}
		kinds = append(kinds, kind)
		if c, ok := c.(*mcp.TextContent); ok {
			parts = append(parts, c.Text)
		}
	}
	return strings.Join(parts, "|"), kinds
}

func (g guide) everything(got *tour) {
	g.t.Helper()
	got.Echo, _ = texts(g.call("everything__echo", map[string]any{"message": "héllo 😀"}).Content)
	got.Sum, _ = texts(g.call("everything__get-sum", map[string]any{"a": 2, "b": 40}).Content)
	got.Structured, _ = g.call("everything__get-structured-content", map[string]any{"location": "Chicago"}).StructuredContent.(map[string]any)
	_, got.Image = texts(g.call("everything__get-tiny-image", map[string]any{}).Content)
	_, got.Links = texts(g.call("everything__get-resource-links", map[string]any{"count": 2}).Content)
	got.Long, _ = texts(g.call("everything__trigger-long-running-operation", map[string]any{"duration": 0.5, "steps": 5}).Content)
	refused, err := g.session.CallTool(g.ctx, &mcp.CallToolParams{Name: "everything__echo", Arguments: map[string]any{}})
	got.WrongArguments = err != nil || refused.IsError

	for r, err := range g.session.Resources(g.ctx, nil) {
		if err != nil {
			g.t.Fatal(err)
		}
		if strings.HasPrefix(r.URI, "demo://") {
			got.Resources++
		}
	}
	got.Resource = len(g.read("demo://resource/static/document/features.md")) > 100
	for r, err := range g.session.ResourceTemplates(g.ctx, nil) {
		if err != nil {
			g.t.Fatal(err)
		}
		got.Templates = append(got.Templates, r.URITemplate)
	}
	slices.Sort(got.Templates)
	got.Template = strings.Contains(g.read("demo://resource/dynamic/text/7"), "7")
	for _, err := range g.session.Prompts(g.ctx, nil) {
		if err != nil {
			g.t.Fatal(err)
		}
		got.Prompts++
	}
	prompt, err := g.session.GetPrompt(g.ctx, &mcp.GetPromptParams{Name: "everything__args-prompt", Arguments: map[string]string{"city": "Graz"}})
	if err != nil {
		g.t.Fatal(err)
	}
	got.Prompt, _ = texts([]mcp.Content{prompt.Messages[0].Content})
	completion, err := g.session.Complete(g.ctx, &mcp.CompleteParams{
		Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: "everything__completable-prompt"},
		Argument: mcp.CompleteParamsArgument{Name: "department", Value: "S"},
	})
	if err != nil {
		g.t.Fatal(err)
	}
	got.Completion = completion.Completion.Values
}

func (g guide) read(uri string) string {
	g.t.Helper()
	res, err := g.session.ReadResource(g.ctx, &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		g.t.Fatalf("reading %s: %v", uri, err)
	}
	return res.Contents[0].Text
}

func (g guide) filesAndMemory(got *tour, folder, name string) {
	g.t.Helper()
	path := folder + "/" + name + ".txt"
	g.call("files__write_file", map[string]any{"path": path, "content": "line 1\nline 2 é"})
	got.File, _ = texts(g.call("files__read_text_file", map[string]any{"path": path}).Content)
	got.Outside = g.call("files__read_text_file", map[string]any{"path": "/etc/hostname"}).IsError
	g.call("memory__create_entities", map[string]any{"entities": []any{
		map[string]any{"name": "e" + name, "entityType": "test", "observations": []string{"o"}}}})
	found, _ := texts(g.call("memory__open_nodes", map[string]any{"names": []string{"e" + name}}).Content)
	got.Memory = strings.Contains(found, "e"+name)
}
