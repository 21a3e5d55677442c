package router_test

//lint:file-ignore SA1019 roots, sampling and logging are deprecated in 2026-07-28 and in use everywhere.

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/mask"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// secret is what the servers of these tests must not get through to a client.
const secret = "TICKET-493817"

var hides = map[string]mask.Options{"up": {Patterns: []mask.Pattern{{Name: "ticket", Regexp: `TICKET-[0-9]{6}`}}}}

// blabber is a server that tells the secret in every way there is.
func blabber() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "up", Version: "1"}, nil)
	add := func(name string, f tool) {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, mcp.ToolHandler(f))
	}
	add("shows", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{
			Meta:              mcp.Meta{"x": secret, secret: 1},
			StructuredContent: map[string]any{"a": []any{secret, map[string]any{secret: "k"}}},
			Content: []mcp.Content{
				&mcp.TextContent{Text: "the \"code\"\n" + secret + "\x01 ü"},
				&mcp.ResourceLink{URI: "x://" + secret, Name: secret},
				&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "x://y", Text: secret}},
			},
		}, nil
	})
	add("fails", fails(secret))
	add("breaks", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, &jsonrpc.Error{Code: -32099, Message: "bad " + secret, Data: json.RawMessage(`{"d":"` + secret + `"}`)}
	})
	add("says", func(ctx context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		_ = q.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: q.Params.GetProgressToken(), Progress: 1, Message: secret})
		_ = q.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "warning", Logger: secret, Data: map[string]any{"m": secret}})
		return done("said"), nil
	})
	add("asks", func(_ context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if len(q.Params.InputResponses) == 0 {
			in := *inputs["form"].(*mcp.ElicitParams)
			in.Message = "which " + secret
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"a": &in}, RequestState: "state " + secret}, nil
		}
		return done(fmt.Sprint("remembered ", q.Params.RequestState == "state "+secret, " ", len(q.Params.InputResponses))), nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "p"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Description: secret, Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: secret}}}}, nil
	})
	s.AddResource(&mcp.Resource{Name: "r", URI: "r://x"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "r://x", Text: secret}}}, nil
	})
	return s
}

func TestNothingAServerSaysDuringACallShowsASecret(t *testing.T) {
	for _, client := range eras {
		for _, server := range eras {
			r := newPress(t, pressing(server, "pass"), map[string]func() *mcp.Server{"up": blabber}, hides)
			r.SetLevel("x", "debug")
			for _, tt := range []struct {
				method, params, want string
				times                int
			}{
				{"tools/call", `{"name":"up__shows","arguments":{}}`, `the \"code\"\n[masked:ticket]`, 8},
				{"tools/call", `{"name":"up__fails","arguments":{}}`, `[masked:ticket]`, 1},
				{"tools/call", `{"name":"up__breaks","arguments":{}}`, `"message":"bad [masked:ticket]","data":{"d":"[masked:ticket]"}`, 2},
				{"tools/call", `{"name":"up__says","arguments":{}}`, `"message":"[masked:ticket]"`, 1},
				{"tools/call", `{"name":"up__asks","arguments":{}}`, `which [masked:ticket]`, 1},
				{"prompts/get", `{"name":"up__p"}`, `"description":"[masked:ticket]"`, 2},
				{"resources/read", `{"uri":"r://x"}`, `"text":"[masked:ticket]"`, 1},
				{"tools/call", `{"name":"read_resource","arguments":{"uri":"r://x"}}`, `"text":"[masked:ticket]"`, 1},
			} {
				p := newPerson(t, r.Router, client)
				var heard strings.Builder
				p.events = func(ev upstream.Event) { fmt.Fprintf(&heard, "%s %s\n", ev.Method, ev.Params) }
				clear(r.masked)
				reply := p.request(t.Context(), tt.method, tt.params)
				got := ""
				if reply.Err == nil {
					got = p.goOn(tt.method, tt.params, reply)
				} else {
					got = string(wire.AppendError(nil, nil, reply.Err)) // as it goes out
				}
				got += heard.String() + strings.Join(p.asked, "\n")
				if strings.Contains(got, secret) || !strings.Contains(got, tt.want) {
					t.Errorf("%v client, %v server, %s: %s", client, server, tt.params, got)
				}
				if n := r.masked["up ticket"]; n < tt.times || len(r.masked) != 1 {
					t.Errorf("%v client, %v server, %s: counted %v", client, server, tt.params, r.masked)
				}
				if strings.Contains(tt.params, "asks") && !strings.Contains(got, "remembered true 1") {
					t.Errorf("%v client, %v server: the server got something else back: %s", client, server, got)
				}
			}
		}
	}
}

