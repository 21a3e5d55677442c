//go:build e2e && linux

//lint:file-ignore SA1019 roots, sampling and logging are deprecated in 2026-07-28 and in use everywhere.

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

func init() {
	children["versatile"] = func() { _ = versatile().Run(context.Background(), &mcp.StdioTransport{}) }
}

// versatile is a server of the official SDK with one of everything. What it asks of the
// client it asks in the modern way; the SDK makes requests of that over older revisions.
func versatile() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "versatile", Version: "1"}, &mcp.ServerOptions{
		CompletionHandler:  complete,
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	add := func(name string, f func(context.Context, *mcp.CallToolRequest, asked) (string, error)) {
		mcp.AddTool(s, &mcp.Tool{Name: name}, func(ctx context.Context, r *mcp.CallToolRequest, a asked) (*mcp.CallToolResult, any, error) {
			text, err := f(ctx, r, a)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, err
		})
	}
	add("echo", func(_ context.Context, r *mcp.CallToolRequest, a asked) (string, error) {
		return a.Text + " over " + r.ProtocolVersion(), nil
	})
	add("talk", talk)
	add("hang", hang)
	add("touch", func(ctx context.Context, _ *mcp.CallToolRequest, a asked) (string, error) {
		return "touched", s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: a.Text})
	})
	add("grow", func(_ context.Context, _ *mcp.CallToolRequest, a asked) (string, error) {
		add(a.Text, func(context.Context, *mcp.CallToolRequest, asked) (string, error) { return "new", nil })
		s.AddPrompt(&mcp.Prompt{Name: a.Text}, greet)
		s.AddResource(&mcp.Resource{URI: "r://" + a.Text, Name: a.Text}, read)
		return "grown", nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "ask"}, func(_ context.Context, r *mcp.CallToolRequest, a asked) (*mcp.CallToolResult, any, error) {
		if got := r.Params.InputResponses[a.Text]; got != nil {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: inWords(got)}}}, nil, nil
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{a.Text: questions[a.Text]}}, nil, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "greet", Arguments: []*mcp.PromptArgument{{Name: "who"}}}, greet)
	s.AddPrompt(&mcp.Prompt{Name: "ask"}, greet)
	s.AddResource(&mcp.Resource{URI: "r://one", Name: "one"}, read)
	s.AddResource(&mcp.Resource{URI: "r://ask", Name: "ask"}, read)
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "r://number/{n}", Name: "number"}, read)
	return s
}

// talk tells of its progress and logs before it answers.
func talk(ctx context.Context, r *mcp.CallToolRequest, a asked) (string, error) {
	for i := range 3 {
		if token := r.Params.GetProgressToken(); token != nil {
			if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(i + 1)}); err != nil {
				return "", err
			}
		}
		if err := r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "warning", Data: fmt.Sprint(a.Text, i)}); err != nil {
			return "", err
		}
	}
	return "said", nil
}

// hang works until it is told to stop, and writes down both under the name it was given:
// the process may be one of this call alone.
func hang(ctx context.Context, _ *mcp.CallToolRequest, a asked) (string, error) {
	_ = os.WriteFile(a.Text+".hung", nil, 0o600)
	select {
	case <-ctx.Done():
		_ = os.WriteFile(a.Text+".ended", nil, 0o600)
	case <-time.After(20 * time.Second): // nobody waits for that
	}
	return "", ctx.Err()
}

// complete answers with everything it was told.
func complete(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	p := r.Params
	known, _ := json.Marshal(p.Context)
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{
		Values: []string{p.Ref.Name + p.Ref.URI, p.Argument.Name + "=" + p.Argument.Value, string(known)}, Total: 7, HasMore: true}}, nil
}

// greet answers at once, or if that is its name asks who is to be greeted.
func greet(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	who := r.Params.Arguments["who"]
	if r.Params.Name == "ask" {
		got := r.Params.InputResponses["form"]
		if got == nil {
			return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{"form": questions["form"]}}, nil
		}
		who = inWords(got)
	}
	return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "hello " + who}}}}, nil
}

