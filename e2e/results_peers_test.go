//go:build e2e && linux

//lint:file-ignore SA1019 sampling is deprecated in 2026-07-28 and in use everywhere.

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/e2e/harness"
)

func init() {
	children["bulky"] = func() { _ = bulky().Run(context.Background(), &mcp.StdioTransport{}) }
}

// bulky is a server of the official SDK whose tools give large results, the same in
// every process.
func bulky() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "bulky", Version: "1"}, nil)
	for name, make := range originals {
		text := sync.OnceValue(make)
		mcp.AddTool(s, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text()}}}, nil, nil
		})
	}
	return s
}

// originals are texts as large as tools answer with.
var originals = map[string]func() string{
	"pods":  func() string { return podList(1 << 20) },
	"log":   func() string { text, _ := errorLog(5 << 20); return text },
	"table": func() string { return orderTable(2 << 20) },
	"diff":  func() string { return largeDiff(1 << 20) },
}

// token is a secret that the aggregator knows by its form.
func token(r *rand.Rand) string { return "ghp_" + drawn(r, alphanumeric, 36) }

var tokenForm = regexp.MustCompile(`ghp_[A-Za-z0-9]{36}`)

// asMasked is a text with its tokens hidden.
func asMasked(text string) string {
	return tokenForm.ReplaceAllLiteralString(text, "[masked:github_token]")
}

const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// drawn draws n characters.
func drawn(r *rand.Rand, from string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = from[r.IntN(len(from))]
	}
	return string(b)
}

func anyOf(r *rand.Rand, of ...string) string { return of[r.IntN(len(of))] }

func podList(size int) string {
	r := rand.New(rand.NewPCG(1, 1))
	var items []any
	for n := 0; n < size; {
		i := len(items)
		app := anyOf(r, "checkout", "ledger", "search", "mailer")
		state, ready := map[string]any{"running": map[string]any{"startedAt": "2026-09-14T06:00:00Z"}}, true
		if i%40 == 3 {
			state, ready = map[string]any{"waiting": map[string]any{"reason": "CrashLoopBackOff", "message": "back-off 5m0s <again> & again"}}, false
		}
		notes := map[string]any{"owner": "Zoë <zoe@example.com>", "description": "支払いサービス 😀"}
		if i%50 == 9 {
			notes["deploy/note"] = "pushed with " + token(r)
		}
		pod := map[string]any{
			"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"name": fmt.Sprintf("%s-%s", app, drawn(r, "bcdfghjklmnp2456789", 10)), "namespace": anyOf(r, "prod", "staging"), "annotations": notes},
			"spec":     map[string]any{"nodeName": fmt.Sprintf("node-%d", r.IntN(40)), "containers": []any{map[string]any{"name": app, "image": "registry.test/" + app + ":v1"}}},
			"status": map[string]any{"phase": "Running", "podIP": fmt.Sprintf("10.1.%d.%d", r.IntN(250), r.IntN(250)),
				"containerStatuses": []any{map[string]any{"name": app, "ready": ready, "restartCount": i % 3, "state": state}}},
		}
		raw, _ := json.MarshalIndent(pod, "    ", "  ")
		n += len(raw)
		items = append(items, pod)
	}
	raw, _ := json.MarshalIndent(map[string]any{"apiVersion": "v1", "kind": "PodList", "items": items}, "", "  ")
	return string(raw)
}

// An errorClass is a kind of line in the log, how often it is there, and words by which
// a reader knows it.
type errorClass struct {
	format string
	words  []string
	count  int
}

