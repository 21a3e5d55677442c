package app_test

//lint:file-ignore SA1019 roots, sampling and logging are deprecated in 2026-07-28 and in use everywhere.

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/app"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
)

func TestToolsForResultsAreOfferedWhenTheConfigurationWantsThem(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*config.Config)
		want   string
	}{
		{"by default", func(*config.Config) {}, ""},
		{"results are made smaller", func(c *config.Config) { c.Results.Policy = "page" }, "result_read"},
		{"those of one tool", func(c *config.Config) {
			c.Servers[0].ToolOverrides = map[string]*config.ToolOverride{"echo": {Results: config.ResultRules{Policy: "summarize"}}}
		}, "result_read"},
		{"results are only blocked", func(c *config.Config) { c.Results.Policy = "block" }, ""},
		{"resources by tools", func(c *config.Config) { c.Catalog.ResourceTools = true }, "list_resources read_resource"},
		{"both", func(c *config.Config) { c.Results.Policy, c.Catalog.ResourceTools = "digest", true }, "result_read list_resources read_resource"},
	} {
		c := configure(demo())
		tt.change(c)
		a := newApp(t, c)
		stop, err := a.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var own []string
		for _, e := range a.Snapshot().Entries(catalog.Tools) {
			if e.Server == catalog.Own {
				own = append(own, e.Exposed)
			}
		}
		if got := strings.Join(own, " "); got != tt.want {
			t.Errorf("%s: %q", tt.name, got)
		}
		stop()
	}
}

// A running is an App with an HTTP face, and a client of it.
type running struct {
	*app.App
	t       *testing.T
	url     string
	session *mcp.ClientSession
}

// run serves a configuration to a client whose own model says so.
func run(t *testing.T, c *config.Config, says string) *running {
	t.Helper()
	a := newApp(t, c)
	ln, err := a.ServeHTTP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	web := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		cancel()
		await(t, "the end of Run", ended)
		web.CloseIdleConnections()
		http.DefaultClient.CloseIdleConnections()
	})
	await(t, "settling", a.Settled())
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: says}}, nil
		},
	})
	r := &running{App: a, t: t, url: "http://" + ln.Addr().String()}
	if r.session, err = client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: r.url + c.HTTP.Path, HTTPClient: web}, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.session.Close() })
	return r
}

// call calls a tool, which must work, and returns its first text.
func (r *running) call(tool string, args map[string]any) string {
	r.t.Helper()
	res, err := r.session.CallTool(r.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil || res.IsError {
		r.t.Fatalf("%s: %+v, %v", tool, res, err)
	}
	return res.Content[0].(*mcp.TextContent).Text
}

// An event as a reader of the admin side gets it.
type event struct {
	ID           int64
	Type, Server string
	Data         struct {
		Call, Summary          int64
		Tool, Kind             string
		Model, Outcome, Reason string
		TokensIn               int `json:"tokens_in"`
	}
}

// events reads so many events.
func (r *running) events(n int, query, last string) (all []event) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	q, _ := http.NewRequestWithContext(ctx, "GET", r.url+"/api/v1/mcp/events"+query, nil)
	if last != "" {
		q.Header.Set("Last-Event-ID", last)
	}
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); len(all) < n && lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var ev event
			if err := json.Unmarshal([]byte(data), &ev); err != nil {
				r.t.Fatalf("%v: %s", err, data)
			}
			all = append(all, ev)
		}
	}
	return all
}

