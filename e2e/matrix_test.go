//go:build e2e && linux

//lint:file-ignore SA1019 roots, sampling and logging are deprecated in 2026-07-28 and in use everywhere.

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// A place is a cell of the matrix in docs/eras.md on one transport, with one feature under
// test: a visitor in front of an aggregator, and behind it the versatile server, as "s".
type place struct {
	*visitor
	client, server mcptest.Era
}

// features are the rows of the matrix: every one of them works in every cell. What cannot
// be translated, by docs/eras.md, is never a whole feature.
//
// Their order matters on stdio. A server that has asked is given connections of sessions,
// and what one process has grown is unknown to the others. A call that was cancelled is
// suspected for a second of what the server asks, and then it can be refused.
var features = []struct {
	name string
	test func(p *place, t *testing.T)
}{
	{"tools", (*place).tools},
	{"resources", (*place).resources},
	{"prompts", (*place).prompts},
	{"completion", (*place).completion},
	{"list changes", (*place).listChanges},
	{"resource updates", (*place).resourceUpdates},
	{"progress", (*place).tellsProgress},
	{"logging", (*place).logs},
	{"elicitation form", (*place).elicitationForm},
	{"elicitation URL", (*place).elicitationURL},
	{"sampling", (*place).sampling},
	{"sampling with tools", (*place).samplingWithTools},
	{"roots", (*place).roots},
	{"cancellation", (*place).cancellation},
}

// TestMatrix is one test for each cell and feature, by clients and servers of the official
// Go SDK, under the name client era/server era/transport/feature.
func TestMatrix(t *testing.T) {
	throughTheMatrix(t, behindOne)
}

// throughTheMatrix tests every feature in every cell, in front of what behind starts.
func throughTheMatrix(t *testing.T, behind func(t *testing.T, era mcptest.Era, transport string) harness.Config) {
	throughTheCells(t, func(t *testing.T, client, server mcptest.Era, front, back string) {
		config := harness.Servers(map[string]harness.Config{"s": behind(t, server, back)})
		p := &place{enter(t, client, front, config), client, server}
		harness.Eventually(t, 20*time.Second, "the server is listed", func() bool {
			return slices.Contains(p.listed(t, "tools"), "s__echo")
		})
		for _, f := range features {
			t.Run(f.name, func(t *testing.T) { f.test(p, t) })
		}
	})
}

// throughTheCells runs f for each cell on each transport: that of client and server, or
// that of the client and that of the server.
func throughTheCells(t *testing.T, f func(t *testing.T, client, server mcptest.Era, front, back string)) {
	eras := []mcptest.Era{mcptest.Legacy, mcptest.Modern}
	for _, client := range eras {
		for _, server := range eras {
			for _, transport := range []string{"stdio", "HTTP", "stdio-HTTP", "HTTP-stdio"} {
				front, back, mixed := strings.Cut(transport, "-")
				if !mixed {
					back = front
				}
				t.Run(fmt.Sprintf("%s/%s/%s", client, server, transport), func(t *testing.T) {
					t.Parallel()
					f(t, client, server, front, back)
				})
			}
		}
	}
}

// call calls a tool of the server and returns the text of its result.
func (p *place) call(t *testing.T, tool, text string) string {
	t.Helper()
	return p.callWith(t, &mcp.CallToolParams{Name: "s__" + tool, Arguments: map[string]any{"text": text}})
}

func (p *place) callWith(t *testing.T, params *mcp.CallToolParams) string {
	t.Helper()
	res, err := p.session.CallTool(harness.Context(t, 10*time.Second), params)
	if err != nil {
		t.Fatalf("calling %s: %v", params.Name, err)
	}
	got, _ := texts(res.Content)
	if res.IsError {
		t.Fatalf("calling %s: %s", params.Name, got)
	}
	return got
}

// readText reads a resource.
func (p *place) readText(t *testing.T, uri string) string {
	t.Helper()
	return guide{t, harness.Context(t, 10*time.Second), p.session}.read(uri)
}

