//go:build e2e && linux

package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
)

// A modelServer is an HTTP API of models, of the OpenAI form and of Anthropic's. What a
// model does is in its name.
type modelServer struct {
	url string

	mu    sync.Mutex
	asked []question
}

// A question is what a model was asked.
type question struct {
	model, prompt string // all that the model reads
	header        http.Header
	maxTokens     int
}

func serveModels(t testing.TB) *modelServer {
	t.Helper()
	m := &modelServer{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", m.chat)
	mux.HandleFunc("POST /v1/messages", m.messages)
	srv := httptest.NewServer(mux)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	m.url = srv.URL + "/v1"
	return m
}

// note takes down what a model is asked.
func (m *modelServer) note(r *http.Request) question {
	body, _ := io.ReadAll(r.Body)
	var asked struct {
		Model     string
		System    string
		MaxTokens int `json:"max_tokens"`
		Messages  []struct{ Content string }
	}
	_ = json.Unmarshal(body, &asked)
	q := question{model: asked.Model, prompt: asked.System, header: r.Header.Clone(), maxTokens: asked.MaxTokens}
	for _, message := range asked.Messages {
		q.prompt += "\n" + message.Content
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, q)
	return q
}

// questions are those that a model was asked so far; "" is any.
func (m *modelServer) questions(model string) []question {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []question
	for _, q := range m.asked {
		if model == "" || q.model == model {
			out = append(out, q)
		}
	}
	return out
}

// written is what a model writes that works.
func written(model string) []string {
	return []string{"Summary by " + model + ": ", "forty classes of errors, ", "the first is E-4711 in db-pool. ", "Nothing was found about Graz."}
}

// chat answers in the OpenAI form.
func (m *modelServer) chat(w http.ResponseWriter, r *http.Request) {
	q := m.note(r)
	if status := strings.TrimPrefix(q.model, "answers-"); status != q.model {
		if status == "429" {
			w.Header().Set("Retry-After", "30")
		}
		var code int
		_, _ = fmt.Sscan(status, &code)
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"error":{"message":"no: %s","type":"refused"}}`, r.Header.Get("Authorization")) // quotes the key, as some do
		return
	}
	switch q.model {
	case "stalls-before":
		<-r.Context().Done()
		return
	case "garbage":
		_, _ = io.WriteString(w, "\x00\x01 ]nothing{ of use")
		return
	case "web-page":
		_, _ = io.WriteString(w, "<!doctype html><title>Welcome</title>")
		return
	case "whole":
		fmt.Fprintf(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":70,"completion_tokens":7}}`,
			strings.Join(written(q.model), ""))
		return
	}
	m.stream(w, r, q.model)
}

// stream answers as a stream of events.
func (m *modelServer) stream(w http.ResponseWriter, r *http.Request, model string) {
	w.Header().Set("Content-Type", "text/event-stream")
	say := func(format string, args ...any) {
		fmt.Fprintf(w, "data: "+format+"\n\n", args...)
		_ = http.NewResponseController(w).Flush()
	}
	for i, piece := range written(model) {
		switch {
		case model == "empty":
			continue
		case model == "garbage-within" && i == 2:
			say("{nonsense")
			return
		case model == "stalls-within" && i == 2:
			<-r.Context().Done()
			return
		case model == "ends-within" && i == 2:
			return
		case model == "slowly":
			select {
			case <-time.After(700 * time.Millisecond):
			case <-r.Context().Done():
				return
			}
		}
		say(`{"choices":[{"index":0,"delta":{"content":%q}}]}`, piece)
	}
	say(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
	say(`{"choices":[],"usage":{"prompt_tokens":1200,"completion_tokens":34}}`)
	say("[DONE]")
}

// messages answers in Anthropic's form.
func (m *modelServer) messages(w http.ResponseWriter, r *http.Request) {
	q := m.note(r)
	w.Header().Set("Content-Type", "text/event-stream")
	say := func(event, data string) { fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, data) }
	if q.model == "overloaded" {
		say("error", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
		return
	}
	say("message_start", `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"usage":{"input_tokens":900,"output_tokens":1}}}`)
	say("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
	say("ping", `{"type":"ping"}`)
	for _, piece := range written(q.model) {
		say("content_block_delta", fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%q}}`, piece))
	}
	say("content_block_stop", `{"type":"content_block_stop","index":0}`)
	say("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":33}}`)
	say("message_stop", `{"type":"message_stop"}`)
}

// modelKey is the key of all models in these tests.
const modelKey = "mk-4b1f-very/secret+key=="

// models configures models of these names at the server; the timeout may be empty.
func (m *modelServer) models(timeout string, names ...string) harness.Config {
	out := harness.Config{}
	for _, name := range names {
		c := harness.Config{"url": m.url, "model": name, "api_key": modelKey}
		if timeout != "" {
			c["timeout"] = timeout
		}
		if slices.Contains([]string{"claude", "overloaded"}, name) {
			c["type"] = "anthropic"
		}
		out[name] = c
	}
	return out
}

// summarized is a server called "lib" whose tools, one for each list of summarizers, give
// a log that these are to summarize. The tool is called as the list, joined by dashes.
func summarized(t testing.TB, lists ...[]string) harness.Config {
	overrides := harness.Config{}
	for _, list := range lists {
		overrides[toolFor(list...)] = harness.Config{"results": harness.Config{"summarizers": list}}
	}
	child := harness.Child(t, "library").With("tool_overrides", overrides)
	return harness.Servers(map[string]harness.Config{"lib": child}).
		With("results", harness.Config{"policy": "summarize", "summary": harness.Config{"timeout": "4s", "concurrency": 20}}).
		With("mask", harness.Config{"sets": []string{"default"}})
}

// toolFor is the tool whose results some summarizers summarize.
func toolFor(list ...string) string { return "log_" + strings.Join(list, "_") }