func TestACallAndItsSummaryCanBeFollowed(t *testing.T) {
	c := configure(demo())
	c.Results.Policy, c.Results.ThresholdTokens = "summarize", 300
	r := run(t, c, "Nothing of note.")
	r.call("demo__add", map[string]any{"a": 1, "b": 2})
	message := strings.Repeat("line of a message that goes on\n", 500)
	short := r.call("demo__echo", map[string]any{"message": message})
	if !strings.HasSuffix(short, "\n\nNothing of note.") {
		t.Fatalf("%.500s", short)
	}
	all := r.events(7, "?types=call,summary&since=0", "")
	var got []string
	for _, ev := range all {
		got = append(got, ev.Type+" "+ev.Server+" "+ev.Data.Tool+" "+ev.Data.Kind+ev.Data.Outcome)
	}
	want := []string{
		"call.started demo add ", "call.completed demo add ok",
		"call.started demo echo ", "summary.started demo echo ", "summary.chunk demo echo ", "summary.completed demo echo ok", "call.completed demo echo ok",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	add, echo := all[0].Data.Call, all[2].Data.Call
	if add == 0 || echo == add || all[1].Data.Call != add || all[6].Data.Call != echo || all[3].Data.Call != echo || all[3].Data.Summary == 0 || all[5].Data.Summary != all[3].Data.Summary {
		t.Errorf("%+v", all)
	}
	if ended := all[5].Data; ended.Model != "sampling" || ended.TokensIn < 2000 {
		t.Errorf("%+v", ended)
	}
	again := r.events(2, "?types=call", jsonText(all[2].ID-1))
	if len(again) != 2 || again[0] != all[2] || again[1] != all[6] {
		t.Errorf("caught up with %+v", again)
	}
	r.checkCounts()
}

func jsonText(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// checkCounts looks for what the summary of the test has saved.
func (r *running) checkCounts() {
	r.t.Helper()
	get := func(path string) string {
		res, err := http.Get(r.url + path)
		if err != nil {
			r.t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return string(b)
	}
	var info struct {
		Saved int `json:"tokens_saved"`
	}
	if err := json.Unmarshal([]byte(get("/api/v1/mcp/info")), &info); err != nil || info.Saved < 2000 {
		r.t.Errorf("%+v, %v", info, err)
	}
	metrics := get("/metrics")
	for _, want := range []string{
		`mcp_results_reduced_total{policy="summarize",server="demo"} 1`, `mcp_summaries_total{model="sampling",outcome="ok"} 1`,
		`mcp_kept_results 1`, `mcp_tokens_saved_total ` + jsonText(info.Saved),
	} {
		if !strings.Contains(metrics, want+"\n") {
			r.t.Errorf("no %s in the metrics", want)
		}
	}
}

// What is configured as a credential does not come back from a server that echoes it.
func TestCredentialsOfTheConfigurationAreHiddenInResults(t *testing.T) {
	c := configure(demo())
	c.Admin.Token = "a-token-of-the-admin-side"
	c.Servers[0].Headers = map[string]string{"Authorization": "Bearer s3cr3t-0f-th3-s3rv3r"}
	r := run(t, c, "")
	for _, secret := range []string{"s3cr3t-0f-th3-s3rv3r", "a-token-of-the-admin-side"} {
		if got := r.call("demo__echo", map[string]any{"message": "it is " + secret + "!"}); strings.Contains(got, secret) || !strings.Contains(got, "[masked:configured]") {
			t.Errorf("got %s", got)
		}
	}
}

// Servers may quote what was replaced just now, and what it was replaced by.
func TestCredentialsBeforeAndAfterAReloadAreHidden(t *testing.T) {
	c, next, last := configure(demo()), configure(demo()), configure(demo())
	c.Admin.Token, next.Admin.Token, last.Admin.Token = "the-first-token", "the-second-token", "the-third-token"
	queue := []*config.Config{next, last}
	a, err := app.New(app.Options{Config: c, Version: "1", Reread: func() (*config.Config, error) {
		first := queue[0]
		queue = queue[1:]
		return first, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	stop, err := a.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for range 2 {
		if plan, err := a.Reload(t.Context(), "test"); err != nil || !plan.Applied {
			t.Fatalf("%+v, %v", plan, err)
		}
	}
	for _, token := range []string{"the-first-token", "the-second-token", "the-third-token"} {
		res, err := a.Call(t.Context(), "demo__echo", json.RawMessage(`{"message":"`+token+`"}`), nil)
		if err != nil || strings.Contains(string(res), token) {
			t.Errorf("%s, %v", res, err)
		}
	}
}

func TestAChangedMaskCountsForTheNextCall(t *testing.T) {
	c := configure(demo())
	next := configure(demo())
	next.Mask.Patterns = map[string]string{"ticket": "TICKET-[0-9]+"}
	next.Results.Policy, next.Results.ThresholdTokens = "page", 300
	a, err := app.New(app.Options{Config: c, Version: "1", Reread: func() (*config.Config, error) { return next, nil }})
	if err != nil {
		t.Fatal(err)
	}
	stop, err := a.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	echo := func() string {
		res, err := a.Call(t.Context(), "demo__echo", json.RawMessage(`{"message":"TICKET-77"}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		return string(res)
	}
	if got := echo(); !strings.Contains(got, "TICKET-77") {
		t.Errorf("before: %s", got)
	}
	if plan, err := a.Reload(t.Context(), "test"); err != nil || !plan.Applied {
		t.Fatalf("%+v, %v", plan, err)
	}
	if got := echo(); strings.Contains(got, "TICKET-77") || !strings.Contains(got, "[masked:ticket]") {
		t.Errorf("after: %s", got)
	}
	if _, ok := a.Snapshot().Tool("result_read"); !ok {
		t.Error("nobody can read what is kept")
	}
}