// getText gets a prompt of the server.
func (p *place) getText(t *testing.T, name string, args map[string]string) string {
	t.Helper()
	res, err := p.session.GetPrompt(harness.Context(t, 10*time.Second), &mcp.GetPromptParams{Name: "s__" + name, Arguments: args})
	if err != nil {
		t.Fatalf("getting %s: %v", name, err)
	}
	got, _ := texts([]mcp.Content{res.Messages[0].Content})
	return got
}

func wantText(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The server says which revision it is spoken to in.
func (p *place) tools(t *testing.T) {
	want := []string{"s__ask", "s__echo", "s__grow", "s__hang", "s__talk", "s__touch"}
	if got := slices.Sorted(slices.Values(p.listed(t, "tools"))); !slices.Equal(got, want) {
		t.Errorf("listed are %s, want %s", got, want)
	}
	wantText(t, p.call(t, "echo", "é😀"), "é😀 over "+versions[p.server])
}

func (p *place) resources(t *testing.T) {
	if got := slices.Sorted(slices.Values(p.listed(t, "resources"))); !slices.Equal(got, []string{"r://ask", "r://one"}) {
		t.Errorf("listed are %s", got)
	}
	templates, err := p.session.ListResourceTemplates(t.Context(), nil)
	if err != nil || len(templates.ResourceTemplates) != 1 {
		t.Errorf("templates: %v, %v", templates, err)
	}
	wantText(t, p.readText(t, "r://one"), "at r://one")
	wantText(t, p.readText(t, "r://number/5"), "at r://number/5")
}

func (p *place) prompts(t *testing.T) {
	if got := slices.Sorted(slices.Values(p.listed(t, "prompts"))); !slices.Equal(got, []string{"s__ask", "s__greet"}) {
		t.Errorf("listed are %s", got)
	}
	wantText(t, p.getText(t, "greet", map[string]string{"who": "you"}), "hello you")
}

func (p *place) completion(t *testing.T) {
	for ref, want := range map[mcp.CompleteReference]string{
		{Type: "ref/prompt", Name: "s__greet"}:        "greet",
		{Type: "ref/resource", URI: "r://number/{n}"}: "r://number/{n}",
	} {
		got, err := p.session.Complete(harness.Context(t, 10*time.Second), &mcp.CompleteParams{
			Ref: &ref, Argument: mcp.CompleteParamsArgument{Name: "n", Value: "4"},
			Context: &mcp.CompleteContext{Arguments: map[string]string{"before": "3"}},
		})
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		if diff := cmp.Diff(mcp.CompletionResultDetails{
			Values: []string{want, "n=4", `{"arguments":{"before":"3"}}`}, Total: 7, HasMore: true}, got.Completion); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// listed are the names of everything of a kind.
func (p *place) listed(t *testing.T, kind string) (names []string) {
	t.Helper()
	ctx := harness.Context(t, 10*time.Second)
	switch kind {
	case "tools":
		return guide{t, ctx, p.session}.tools()
	case "prompts":
		for x, err := range p.session.Prompts(ctx, nil) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, x.Name)
		}
	case "resources":
		for x, err := range p.session.Resources(ctx, nil) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, x.URI)
		}
	}
	return names
}

// Each kind is announced, and is listed then.
func (p *place) listChanges(t *testing.T) {
	ctx := harness.Context(t, 10*time.Second)
	want := map[string]string{"tools": "s__grown", "prompts": "s__grown", "resources": "r://grown"}
	p.call(t, "grow", "grown")
	for len(want) > 0 {
		select {
		case kind := <-p.came:
			if name, ok := want[kind]; ok && slices.Contains(p.listed(t, kind), name) {
				delete(want, kind)
			}
		case <-ctx.Done():
			t.Fatalf("not announced or not listed: %s", want)
		}
	}
	wantText(t, p.call(t, "grown", ""), "new")
}

func (p *place) resourceUpdates(t *testing.T) {
	ctx := harness.Context(t, 10*time.Second)
	if err := p.session.Subscribe(ctx, &mcp.SubscribeParams{URI: "r://one"}); err != nil {
		t.Fatal(err)
	}
	// The subscription at the server may take a moment.
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for p.call(t, "touch", "r://one"); ; {
		select {
		case what := <-p.came:
			if what == "r://one" {
				return
			}
		case <-again.C:
			p.call(t, "touch", "r://one")
		case <-ctx.Done():
			t.Fatal("the update was not told")
		}
	}
}

