//go:build e2e && linux

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/tokens"
)

func init() {
	children["library"] = func() { _ = library().Run(context.Background(), &mcp.StdioTransport{}) }
}

// modelCases are lists of summarizers and how a call ends whose result they are to
// summarize: with a summary by the one named, or else with the beginning of the result.
var modelCases = []struct {
	list    []string
	by      string
	outcome string            // of the summary as a whole
	model   map[string]string // model → how asking it ended
}{
	{[]string{"streams"}, "streams", "ok", map[string]string{"streams": "ok"}},
	{[]string{"whole"}, "whole", "ok", map[string]string{"whole": "ok"}},
	{[]string{"claude"}, "claude", "ok", map[string]string{"claude": "ok"}},
	{[]string{"overloaded"}, "", "error", map[string]string{"overloaded": "error"}},
	{[]string{"stalls-before"}, "", "timeout", map[string]string{"stalls-before": "timeout"}},
	{[]string{"stalls-within"}, "", "timeout", map[string]string{"stalls-within": "timeout"}},
	{[]string{"ends-within"}, "", "error", map[string]string{"ends-within": "error"}},
	{[]string{"garbage"}, "", "error", map[string]string{"garbage": "error"}},
	{[]string{"garbage-within"}, "", "error", map[string]string{"garbage-within": "error"}},
	{[]string{"web-page"}, "", "error", map[string]string{"web-page": "error"}},
	{[]string{"empty"}, "", "empty", map[string]string{"empty": "empty"}},
	{[]string{"answers-400"}, "", "error", map[string]string{"answers-400": "error"}},
	{[]string{"answers-401"}, "", "error", map[string]string{"answers-401": "error"}},
	{[]string{"answers-429"}, "", "error", map[string]string{"answers-429": "error"}},
	{[]string{"answers-500"}, "", "error", map[string]string{"answers-500": "error"}},
	{[]string{"answers-503", "second"}, "second", "ok", map[string]string{"answers-503": "error", "second": "ok"}},
	{[]string{"stalls-before-2", "second-2"}, "second-2", "ok", map[string]string{"stalls-before-2": "timeout", "second-2": "ok"}},
	{[]string{"nobody"}, "", "error", map[string]string{"nobody": "error"}}, // nothing listens there
	{[]string{"sampling"}, "", "error", nil},                                // the client offers no model
	{[]string{"empty-2", "digest"}, "digest", "empty", map[string]string{"empty-2": "empty"}},
}

// library is a server with a tool for each case, whose results differ.
func library() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "library", Version: "1"}, nil)
	add := func(name string) {
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: "Reads the log of " + name}, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, any, error) {
			text, _ := errorLog(60_000)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "the log of " + name + "\n" + text}}}, nil, nil
		})
	}
	for _, c := range modelCases {
		add(toolFor(c.list...))
	}
	for _, name := range []string{"plain", "slowly"} {
		add(toolFor(name))
	}
	return s
}

// withModels is an aggregator with the library and all models of the cases.
func withModels(t *testing.T) (*harness.Aggregator, *modelServer) {
	t.Helper()
	m := serveModels(t)
	lists := [][]string{{"slowly"}}
	all := harness.Config{}
	for _, c := range modelCases {
		lists = append(lists, c.list)
		for _, name := range c.list {
			if name == "sampling" || name == "digest" {
				continue
			}
			one := m.models("1s", name)[name].(harness.Config)
			one["model"] = strings.TrimSuffix(name, "-2") // the same behaviour again
			if name == "nobody" {
				one["url"] = "http://" + harness.FreeAddr(t) + "/v1"
			}
			all[name] = one
		}
	}
	all["slowly"] = m.models("", "slowly")["slowly"]
	return harness.Serve(t, summarized(t, lists...).With("summarizers", all).With("admin", harness.Config{"token": adminToken})), m
}

const adminToken = "at-70ef/very+secret=="

