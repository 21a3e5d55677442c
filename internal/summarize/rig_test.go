package summarize_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/summarize"
)

const (
	secretKey    = "sk-very-secret-0123456789"
	secretHeader = "tenant-secret-9876543210"
)

// An apiKind is one of the HTTP APIs, and what its server sends for what it says.
type apiKind struct {
	name  string
	make  func(summarize.Remote) (summarize.Model, error)
	path  string
	begin string                   // of a stream
	say   func(text string) string // an event with a piece of text
	end   func(reason string) string
	whole func(text string) string // an answer without streaming
	error string                   // an event that says that something went wrong
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

var kinds = []apiKind{{
	name:  "openai",
	make:  func(r summarize.Remote) (summarize.Model, error) { return summarize.NewOpenAI(r) },
	path:  "/v1/chat/completions",
	begin: ": hello\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}],\"usage\":null}\n\n",
	say: func(text string) string {
		return `data: {"choices":[{"index":0,"delta":{"content":` + quoted(text) + `},"finish_reason":null}],"usage":null}` + "\n\n"
	},
	end: func(reason string) string {
		return `data: {"choices":[{"index":0,"delta":{},"finish_reason":` + quoted(reason) + `}]}` + "\n\n" +
			`data: {"choices":[],"usage":{"prompt_tokens":321,"completion_tokens":12,"total_tokens":333}}` + "\n\ndata: [DONE]\n\n"
	},
	whole: func(text string) string {
		return `{"choices":[{"index":0,"message":{"role":"assistant","content":` + quoted(text) + `},"finish_reason":"stop"}],"usage":{"prompt_tokens":321,"completion_tokens":12}}`
	},
	error: `data: {"error":{"message":"the engine is on fire","code":500}}` + "\n\n",
}, {
	name: "anthropic",
	make: func(r summarize.Remote) (summarize.Model, error) { return summarize.NewAnthropic(r) },
	path: "/v1/messages",
	begin: "event: message_start\n" + `data: {"type":"message_start","message":{"content":[],"usage":{"input_tokens":300,"cache_read_input_tokens":21,"output_tokens":1}}}` + "\n\n" +
		"event: content_block_start\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n" +
		"event: ping\ndata: {\"type\":\"ping\"}\n\n",
	say: func(text string) string {
		return "event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":` + quoted(text) + `}}` + "\n\n"
	},
	end: func(reason string) string {
		reason = map[string]string{"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}[reason]
		return "event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":` + quoted(reason) + `},"usage":{"output_tokens":12}}` + "\n\n" +
			"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	},
	whole: func(text string) string {
		return `{"type":"message","role":"assistant","content":[{"type":"text","text":` + quoted(text) + `}],"stop_reason":"end_turn","usage":{"input_tokens":321,"output_tokens":12}}`
	},
	error: "event: error\n" + `data: {"type":"error","error":{"type":"overloaded_error","message":"the engine is on fire"}}` + "\n\n",
}}

// stream is a good answer in pieces.
func (k apiKind) stream(pieces ...string) string {
	var b strings.Builder
	b.WriteString(k.begin)
	for _, p := range pieces {
		b.WriteString(k.say(p))
	}
	return b.String() + k.end("stop")
}

// send writes some of an answer and sees that it is on its way.
func send(w http.ResponseWriter, text string) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	_, _ = io.WriteString(w, text)
	_ = http.NewResponseController(w).Flush()
}

// A backend is a model's server.
type backend struct {
	url       string
	transport http.RoundTripper // nil: the model's own

	mu       sync.Mutex
	requests []received
}

type received struct {
	path   string
	header http.Header
	body   string
}

func (b *backend) handler(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		b.mu.Lock()
		b.requests = append(b.requests, received{r.URL.Path, r.Header, string(body)})
		b.mu.Unlock()
		h(w, r)
	})
}

func (b *backend) got() []received {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests
}

// local starts a backend on a port of this machine.
func local(t testing.TB, h http.HandlerFunc) *backend {
	b := &backend{}
	srv := httptest.NewUnstartedServer(b.handler(h))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Start()
	t.Cleanup(srv.Close)
	b.url = srv.URL + "/v1"
	return b
}

// piped starts a backend over pipes, for bubbles: what waits for a network is not
// durably blocked there.
func piped(t testing.TB, h http.HandlerFunc) *backend {
	b := &backend{url: "http://model.test/v1"}
	l := mcptest.NewPipes()
	srv := &http.Server{Handler: b.handler(h), ErrorLog: log.New(io.Discard, "", 0)}
	var conns sync.WaitGroup // a connection is new before Serve returns, and closed behind its handler
	srv.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			conns.Add(1)
		case http.StateClosed:
			conns.Done()
		}
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(l) }()
	transport := &http.Transport{DialContext: l.Dial}
	b.transport = transport
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = srv.Close()
		<-served
		conns.Wait()
	})
	return b
}

// model makes a model of a kind at a backend, with credentials that must not show.
func (k apiKind) model(t testing.TB, b *backend, name string) summarize.Model {
	t.Helper()
	m, err := k.make(summarize.Remote{
		Name: name, Model: "small", URL: b.url, Key: secretKey, Transport: b.transport,
		Headers: map[string]string{"X-Tenant": secretHeader},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// writer is a model of few words, which need no server.
type writer struct {
	name  string
	write func(ctx context.Context, p summarize.Prompt, chunk func(string)) (summarize.Answer, error)
}

func (w *writer) Name() string { return w.name }

func (w *writer) Summarize(ctx context.Context, p summarize.Prompt, chunk func(string)) (summarize.Answer, error) {
	return w.write(ctx, p, chunk)
}

// says is a model that always says the same.
func says(name, text string) *writer {
	return &writer{name, func(_ context.Context, _ summarize.Prompt, chunk func(string)) (summarize.Answer, error) {
		chunk(text)
		return summarize.Answer{Text: text}, nil
	}}
}

// silent is a model that says nothing for as long as it is let.
func silent(name string) *writer {
	return &writer{name, func(ctx context.Context, _ summarize.Prompt, _ func(string)) (summarize.Answer, error) {
		<-ctx.Done()
		return summarize.Answer{}, ctx.Err()
	}}
}

// failing is a model that fails.
func failing(name, reason string) *writer {
	return &writer{name, func(context.Context, summarize.Prompt, func(string)) (summarize.Answer, error) {
		return summarize.Answer{}, errors.New(reason)
	}}
}

// opened returns a Summarizer that the test closes.
func opened(t testing.TB, o summarize.Options) *summarize.Summarizer {
	s := summarize.New(o)
	t.Cleanup(s.Close)
	return s
}

// numbered is a request that no other number's equals.
func numbered(n int) summarize.Request {
	return summarize.Request{Owner: "alice", Server: "k8s", Tool: "pods", Text: fmt.Appendf(nil, "result number %d", n)}
}