// read answers with the address, or if that says so asks what to answer with.
func read(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	text := "at " + r.Params.URI
	if r.Params.URI == "r://ask" {
		got := r.Params.InputResponses["form"]
		if r.ProtocolVersion() < mcptest.ModernVersion { // for resources the SDK has no translation that works
			answer, err := r.Session.Elicit(ctx, questions["form"].(*mcp.ElicitParams))
			if err != nil {
				return nil, err
			}
			got = answer
		}
		if got == nil {
			return &mcp.ReadResourceResult{InputRequests: mcp.InputRequestMap{"form": questions["form"]}}, nil
		}
		text = inWords(got)
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: text}}}, nil
}

// questions are what the server asks, by name.
var questions = map[string]mcp.InputRequest{
	"form": &mcp.ElicitParams{Mode: "form", Message: "your name", RequestedSchema: whoSchema},
	"url":  &mcp.ElicitParams{Mode: "url", Message: "go there", URL: "https://example.com/pay", ElicitationID: "e1"},
	"sampling": &mcp.CreateMessageParams{MaxTokens: 9, SystemPrompt: "be brief",
		Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "ping"}}}},
	"tools": &mcp.CreateMessageWithToolsParams{MaxTokens: 9, ToolChoice: &mcp.ToolChoice{Mode: "required"},
		Tools: []*mcp.Tool{{Name: "add", InputSchema: map[string]any{"type": "object"}}, {Name: "sub", InputSchema: map[string]any{"type": "object"}}},
		Messages: []*mcp.SamplingMessageV2{
			{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "what is 1+2 and 3+4?"}}},
			{Role: "assistant", Content: []mcp.Content{&mcp.ToolUseContent{ID: "a", Name: "add", Input: map[string]any{"x": 1.0}}, &mcp.ToolUseContent{ID: "b", Name: "add", Input: map[string]any{"x": 3.0}}}},
			{Role: "user", Content: []mcp.Content{&mcp.ToolResultContent{ToolUseID: "a", Content: []mcp.Content{&mcp.TextContent{Text: "3"}}}, &mcp.ToolResultContent{ToolUseID: "b", Content: []mcp.Content{&mcp.TextContent{Text: "7"}}}}},
		}},
	"roots": &mcp.ListRootsParams{},
}

// inWords is an answer of the client as the server has understood it.
func inWords(got mcp.InputResponse) string {
	switch got := got.(type) {
	case *mcp.ElicitResult:
		return fmt.Sprint(got.Action, " ", got.Content)
	case *mcp.CreateMessageWithToolsResult:
		return got.Model + ", " + got.StopReason + ": " + contentInWords(got.Content)
	case *mcp.ListRootsResult:
		var all []string
		for _, root := range got.Roots {
			all = append(all, root.Name+" "+root.URI)
		}
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%T", got)
}

func contentInWords(content []mcp.Content) string {
	var all []string
	for _, c := range content {
		switch c := c.(type) {
		case *mcp.TextContent:
			all = append(all, c.Text)
		case *mcp.ToolUseContent:
			all = append(all, fmt.Sprint("use ", c.ID, " ", c.Name, " ", c.Input))
		case *mcp.ToolResultContent:
			all = append(all, "result of "+c.ToolUseID+" "+contentInWords(c.Content))
		}
	}
	return strings.Join(all, "; ")
}

// behindOne is a server of one era on one transport, as a configuration.
func behindOne(t *testing.T, era mcptest.Era, transport string) harness.Config {
	t.Helper()
	if transport == "stdio" {
		return harness.Child(t, "versatile").With("protocol", era.String())
	}
	server := versatile()
	srv := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		// By default the SDK lets work go on whose request has ended.
		&mcp.StreamableHTTPOptions{Stateless: era == mcptest.Modern, PropagateRequestCancellation: true}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return harness.Config{"url": srv.URL, "protocol": era.String()}
}

// A visitor is a client of the official SDK that can be asked anything, and takes down
// what it was asked and told.
type visitor struct {
	session *mcp.ClientSession
	came    chan string // notifications, as "tools", "prompts", "resources" or a URI

	mu       sync.Mutex
	asked    []string
	progress []float64
	logged   []string
}

// enter connects a visitor of this era to an aggregator of its own.
func enter(t *testing.T, era mcptest.Era, transport string, config harness.Config) *visitor {
	t.Helper()
	v := &visitor{came: make(chan string, 100)}
	client := mcp.NewClient(&mcp.Implementation{Name: "visitor", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{
			RootsV2:     &mcp.RootCapabilities{ListChanged: true},
			Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}},
		},
		ElicitationHandler:            v.elicit,
		CreateMessageWithToolsHandler: v.sample,
		ToolListChangedHandler:        func(context.Context, *mcp.ToolListChangedRequest) { v.came <- "tools" },
		PromptListChangedHandler:      func(context.Context, *mcp.PromptListChangedRequest) { v.came <- "prompts" },
		ResourceListChangedHandler:    func(context.Context, *mcp.ResourceListChangedRequest) { v.came <- "resources" },
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			v.came <- r.Params.URI
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.progress = append(v.progress, r.Params.Progress)
		},
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.logged = append(v.logged, fmt.Sprint(r.Params.Level, " ", r.Params.Data))
		},
	})
	client.AddRoots(&mcp.Root{URI: "file:///home/v", Name: "home"}, &mcp.Root{URI: "file:///tmp", Name: "tmp"})
	session, err := client.Connect(harness.Context(t, 30*time.Second), frontDoor(t, transport, config), &mcp.ClientSessionOptions{ProtocolVersion: versions[era]})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	if got := session.InitializeResult().ProtocolVersion; got != versions[era] {
		t.Fatalf("the session speaks %s, want %s", got, versions[era])
	}
	v.session = session
	return v
}

