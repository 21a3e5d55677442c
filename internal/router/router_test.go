package router_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/builtin"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// newRouter routes to two built-in servers: demo, of which one tool is hidden, and
// notes.
func newRouter(t testing.TB, change func(*config.Server)) *router.Router {
	t.Helper()
	demo := config.DefaultServer("demo")
	demo.Type, demo.Builtin = config.TypeBuiltin, "everything"
	demo.Tools.Deny = []string{"big_*"}
	if change != nil {
		change(demo)
	}
	notes := config.DefaultServer("notes")
	notes.Type, notes.Builtin = config.TypeBuiltin, "notes"
	servers := []*config.Server{demo, notes}

	set := upstream.New(upstream.Options{Limits: config.Default().Limits, Builtins: builtin.Servers(), StartConcurrency: 2})
	set.Apply(servers)
	t.Cleanup(func() { set.Close(context.Background()) })
	<-set.Settled()
	snapshot, _ := catalog.Build(set.Listings(), catalog.Rules{Servers: servers})
	gen := &router.Generation{Servers: map[string]*config.Server{"demo": demo, "notes": notes}, Catalog: snapshot}
	r := router.New(router.Options{Upstreams: set, Identity: bridge.NewIdentity("agg", "1")}, gen)
	r.MarkReady()
	return r
}

