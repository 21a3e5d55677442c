package router_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/keep"
	"mcp-aggregator/internal/mask"
	"mcp-aggregator/internal/results"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// A press is a router that makes results small, and what it has told.
type press struct {
	*router.Router
	set *upstream.Set

	mu     sync.Mutex
	done   []results.Done
	steps  []string
	masked map[string]int // server and kind → how many
}

// newPress routes to the servers of a configuration, of which some have masks. What the
// aggregator offers itself is there.
func newPress(t testing.TB, c *config.Config, builtins map[string]func() *mcp.Server, masks map[string]mask.Options) *press {
	t.Helper()
	p := &press{masked: map[string]int{}}
	store, err := keep.Open(keep.Options{})
	if err != nil {
		t.Fatal(err)
	}
	red := results.New(results.Options{Store: store, Watch: results.Watch{
		Reduced: func(d results.Done) { p.note(func() { p.done = append(p.done, d) }) },
		Summary: func(s results.Step) { p.note(func() { p.steps = append(p.steps, s.What+" "+string(s.Outcome)) }) },
	}})
	if err := red.Configure(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(red.Close)
	gen := router.Generation{Masks: map[string]*mask.Masker{}}
	gen.Shrinks, _ = c.Treatment()
	for server, o := range masks {
		if gen.Masks[server], err = mask.New(o); err != nil {
			t.Fatal(err)
		}
	}
	watch := router.Watch{Masked: func(server, kind string, n int) { p.note(func() { p.masked[server+" "+kind] += n }) }}
	own := catalog.Ours(append(results.Tools(), router.ResourceTools()...), []byte(`{"resources":{}}`))
	p.Router, p.set = newRigWith(t, c, builtins, router.Options{Watch: watch, Results: red}, gen, own)
	return p
}

func (p *press) note(what func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	what()
}

func (p *press) told() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.steps, ", ")
}

// pressing is a configuration of one server "up" of an era, whose results are large
// beyond 500 tokens.
func pressing(era wire.Era, policy string) *config.Config {
	c := config.Default()
	up := builtinServer("up")
	up.Protocol = era.String()
	c.Servers = []*config.Server{up}
	c.Results.Policy, c.Results.ThresholdTokens, c.Results.MaxSummaryTokens = policy, 500, 200
	return c
}

// upWith makes the server "up".
func upWith(tools map[string]tool) map[string]func() *mcp.Server {
	return map[string]func() *mcp.Server{"up": serverOf(tools)}
}

// lines is a text of so many lines.
func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d of the report, with an id %08x\n", i+1, uint32(i*2654435761))
	}
	return b.String()
}

const callBig = `{"name":"up__big","arguments":{}}`

// A fitted is what a client sees of a result.
type fitted struct {
	ResultType string
	Content    []struct{ Type, Text, URI string }
	IsError    bool
	Meta       struct {
		Result struct{ Policy, Handle, URI string } `json:"mcp-aggregator/result"`
	} `json:"_meta"`
}

func fittedIn(t testing.TB, text string) (f fitted) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		t.Fatalf("%v: %.500s", err, text)
	}
	if len(f.Content) == 0 {
		t.Fatalf("no content: %.500s", text)
	}
	return f
}

// readBack reads a kept text by the tool, in pieces.
func (p *person) readBack(handle string, total int) string {
	p.t.Helper()
	var all strings.Builder
	for from := 1; from <= total; from += 150 {
		args := fmt.Sprintf(`{"name":"result_read","arguments":{"handle":%q,"from":%d,"to":%d}}`, handle, from, min(from+149, total))
		f := fittedIn(p.t, p.call("tools/call", args))
		text, _, _ := strings.Cut(f.Content[0].Text, "\n[")
		if f.IsError {
			p.t.Fatal(f.Content[0].Text)
		}
		all.WriteString(text + "\n")
	}
	return all.String()
}

// fails is a tool that fails with a text.
func fails(text string) tool {
	return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
	}
}