// goOn answers what is asked until there is an end, of which it returns the text.
func (p *person) goOn(method, params string, reply router.Reply) string {
	for range 3 {
		in := pendingIn(p.t, reply)
		if in.ResultType != "input_required" {
			break
		}
		reply = p.request(p.t.Context(), method, p.retry(params, in))
	}
	return textOf(reply)
}

// The secret of a result that is made smaller is neither in what is kept nor in what a
// model is told.
func TestSecretsAreHiddenBeforeAResultIsMadeSmaller(t *testing.T) {
	r := newPress(t, pressing(wire.Legacy, "summarize"), upWith(map[string]tool{"big": answers(lines(500) + secret + "\n" + lines(500))}), hides)
	p := newPerson(t, r.Router, wire.Legacy)
	p.call("tools/call", `{"name":"up__big","arguments":{"first":"`+secret+`"}}`)
	p.more = `"mcp-aggregator/intent":"find ` + secret + `"`
	f := fittedIn(t, p.call("tools/call", `{"name":"up__big","arguments":{"q":"`+secret+`"}}`))
	all := strings.Join(p.asked, "\n") + p.readBack(f.Meta.Result.Handle, 1001) + p.call("resources/read", `{"uri":"`+f.Meta.Result.URI+`"}`)
	if strings.Contains(all, secret) || strings.Count(all, "[masked:ticket]") < 6 || !strings.Contains(all, `\"first\":\"[masked:ticket]\"`) || !strings.Contains(all, "find [masked:ticket]") {
		t.Errorf("%d times masked, secret %v", strings.Count(all, "[masked:ticket]"), strings.Contains(all, secret))
	}
}

func TestEachTargetHasTheMaskOfItsServer(t *testing.T) {
	c := withFallbacks(config.Fallback{Tool: "spare.find"})
	r := newPress(t, c, map[string]func() *mcp.Server{
		"main":  serverOf(map[string]tool{"search": answers("main " + secret)}),
		"spare": serverOf(map[string]tool{"find": answers("spare " + secret)}),
	}, map[string]mask.Options{"spare": hides["up"]})
	for _, want := range []string{"main " + secret, "spare [masked:ticket]"} {
		if got := works(t, r.Router, "main__search", `{}`); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A reload gives servers new credentials while calls are under way.
func TestWhatAReloadHidesIsHiddenInCallsThatBeganBeforeIt(t *testing.T) {
	var r *press
	r = newPress(t, pressing(wire.Legacy, "pass"), upWith(map[string]tool{"big": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		next := *r.Generation()
		m, err := mask.New(mask.Options{Values: []string{"the-new-credential"}})
		if err != nil {
			return nil, err
		}
		next.Masks = map[string]*mask.Masker{"up": m}
		r.Publish(&next)
		return done("the-new-credential and " + secret), nil
	}}), hides)
	if got := works(t, r.Router, "up__big", `{}`); !strings.Contains(got, "[masked:configured] and [masked:ticket]") {
		t.Error(got)
	}
}

func TestManyHeavyResultsOfOneServerAreAllMasked(t *testing.T) {
	heavy := strings.Repeat("a line that says nothing\n", 60_000) + secret
	r := newPress(t, pressing(wire.Legacy, "pass"), upWith(map[string]tool{"big": answers(heavy)}), hides)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got := works(t, r.Router, "up__big", `{}`); !strings.Contains(got, "[masked:ticket]") || strings.Contains(got, secret) {
				t.Error("not masked")
			}
		})
	}
	all.Wait()
}

