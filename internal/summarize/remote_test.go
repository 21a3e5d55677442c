package summarize_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/summarize"
)

// A reply is something that a model's server does, and what is to come of it.
type reply struct {
	name    string
	serve   func(k apiKind, w http.ResponseWriter, r *http.Request)
	want    summarize.Outcome
	text    string            // of the summary
	reason  string            // that the error must hold
	correct *summarize.Answer // more about the answer than its text
}

func text(answer func(k apiKind) string) func(apiKind, http.ResponseWriter, *http.Request) {
	return func(k apiKind, w http.ResponseWriter, _ *http.Request) { send(w, answer(k)) }
}

func status(code int, body string, header ...string) func(apiKind, http.ResponseWriter, *http.Request) {
	return func(_ apiKind, w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// abort cuts the connection.
func abort(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

var replies = []reply{
	{name: "streams well", want: summarize.OK, text: "3 pods, 1 failing",
		serve:   text(func(k apiKind) string { return k.stream("3 pods,", " 1 failing\n") }),
		correct: &summarize.Answer{In: 321, Out: 12}},
	{name: "streams with CRLF and a byte order mark", want: summarize.OK, text: "fine",
		serve: text(func(k apiKind) string {
			return "\xef\xbb\xbf" + strings.ReplaceAll(k.stream("fine"), "\n", "\r\n")
		})},
	{name: "sends one JSON object", want: summarize.OK, text: "whole",
		serve: func(k apiKind, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			send(w, "\n  "+k.whole("whole"))
		}, correct: &summarize.Answer{In: 321, Out: 12}},
	{name: "names the wrong content type for a stream", want: summarize.OK, text: "typed",
		serve: func(k apiKind, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			send(w, k.stream("typed"))
		}},
	{name: "names the wrong content type for JSON", want: summarize.OK, text: "typed",
		serve: func(k apiKind, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			send(w, k.whole("typed"))
		}},
	{name: "compresses", want: summarize.OK, text: "small",
		serve: func(k apiKind, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, k.stream("small"))
			_ = z.Close()
		}},
	{name: "stops at its limit", want: summarize.OK, text: "as far as",
		serve:   text(func(k apiKind) string { return k.begin + k.say("as far as") + k.end("length") }),
		correct: &summarize.Answer{In: 321, Out: 12, Incomplete: true}},
	{name: "refuses with words", want: summarize.OK, text: "I cannot do that.",
		serve:   text(func(k apiKind) string { return k.begin + k.say("I cannot do that.") + k.end("content_filter") }),
		correct: &summarize.Answer{In: 321, Out: 12, Refused: true}},
	{name: "refuses without words", want: summarize.Empty, reason: "no text",
		serve: text(func(k apiKind) string { return k.begin + k.end("content_filter") })},
	{name: "closes after it has given its reason to end", want: summarize.OK, text: "complete",
		serve: func(k apiKind, w http.ResponseWriter, _ *http.Request) {
			first, _, _ := strings.Cut(k.end("stop"), "\n\n")
			send(w, k.begin+k.say("complete")+first+"\n\n")
			abort(w)
		}},
	{name: "thinks aloud", want: summarize.OK, text: "the answer",
		serve: text(func(k apiKind) string {
			return k.stream("\n<th", "ink>first I ", "count </thi", "nk>\n\nthe ", "answer")
		})},
	{name: "begins like one that thinks aloud", want: summarize.OK, text: "<th",
		serve: text(func(k apiKind) string { return k.stream("<t", "h") })},
	{name: "says nothing", want: summarize.Empty, reason: "no text",
		serve: text(func(k apiKind) string { return k.stream() })},
	{name: "says only space", want: summarize.Empty, reason: "no text",
		serve: text(func(k apiKind) string { return k.stream(" \n", "\t\n") })},
	{name: "only thinks", want: summarize.Empty, reason: "no text",
		serve: text(func(k apiKind) string { return k.stream("<think>for ever") })},
	{name: "says nothing in one JSON object", want: summarize.Empty, reason: "no text",
		serve: text(func(k apiKind) string { return k.whole("") })},
	{name: "sends an empty body", want: summarize.Failed, reason: "ended before it was complete",
		serve: text(func(apiKind) string { return "" })},
	{name: "sends a web page", want: summarize.Failed, reason: "web page",
		serve: status(200, "<!DOCTYPE html><html>log in</html>", "Content-Type", "text/html")},
	{name: "sends garbage", want: summarize.Failed, reason: "neither",
		serve: text(func(apiKind) string { return "\x00\x01\x02 nothing of use" })},
	{name: "sends JSON that is no answer", want: summarize.Failed, reason: "no answer of this API",
		serve: text(func(apiKind) string { return `{"hello":"world"}` })},
	{name: "sends half a JSON object", want: summarize.Failed, reason: "no answer of this API",
		serve: text(func(k apiKind) string { return k.whole("half")[:40] })},
	{name: "sends an event that is no JSON", want: summarize.Failed, reason: "no piece of an answer",
		serve: text(func(k apiKind) string { return k.begin + "data: {oops\n\n" + k.end("stop") })},
	{name: "sends an event of the wrong types", want: summarize.Failed, reason: "no piece of an answer",
		serve: text(func(k apiKind) string { return k.begin + "data: {\"choices\":7,\"delta\":7}\n\n" })},
	{name: "tells an error in the stream", want: summarize.Failed, reason: "the engine is on fire",
		serve: text(func(k apiKind) string { return k.begin + k.say("so far") + k.error })},
	{name: "tells an error in a 200", want: summarize.Failed, reason: "no such thing",
		serve: text(func(apiKind) string { return `{"error":{"message":"no such thing"}}` })},
	{name: "closes in the middle", want: summarize.Failed, reason: "ended before it was complete",
		serve: text(func(k apiKind) string { return k.begin + k.say("the first ha") })},
	{name: "cuts the connection in the middle", want: summarize.Failed, reason: "ended before it was complete",
		serve: func(k apiKind, w http.ResponseWriter, _ *http.Request) {
			send(w, k.begin+k.say("the first ha"))
			abort(w)
		}},
	{name: "cuts the connection at once", want: summarize.Failed, reason: "could not be asked",
		serve: func(_ apiKind, w http.ResponseWriter, _ *http.Request) { abort(w) }},
	{name: "never ends a line", want: summarize.Failed, reason: "larger than 1048576 bytes",
		serve: func(k apiKind, w http.ResponseWriter, r *http.Request) {
			send(w, k.begin+"data: ")
			for r.Context().Err() == nil {
				send(w, strings.Repeat("x", 32<<10))
			}
		}},
	{name: "never ends its comments", want: summarize.Failed, reason: "larger than 1048576 bytes",
		serve: func(k apiKind, w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				send(w, strings.Repeat(": still there\n\n", 1000))
			}
		}},
	{name: "sends 4 MB compressed to little", want: summarize.Failed, reason: "larger than 1048576 bytes",
		serve: func(k apiKind, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			for range 128 {
				if _, err := io.WriteString(z, strings.Repeat(" ", 32<<10)); err != nil {
					return
				}
			}
		}},
	{name: "answers 400", want: summarize.Failed, reason: "answered 400 Bad Request: too long",
		serve: status(400, `{"error":{"message":"too long","type":"x"}}`)},
	{name: "answers 401", want: summarize.Failed, reason: "check its key",
		serve: status(401, `{"error":"wrong"}`)},
	{name: "answers 404", want: summarize.Failed, reason: "check model and url",
		serve: status(404, `404 page not found`)},
	{name: "answers 422 as FastAPI does", want: summarize.Failed, reason: "field required body model",
		serve: status(422, `{"detail":[{"loc":["body"," model"],"msg":"field required","input":"SECRET RESULT"}]}`)},
	{name: "answers 429", want: summarize.Failed, reason: "answered 429 Too Many Requests: slow down",
		serve: status(429, `{"message":"slow down"}`, "Retry-After", "7")},
	{name: "answers 500", want: summarize.Failed, reason: "answered 500",
		serve: status(500, strings.Repeat("stack trace ", 10000))},
	{name: "answers 503 with a page", want: summarize.Failed, reason: "answered 503 Service Unavailable: a web page",
		serve: status(503, "<html>down</html>")},
	{name: "answers a status nobody knows", want: summarize.Failed, reason: "answered 599",
		serve: status(599, "")},
	{name: "redirects", want: summarize.Failed, reason: "redirects are not followed",
		serve: func(k apiKind, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/v1/elsewhere", http.StatusTemporaryRedirect)
		}},
	{name: "sends an endless header", want: summarize.Failed, reason: "could not be asked",
		serve: func(_ apiKind, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", 1<<20))
		}},
}

func TestWhatAServerSendsBecomesAnOutcome(t *testing.T) {
	for _, k := range kinds {
		for _, tt := range replies {
			t.Run(k.name+" "+tt.name, func(t *testing.T) {
				b := local(t, func(w http.ResponseWriter, r *http.Request) { tt.serve(k, w, r) })
				s := opened(t, summarize.Options{Models: []summarize.Model{k.model(t, b, "m")}, Timeout: 20 * time.Second})
				var heard strings.Builder
				a, outcome, err := s.Summarize(t.Context(), numbered(1), nil, func(c string) { heard.WriteString(c) })
				if outcome != tt.want || a.Text != tt.text {
					t.Fatalf("outcome %q with text %q and error %v, want %q with %q", outcome, a.Text, err, tt.want, tt.text)
				}
				if (err == nil) != (outcome == summarize.OK) || err != nil && !strings.Contains(err.Error(), tt.reason) {
					t.Errorf("error %v, want one with %q", err, tt.reason)
				}
				if err == nil && strings.TrimSpace(heard.String()) != a.Text {
					t.Errorf("pieces make %q, the summary is %q", heard.String(), a.Text)
				}
				if tt.correct != nil {
					want := *tt.correct
					want.Text, want.Model = tt.text, "m"
					if diff := cmp.Diff(want, a); diff != "" {
						t.Errorf("answer (-want +got):\n%s", diff)
					}
				}
				if n := len(b.got()); n != 1 {
					t.Errorf("%d requests, want 1", n)
				}
			})
		}
	}
}

// What only the chat API has.
func TestFormsOfChatAnswers(t *testing.T) {
	piece := func(choice string) string { return "data: {\"choices\":[" + choice + "]}\n\n" }
	tests := []struct {
		name, body string
		want       summarize.Outcome
		answer     summarize.Answer
	}{
		{"a refusal in pieces of its own", piece(`{"delta":{"refusal":"I will"}}`) + piece(`{"delta":{"refusal":" not"},"finish_reason":"stop"}`),
			summarize.OK, summarize.Answer{Text: "I will not", Refused: true}},
		{"a refusal in one object", `{"choices":[{"message":{"content":null,"refusal":"I will not"},"finish_reason":"stop"}]}`,
			summarize.OK, summarize.Answer{Text: "I will not", Refused: true}},
		{"a second choice", piece(`{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}`) + "data: [DONE]\n\n",
			summarize.OK, summarize.Answer{Text: "a"}},
		{"thinking beside the answer", piece(`{"delta":{"reasoning_content":"hm","content":null}}`) + piece(`{"delta":{"content":"a"},"finish_reason":"stop"}`),
			summarize.OK, summarize.Answer{Text: "a"}},
		{"an error that is null, and counts that make no sense",
			`data: {"error":null,"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":-5,"completion_tokens":"many"}}` + "\n\ndata: [DONE]\n\n",
			summarize.OK, summarize.Answer{Text: "a"}},
		{"an error without words", `{"error":{}}`, summarize.Failed, summarize.Answer{}},
		{"no choice", `{"choices":[]}`, summarize.Failed, summarize.Answer{}},
		{"an end and nothing else", "data: [DONE]\n\n", summarize.Empty, summarize.Answer{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := local(t, func(w http.ResponseWriter, _ *http.Request) { send(w, tt.body) })
			s := opened(t, summarize.Options{Models: []summarize.Model{kinds[0].model(t, b, "m")}})
			a, outcome, err := s.Summarize(t.Context(), numbered(1), nil, nil)
			if outcome != tt.want || a.Text != tt.answer.Text || a.Refused != tt.answer.Refused {
				t.Errorf("%q, %v: %+v", outcome, err, a)
			}
			if outcome == summarize.OK && (a.In < 100 || a.In > 2000 || a.Out < 1) {
				t.Errorf("in %d, out %d: an estimate is missing", a.In, a.Out)
			}
		})
	}
}

// An endless answer is used as far as it goes, and no further read.
func TestAnEndlessAnswerIsCut(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			gone := make(chan struct{})
			b := local(t, func(w http.ResponseWriter, r *http.Request) {
				defer close(gone)
				send(w, k.begin)
				for r.Context().Err() == nil {
					send(w, k.say("pod web-1 is failing\n"))
				}
			})
			s := opened(t, summarize.Options{Models: []summarize.Model{k.model(t, b, "m")}})
			r := numbered(1)
			r.MaxTokens = 100
			a, outcome, err := s.Summarize(t.Context(), r, nil, nil)
			if outcome != summarize.OK || !a.Incomplete {
				t.Fatalf("%q, incomplete %v, %v", outcome, a.Incomplete, err)
			}
			if len(a.Text) > 400 || !strings.HasSuffix(a.Text, "is failing\n[summary cut at 100 tokens]") {
				t.Errorf("text of %d bytes: %q", len(a.Text), a.Text)
			}
			<-gone
		})
	}
}

