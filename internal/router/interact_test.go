package router_test

import (
	"fmt"
	"strings"
	"testing"

	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/wire"
)

func TestEveryQuestionReachesTheClientInEveryCell(t *testing.T) {
	eras := []wire.Era{wire.Legacy, wire.Modern}
	want := map[string]string{"form": `ann`, "url": `accept`, "plain": `sampled`, "tools": `tool_use`, "roots": `file:///here`}
	methods := map[string]string{"tools/call": callAsk, "prompts/get": `{"name":"up__ask"}`, "resources/read": `{"uri":"ask://x"}`}
	for _, server := range eras {
		for kind, answer := range want {
			for where, r := range map[string]*router.Router{"in line": askRig(t, server, asking("up", kind), nil), "over HTTP": webRig(t, server, asking("up", kind))} {
				for _, client := range eras {
					for method, params := range methods {
						t.Run(fmt.Sprintf("%v client, %v server %s, %s, %s", client, server, where, kind, method), func(t *testing.T) {
							p := newPerson(t, r, client)
							if got := p.call(method, params); !strings.Contains(got, answer) || strings.Contains(got, "isError") {
								t.Errorf("got %s", got)
							}
							if len(p.asked) != 1 {
								t.Fatalf("asked %q", p.asked)
							}
							if kind == "url" && client != server && strings.Contains(p.asked[0], "elicitationId") != (client == wire.Legacy) {
								t.Errorf("asked %s", p.asked[0])
							}
						})
					}
				}
			}
		}
	}
}

func TestServersMayAskForSeveralThingsAndAgain(t *testing.T) {
	for _, client := range []wire.Era{wire.Legacy, wire.Modern} {
		p := newPerson(t, askRig(t, wire.Modern, asking("up", "form+roots", "plain", "url"), nil), client)
		got := p.call("tools/call", callAsk)
		for _, want := range []string{"ann", "file:///here", "sampled", "accept"} {
			if !strings.Contains(got, want) {
				t.Errorf("%v client: %q is not in %s", client, want, got)
			}
		}
		if len(p.asked) != 4 {
			t.Errorf("%v client: asked %q", client, p.asked)
		}
		for _, s := range p.states {
			if strings.Contains(s, "ann") {
				t.Errorf("the server's state is readable: %s", s)
			}
		}
	}
	// What comes within a few milliseconds is told together; on a busy machine it may
	// come apart, but not each time.
	together := false
	for range 20 {
		p := newPerson(t, askRig(t, wire.Legacy, asking("up", "form+roots+plain"), nil), wire.Modern)
		if got := p.call("tools/call", callAsk); !strings.Contains(got, "sampled") || len(p.asked) != 3 {
			t.Errorf("got %s, asked %q", got, p.asked)
		}
		if together = len(p.states) == 1; together {
			break
		}
	}
	if !together {
		t.Error("what was asked together was never told in one round")
	}
}