// call makes one call with the given params and returns what the client would read.
func call(t *testing.T, ctx context.Context, r *router.Router, era wire.Era, method, params string) string {
	t.Helper()
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`))
	if err != nil {
		t.Fatal(err)
	}
	reply := r.Call(ctx, &router.Call{Gen: r.Generation(), Method: method, Params: &m.Body, Era: era})
	if reply.Err != nil {
		return fmt.Sprintf("error %d %s %s", reply.Err.Code, reply.Err.Message, reply.Err.Data)
	}
	if err := wire.Valid(reply.Result.Bytes()); err != nil {
		t.Errorf("invalid result: %v", err)
	}
	return string(reply.Result.Bytes())
}

func TestCallsReachTheServerTheirNameSays(t *testing.T) {
	r := newRouter(t, nil)
	for _, c := range []struct{ name, method, params, want string }{
		{"by the exposed name", "tools/call", `{"name":"demo__add","arguments":{"a":2,"b":40}}`, `{"sum":42}`},
		{"with a dot", "tools/call", `{"name":"demo.add","arguments":{"a":2,"b":40}}`, `{"sum":42}`},
		{"with the prefix of hosts", "tools/call", `{"name":"mcp__demo__add","arguments":{"a":2,"b":40}}`, `{"sum":42}`},
		{"spelled with escapes", "tools/call", `{"n\u0061me":"demo__\u0061dd","arguments":{"a":2,"b":40}}`, `{"sum":42}`},
		{"a prompt", "prompts/get", `{"name":"demo__greet"}`, `"messages"`},
		{"a resource", "resources/read", `{"uri":"demo://about"}`, `"demo://about"`},
		{"completion of a prompt's argument", "completion/complete", `{"ref":{"type":"ref/prompt","name":"demo__review_code"},"argument":{"name":"language","value":"g"}}`, `"completion"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := call(t, t.Context(), r, wire.Legacy, c.method, c.params); !strings.Contains(got, c.want) || strings.HasPrefix(got, "error") {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestRefusalsNameTheProblem(t *testing.T) {
	r := newRouter(t, nil)
	for _, c := range []struct {
		name           string
		era            wire.Era
		method, params string
		want           string
	}{
		{"an unknown tool", wire.Legacy, "tools/call", `{"name":"demo__nope"}`, `error -32602 Unknown tool: demo__nope `},
		{"a hidden tool looks unknown", wire.Legacy, "tools/call", `{"name":"demo__big_text"}`, `error -32602 Unknown tool: demo__big_text `},
		{"two names", wire.Legacy, "tools/call", `{"name":"demo__add","name":"demo__fail"}`, `error -32602 invalid params: member "name" comes twice `},
		{"a name in another case", wire.Legacy, "tools/call", `{"name":"demo__add","Name":"demo__fail"}`, `error -32602 invalid params: member "name" is spelled in another case `},
		{"no name", wire.Legacy, "tools/call", `{}`, `error -32602 invalid params: name must be a string `},
		{"arguments that are no object", wire.Legacy, "tools/call", `{"name":"demo__add","arguments":[1]}`, `error -32602 invalid params: arguments must be an object `},
		{"an unknown prompt", wire.Legacy, "prompts/get", `{"name":"x"}`, `error -32602 Unknown prompt: x `},
		{"an unknown resource, legacy", wire.Legacy, "resources/read", `{"uri":"x:y"}`, `error -32002 Resource not found: x:y {"uri":"x:y"}`},
		{"an unknown resource, modern", wire.Modern, "resources/read", `{"uri":"x:y"}`, `error -32602 Resource not found: x:y {"uri":"x:y"}`},
		{"completion of nothing", wire.Legacy, "completion/complete", `{"ref":{"type":"ref/x"}}`, `error -32602 invalid params: ref.type must be ref/prompt or ref/resource `},
		{"a method that is not routed", wire.Legacy, "foo", `{}`, `error -32601 Method not found: foo `},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := call(t, t.Context(), r, c.era, c.method, c.params); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestAnErrorResultIsPassedOnAsItIs(t *testing.T) {
	r := newRouter(t, nil)
	got := call(t, t.Context(), r, wire.Legacy, "tools/call", `{"name":"demo__fail","arguments":{}}`)
	if !strings.Contains(got, `"isError":true`) || strings.Contains(got, "mcp-aggregator/error") {
		t.Errorf("got %s", got)
	}
}

func TestACallThatTakesTooLongIsAnsweredForTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouter(t, func(s *config.Server) { s.CallTimeout = 2 * time.Second })
		began := time.Now()
		got := call(t, t.Context(), r, wire.Modern, "tools/call", `{"name":"demo__long_running","arguments":{"duration":60,"steps":1}}`)
		var result struct {
			ResultType string `json:"resultType"`
			IsError    bool   `json:"isError"`
			Content    []struct{ Text string }
			Meta       map[string]map[string]any `json:"_meta"`
		}
		if err := json.Unmarshal([]byte(got), &result); err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		e := result.Meta["mcp-aggregator/error"]
		if !result.IsError || result.ResultType != "complete" || e["code"] != "timeout" || e["server"] != "demo" || e["retryable"] != false {
			t.Errorf("got %s", got)
		}
		if want := "no answer within call_timeout (2s)"; !strings.Contains(result.Content[0].Text, want) {
			t.Errorf("text %q, want %q in it", result.Content[0].Text, want)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestACancelledCallIsAnswered(t *testing.T) {
	r := newRouter(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := call(t, ctx, r, wire.Legacy, "tools/call", `{"name":"demo__add","arguments":{"a":1,"b":1}}`); !strings.HasPrefix(got, "error -32603") || !strings.Contains(got, `"code":"cancelled"`) {
		t.Errorf("got %s", got)
	}
}

func TestProgressComesBackUnderTheClientsToken(t *testing.T) {
	r := newRouter(t, nil)
	for _, token := range []string{`"t\u0031"`, `7`, `1.50`, `9007199254740993`} {
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"demo__long_running","arguments":{"duration":0.02,"steps":2},"_meta":{"progressToken":` + token + `}}}`))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		c := &router.Call{Gen: r.Generation(), Method: m.Method, Params: &m.Body, Events: func(ev upstream.Event) {
			got = append(got, ev.Method+" "+string(wire.Field(ev.Params, wire.Span{Hi: len(ev.Params)}, "progressToken").Of(ev.Params)))
		}}
		if reply := r.Call(t.Context(), c); reply.Err != nil {
			t.Fatal(reply.Err)
		}
		if len(got) != 2 || got[0] != "notifications/progress "+token {
			t.Errorf("token %s: got %q", token, got)
		}
	}
}

func TestCallsWaitForAServerThatIsStartingAndLearnWhyOneIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		missing := config.DefaultServer("missing")
		missing.Type, missing.Command = config.TypeStdio, "no-such-command-anywhere"
		slow := builtinServer("slow")
		servers := []*config.Server{missing, slow}
		byName := map[string]*config.Server{"missing": missing, "slow": slow}

		const handshake = 100 * time.Millisecond
		echo := serverOf(map[string]tool{"echo": answers("x")})
		set := upstream.New(upstream.Options{Limits: config.Default().Limits, Builtins: map[string]func() *mcp.Server{
			"slow": func() *mcp.Server { time.Sleep(handshake); return echo() },
		}})
		defer set.Close(context.Background())
		build := func() *router.Generation {
			snapshot, _ := catalog.Build(set.Listings(), catalog.Rules{Servers: servers})
			return &router.Generation{Servers: byName, Catalog: snapshot}
		}
		r := router.New(router.Options{Upstreams: set, Identity: bridge.NewIdentity("agg", "1")}, build())
		r.MarkReady() // list_wait is over, nobody has connected
		set.Apply(servers)
		go func() {
			<-set.Settled()
			r.Publish(build())
		}()
		began := time.Now()
		got := call(t, t.Context(), r, wire.Legacy, "tools/call", `{"name":"slow__echo"}`)
		if took := time.Since(began); !strings.Contains(got, `"text":"x"`) || took != handshake {
			t.Errorf("the one that is starting, after %v: %s", took, got)
		}
		<-set.Settled()
		got = call(t, t.Context(), r, wire.Legacy, "tools/call", `{"name":"missing__x"}`)
		if !strings.Contains(got, `"isError":true`) || !strings.Contains(got, "no-such-command-anywhere") || !strings.Contains(got, `"code":"mcp_restart_failed","kind":"unreachable"`) {
			t.Errorf("the one that cannot start: %s", got)
		}
		if got := call(t, t.Context(), r, wire.Legacy, "tools/call", `{"name":"slow__nope"}`); got != "error -32602 Unknown tool: slow__nope " {
			t.Errorf("an unknown tool of a server that is there: %s", got)
		}
	})
}

func TestAToolOfTheServerBeforeAChangeIsUnknownOnceTheListsAreFresh(t *testing.T) {
	c := config.Default()
	c.Servers = []*config.Server{builtinServer("old")}
	builtins := map[string]func() *mcp.Server{
		"old": serverOf(map[string]tool{"gone": answers("x")}), "new": serverOf(map[string]tool{"fresh": answers("x")}),
	}
	set := upstream.New(upstream.Options{Limits: c.Limits, Builtins: builtins})
	defer set.Close(context.Background())
	server := func(builtin string) *config.Server {
		s := builtinServer(builtin)
		s.Name, s.Lazy = "beta", true
		return s
	}
	set.Apply([]*config.Server{server("old")})
	<-set.Settled()
	set.Apply([]*config.Server{server("new")})
	<-set.Settled()
	c.Servers = []*config.Server{server("new")}
	gen := &router.Generation{Config: c, Servers: map[string]*config.Server{"beta": c.Servers[0]}}
	gen.Catalog, _ = catalog.Build(set.Listings(), catalog.Rules{Servers: c.Servers})
	r := router.New(router.Options{Upstreams: set, Identity: bridge.NewIdentity("agg", "1")}, gen)
	r.MarkReady()
	if got := call(t, t.Context(), r, wire.Legacy, "tools/call", `{"name":"beta__gone"}`); got != "error -32602 Unknown tool: beta__gone " {
		t.Errorf("answered %q", got)
	}
	works(t, r, "beta__fresh", `{}`)
}
