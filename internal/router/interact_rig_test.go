package router_test

//lint:file-ignore SA1019 roots, sampling and logging are deprecated in 2026-07-28 and in use everywhere.

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// everyCapability is what a client declares that can be asked anything.
const everyCapability = `{"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},"roots":{}}`

// inputs are one question of each kind.
var inputs = map[string]mcp.InputRequest{
	"form":  &mcp.ElicitParams{Mode: "form", Message: "name?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}}},
	"url":   &mcp.ElicitParams{Mode: "url", Message: "go there", URL: "https://example.com/there", ElicitationID: "e1"},
	"plain": &mcp.CreateMessageParams{MaxTokens: 9, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "hi"}}}},
	"tools": &mcp.CreateMessageWithToolsParams{MaxTokens: 9, Tools: []*mcp.Tool{{Name: "t", InputSchema: map[string]any{"type": "object"}}}, Messages: []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}}},
	"roots": &mcp.ListRootsParams{},
}

// answerTo is what the clients of these tests answer.
func answerTo(method, params string) string {
	switch {
	case method == "roots/list":
		return `{"roots":[{"uri":"file:///here"}]}`
	case method == "sampling/createMessage" && strings.Contains(params, `"tools"`):
		return `{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"t","input":{}}],"model":"m","stopReason":"toolUse"}`
	case method == "sampling/createMessage":
		return `{"role":"assistant","content":{"type":"text","text":"sampled"},"model":"m"}`
	case strings.Contains(params, `"url"`):
		return `{"action":"accept"}`
	}
	return `{"action":"accept","content":{"name":"ann"}}`
}

// told is what a server does that asks for the inputs of these names, one round after
// the other, and then tells what was answered. A round is a list of names with + between.
func told(rounds []string, responses mcp.InputResponseMap, state string) (mcp.InputRequestMap, string, string) {
	n := strings.Count(state, ".")
	if len(responses) > 0 {
		b, _ := json.Marshal(responses)
		state += string(b) + "."
		n++
	}
	if n >= len(rounds) {
		return nil, "", state
	}
	want := mcp.InputRequestMap{}
	for _, name := range strings.Split(rounds[n], "+") {
		want[name] = inputs[name]
	}
	return want, state, ""
}

// asking makes a server with a tool, a prompt and a resource that ask. The SDK's server
// asks clients of either era with them.
func asking(name string, rounds ...string) func() *mcp.Server {
	return func() *mcp.Server {
		s := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, nil)
		s.AddTool(&mcp.Tool{Name: "ask", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			want, state, end := told(rounds, q.Params.InputResponses, q.Params.RequestState)
			if want != nil {
				return &mcp.CallToolResult{InputRequests: want, RequestState: state}, nil
			}
			return done(end), nil
		})
		s.AddPrompt(&mcp.Prompt{Name: "ask"}, func(_ context.Context, q *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			want, state, end := told(rounds, q.Params.InputResponses, q.Params.RequestState)
			if want != nil {
				return &mcp.GetPromptResult{InputRequests: want, RequestState: state}, nil
			}
			return &mcp.GetPromptResult{Description: end, Messages: []*mcp.PromptMessage{}}, nil
		})
		s.AddResource(&mcp.Resource{Name: "ask", URI: "ask://x"}, func(ctx context.Context, q *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			if p := q.Session.InitializeParams(); p != nil && p.ProtocolVersion < wire.V20260728 {
				text, err := asks(ctx, q.Session, inputs[rounds[0]])
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "ask://x", Text: text}}}, err
			}
			want, state, end := told(rounds, q.Params.InputResponses, q.Params.RequestState)
			if want != nil {
				return &mcp.ReadResourceResult{InputRequests: want, RequestState: state}, nil
			}
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "ask://x", Text: end}}}, nil
		})
		return s
	}
}

// asks asks a legacy client.
func asks(ctx context.Context, s *mcp.ServerSession, in mcp.InputRequest) (string, error) {
	var answer any
	var err error
	switch in := in.(type) {
	case *mcp.ElicitParams:
		answer, err = s.Elicit(ctx, in)
	case *mcp.CreateMessageParams:
		answer, err = s.CreateMessage(ctx, in)
	case *mcp.CreateMessageWithToolsParams:
		answer, err = s.CreateMessageWithTools(ctx, in)
	case *mcp.ListRootsParams:
		answer, err = s.ListRoots(ctx, in)
	}
	b, _ := json.Marshal(answer)
	return string(b), err
}

// askRig routes to one server "up" of an era.
func askRig(t testing.TB, era wire.Era, server func() *mcp.Server, change func(*config.Config)) *router.Router {
	t.Helper()
	c := config.Default()
	up := builtinServer("up")
	up.Protocol = era.String()
	c.Servers = []*config.Server{up}
	if change != nil {
		change(c)
	}
	return newRig(t, c, map[string]func() *mcp.Server{"up": server}, router.Watch{})
}

// webRig is askRig with a server over HTTP.
func webRig(t testing.TB, era wire.Era, server func() *mcp.Server) *router.Router {
	t.Helper()
	one := server()
	web := httptest.NewServer(mcptest.ServeSDK(one, era == wire.Modern))
	t.Cleanup(web.Close)
	return askRig(t, era, server, func(c *config.Config) {
		c.Servers[0].Type, c.Servers[0].Builtin, c.Servers[0].URL = config.TypeHTTP, "", web.URL
	})
}