// errorLog is a log in which forty classes of errors hide, from one line to hundreds of
// each.
func errorLog(size int) (string, []*errorClass) {
	r := rand.New(rand.NewPCG(2, 2))
	var classes []*errorClass
	for _, part := range []string{"db-pool", "orders", "payments", "search", "mailer", "gateway", "sessions", "scheduler"} {
		for _, what := range []struct{ format, words string }{
			{"ERROR [%s] connection to 10.0.%d.7:5432 refused after %d ms", "connection to"},
			{"ERROR [%s] no answer within %d ms, attempt %d", "no answer within"},
			{"ERROR [%s] record %d is damaged at byte %d", "is damaged at byte"},
			{"ERROR [%s] tenant %d is over its quota of %d", "over its quota of"},
			{"FATAL [%s] out of memory: %d of %d bytes", "out of memory"},
		} {
			classes = append(classes, &errorClass{strings.Replace(what.format, "%s", part, 1), []string{"[" + part + "]", what.words}, 0})
		}
	}
	var places []*errorClass // rare ones once, others up to hundreds of times
	for i, c := range classes {
		c.count = 1 + i*i*size/(25<<20)
		for range c.count {
			places = append(places, c)
		}
	}
	r.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	at := time.Date(2026, 9, 14, 6, 0, 0, 0, time.UTC)
	every := max(2, size/110/(len(places)+1))
	var b strings.Builder
	for i := 0; b.Len() < size || len(places) > 0; i++ {
		at = at.Add(time.Duration(r.IntN(900)) * time.Millisecond)
		b.WriteString(at.Format("2006-01-02 15:04:05.000 "))
		switch {
		case i%every == every-1 && len(places) > 0:
			fmt.Fprintf(&b, places[0].format+"\n", r.IntN(250), r.IntN(90000))
			places = places[1:]
		case i == 300: // longer than any answer
			b.WriteString("INFO  [orders] basket " + strings.Repeat("Äpfel, ", 9000) + "\n")
		case i%3000 == 18:
			fmt.Fprintf(&b, "INFO  [gateway] cloning with token %s for build %d\r\n", token(r), i)
		default:
			fmt.Fprintf(&b, "INFO  [%s] %s %d in %d ms, request %s\n", anyOf(r, "http", "orders", "cache"),
				anyOf(r, "served page", "stored order", "looked up customer"), r.IntN(100000), r.IntN(400), drawn(r, "0123456789abcdef", 16))
		}
	}
	return b.String(), classes
}

func orderTable(size int) string {
	r := rand.New(rand.NewPCG(3, 3))
	var b strings.Builder
	b.WriteString("id,customer,country,amount,state,note\n")
	for i := 0; b.Len() < size; i++ {
		note := ""
		if i%700 == 5 {
			note = `"said ""` + token(r) + `"" on the phone"`
		}
		fmt.Fprintf(&b, "%d,\"%s, GmbH & Söhne\",%s,%.2f,%s,%s\n", 1000+i, drawn(r, "bcdfghjklmnp", 8), anyOf(r, "DE", "US", "JP"), r.Float64()*500,
			anyOf(r, "paid", "open", "shipped"), note)
	}
	return b.String()
}

func largeDiff(size int) string {
	r := rand.New(rand.NewPCG(4, 4))
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "diff --git a/pkg/file%d.go b/pkg/file%d.go\nindex 1234567..89abcde 100644\n--- a/pkg/file%d.go\n+++ b/pkg/file%d.go\n", i, i, i, i)
		fmt.Fprintf(&b, "@@ -10,3 +10,%d @@ func f%d() {\n context\n-\tgone\n", i%7+3, i)
		for j := range i%7 + 1 {
			fmt.Fprintf(&b, "+\tline %d: %s\n", j, drawn(r, alphanumeric+" ", 40))
		}
		if i%100 == 50 {
			b.WriteString("+\tkey := \"" + token(r) + "\"\n")
		}
		b.WriteString(" context\n")
	}
	return b.String() + "\\ No newline at end of file"
}

// A reader is a client of the official SDK that reads originals.
type reader struct {
	t       testing.TB
	session *mcp.ClientSession
}

// readAs connects a reader that speaks this revision.
func readAs(t testing.TB, transport mcp.Transport, version string, options *mcp.ClientOptions) *reader {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "reader", Version: "1"}, options)
	session, err := client.Connect(harness.Context(t, time.Minute), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	if got := session.InitializeResult().ProtocolVersion; got != version {
		t.Fatalf("the session speaks %s, want %s", got, version)
	}
	return &reader{t, session}
}

