//go:build e2e && linux

//lint:file-ignore SA1019 sampling is deprecated in 2026-07-28 and in use everywhere.

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// ownModel are options of a client that offers a model of its own.
func ownModel(answer func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error)) *mcp.ClientOptions {
	return &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Sampling: &mcp.SamplingCapabilities{}},
		CreateMessageHandler: func(ctx context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return answer(ctx, r.Params)
		},
	}
}

func said(text string) *mcp.CreateMessageResult {
	return &mcp.CreateMessageResult{Model: "host", Role: "assistant", StopReason: "endTurn", Content: &mcp.TextContent{Text: text}}
}

func TestTheCallersOwnModelSummarizes(t *testing.T) {
	t.Parallel()
	a := harness.Serve(t, summarized(t, []string{"sampling"}))
	for _, version := range []string{mcptest.LegacyVersion, mcptest.ModernVersion} {
		t.Run(version, func(t *testing.T) {
			var mu sync.Mutex
			var asked []*mcp.CreateMessageParams
			answer := func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
				return said("The host's model has read it: E-4711."), nil
			}
			r := readAs(t, overHTTP(t, a.URL), version, ownModel(func(ctx context.Context, p *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
				mu.Lock()
				asked = append(asked, p)
				mu.Unlock()
				return answer(ctx, p)
			}))
			r.await("lib__log_sampling", true)
			s := r.call("lib__log_sampling", map[string]any{"for": version})
			if s.note.Policy != "summarize" || !strings.HasSuffix(s.text, "]\n\nThe host's model has read it: E-4711.") || !strings.Contains(s.text, "a summary by sampling.") {
				t.Errorf("got %+v: %.500s", s.note, s.text)
			}
			if len(asked) != 1 || asked[0].MaxTokens != 1000 || !strings.Contains(asked[0].SystemPrompt, "never an instruction") ||
				!strings.Contains(asked[0].Messages[0].Content.(*mcp.TextContent).Text, "FATAL [db-pool]") {
				t.Errorf("asked %d times: %+v", len(asked), asked)
			}
			if got, _ := r.original(s.note.Handle); !strings.HasPrefix(got, "the log of log_sampling\n") {
				t.Errorf("the original begins with %.100q", got)
			}
			for name, refuses := range map[string]func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error){
				"a person who declines": func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
					return nil, errors.New("User rejected sampling request")
				},
				"an empty answer": func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
					return said(" \n"), nil
				},
				"an answer after the time": func(ctx context.Context, _ *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
					select {
					case <-time.After(5 * time.Second): // a summary has four
					case <-ctx.Done():
					}
					return said("much too late"), nil
				},
			} {
				if version == mcptest.ModernVersion && name == "a person who declines" {
					continue // the SDK gives up the whole call; others come back, see below
				}
				t.Run(name, func(t *testing.T) {
					mu.Lock()
					answer = refuses
					mu.Unlock()
					s := (&reader{t, r.session}).call("lib__log_sampling", map[string]any{"again": name})
					endsWell(t, s, "")
					if s.took > 8*time.Second {
						t.Errorf("the call took %v", s.took)
					}
				})
			}
		})
	}
}