func TestHoweverAModelBehavesTheCallEndsWell(t *testing.T) {
	t.Parallel()
	a, m := withModels(t)
	r := readAs(t, overHTTP(t, a.URL), mcptest.ModernVersion, nil)
	r.await("lib__log_streams", true)
	t.Run("calls", func(t *testing.T) {
		for _, c := range modelCases {
			t.Run(toolFor(c.list...), func(t *testing.T) {
				t.Parallel()
				r := &reader{t, r.session}
				s := r.callWith(&mcp.CallToolParams{Name: "lib__" + toolFor(c.list...), Arguments: map[string]any{"since": "yesterday"},
					Meta: mcp.Meta{"mcp-aggregator/intent": "find out about Graz"}})
				endsWell(t, s, c.by)
				// One second for each model that stalls; the machine may be busy.
				if most := time.Duration(1+len(c.list)) * time.Second * 2; s.took > most {
					t.Errorf("the call took %v, want at most %v", s.took, most)
				}
				if got, _ := r.original(s.note.Handle); !strings.HasPrefix(got, "the log of "+toolFor(c.list...)) {
					t.Errorf("the original begins with %.100q", got)
				}
			})
		}
	})
	asksWell(t, m.questions("streams"), m.questions("claude"))
	calls := 0
	for _, c := range modelCases {
		calls++
		for model, outcome := range c.model {
			if n := metric(t, a, adminToken, fmt.Sprintf(`mcp_summaries_total{model=%q,outcome=%q}`, model, outcome)); n != 1 {
				t.Errorf("%v summaries by %s are counted that ended with %s", n, model, outcome)
			}
		}
	}
	for line, want := range map[string]float64{
		`mcp_summary_tokens_total{direction="in",model="streams"}`: 1200, `mcp_summary_tokens_total{direction="out",model="streams"}`: 34,
		`mcp_summary_tokens_total{direction="in",model="claude"}`: 900, `mcp_summary_tokens_total{direction="out",model="claude"}`: 33,
		`mcp_kept_results`: float64(calls), `mcp_results_reduced_total{policy="summarize",server="lib"}`: 5, `mcp_results_reduced_total{policy="digest",server="lib"}`: 1,
	} {
		if got := metric(t, a, adminToken, line); got != want {
			t.Errorf("%s is %v, want %v", line, got, want)
		}
	}
	in, out := metric(t, a, adminToken, `mcp_result_tokens_total{direction="in",server="lib"}`), metric(t, a, adminToken, `mcp_result_tokens_total{direction="out",server="lib"}`)
	if in < 20_000*float64(calls) || out > in/3 || metric(t, a, adminToken, `mcp_tokens_saved_total`) != in-out {
		t.Errorf("%v tokens in and %v out are counted", in, out)
	}
	if kept := metric(t, a, adminToken, `mcp_kept_bytes{where="memory"}`); kept < 60_000*float64(calls) {
		t.Errorf("%v bytes are said to be kept", kept)
	}
	if masked := metric(t, a, adminToken, `mcp_masked_values_total{kind="github_token",server="lib"}`); masked != float64(calls) {
		t.Errorf("%v tokens are said to be hidden, want one of each call", masked)
	}
	if got := aggregatorStatus(t, a, adminToken); !strings.Contains(got, fmt.Sprintf(" %.0f tokens saved ", in-out)) {
		t.Errorf("status says\n%s", got)
	}
	tellsOfSummaries(t, a)
	if strings.Contains(a.Log(), modelKey) {
		t.Error("the key of the models is in the log")
	}
}