// The SDK hands out notifications side by side with the result.
func (p *place) tellsProgress(t *testing.T) {
	params := &mcp.CallToolParams{Name: "s__talk", Arguments: map[string]any{"text": "unwanted"}}
	params.SetProgressToken("mine")
	p.callWith(t, params)
	var got []float64
	harness.Eventually(t, 5*time.Second, "three steps are told", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		got = slices.Clone(p.progress)
		return len(got) >= 3
	})
	if !slices.Equal(got, []float64{1, 2, 3}) {
		t.Errorf("progress was %v", got)
	}
}

func (p *place) logs(t *testing.T) {
	if p.client == mcptest.Legacy {
		if err := p.session.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
			t.Fatal(err)
		}
	}
	// A legacy server is told of the level while the first call may be on its way.
	calls, got := 0, ""
	harness.Eventually(t, 5*time.Second, "all that the server logs in a call is told", func() bool {
		calls++
		params := &mcp.CallToolParams{Name: "s__talk", Arguments: map[string]any{"text": fmt.Sprintf("call %d.", calls)}}
		if p.client == mcptest.Modern {
			params.Meta = mcp.Meta{"io.modelcontextprotocol/logLevel": "info"}
		}
		p.callWith(t, params)
		p.mu.Lock()
		defer p.mu.Unlock()
		got = strings.Join(p.logged, ", ")
		for n := range calls {
			if strings.Contains(got, fmt.Sprintf("warning call %[1]d.0, warning call %[1]d.1, warning call %[1]d.2", n+1)) {
				return true
			}
		}
		return false
	})
	if p.client == mcptest.Modern && strings.Contains(got, "unwanted") {
		t.Errorf("without a level was told %s", got)
	}
}

// wantAsked takes what the visitor was asked since the last time.
func (p *place) wantAsked(t *testing.T, want ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if diff := cmp.Diff(want, p.asked); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
	p.asked = nil
}

// Tools, prompts and resources may all ask.
func (p *place) elicitationForm(t *testing.T) {
	wantText(t, p.call(t, "ask", "form"), "accept map[who:Vera]")
	wantText(t, p.getText(t, "ask", nil), "hello accept map[who:Vera]")
	wantText(t, p.readText(t, "r://ask"), "accept map[who:Vera]")
	const asked = "form: your name with who"
	p.wantAsked(t, asked, asked, asked)
}

func (p *place) elicitationURL(t *testing.T) {
	wantText(t, p.call(t, "ask", "url"), "accept map[]")
	p.wantAsked(t, "url: go there https://example.com/pay")
}

func (p *place) sampling(t *testing.T) {
	wantText(t, p.call(t, "ask", "sampling"), "m1, endTurn: pong")
	p.wantAsked(t, "be brief | user ping")
}

func (p *place) samplingWithTools(t *testing.T) {
	wantText(t, p.call(t, "ask", "tools"), "m1, toolUse: both; use c sub map[x:7]; use d add map[y:3]")
	p.wantAsked(t, "| user what is 1+2 and 3+4? | assistant use a add map[x:1]; use b add map[x:3]"+
		" | user result of a 3; result of b 7 | tool add | tool sub | choose required")
}

func (p *place) roots(t *testing.T) {
	wantText(t, p.call(t, "ask", "roots"), "home file:///home/v, tmp file:///tmp")
}

func (p *place) cancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(harness.Context(t, 10*time.Second))
	defer cancel()
	mark := filepath.Join(t.TempDir(), "call")
	seen := func(what string) func() bool {
		return func() bool { _, err := os.Stat(mark + what); return err == nil }
	}
	done := make(chan error, 1)
	go func() {
		_, err := p.session.CallTool(ctx, &mcp.CallToolParams{Name: "s__hang", Arguments: map[string]any{"text": mark}})
		done <- err
	}()
	harness.Eventually(t, 5*time.Second, "the call arrives", seen(".hung"))
	cancel()
	harness.Eventually(t, 2*time.Second, "the server's work ends", seen(".ended"))
	if err := <-done; err == nil {
		t.Error("the call has a result")
	}
	wantText(t, p.call(t, "echo", "next"), "next over "+versions[p.server])
}