// A modern client that declines comes back without an answer, or with one that is none.
func TestModernClientsMayDeclineToSummarize(t *testing.T) {
	t.Parallel()
	a := harness.Serve(t, summarized(t, []string{"sampling"}))
	c, err := mcptest.ConnectHTTP(harness.Context(t, time.Minute), a.URL, mcptest.Modern, &mcptest.Options{Capabilities: `{"sampling":{}}`, Own: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	awaitTool(t, c, "lib__log_sampling", 10*time.Second)
	for _, responses := range []string{`{"1":{"error":{"code":-1,"message":"declined"}}}`, `{"1":{"role":"assistant"}}`, `{}`} {
		began := time.Now()
		params := `{"name":"lib__log_sampling","arguments":{"again":` + mcptest.Quote(responses) + `}`
		more, rounds := "", 0
		for {
			x, err := c.Call(harness.Context(t, 20*time.Second), "tools/call", params+more+"}")
			if err != nil {
				t.Fatal(err)
			}
			if string(mcptest.Field(x.Result, "resultType")) == `"input_required"` {
				more = `,"requestState":` + string(mcptest.Field(x.Result, "requestState")) + `,"inputResponses":` + responses
				rounds++
				continue
			}
			note := mcptest.Field(mcptest.Field(x.Result, "_meta"), "mcp-aggregator/result")
			if string(mcptest.Field(note, "policy")) != `"page"` || rounds == 0 {
				t.Errorf("%s: after %d rounds answered with %s", responses, rounds, show(x))
			}
			break
		}
		if took := time.Since(began); took > 7*time.Second { // a summary has four
			t.Errorf("%s: took %v", responses, took)
		}
	}
}

func TestTypeScriptClientsSummarizeWithTheirOwnModels(t *testing.T) {
	t.Parallel()
	a := harness.Serve(t, summarized(t, []string{"sampling"}))
	for _, generation := range []string{"v1", "v2"} {
		t.Run(generation, func(t *testing.T) {
			got := runResults(t, generation, a.URL, []scriptedCall{{Tool: "lib__log_sampling", Arguments: map[string]any{"for": generation}, Read: true}})
			res := got.Results["lib__log_sampling"]
			if len(got.Questions) != 1 || got.Questions[0].MaxTokens != 1000 || got.Questions[0].Characters < 60_000 {
				t.Fatalf("asked %+v, result %.300s", got.Questions, res.Text)
			}
			if want := fmt.Sprintf("]\n\nTim has read %d characters.", got.Questions[0].Characters); res.Policy != "summarize" || !strings.HasSuffix(res.Text, want) {
				t.Errorf("got %.500s", res.Text)
			}
			if res.Original != res.Resource || res.Answers < 3 {
				t.Errorf("result_read gave %s in %d answers, resources/read %s", res.Original, res.Answers, res.Resource)
			}
		})
	}
}

// With no model at all, or none that may be asked, clients get the beginning at once.
func TestWithoutAModelTheClientGetsTheBeginning(t *testing.T) {
	t.Parallel()
	a := harness.Serve(t, summarized(t))
	for _, version := range []string{mcptest.LegacyVersion, mcptest.ModernVersion} {
		r := readAs(t, overHTTP(t, a.URL), version, nil)
		r.await("lib__log_plain", true)
		s := r.call("lib__log_plain", nil)
		endsWell(t, s, "")
		if s.took > 2*time.Second {
			t.Errorf("the call took %v", s.took)
		}
	}
	// The same configuration with a client that has a model.
	r := readAs(t, overHTTP(t, a.URL), mcptest.ModernVersion, ownModel(func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
		return said("read by the host"), nil
	}))
	if s := r.call("lib__log_plain", nil); s.note.Policy != "summarize" || !strings.HasSuffix(s.text, "read by the host") {
		t.Errorf("got %.500s", s.text)
	}
}

func TestSummariesEndWhenTheBudgetIsSpent(t *testing.T) {
	t.Parallel()
	m := serveModels(t)
	config := summarized(t, []string{"streams"}).With("summarizers", m.models("", "streams"))
	config["results"].(harness.Config)["summary"] = harness.Config{"tokens_per_minute": 1500}
	a := harness.Serve(t, config)
	r := readAs(t, overHTTP(t, a.URL), mcptest.ModernVersion, nil)
	r.await("lib__log_streams", true)
	for i, by := range []string{"streams", "", ""} {
		s := r.call("lib__log_streams", map[string]any{"call": i})
		endsWell(t, s, by)
		if s.took > 3*time.Second {
			t.Errorf("call %d took %v", i, s.took)
		}
	}
	if n := metric(t, a, "", `mcp_summaries_total{model="streams",outcome="budget"}`); n != 2 || len(m.questions("")) != 1 {
		t.Errorf("%v summaries went over the budget, the model was asked %d times", n, len(m.questions("")))
	}
}

// A model that fails again and again is left alone; then calls do not wait for it.
func TestModelsThatFailRest(t *testing.T) {
	t.Parallel()
	m := serveModels(t)
	a := harness.Serve(t, summarized(t, []string{"stalls-before"}, []string{"answers-429"}).With("summarizers", m.models("300ms", "stalls-before", "answers-429")))
	r := readAs(t, overHTTP(t, a.URL), mcptest.ModernVersion, nil)
	r.await("lib__log_answers-429", true)
	last := shown{}
	for i := range 8 {
		last = r.call("lib__log_stalls-before", map[string]any{"call": i})
		endsWell(t, last, "")
	}
	open := metric(t, a, "", `mcp_summaries_total{model="stalls-before",outcome="open"}`)
	if n := len(m.questions("stalls-before")); n != 5 || open != 3 || last.took > time.Second {
		t.Errorf("asked %d times, left alone %v times, the last call took %v", n, open, last.took)
	}
	for i := range 3 { // it wants to be left alone after the first
		endsWell(t, r.call("lib__log_answers-429", map[string]any{"call": i}), "")
	}
	if n := len(m.questions("answers-429")); n != 1 {
		t.Errorf("a model that answered 429 was asked %d times", n)
	}
}

func TestTheSameResultIsSummarizedOnce(t *testing.T) {
	t.Parallel()
	m := serveModels(t)
	a := harness.Serve(t, summarized(t, []string{"streams"}).With("summarizers", m.models("", "streams")))
	for _, version := range []string{mcptest.ModernVersion, mcptest.LegacyVersion} {
		r := readAs(t, overHTTP(t, a.URL), version, nil)
		r.await("lib__log_streams", true)
		before := len(m.questions(""))
		for range 3 {
			endsWell(t, r.call("lib__log_streams", map[string]any{"since": version}), "streams")
		}
		if n := len(m.questions("")) - before; n != 1 {
			t.Errorf("%s: the model was asked %d times", version, n)
		}
	}
	if n := metric(t, a, "", `mcp_summaries_total{model="streams",outcome="cached"}`); n != 4 {
		t.Errorf("%v summaries came from the cache", n)
	}
	if n := metric(t, a, "", `mcp_summary_tokens_total{direction="out",model="streams"}`); n != 2*34 {
		t.Errorf("%v tokens are counted", n)
	}
}

// Without a time-out of its own a model has no more than a summary has.
func TestASummaryIsBounded(t *testing.T) {
	t.Parallel()
	m := serveModels(t)
	config := summarized(t).With("summarizers", m.models("", "stalls-before", "stalls-within"))
	config["results"].(harness.Config)["summary"] = harness.Config{"timeout": "1s"}
	a := harness.Serve(t, config)
	for _, version := range []string{mcptest.ModernVersion, mcptest.LegacyVersion} {
		r := readAs(t, overHTTP(t, a.URL), version, nil)
		r.await("lib__log_plain", true)
		// All models in the order of their names, as the call says none.
		s := r.call("lib__log_plain", map[string]any{"by": version})
		endsWell(t, s, "")
		if s.took < 900*time.Millisecond || s.took > 3*time.Second {
			t.Errorf("the call took %v", s.took)
		}
		if len(m.questions("stalls-before")) == 0 || len(m.questions("stalls-within")) == 0 {
			t.Error("only one of two models was asked")
		}
	}
}

func TestCallersOfTheSameResultShareASummary(t *testing.T) {
	t.Parallel()
	a, m := withModels(t)
	r := readAs(t, overHTTP(t, a.URL), mcptest.ModernVersion, nil)
	r.await("lib__log_slowly", true)
	results := make([]*mcp.CallToolResult, 4)
	var work sync.WaitGroup
	for i := range results {
		work.Go(func() {
			var err error
			if results[i], err = r.session.CallTool(harness.Context(t, 20*time.Second), &mcp.CallToolParams{Name: "lib__log_slowly", Arguments: map[string]any{}}); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	for _, res := range results {
		if res != nil {
			if text, _ := texts(res.Content[:1]); !strings.HasSuffix(text, strings.Join(written("slowly"), "")) {
				t.Errorf("got %.300s", text)
			}
		}
	}
	if n := len(m.questions("slowly")); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
}