func TestClientsThatLackACapabilityAreNotAsked(t *testing.T) {
	const error32021 = `error -32021 This request needs a client with the capability elicitation.form {"requiredCapabilities":{"elicitation":{"form":{}}}}`
	for _, c := range []struct {
		name           string
		client, server wire.Era
		caps           string
		method, params string
		want           string
	}{
		{"legacy and legacy", wire.Legacy, wire.Legacy, `{"roots":{}}`, "tools/call", callAsk, `has not declared the capability elicitation.form`},
		{"legacy with nothing and legacy", wire.Legacy, wire.Legacy, `{}`, "tools/call", callAsk, `error -32600`},
		{"legacy and modern", wire.Legacy, wire.Modern, `{"roots":{}}`, "tools/call", callAsk, `"isError":true`},
		{"legacy and modern, text", wire.Legacy, wire.Modern, `{"roots":{}}`, "tools/call", callAsk, `it needs a client with the capability elicitation.form, and this one has not declared it`},
		{"legacy with nothing and modern", wire.Legacy, wire.Modern, `{}`, "tools/call", callAsk, `it needs a client with the capability elicitation.form`},
		{"legacy and modern, a prompt", wire.Legacy, wire.Modern, `{"roots":{}}`, "prompts/get", `{"name":"up__ask"}`, error32021},
		{"legacy and modern, a resource", wire.Legacy, wire.Modern, `{}`, "resources/read", `{"uri":"ask://x"}`, error32021},
		{"modern and legacy", wire.Modern, wire.Legacy, `{"roots":{}}`, "tools/call", callAsk, `has not declared the capability elicitation.form`},
		{"modern with nothing and legacy", wire.Modern, wire.Legacy, `{}`, "tools/call", callAsk, `error -32600`},
		{"modern and modern", wire.Modern, wire.Modern, `{"elicitation":{"url":{}}}`, "tools/call", callAsk, error32021},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPerson(t, askRig(t, c.server, asking("up", "form"), nil), c.client)
			p.caps = c.caps
			if got := p.call(c.method, c.params); !strings.Contains(got, c.want) {
				t.Errorf("got %s", got)
			}
			if len(p.asked) > 0 {
				t.Errorf("asked %q", p.asked)
			}
		})
	}
}

func TestWhatTheUserDeclinesIsForTheServerToKnow(t *testing.T) {
	for _, client := range []wire.Era{wire.Legacy, wire.Modern} {
		for _, server := range []wire.Era{wire.Legacy, wire.Modern} {
			for _, action := range []string{"decline", "cancel"} {
				p := newPerson(t, askRig(t, server, asking("up", "form"), nil), client)
				p.answer = func(string, string) (string, *wire.RPCError) { return `{"action":"` + action + `"}`, nil }
				if got := p.call("tools/call", callAsk); !strings.Contains(got, action) || strings.Contains(got, "isError") {
					t.Errorf("%v client, %v server: got %s", client, server, got)
				}
			}
		}
	}
}

func TestAnErrorOfALegacyClient(t *testing.T) {
	refuses := func(string, string) (string, *wire.RPCError) {
		return "", &wire.RPCError{Code: -1, Message: "User rejected sampling request"}
	}
	p := newPerson(t, askRig(t, wire.Legacy, asking("up", "plain"), nil), wire.Legacy)
	p.answer = refuses
	if got := p.call("tools/call", callAsk); !strings.Contains(got, "User rejected sampling request") {
		t.Errorf("a legacy server: %s", got)
	}
	p = newPerson(t, askRig(t, wire.Modern, asking("up", "plain+roots"), nil), wire.Legacy)
	p.answer = refuses
	got := p.call("tools/call", callAsk)
	if !strings.Contains(got, `"isError":true`) || !strings.Contains(got, `with an error: User rejected sampling request (code -1)`) || len(p.asked) != 1 {
		t.Errorf("a modern server: %s, asked %q", got, p.asked)
	}
}

func TestAServerThatAlwaysAsksIsLeft(t *testing.T) {
	rounds := make([]string, 40)
	for i := range rounds {
		rounds[i] = "roots"
	}
	p := newPerson(t, askRig(t, wire.Modern, asking("up", rounds...), nil), wire.Legacy)
	if got := p.call("tools/call", callAsk); !strings.Contains(got, "it has asked for input 17 times, and still asks") || len(p.asked) != 16 {
		t.Errorf("got %s after %d questions", got, len(p.asked))
	}
}

func TestALegacyClientCannotSpeakOfRounds(t *testing.T) {
	for _, server := range []wire.Era{wire.Legacy, wire.Modern} {
		p := newPerson(t, askRig(t, server, asking("up", "roots"), nil), wire.Legacy)
		got := p.call("tools/call", `{"name":"up__ask","requestState":"x.y.z.","inputResponses":{"a":{"action":"accept"}}}`)
		if !strings.Contains(got, "file:///here") || strings.Contains(got, "x.y") {
			t.Errorf("%v server: got %s", server, got)
		}
	}
}