// endsWell complains if a call did not end with a summary by somebody, or with the
// beginning of the result if that is "".
func endsWell(t *testing.T, s shown, by string) {
	t.Helper()
	head, body, _ := strings.Cut(s.text, "]\n\n")
	want := "page"
	switch by {
	case "":
		if first, _, _ := strings.Cut(body, "\n"); !strings.HasPrefix(first, "the log of ") || !strings.Contains(head, "; go on with from: ") {
			t.Errorf("got no beginning: %.400s", s.text)
		}
		if n := tokens.Auto.Text([]byte(s.text)); n > s.note.Limit || n < s.note.Limit/2 {
			t.Errorf("it has %d tokens, the limit is %d", n, s.note.Limit)
		}
	case "digest":
		want = "digest"
		if !strings.HasPrefix(body, "digest of a log") {
			t.Errorf("got no digest: %.400s", s.text)
		}
	default:
		want = "summarize"
		if body != strings.Join(written(strings.TrimSuffix(by, "-2")), "") || !strings.Contains(head, "a summary by "+by+".") {
			t.Errorf("got no summary by %s: %.400s", by, s.text)
		}
	}
	if s.result.IsError || s.note.Policy != want {
		t.Errorf("the result is an error: %v, its note is %+v, want %s", s.result.IsError, s.note, want)
	}
}

// asksWell looks at what two models were asked.
func asksWell(t *testing.T, of ...[]question) {
	t.Helper()
	for _, all := range of {
		if len(all) != 1 {
			t.Errorf("asked %d times, want once", len(all))
			continue
		}
		q := all[0]
		for _, part := range []string{"lib.log_" + q.model, "Reads the log of log_" + q.model, `{"since":"yesterday"}`, "find out about Graz", "[masked:github_token]", "FATAL [db-pool]"} {
			if !strings.Contains(q.prompt, part) {
				t.Errorf("%s was not told %q", q.model, part)
			}
		}
		if q.maxTokens != 1000 || strings.Contains(q.prompt, "ghp_") {
			t.Errorf("%s may write %d tokens and was asked %.3000s", q.model, q.maxTokens, q.prompt)
		}
		if q.header.Get("Authorization") != "Bearer "+modelKey && q.header.Get("X-Api-Key") != modelKey {
			t.Errorf("%s was given no key: %v", q.model, q.header)
		}
	}
}

// tellsOfSummaries looks at the events of all calls of the cases.
func tellsOfSummaries(t *testing.T, a *harness.Aggregator) {
	t.Helper()
	byTool := map[string][]event{}
	for _, ev := range eventsAfter(t, a, adminToken, "0", func(events []event) bool { return ended(len(modelCases))(ofServer("lib", events)) }) {
		if ev.Server == "lib" && ev.Data.Tool != "" {
			byTool[ev.Data.Tool] = append(byTool[ev.Data.Tool], ev)
		}
	}
	for _, c := range modelCases {
		var types []string
		events := byTool[toolFor(c.list...)]
		last := event{}
		for _, ev := range events {
			if ev.Data.Call != events[0].Data.Call || ev.Data.Call == 0 || ev.ID <= last.ID {
				t.Errorf("%v: %s does not follow %s", c.list, ev.raw, last.raw)
			}
			if ev.Type != "summary.chunk" {
				types = append(types, ev.Type)
			}
			last = ev
		}
		end := "summary.completed"
		if c.outcome != "ok" {
			end = "summary.failed"
		}
		if want := "call.started summary.started " + end + " call.completed"; strings.Join(types, " ") != want {
			t.Errorf("%v: events are %q, want %q", c.list, types, want)
			continue
		}
		of := events[len(events)-2]
		if of.Data.Outcome != c.outcome || of.Data.Summary == 0 || (c.outcome != "ok") != (of.Data.Reason != "") || strings.Contains(of.raw, modelKey) {
			t.Errorf("%v: the summary ended with %s", c.list, of.raw)
		}
		if events[len(events)-1].Data.Kind != "ok" {
			t.Errorf("%v: the call ended with %s", c.list, events[len(events)-1].raw)
		}
	}
}

func ofServer(server string, events []event) (out []event) {
	for _, ev := range events {
		if ev.Server == server {
			out = append(out, ev)
		}
	}
	return out
}