// A person is a client of either era with somebody who answers.
type person struct {
	t    testing.TB
	r    *router.Router
	era  wire.Era
	caps string
	name string // principal
	more string // members of _meta of a legacy client without events

	answer func(method, params string) (result string, rpc *wire.RPCError)
	events func(upstream.Event)

	mu     sync.Mutex
	asked  []string // "method params" in order
	states []string // seen by a modern client
}

func newPerson(t testing.TB, r *router.Router, era wire.Era) *person {
	return &person{t: t, r: r, era: era, caps: everyCapability, answer: func(method, params string) (string, *wire.RPCError) { return answerTo(method, params), nil }}
}

func (p *person) note(method, params string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, method+" "+params)
}

// request makes one request: a modern client does not look at what is asked.
func (p *person) request(ctx context.Context, method, params string) router.Reply {
	p.t.Helper()
	meta := p.more
	if p.era == wire.Modern {
		meta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + p.caps
		if p.events != nil {
			meta += `,"progressToken":"tok"`
		}
	} else if p.events != nil {
		meta = `"progressToken":"tok"`
	}
	buf := []byte(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"_meta":{` + meta + `},` + strings.TrimPrefix(params, "{") + `}`)
	m, err := wire.Scan(buf)
	if err != nil {
		p.t.Error(err)
		return router.Reply{}
	}
	c := &router.Call{Gen: p.r.Generation(), Method: m.Method, Params: &m.Body, Era: p.era, Caps: []byte(p.caps), Principal: p.name, Events: p.events, LogLevel: "info"}
	if p.era == wire.Legacy {
		c.Session = "session " + p.name
		c.Ask = func(ctx context.Context, method string, params []byte, _ func([]byte)) ([]byte, *wire.RPCError) {
			p.note(method, string(params))
			result, rpc := p.answer(method, string(params))
			if result == "never" {
				<-ctx.Done()
				return nil, &wire.RPCError{Code: -32603, Message: "gave up"}
			}
			return []byte(result), rpc
		}
	}
	reply := p.r.Call(ctx, c)
	if reply.Err == nil {
		if err := wire.Valid(reply.Result.Bytes()); err != nil {
			p.t.Errorf("%v: %s", err, reply.Result.Bytes())
		}
		reply.Result.Raw = []byte(string(reply.Result.Bytes()))
		reply.Result.Edits = nil
		if reply.Release != nil {
			reply.Release()
			reply.Release = nil
		}
	}
	for i := range buf { // it was ours only for as long as the call took
		buf[i] = 'X'
	}
	return reply
}

// A pending is what a modern client was asked.
type pending struct {
	ResultType    string
	InputRequests map[string]struct {
		Method string
		Params json.RawMessage
	}
	RequestState string
}

func pendingIn(t testing.TB, reply router.Reply) pending {
	t.Helper()
	var in pending
	if reply.Err != nil {
		return in
	}
	if err := json.Unmarshal(reply.Result.Bytes(), &in); err != nil {
		t.Errorf("%v: %s", err, reply.Result.Bytes())
	}
	return in
}

// retry is the params of the request with the answers to what was asked.
func (p *person) retry(params string, in pending) string {
	var answers []string
	for key, q := range in.InputRequests {
		p.note(q.Method, string(q.Params))
		result, _ := p.answer(q.Method, string(q.Params))
		answers = append(answers, fmt.Sprintf("%q:%s", key, result))
	}
	state := ""
	if in.RequestState != "" {
		state = `"requestState":` + quoted(in.RequestState) + ","
	}
	return `{"inputResponses":{` + strings.Join(answers, ",") + `},` + state + strings.TrimPrefix(params, "{")
}

func quoted(s string) string { return string(wire.AppendQuote(nil, s)) }

// call makes a request and answers what is asked until there is an end, of which it
// returns the text.
func (p *person) call(method, params string) string {
	p.t.Helper()
	reply := p.request(p.t.Context(), method, params)
	for range 30 {
		in := pendingIn(p.t, reply)
		if in.ResultType != "input_required" {
			break
		}
		p.states = append(p.states, in.RequestState)
		reply = p.request(p.t.Context(), method, p.retry(params, in))
	}
	return textOf(reply)
}

func textOf(reply router.Reply) string {
	if reply.Err != nil {
		return fmt.Sprintf("error %d %s %s", reply.Err.Code, reply.Err.Message, reply.Err.Data)
	}
	return string(reply.Result.Bytes())
}

// asker is a tool that uses the session of a legacy client itself.
func asker(ask func(ctx context.Context, s *mcp.ServerSession, q *mcp.CallToolRequest) (string, error)) func() *mcp.Server {
	return serverOf(map[string]tool{"ask": func(ctx context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		text, err := ask(ctx, q.Session, q)
		if err != nil {
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}, nil
		}
		return done(text), nil
	}})
}

// elicits asks for a name.
func elicits(ctx context.Context, s *mcp.ServerSession, _ *mcp.CallToolRequest) (string, error) {
	a, err := s.Elicit(ctx, inputs["form"].(*mcp.ElicitParams))
	if err != nil {
		return "", err
	}
	return fmt.Sprint(a.Action, " ", a.Content["name"]), nil
}

const callAsk = `{"name":"up__ask","arguments":{}}`

// parkOne begins a call that comes back with a question.
func (p *person) parkOne(ctx context.Context) pending {
	p.t.Helper()
	reply := p.request(ctx, "tools/call", callAsk)
	in := pendingIn(p.t, reply)
	if in.ResultType != "input_required" {
		p.t.Fatalf("got %s", textOf(reply))
	}
	return in
}

const patience = 5 * time.Minute // limits.parked_ttl by default
