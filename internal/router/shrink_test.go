package router_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/wire"
)

var eras = []wire.Era{wire.Legacy, wire.Modern}

func TestALargeResultBecomesSmallAndStaysReadable(t *testing.T) {
	const total = 1200
	for _, client := range eras {
		for _, server := range eras {
			for _, policy := range []string{"page", "digest"} {
				t.Run(client.String()+" "+server.String()+" "+policy, func(t *testing.T) {
					r := newPress(t, pressing(server, policy), upWith(map[string]tool{"big": answers(lines(total)), "small": answers("small")}), nil)
					ann, bob := newPerson(t, r.Router, client), newPerson(t, r.Router, client)
					ann.name, bob.name = "ann", "bob"
					if got := ann.call("tools/call", `{"name":"up__small","arguments":{}}`); strings.Contains(got, "mcp-aggregator/result") {
						t.Errorf("a small result became %s", got)
					}
					text := ann.call("tools/call", callBig)
					f := fittedIn(t, text)
					handle := f.Meta.Result.Handle
					if f.Meta.Result.Policy != policy || handle == "" || len(text) > 3000 || !strings.Contains(f.Content[0].Text, handle) {
						t.Fatalf("got %s", text)
					}
					if (f.ResultType == "complete") != (client == wire.Modern) {
						t.Errorf("resultType is %q", f.ResultType)
					}
					if got := ann.readBack(handle, total); got != lines(total) {
						t.Errorf("result_read gives something else")
					}
					readsOriginal(t, ann, bob, f.Meta.Result.URI, lines(total))
					if d := r.done; len(d) != 1 || d[0].Server != "up" || d[0].Tool != "big" || d[0].Left >= d[0].Tokens/10 {
						t.Errorf("told of %+v", d)
					}
				})
			}
		}
	}
}

// readsOriginal reads a kept text as a resource, by its owner and by somebody else.
func readsOriginal(t *testing.T, owner, other *person, uri, want string) {
	t.Helper()
	var read struct {
		ResultType, CacheScope string
		TTLMs                  *int
		Contents               []struct{ URI, Text string }
	}
	got := owner.call("resources/read", `{"uri":"`+uri+`"}`)
	if err := json.Unmarshal([]byte(got), &read); err != nil || len(read.Contents) != 1 || read.Contents[0].Text != want || read.Contents[0].URI != uri {
		t.Errorf("resources/read gives %.300s", got)
	}
	code := "error -32002 "
	if owner.era == wire.Modern {
		code = "error -32602 "
		if read.ResultType != "complete" || read.CacheScope != "private" || read.TTLMs == nil {
			t.Errorf("it lacks what its era demands: %.200s", got)
		}
	}
	for _, u := range []string{uri, uri + "x", "mcp-aggregator:result:"} {
		p := other
		if u != uri {
			p = owner
		}
		if got := p.call("resources/read", `{"uri":"`+u+`"}`); !strings.HasPrefix(got, code+"Resource not found") || !strings.Contains(got, `{"uri":"`+u+`"}`) {
			t.Errorf("%s: %s", u, got)
		}
	}
}

func TestLinksAreForClientsThatKnowThem(t *testing.T) {
	r := newPress(t, pressing(wire.Legacy, "page"), upWith(map[string]tool{"big": answers(lines(1000))}), nil)
	for _, era := range eras {
		for _, links := range []bool{false, true} {
			c := newCall(t, r.Router, "up__big", `{}`)
			c.Era, c.Links = era, links
			if got := textOf(r.Call(t.Context(), c)); strings.Contains(got, `"resource_link"`) != (links || era == wire.Modern) {
				t.Errorf("%v, %v: %.600s", era, links, got)
			}
		}
	}
}

func TestTheRulesOfTheToolThatAnsweredCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withFallbacks(config.Fallback{Tool: "spare.find"})
		c.Results.Policy, c.Results.ThresholdTokens = "page", 500
		c.Servers[0].Results.Policy = "pass"
		c.Servers[1].ToolOverrides = map[string]*config.ToolOverride{"find": {Results: config.ResultRules{Policy: "digest"}}}
		r := newPress(t, c, map[string]func() *mcp.Server{
			"main":  serverOf(map[string]tool{"search": answers(lines(1000))}),
			"spare": serverOf(map[string]tool{"find": answers(lines(1000)), "other": answers(lines(1000))}),
		}, nil)
		for _, tt := range []struct{ name, call, policy string }{
			{"its server passes", "main__search", ""},
			{"a fallback of a tool with rules", "main__search", "digest"},
			{"the general ones", "spare__other", "page"},
		} {
			got := works(t, r.Router, tt.call, `{}`)
			if f := fittedIn(t, got); f.Meta.Result.Policy != tt.policy {
				t.Errorf("%s: %.300s", tt.name, got)
			} else if tt.policy == "digest" && (!strings.Contains(got, `"mcp-aggregator/fallback":"spare.find"`) || !strings.Contains(f.Content[0].Text, "spare__find")) {
				t.Errorf("%s: it does not say who has answered: %.600s", tt.name, got)
			}
		}
	})
}

