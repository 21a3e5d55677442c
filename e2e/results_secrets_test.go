//go:build e2e && linux

//lint:file-ignore SA1019 logging is deprecated in 2026-07-28 and in use everywhere.

package e2e_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

func init() {
	children["leaky"] = func() { _ = leaky().Run(context.Background(), &mcp.StdioTransport{}) }
}

type leakArguments struct {
	N    int    `json:"n,omitempty"`
	Text string `json:"text,omitempty"`
}

// leaky is a server whose tools give secrets away, in results, log messages, progress
// and errors.
func leaky() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "leaky", Version: "1"}, nil)
	dump := func(ctx context.Context, r *mcp.CallToolRequest, a leakArguments) (*mcp.CallToolResult, any, error) {
		l := leakOf(a.N)
		_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1, Message: "read " + l.secrets[0].inText()})
		_ = r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "error", Logger: "leaky", Data: map[string]any{"line": l.secrets[4].inText()}})
		res := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: l.text}}}
		if l.structured != nil {
			res.StructuredContent = l.structured
		}
		return res, nil, nil
	}
	mcp.AddTool(s, &mcp.Tool{Name: "dump"}, dump)
	mcp.AddTool(s, &mcp.Tool{Name: "dump_for_model"}, dump)
	mcp.AddTool(s, &mcp.Tool{Name: "dump_whole"}, dump)
	mcp.AddTool(s, &mcp.Tool{Name: "fail"}, func(_ context.Context, _ *mcp.CallToolRequest, a leakArguments) (*mcp.CallToolResult, any, error) {
		return nil, nil, fmt.Errorf("could not read:\n%s", leakOf(a.N).text)
	})
	s.AddResource(&mcp.Resource{URI: "leak://first", Name: "first"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "leak://first", Text: leakOf(0).text}}}, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "second"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: leakOf(1).text}}}}, nil
	})
	say := func(_ context.Context, _ *mcp.CallToolRequest, a leakArguments) (*mcp.CallToolResult, any, error) {
		noise, _ := errorLog(4000)
		text := noise + a.Text + "\n" + noise
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, StructuredContent: map[string]any{"lines": strings.Split(text, "\n"), a.Text: true}}, nil, nil
	}
	mcp.AddTool(s, &mcp.Tool{Name: "say"}, say)
	mcp.AddTool(s, &mcp.Tool{Name: "say_for_model"}, say)
	return s
}

// A spy is a client that keeps every byte it is sent, and an aggregator of which all
// else that can be seen is looked at.
type spy struct {
	*harness.Aggregator
	t      *testing.T
	client *mcptest.Client
	models *modelServer
	state  string
	seen   strings.Builder // everything that came over the wire
}

// otherToken is the credential of a server that has nothing to do with the leaks.
const otherToken = `bt-9c/own+"bearer"<&>tok==`

func newSpy(t *testing.T, era mcptest.Era) *spy {
	t.Helper()
	s := &spy{t: t, models: serveModels(t), state: t.TempDir()}
	forModel := harness.Config{"results": harness.Config{"policy": "summarize"}}
	other := listen(t, &mcptest.Raw{Tools: []string{echoTool}})
	s.Aggregator = harness.Serve(t, harness.Config{
		"servers": map[string]harness.Config{
			"leaky": harness.Child(t, "leaky").With("protocol", era.String()).With("tool_overrides", harness.Config{
				"dump_for_model": forModel, "say_for_model": forModel, "dump_whole": harness.Config{"results": "pass"},
			}),
			"other": other.With("bearer_token", otherToken),
		},
		"results":     harness.Config{"policy": "digest", "threshold_tokens": 500, "structured": "drop", "keep": harness.Config{"memory": "64KiB"}},
		"summarizers": s.models.models("", "streams"),
		"mask":        harness.Config{"sets": []string{"default", "generic"}, "code": []string{"kubernetes_secret"}},
		"admin":       harness.Config{"token": adminToken},
		"state_dir":   s.state,
		"log":         harness.Config{"level": "debug"},
	})
	s.client = s.Connect(t, era)
	awaitTool(t, s.client, "leaky__dump", 10*time.Second)
	awaitTool(t, s.client, "other__echo", 10*time.Second)
	return s
}

// ask makes a request and keeps what comes back.
func (s *spy) ask(method, params string) json.RawMessage {
	s.t.Helper()
	x, err := s.client.Call(harness.Context(s.t, 20*time.Second), method, params)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, message := range x.Before {
		s.keep(message)
	}
	s.keep(x.Raw)
	return x.Result
}

// keep notes a message as it is, and what its strings say.
func (s *spy) keep(message json.RawMessage) {
	s.seen.Write(message)
	s.seen.WriteByte('\n')
	var v any
	if json.Unmarshal(message, &v) == nil {
		s.strings(v)
	}
}

