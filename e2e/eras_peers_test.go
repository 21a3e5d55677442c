//go:build e2e && linux

//lint:file-ignore SA1019 roots, sampling and logging are deprecated in 2026-07-28 and in use everywhere.

package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

func init() {
	children["curious"] = func() { _ = curious().Run(context.Background(), &mcp.StdioTransport{}) }
}

// asked are the arguments of all tools of the curious server.
type asked struct {
	Text string `json:"text,omitempty"`
}

// curious is a server of the official SDK whose tools ask the client: over revisions
// that allow it by a request in the middle of the call, else by a result that says what
// input is missing.
func curious() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "curious", Version: "1"}, nil)
	add := func(name string, f func(context.Context, *mcp.CallToolRequest, asked) (string, *mcp.CallToolResult, error)) {
		mcp.AddTool(s, &mcp.Tool{Name: name}, func(ctx context.Context, r *mcp.CallToolRequest, a asked) (*mcp.CallToolResult, any, error) {
			text, pending, err := f(ctx, r, a)
			if err != nil || pending != nil {
				return pending, nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
		})
	}
	add("elicit", func(ctx context.Context, r *mcp.CallToolRequest, a asked) (string, *mcp.CallToolResult, error) {
		got, pending, err := inquire(ctx, r, "who", &mcp.ElicitParams{Mode: "form", Message: a.Text, RequestedSchema: whoSchema}, r.Session.Elicit)
		if pending != nil || err != nil {
			return "", pending, err
		}
		return fmt.Sprint(a.Text, ": ", got.Action, " ", got.Content["who"]), nil, nil
	})
	add("visit", func(ctx context.Context, r *mcp.CallToolRequest, a asked) (string, *mcp.CallToolResult, error) {
		got, pending, err := inquire(ctx, r, "where", &mcp.ElicitParams{Mode: "url", Message: a.Text, URL: "https://example.com/" + a.Text, ElicitationID: "e1"}, r.Session.Elicit)
		if pending != nil || err != nil {
			return "", pending, err
		}
		return fmt.Sprint(a.Text, ": ", got.Action), nil, nil
	})
	add("sample", func(ctx context.Context, r *mcp.CallToolRequest, a asked) (string, *mcp.CallToolResult, error) {
		return sampled(ctx, r, a)
	})
	add("twice", func(ctx context.Context, r *mcp.CallToolRequest, a asked) (string, *mcp.CallToolResult, error) {
		return twice(ctx, r, a)
	})
	add("roots", func(ctx context.Context, r *mcp.CallToolRequest, _ asked) (string, *mcp.CallToolResult, error) {
		got, pending, err := inquire(ctx, r, "roots", &mcp.ListRootsParams{}, r.Session.ListRoots)
		if pending != nil || err != nil {
			return "", pending, err
		}
		var uris []string
		for _, root := range got.Roots {
			uris = append(uris, root.URI)
		}
		return strings.Join(uris, " "), nil, nil
	})
	add("talk", func(ctx context.Context, r *mcp.CallToolRequest, a asked) (string, *mcp.CallToolResult, error) {
		for i := range 5 {
			if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1)}); err != nil {
				return "", nil, err
			}
			if err := r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "warning", Data: fmt.Sprint(a.Text, i)}); err != nil {
				return "", nil, err
			}
		}
		return "said", nil, nil
	})
	// The process may be one of this call alone: what becomes of it is written down.
	add("hang", func(ctx context.Context, _ *mcp.CallToolRequest, a asked) (string, *mcp.CallToolResult, error) {
		_ = os.WriteFile(a.Text+".hung", nil, 0o600)
		select {
		case <-ctx.Done():
			_ = os.WriteFile(a.Text+".ended", nil, 0o600)
		case <-time.After(20 * time.Second): // nobody waits for that
		}
		return "", nil, ctx.Err()
	})
	return s
}

var whoSchema = &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"who": {Type: "string"}}}

// inquire gets a response of the client in the way its revision has for that.
func inquire[P mcp.InputRequest, R mcp.InputResponse](ctx context.Context, r *mcp.CallToolRequest, key string, in P, push func(context.Context, P) (R, error)) (R, *mcp.CallToolResult, error) {
	var none R
	if r.ProtocolVersion() < mcptest.ModernVersion {
		got, err := push(ctx, in)
		return got, nil, err
	}
	if got, ok := r.Params.InputResponses[key].(R); ok {
		return got, nil, nil
	}
	return none, &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{key: in}}, nil
}

func sampled(ctx context.Context, r *mcp.CallToolRequest, a asked) (string, *mcp.CallToolResult, error) {
	in := &mcp.CreateMessageParams{MaxTokens: 9, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: a.Text}}}}
	if r.ProtocolVersion() < mcptest.ModernVersion {
		got, err := r.Session.CreateMessage(ctx, in)
		if err != nil {
			return "", nil, err
		}
		return got.Model + ": " + got.Content.(*mcp.TextContent).Text, nil, nil
	}
	got, ok := r.Params.InputResponses["sample"].(*mcp.CreateMessageWithToolsResult)
	if !ok {
		return "", &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"sample": in}}, nil
	}
	return got.Model + ": " + got.Content[0].(*mcp.TextContent).Text, nil, nil
}