func TestWhatIsSent(t *testing.T) {
	t.Run("openai", func(t *testing.T) {
		body := sent(t, kinds[0], http.Header{"Authorization": {"Bearer " + secretKey}})
		want := map[string]any{
			"model": "small", "stream": true, "max_tokens": 77.0,
			"stream_options": map[string]any{"include_usage": true},
		}
		messages := body["messages"].([]any)
		delete(body, "messages")
		if diff := cmp.Diff(want, body); diff != "" {
			t.Errorf("request (-want +got):\n%s", diff)
		}
		if len(messages) != 2 || messages[0].(map[string]any)["role"] != "system" {
			t.Errorf("messages %v", messages)
		}
	})
	t.Run("anthropic", func(t *testing.T) {
		body := sent(t, kinds[1], http.Header{"X-Api-Key": {secretKey}, "Anthropic-Version": {"2023-06-01"}})
		want := map[string]any{"model": "small", "stream": true, "max_tokens": 77.0}
		if _, ok := body["system"].(string); !ok || len(body["messages"].([]any)) != 1 {
			t.Errorf("system %v, messages %v", body["system"], body["messages"])
		}
		delete(body, "messages")
		delete(body, "system")
		if diff := cmp.Diff(want, body); diff != "" {
			t.Errorf("request (-want +got):\n%s", diff)
		}
	})
}