func (s *spy) strings(v any) {
	switch v := v.(type) {
	case string:
		s.seen.WriteString(v + "\n")
	case []any:
		for _, e := range v {
			s.strings(e)
		}
	case map[string]any:
		for k, e := range v {
			s.seen.WriteString(k + "\n")
			s.strings(e)
		}
	}
}

// call calls a tool and reads all of its original in every way.
func (s *spy) call(tool string, arguments any) {
	s.t.Helper()
	raw := must(json.Marshal(arguments))
	result := s.ask("tools/call", `{"name":"`+tool+`","arguments":`+string(raw)+`,"_meta":{"progressToken":"p","io.modelcontextprotocol/logLevel":"debug"}}`)
	var got struct {
		Structured json.RawMessage `json:"structuredContent"`
		IsError    bool
		Meta       struct {
			Result struct{ Handle, URI, Policy string } `json:"mcp-aggregator/result"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(result, &got); err != nil {
		s.t.Fatalf("%.300s: %v", result, err)
	}
	if got.IsError || strings.HasSuffix(tool, "_whole") {
		return
	}
	if got.Meta.Result.Handle == "" || got.Structured != nil {
		s.t.Fatalf("%s: nothing is kept: %.500s", tool, result)
	}
	if want := strings.HasSuffix(tool, "_for_model"); want != (got.Meta.Result.Policy == "summarize") {
		s.t.Errorf("%s: treated with %s", tool, got.Meta.Result.Policy)
	}
	s.ask("resources/read", `{"uri":"`+got.Meta.Result.URI+`"}`)
	for _, more := range []string{`"grep":"[A-Za-z0-9]","max_matches":1000`, `"structured":true`, `"tail":50`} {
		s.ask("tools/call", `{"name":"result_read","arguments":{"handle":"`+got.Meta.Result.Handle+`",`+more+`}}`)
	}
}

// everything is all that can be seen of the aggregator, by place.
func (s *spy) everything() map[string]string {
	s.t.Helper()
	files := keptFiles(s.t, s.state)
	if len(files) < 5 {
		s.t.Errorf("only %d originals are on the disk", len(files))
	}
	var prompts strings.Builder
	for _, q := range s.models.questions("") {
		prompts.WriteString(q.prompt + "\n")
	}
	if prompts.Len() < 10_000 {
		s.t.Errorf("models were asked only %d bytes", prompts.Len())
	}
	var events strings.Builder
	for _, ev := range eventsAfter(s.t, s.Aggregator, adminToken, "0", ended(10)) {
		events.WriteString(ev.raw + "\n")
	}
	places := map[string]string{
		"what the client got": s.seen.String(),
		"the prompts":         prompts.String(),
		"the log":             s.Log(),
		"the events":          events.String(),
		"the metrics":         adminGet(s.t, s.Aggregator, adminToken, "/metrics"),
		"the server's page":   adminGet(s.t, s.Aggregator, adminToken, "/api/v1/mcp/servers"),
		"the server's logs":   adminGet(s.t, s.Aggregator, adminToken, "/api/v1/mcp/servers/leaky/logs"),
		"the status":          aggregatorStatus(s.t, s.Aggregator, adminToken, "--json") + aggregatorStatus(s.t, s.Aggregator, adminToken),
	}
	for path, text := range files {
		places["the disk"] += text + path
	}
	return places
}

func TestTenThousandSecretsGoNowhere(t *testing.T) {
	t.Parallel()
	kinds := map[string]bool{}
	windows := map[string]string{} // piece of a secret → its kind
	total := 0
	for n := range leaks {
		for _, one := range leakOf(n).secrets {
			kinds[one.kind] = true
			total++
			windows[one.core[:window]] = one.kind
			for _, form := range []string{one.core, strings.TrimRight(inBase64(one.core), "="), strings.TrimRight(inBase64(one.text), "=")} {
				last := len(form) - window
				for _, at := range []int{last / 2, last * 3 / 4, last} { // what stands in front of a secret is none
					windows[form[at:at+window]] = one.kind
				}
			}
		}
	}
	if total != 10_000 || len(kinds) < 25 {
		t.Errorf("%d secrets of %d kinds", total, len(kinds))
	}
	if found := piecesIn(leakOf(0).text+leakOf(5).text, windows); len(found) < 30 {
		t.Errorf("only %d kinds are found in what is leaked: %v", len(found), found)
	}
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			s := newSpy(t, era)
			began := time.Now()
			s.leakAll()
			t.Logf("%d secrets of %d kinds, %d bytes for the client in %v", total, len(kinds), s.seen.Len(), time.Since(began))
			for place, text := range s.everything() {
				for kind, piece := range piecesIn(text, windows) {
					at := strings.Index(text, piece)
					t.Errorf("%s: a %s is in %.400q", place, kind, text[max(0, at-150):min(len(text), at+250)])
				}
			}
			if n := s.masked(); n < float64(total) {
				t.Errorf("%v values are said to be hidden", n)
			}
		})
	}
}

// leakAll has the server leak everything in every way.
func (s *spy) leakAll() {
	s.t.Helper()
	if s.client.Era == mcptest.Legacy {
		s.ask("logging/setLevel", `{"level":"debug"}`)
	}
	s.ask("resources/read", `{"uri":"leak://first"}`)
	s.ask("prompts/get", `{"name":"leaky__second"}`)
	for n := range leaks {
		tool := "leaky__dump"
		if n%4 == 0 {
			tool += "_for_model"
		}
		s.call(tool, leakArguments{N: n})
		if n < 6 {
			s.call("leaky__fail", leakArguments{N: n})
			s.call("leaky__dump_whole", leakArguments{N: n})
		}
	}
	// Both ways of telling something during a call must have been taken.
	for _, method := range []string{"notifications/progress", "notifications/message"} {
		if n := strings.Count(s.seen.String(), `"method":"`+method+`"`); n < leaks {
			s.t.Errorf("%d messages %s came", n, method)
		}
	}
}

// masked is how many values of the leaky server are said to be hidden.
func (s *spy) masked() (sum float64) {
	s.t.Helper()
	for line := range strings.Lines(adminGet(s.t, s.Aggregator, adminToken, "/metrics")) {
		if strings.HasPrefix(line, `mcp_masked_values_total{`) && strings.Contains(line, `server="leaky"`) {
			var n float64
			_, _ = fmt.Sscan(line[strings.LastIndexByte(line, ' '):], &n)
			sum += n
		}
	}
	return sum
}

// window is how many characters of a secret nobody may see together.
const window = 10

// piecesIn finds pieces in a text: by kind the first one.
func piecesIn(text string, windows map[string]string) map[string]string {
	found := map[string]string{}
	for i := 0; i+window <= len(text); i++ {
		if kind, ok := windows[text[i:i+window]]; ok && found[kind] == "" {
			found[kind] = text[i : i+window]
		}
	}
	return found
}

// The aggregator's own credentials are hidden by their values, in whatever form a server
// came by them.
func TestTheAggregatorsOwnCredentialsGoNowhere(t *testing.T) {
	t.Parallel()
	s := newSpy(t, mcptest.Legacy) // prompts also tell of earlier calls of a session
	forms := map[string]string{}   // form → what it is
	for name, value := range map[string]string{"the token of another server": otherToken, "the token of the admin side": adminToken, "the key of the models": modelKey} {
		for form, text := range formsOf(value) {
			forms[text] = name + ", " + form
			for _, said := range []string{text, "token=" + text + ";", `{"a":["` + text + `"]}`, "https://example.com/?q=" + text + "&x=1"} {
				s.call("leaky__say", leakArguments{Text: said})
			}
			s.call("leaky__say_for_model", leakArguments{Text: "it is " + text})
		}
	}
	for place, text := range s.everything() {
		for form, what := range forms {
			if at := strings.Index(text, form); at >= 0 {
				t.Errorf("%s: %s, is in %.300q", place, what, text[max(0, at-100):min(len(text), at+200)])
			}
		}
	}
}

// formsOf are the ways in which a value may be written.
func formsOf(value string) map[string]string {
	quoted := string(must(json.Marshal(value)))
	twice := string(must(json.Marshal(quoted[1 : len(quoted)-1])))
	var plain strings.Builder
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(value)
	return map[string]string{
		"as it is": value, "as JSON": quoted[1 : len(quoted)-1], "as JSON without \\u": strings.TrimSpace(plain.String())[1 : plain.Len()-2], "as JSON in JSON": twice[1 : len(twice)-1],
		"in base64": base64.StdEncoding.EncodeToString([]byte(value)), "in base64 without padding": base64.RawStdEncoding.EncodeToString([]byte(value)),
		"in base64 for URLs": base64.URLEncoding.EncodeToString([]byte(value)), "in base64 behind a name": base64.StdEncoding.EncodeToString([]byte("bob:" + value)),
		"in a query": url.QueryEscape(value), "in a path": url.PathEscape(value), "in a query, in small letters": lowerEscapes(url.QueryEscape(value)),
	}
}

// lowerEscapes writes %2F as %2f.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := range b {
		if i+2 < len(b) && b[i] == '%' {
			copy(b[i:i+3], bytes.ToLower(b[i:i+3]))
		}
	}
	return string(b)
}