// twice asks two rounds: the second question depends on the first answer.
func twice(ctx context.Context, r *mcp.CallToolRequest, a asked) (string, *mcp.CallToolResult, error) {
	form := func(message string) *mcp.ElicitParams {
		return &mcp.ElicitParams{Mode: "form", Message: message, RequestedSchema: whoSchema}
	}
	if r.ProtocolVersion() < mcptest.ModernVersion {
		first, err := r.Session.Elicit(ctx, form(a.Text))
		if err != nil {
			return "", nil, err
		}
		second, err := r.Session.Elicit(ctx, form(fmt.Sprint(a.Text, " again ", first.Content["who"])))
		if err != nil {
			return "", nil, err
		}
		return fmt.Sprint(first.Content["who"], " and ", second.Content["who"]), nil, nil
	}
	if second, ok := r.Params.InputResponses["second"].(*mcp.ElicitResult); ok {
		return fmt.Sprint(r.Params.RequestState, " and ", second.Content["who"]), nil, nil
	}
	if first, ok := r.Params.InputResponses["first"].(*mcp.ElicitResult); ok {
		who := fmt.Sprint(first.Content["who"])
		return "", &mcp.CallToolResult{RequestState: who, InputRequests: mcp.InputRequestMap{"second": form(a.Text + " again " + who)}}, nil
	}
	return "", &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"first": form(a.Text)}}, nil
}

// serveCurious runs the curious server on HTTP: with sessions it speaks the legacy era
// only.
func serveCurious(t *testing.T, era mcptest.Era) harness.Config {
	t.Helper()
	srv := httptest.NewServer(mcptest.ServeSDK(curious(), era == mcptest.Modern))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return harness.Config{"url": srv.URL, "protocol": era.String()}
}

// curiousServers are the curious server in each era on each transport.
func curiousServers(t *testing.T) harness.Config {
	child := harness.Child(t, "curious")
	return harness.Servers(map[string]harness.Config{
		"hl": serveCurious(t, mcptest.Legacy), "hm": serveCurious(t, mcptest.Modern),
		"sl": child.With("protocol", "legacy"), "sm": child.With("protocol", "modern"),
	})
}

// A person is a client of the official SDK that answers what it is asked, under its
// name, and takes down what it was asked and told.
type person struct {
	name    string
	session *mcp.ClientSession

	mu        sync.Mutex
	asked     []string
	progress  []float64
	logged    []string
	strangers []string // what was meant for somebody else
}

// meet connects a person that speaks this revision.
func meet(t *testing.T, name, version string, transport mcp.Transport) *person {
	t.Helper()
	p := &person{name: name}
	client := mcp.NewClient(&mcp.Implementation{Name: name, Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{
			RootsV2:     &mcp.RootCapabilities{ListChanged: true},
			Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}},
			Sampling:    &mcp.SamplingCapabilities{},
		},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			p.note(r.Params.Message)
			if r.Params.Mode == "url" {
				return &mcp.ElicitResult{Action: "accept"}, nil
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"who": name}}, nil
		},
		CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			text := r.Params.Messages[0].Content.(*mcp.TextContent).Text
			p.note(text)
			return &mcp.CreateMessageResult{Model: name, Role: "assistant", Content: &mcp.TextContent{Text: text}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.progress = append(p.progress, r.Params.Progress)
		},
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.logged = append(p.logged, fmt.Sprint(r.Params.Data))
		},
	})
	client.AddRoots(&mcp.Root{URI: "file:///home/" + name})
	session, err := client.Connect(harness.Context(t, time.Minute), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	if got := session.InitializeResult().ProtocolVersion; got != version {
		t.Fatalf("the session speaks %s, want %s", got, version)
	}
	p.session = session
	return p
}

// overHTTP is a way to an endpoint on connections of its own.
func overHTTP(t *testing.T, url string) mcp.Transport {
	own := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(own.CloseIdleConnections) // the aggregator would wait for those never used
	return &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: own}}
}

// note takes down a question.
func (p *person) note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, text)
	if !strings.HasPrefix(text, p.name) {
		p.strangers = append(p.strangers, text)
	}
}

// call calls a tool and returns the text of its result, or what went wrong.
func (p *person) call(ctx context.Context, tool, text string) (string, error) {
	res, err := p.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"text": text}})
	if err != nil {
		return "", err
	}
	got, _ := texts(res.Content)
	if res.IsError {
		return "", fmt.Errorf("%s", got)
	}
	return got, nil
}

// awaitCurious waits until a tool of each server is listed.
func (p *person) awaitCurious(t *testing.T, servers ...string) {
	t.Helper()
	harness.Eventually(t, 20*time.Second, "all servers are listed", func() bool {
		all := strings.Join(guide{t, t.Context(), p.session}.tools(), " ")
		for _, s := range servers {
			if !strings.Contains(all, s+"__talk") {
				return false
			}
		}
		return true
	})
}

// throughEveryEra runs f for each client era on each transport, with each server.
func throughEveryEra(t *testing.T, f func(t *testing.T, p *person, server string)) {
	config := curiousServers(t)
	a := harness.Serve(t, config)
	path := config.Write(t)
	fronts := map[string]func() mcp.Transport{
		"HTTP": func() mcp.Transport {
			return &mcp.StreamableClientTransport{Endpoint: a.URL, HTTPClient: &http.Client{Transport: &http.Transport{}}}
		},
		"stdio": func() mcp.Transport {
			return &mcp.CommandTransport{Command: exec.Command(harness.Binary(t), "serve", "--config", path, "--stdio")}
		},
	}
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		for _, front := range []string{"HTTP", "stdio"} {
			version := map[mcptest.Era]string{mcptest.Legacy: mcptest.LegacyVersion, mcptest.Modern: mcptest.ModernVersion}[era]
			p := meet(t, "ann", version, fronts[front]())
			p.awaitCurious(t, "hl", "hm", "sl", "sm")
			for _, server := range []string{"hl", "hm", "sl", "sm"} {
				t.Run(fmt.Sprintf("%s client on %s, server %s", era, front, server), func(t *testing.T) { f(t, p, server) })
			}
		}
	}
}