func TestABlockedResultIsAnErrorOfTheClientsEra(t *testing.T) {
	for _, era := range eras {
		r := newPress(t, pressing(wire.Legacy, "block"), upWith(map[string]tool{"big": answers(lines(1000))}), nil)
		f := fittedIn(t, newPerson(t, r.Router, era).call("tools/call", callBig))
		if !f.IsError || !strings.Contains(f.Content[0].Text, "too large") || (f.ResultType == "complete") != (era == wire.Modern) {
			t.Errorf("%v: %+v", era, f)
		}
	}
}

func TestWhatIsNoPlainResultIsNotTouched(t *testing.T) {
	big := quoted(lines(1000))
	r := newPress(t, pressing(wire.Legacy, "digest"), upWith(map[string]tool{"big": fails(lines(1000))}), nil)
	if got := newPerson(t, r.Router, wire.Legacy).call("tools/call", callBig); !strings.Contains(got, "line 1000 ") || !strings.Contains(got, `"isError":true`) {
		t.Errorf("an error became %.300s", got)
	}
	for _, tt := range []struct {
		name           string
		client, server wire.Era
		result         string
	}{
		{"a task", wire.Legacy, wire.Legacy, `{"task":{"taskId":"1","status":"working","statusMessage":` + big + `}}`},
		{"an error", wire.Legacy, wire.Legacy, `{"content":[{"type":"text","text":` + big + `}],"isError":true}`},
		{"a question", wire.Modern, wire.Modern, `{"resultType":"input_required","inputRequests":{"1":{"method":"elicitation/create","params":{"mode":"form","message":` + big + `,"requestedSchema":{"type":"object","properties":{}}}}}}`},
		{"a question with content", wire.Modern, wire.Modern, `{"resultType":"input_required","content":[{"type":"text","text":` + big + `}],"inputRequests":{"1":{"method":"roots/list"}}}`},
		{"something of another type", wire.Modern, wire.Modern, `{"resultType":"x-other","content":[{"type":"text","text":` + big + `}]}`},
		{"no text", wire.Legacy, wire.Legacy, `{"content":[{"type":"image","mimeType":"image/png","data":` + big + `}]}`},
		{"no object", wire.Legacy, wire.Legacy, `[` + big + `]`},
	} {
		if got := textOf(answered(t, r, tt.client, tt.server, tt.result)); got != tt.result {
			t.Errorf("%s became %.300s", tt.name, got)
		}
	}
}

// answered is what a client gets of a result of a server.
func answered(t testing.TB, r *press, client, server wire.Era, result string) router.Reply {
	t.Helper()
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":` + result + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return r.answer(t, client, server, &m.Body, nil)
}