// await waits until a tool is listed, or is not any more.
func (r *reader) await(name string, listed bool) {
	r.t.Helper()
	harness.Eventually(r.t, 20*time.Second, fmt.Sprintf("%s is listed: %v", name, listed), func() bool { return (r.tool(name) != nil) == listed })
}

// tool is the definition of a tool, nil if it is not listed.
func (r *reader) tool(name string) *mcp.Tool {
	r.t.Helper()
	for tool, err := range r.session.Tools(r.t.Context(), nil) {
		if err != nil {
			r.t.Fatalf("listing tools: %v", err)
		}
		if tool.Name == name {
			return tool
		}
	}
	return nil
}

// A shown is what a client gets in the place of a large result.
type shown struct {
	text   string // the first one
	result *mcp.CallToolResult
	note   struct {
		Policy, Handle, URI  string
		Tokens, Limit, Bytes int
	}
	took time.Duration
}

// call calls a tool.
func (r *reader) call(name string, arguments any) (s shown) {
	r.t.Helper()
	return r.callWith(&mcp.CallToolParams{Name: name, Arguments: arguments})
}

func (r *reader) callWith(params *mcp.CallToolParams) (s shown) {
	r.t.Helper()
	if params.Arguments == nil {
		params.Arguments = map[string]any{}
	}
	began := time.Now()
	res, err := r.session.CallTool(harness.Context(r.t, 30*time.Second), params)
	s.took = time.Since(began)
	if err != nil {
		r.t.Fatalf("calling %s: %v", params.Name, err)
	}
	s.result = res
	if len(res.Content) > 0 {
		if text, ok := res.Content[0].(*mcp.TextContent); ok {
			s.text = text.Text
		}
	}
	if raw, err := json.Marshal(res.Meta["mcp-aggregator/result"]); err == nil {
		_ = json.Unmarshal(raw, &s.note)
	}
	return s
}

// A piece is what the last line of an answer of result_read says of the text above it.
var (
	pieceNote = regexp.MustCompile(`\n\[[^\n]*?bytes (\d+)-(\d+) of (\d+)[^\n]*\]$`)
	goesOn    = regexp.MustCompile(`; continue with (\{.*\})\]$`)
)

// original reads a kept text to its end, as the notes say, and counts the answers.
func (r *reader) original(handle string) (text string, answers int) {
	r.t.Helper()
	return r.originalBy("result_read", handle)
}

// originalBy is original by a tool that may have another name.
func (r *reader) originalBy(tool, handle string) (text string, answers int) {
	r.t.Helper()
	var all strings.Builder
	arguments := map[string]any{"handle": handle}
	for {
		s := r.call(tool, arguments)
		answers++
		note := pieceNote.FindStringSubmatch(s.text)
		if s.result.IsError || note == nil || answers > 5000 {
			r.t.Fatalf("answer %d to %v: %.300s", answers, arguments, s.text)
		}
		from, to := atoi(r.t, note[1]), atoi(r.t, note[2])
		if from != all.Len() {
			r.t.Fatalf("answer %d to %v begins at byte %d, %d have come", answers, arguments, from, all.Len())
		}
		all.WriteString(s.text[:to-from])
		next := goesOn.FindStringSubmatch(s.text)
		if next == nil {
			return all.String(), answers
		}
		arguments = map[string]any{}
		if err := json.Unmarshal([]byte(next[1]), &arguments); err != nil {
			r.t.Fatalf("%s: %v", next[1], err)
		}
		arguments["handle"] = handle
	}
}

// resource reads a resource.
func (r *reader) resource(uri string) (text string, err error) {
	res, err := r.session.ReadResource(harness.Context(r.t, 30*time.Second), &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		return "", err
	}
	return res.Contents[0].Text, nil
}

// sameText complains about the first difference of large texts.
func sameText(t testing.TB, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	t.Errorf("%s: %d bytes, want %d; from byte %d on %.120q, want %.120q", what, len(got), len(want), at, got[at:], want[at:])
}