var versions = map[mcptest.Era]string{mcptest.Legacy: mcptest.LegacyVersion, mcptest.Modern: mcptest.ModernVersion}

// frontDoor starts an aggregator and is the way to it.
func frontDoor(t *testing.T, transport string, config harness.Config) mcp.Transport {
	t.Helper()
	if transport == "HTTP" {
		return overHTTP(t, harness.Serve(t, config).URL)
	}
	_, in, out := harness.StartStdio(t, config)
	return &mcp.IOTransport{Reader: out.(io.ReadCloser), Writer: in}
}

func (v *visitor) note(question string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked = append(v.asked, question)
}

func (v *visitor) elicit(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	if r.Params.Mode == "url" {
		v.note("url: " + r.Params.Message + " " + r.Params.URL)
		return &mcp.ElicitResult{Action: "accept"}, nil
	}
	q := r.Params.Mode + ": " + r.Params.Message
	if schema, _ := json.Marshal(r.Params.RequestedSchema); strings.Contains(string(schema), `"who":{"type":"string"}`) {
		q += " with who"
	}
	v.note(q)
	return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"who": "Vera"}}, nil
}

// sample answers with uses of tools if it must, else with a text.
func (v *visitor) sample(_ context.Context, r *mcp.CreateMessageWithToolsRequest) (*mcp.CreateMessageWithToolsResult, error) {
	q := []string{r.Params.SystemPrompt}
	for _, m := range r.Params.Messages {
		q = append(q, string(m.Role)+" "+contentInWords(m.Content))
	}
	for _, tool := range r.Params.Tools {
		q = append(q, "tool "+tool.Name)
	}
	answer := &mcp.CreateMessageWithToolsResult{Model: "m1", Role: "assistant", StopReason: "endTurn",
		Content: []mcp.Content{&mcp.TextContent{Text: "pong"}}}
	if choice := r.Params.ToolChoice; choice != nil {
		q = append(q, "choose "+choice.Mode)
		answer.StopReason = "toolUse"
		answer.Content = []mcp.Content{&mcp.TextContent{Text: "both"},
			&mcp.ToolUseContent{ID: "c", Name: "sub", Input: map[string]any{"x": 7.0}},
			&mcp.ToolUseContent{ID: "d", Name: "add", Input: map[string]any{"y": 3.0}}}
	}
	v.note(strings.TrimSpace(strings.Join(q, " | ")))
	return answer, nil
}