// answer is what a client gets of a result or an error of a server.
func (r *press) answer(t testing.TB, client, server wire.Era, result *wire.Object, rpc *wire.RPCError) router.Reply {
	t.Helper()
	c := newCall(t, r.Router, "up__big", `{},"_meta":{"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":{}}}`)
	c.Era = client
	reply, err := r.Answered(server, result, rpc)(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func TestTheModelOfAClientSummarizes(t *testing.T) {
	for _, tt := range []struct {
		name           string
		client, server wire.Era
		summarizers    []string
	}{
		{"a legacy client of a legacy server", wire.Legacy, wire.Legacy, nil},
		{"a legacy client of a modern server", wire.Legacy, wire.Modern, nil},
		{"a modern client of a legacy server", wire.Modern, wire.Legacy, nil},
		{"a modern client of a modern server", wire.Modern, wire.Modern, nil},
		{"named in the rules", wire.Modern, wire.Modern, []string{"sampling", "digest"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := pressing(tt.server, "summarize")
			c.Servers[0].Results.Summarizers = tt.summarizers
			r := newPress(t, c, upWith(map[string]tool{"big": answers(lines(1000)), "first": answers("x")}), nil)
			p := newPerson(t, r.Router, tt.client)
			p.name = "ann"
			p.call("tools/call", `{"name":"up__first","arguments":{"earlier":"call"}}`)
			got := p.call("tools/call", `{"name":"up__big","arguments":{"q":7}}`)
			f := fittedIn(t, got)
			if f.Meta.Result.Policy != "summarize" || !strings.HasSuffix(f.Content[0].Text, "]\n\nsampled") {
				t.Errorf("%s: %.700s", tt.name, got)
			}
			if p.readBack(f.Meta.Result.Handle, 1000) != lines(1000) {
				t.Errorf("%s: result_read gives something else", tt.name)
			}
			if len(p.asked) != 1 || !strings.HasPrefix(p.asked[0], "sampling/createMessage ") || !strings.Contains(p.asked[0], "line 1000 of") || !strings.Contains(p.asked[0], `\"q\":7`) {
				t.Errorf("%s: asked %.300q", tt.name, p.asked)
			} else if tt.client == wire.Legacy && !strings.Contains(p.asked[0], "up__first") {
				t.Errorf("%s: nothing of the session's calls before is in %.2000s", tt.name, p.asked[0])
			}
			if got := r.told(); got != "started , chunk , completed ok" {
				t.Errorf("%s: %s", tt.name, got)
			}
			nothingLeft(t, r.Router, r.set)
		})
	}
}

func TestWithoutAModelThereIsThePage(t *testing.T) {
	for _, tt := range []struct {
		name        string
		caps        string
		summarizers []string
		policy      string
		answer      string
		fails       bool
	}{
		{"no sampling", `{"elicitation":{},"roots":{}}`, nil, "page", "", false},
		{"no capabilities", `{}`, nil, "page", "", false},
		{"sampling is not wanted", everyCapability, []string{"digest"}, "digest", "", false},
		{"the user says no", everyCapability, nil, "page", "", true},
		{"the user says no, the digest is next", everyCapability, []string{"sampling", "digest"}, "digest", "", true},
		{"an empty answer", everyCapability, nil, "page", `{"role":"assistant","model":"m","content":{"type":"text","text":" "}}`, false},
		{"garbage", everyCapability, nil, "page", `{"content":7}`, false},
	} {
		for _, client := range eras {
			for _, server := range eras {
				if tt.fails && client == wire.Modern {
					continue // modern clients have no way to answer with an error
				}
				synctest.Test(t, func(t *testing.T) {
					c := pressing(server, "summarize")
					c.Results.Summarizers = tt.summarizers
					r := newPress(t, c, upWith(map[string]tool{"big": answers(lines(1000))}), nil)
					p := newPerson(t, r.Router, client)
					p.caps = tt.caps
					if tt.answer != "" {
						p.answer = func(string, string) (string, *wire.RPCError) { return tt.answer, nil }
					}
					if tt.fails {
						p.answer = func(string, string) (string, *wire.RPCError) {
							return "", &wire.RPCError{Code: -1, Message: "User rejected sampling request"}
						}
					}
					got := p.call("tools/call", callBig)
					if f := fittedIn(t, got); f.Meta.Result.Policy != tt.policy || f.IsError {
						t.Errorf("%s, %v client, %v server: %.300s", tt.name, client, server, got)
					}
					nothingLeft(t, r.Router, r.set)
				})
			}
		}
	}
}

// Only a call that may come to the client's model pays for it.
func TestCallsOfModernServersAreNotHostedForNothing(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(c *config.Config)
		caps   string
		asked  bool
	}{
		{"a summary by default", func(*config.Config) {}, everyCapability, true},
		{"by the rules of the tool", func(c *config.Config) {
			c.Results.Policy = "page"
			c.Servers[0].ToolOverrides = map[string]*config.ToolOverride{"big": {Results: config.ResultRules{Policy: "summarize"}}}
		}, everyCapability, true},
		{"no summary", func(c *config.Config) { c.Results.Policy = "digest" }, everyCapability, false},
		{"other summarizers", func(c *config.Config) { c.Results.Summarizers = []string{"digest"} }, everyCapability, false},
		{"a client without sampling", func(*config.Config) {}, `{"roots":{}}`, false},
	} {
		c := pressing(wire.Modern, "summarize")
		tt.change(c)
		r := newPress(t, c, upWith(map[string]tool{"big": answers(lines(1000))}), nil)
		p := newPerson(t, r.Router, wire.Modern)
		p.caps = tt.caps
		if in := pendingIn(t, p.request(t.Context(), "tools/call", callBig)); (in.ResultType == "input_required") != tt.asked {
			t.Errorf("%s: %+v", tt.name, in)
		}
	}
}