// A pattern that fits everything long leaves what clients give back to us as it is.
func TestStatesOfClientsAreNotMasked(t *testing.T) {
	long := map[string]mask.Options{"up": {Patterns: []mask.Pattern{{Name: "long", Regexp: `[A-Za-z0-9_-]{30,}`}}}}
	for _, server := range eras {
		for _, ask := range []string{"form", "url"} {
			r := newPress(t, pressing(server, "pass"), map[string]func() *mcp.Server{"up": asking("up", ask)}, long)
			if got := newPerson(t, r.Router, wire.Modern).call("tools/call", callAsk); !strings.Contains(got, `\"action\":\"accept\"`) {
				t.Errorf("%v %s: %s", server, ask, got)
			}
		}
	}
	refuses := `{"code":-32042,"message":"visit","data":{"elicitations":[{"mode":"url","message":"go","url":"https://example.com/` + strings.Repeat("x", 40) + `","elicitationId":"1"}]}}`
	r := newPress(t, pressing(wire.Legacy, "pass"), upWith(map[string]tool{"big": answers("x")}), long)
	c := newCall(t, r.Router, "up__big", `{},"_meta":{"io.modelcontextprotocol/clientCapabilities":`+everyCapability+`}`)
	c.Era = wire.Modern
	reply, err := r.Answered(wire.Legacy, nil, wire.ParseRPCError([]byte(refuses)))(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	in := pendingIn(t, reply)
	if len(in.RequestState) < 50 || strings.Contains(in.RequestState, "masked") || !strings.Contains(string(in.InputRequests["1"].Params), "/[masked:long]") {
		t.Errorf("%s", textOf(reply))
	}
}

// scribe writes random results, as servers of either era could.
type scribe struct{ *rand.Rand }

func (s scribe) pick(from ...string) string { return from[s.IntN(len(from))] }

func (s scribe) space() string { return s.pick("", "", "", " ") }

func (s scribe) text() string {
	switch s.IntN(6) {
	case 0:
		return s.pick(secret, `a `+secret+` b`, `\u0054ICKET-493817`, secret+secret, `\"`+secret+`\n`)
	case 1:
		return s.pick("password=hunter2hunter2", "ghp_0123456789abcdefghijABCDEFGHIJ456789", `\u00e9 ü \ud83d\ude00`)
	}
	return s.pick("x", "", "complete", "plain text", `a\tb`)
}

func (s scribe) value(depth int) string {
	if depth > 3 {
		return `"` + s.text() + `"`
	}
	switch s.IntN(8) {
	case 0:
		return s.pick("1", "1.50", "1e400", "true", "null", "[]", "{}")
	case 1, 2:
		return "[" + s.value(depth+1) + s.space() + "," + s.value(depth+1) + "]"
	case 3, 4:
		return s.object(depth+1, "a", "b", "name", "value", "password", s.text())
	}
	return `"` + s.text() + `"`
}

// object has some members of these names; others are random.
func (s scribe) object(depth int, names ...string) string {
	var members []string
	s.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names[:s.IntN(len(names)+1)] {
		val := s.value(depth)
		switch name {
		case "_meta":
			val = s.object(depth, "io.modelcontextprotocol/serverInfo", "x", secret)
		case "resultType":
			val = `"complete"`
		case "io.modelcontextprotocol/serverInfo":
			val = `{"name":"up ` + s.text() + `","version":"1"}`
		}
		members = append(members, s.space()+`"`+name+`"`+s.space()+":"+s.space()+val)
	}
	return "{" + strings.Join(members, ",") + s.space() + "}"
}

func TestMaskingAndTranslatingDoNotGetInEachOthersWay(t *testing.T) {
	o := mask.Options{Sets: []string{"default", "generic"}, Patterns: hides["up"].Patterns}
	m, err := mask.New(o)
	if err != nil {
		t.Fatal(err)
	}
	tools := upWith(map[string]tool{"big": answers("x")})
	plain := newPress(t, pressing(wire.Legacy, "pass"), tools, nil)
	hidden := newPress(t, pressing(wire.Legacy, "pass"), tools, map[string]mask.Options{"up": o})
	s := scribe{rand.New(rand.NewPCG(1, 2))}
	found := 0
	for range 3000 {
		result := s.object(0, "resultType", "ttlMs", "cacheScope", "_meta", "content", "structuredContent", "isError", s.text())
		client, server := eras[s.IntN(2)], eras[s.IntN(2)]
		want := answered(t, plain, client, server, result).Result.Bytes()
		if edits := m.Edits(want, wire.Span{Hi: len(want)}, nil); len(edits) > 0 {
			want = wire.Value{Raw: want, Edits: edits}.Bytes()
			found++
		}
		got := answered(t, hidden, client, server, result).Result.Bytes()
		if err := wire.Valid(got); err != nil || string(got) != string(want) {
			t.Fatalf("%v client, %v server: %s\nbecame %s\nand not %s", client, server, result, got, want)
		}
		if strings.Contains(string(got), secret) {
			t.Fatalf("%s shows the secret", got)
		}
	}
	if found < 500 {
		t.Errorf("only %d results had something to hide", found)
	}
}

func TestMessagesOutsideOfCallsShowNoSecret(t *testing.T) {
	tasks := newCounter(wire.Legacy)
	web := httptest.NewServer(tasks.Raw)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	c := pressing(wire.Legacy, "pass")
	c.Servers[0].Type, c.Servers[0].Builtin, c.Servers[0].URL = config.TypeHTTP, "", web.URL
	o := hides["up"]
	o.Patterns = append(o.Patterns, mask.Pattern{Name: "long", Regexp: `[A-Za-z0-9_-]{22,}`}) // as our names of tasks are
	r := newPress(t, c, nil, map[string]mask.Options{"up": o})

	if got := string(r.TaskFor("s", "up", []byte(`{"data":{"`+secret+`":"`+secret+`"}}`))); got != `{"data":{"[masked:ticket]":"[masked:ticket]"}}` {
		t.Errorf("a notification: %s", got)
	}
	if got := string(r.TaskFor("s", "other", []byte(`{"data":"`+secret+`"}`))); !strings.Contains(got, secret) {
		t.Errorf("of a server without masks: %s", got)
	}
	if got := r.TaskFor("s", "up", nil); got != nil {
		t.Errorf("no params became %s", got)
	}
	if got := string(r.AskFor("s", "up", upstream.Ask{Method: "elicitation/create", Params: []byte(`{"message":"` + secret + `"}`)}).Params); got != `{"message":"[masked:ticket]"}` {
		t.Errorf("a question: %s", got)
	}

	p := newPerson(t, r.Router, wire.Legacy)
	var made struct{ Task struct{ TaskID string } }
	if err := json.Unmarshal([]byte(p.call("tools/call", `{"name":"up__work","arguments":{},"task":{}}`)), &made); err != nil || len(made.Task.TaskID) < 20 {
		t.Fatalf("%+v, %v", made, err)
	}
	id := made.Task.TaskID
	session, params, ok := r.TaskStatus(upstream.Notice{Server: "up", Params: []byte(`{"taskId":"1","statusMessage":"` + secret + `"}`)})
	if want := `{"taskId":"` + id + `","statusMessage":"[masked:ticket]"}`; !ok || session != "session " || string(params) != want {
		t.Errorf("the status of a task: %v %q %s, want %s", ok, session, params, want)
	}
	related := `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"%s"}},"message":"%s"}`
	if got, want := string(r.TaskFor("session ", "up", fmt.Appendf(nil, related, "1", secret))), fmt.Sprintf(related, id, "[masked:ticket]"); got != want {
		t.Errorf("about a task: %s, want %s", got, want)
	}
}

func TestFailuresThatQuoteAServerShowNoSecret(t *testing.T) {
	r := newPress(t, pressing(wire.Legacy, "pass"), upWith(map[string]tool{"big": answers("x")}), hides)
	c := newCall(t, r.Router, "up__big", `{}`)
	_, err := r.Answered(wire.Modern, nil, &wire.RPCError{Code: wire.CodeMissingCapability, Message: "needs " + secret})(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "needs [masked:ticket]") || strings.Contains(fmt.Sprintf("%v %+v", err, err), secret) {
		t.Errorf("%v", err)
	}
}