// sent returns the request that a model makes, whose header must hold some lines.
func sent(t *testing.T, k apiKind, header http.Header) map[string]any {
	b := local(t, func(w http.ResponseWriter, _ *http.Request) { send(w, k.stream("ok")) })
	s := opened(t, summarize.Options{Models: []summarize.Model{k.model(t, b, "m")}})
	r := numbered(1)
	r.MaxTokens = 77
	if _, outcome, err := s.Summarize(t.Context(), r, nil, nil); outcome != summarize.OK {
		t.Fatal(err)
	}
	got := b.got()[0]
	header.Set("X-Tenant", secretHeader)
	header.Set("Content-Type", "application/json")
	for name := range header {
		if got.header.Get(name) != header.Get(name) {
			t.Errorf("header %s: %q, want %q", name, got.header.Get(name), header.Get(name))
		}
	}
	if got.path != k.path {
		t.Errorf("path %q, want %q", got.path, k.path)
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(got.body), &body); err != nil {
		t.Fatal(err)
	}
	return body
}

// Models and servers differ in what they take. What they complain about is learnt.
func TestOpenAIAdaptsToItsServer(t *testing.T) {
	k := kinds[0]
	var b *backend
	b = local(t, func(w http.ResponseWriter, r *http.Request) {
		all := b.got()
		body := all[len(all)-1].body
		switch {
		case strings.Contains(body, `"max_tokens"`):
			status(400, `{"error":{"message":"use max_completion_tokens","param":"max_tokens","code":"unsupported_parameter"}}`)(k, w, r)
		case strings.Contains(body, `"stream_options"`):
			status(422, `{"detail":[{"loc":["body","stream_options"],"msg":"extra fields not permitted"}]}`)(k, w, r)
		default:
			send(w, k.stream("learnt"))
		}
	})
	s := opened(t, summarize.Options{Models: []summarize.Model{k.model(t, b, "m")}})
	for n, requests := range []int{3, 4} {
		a, outcome, err := s.Summarize(t.Context(), numbered(n), nil, nil)
		if outcome != summarize.OK || a.Text != "learnt" {
			t.Fatalf("%q, %v", outcome, err)
		}
		if got := len(b.got()); got != requests {
			t.Errorf("%d requests after summary %d, want %d", got, n+1, requests)
		}
	}
}

// Thinking, and what there may be one day, is no part of the summary.
func TestOtherBlocksOfMessages(t *testing.T) {
	k := kinds[1]
	other := `data: {"type":"content_block_delta","delta":{"type":"other_delta","text":"other"}}` + "\n\n" +
		`data: {"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"}}` + "\n\n" +
		`data: {"type":"new_event","delta":{"type":"text_delta","text":"new"}}` + "\n\n"
	b := local(t, func(w http.ResponseWriter, _ *http.Request) { send(w, k.begin+other+k.say("fine")+other+k.end("stop")) })
	s := opened(t, summarize.Options{Models: []summarize.Model{k.model(t, b, "m")}})
	if a, outcome, err := s.Summarize(t.Context(), numbered(1), nil, nil); a.Text != "fine" {
		t.Errorf("%q, %v: %q", outcome, err, a.Text)
	}
}
