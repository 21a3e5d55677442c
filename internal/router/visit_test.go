package router_test

//lint:file-ignore SA1019 roots, sampling and logging are deprecated in 2026-07-28 and in use everywhere.

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

func TestWhatAServerSaysGoesToWhoeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		say := func(ctx context.Context, s *mcp.ServerSession, q *mcp.CallToolRequest, n float64) {
			_ = s.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: q.Params.GetProgressToken(), Progress: n})
			_ = s.Log(ctx, &mcp.LoggingMessageParams{Level: "warning", Data: n})
			_ = s.Log(ctx, &mcp.LoggingMessageParams{Level: "debug", Data: n})
		}
		r := askRig(t, wire.Legacy, asker(func(ctx context.Context, s *mcp.ServerSession, q *mcp.CallToolRequest) (string, error) {
			say(ctx, s, q, 1)
			go func() {
				time.Sleep(time.Minute)
				say(ctx, s, q, 2)
			}()
			text, err := elicits(ctx, s, q)
			say(ctx, s, q, 3)
			return text, err
		}), nil)
		r.SetLevel("x", "debug")
		time.Sleep(time.Second)
		p := newPerson(t, r, wire.Modern)
		var heard []string
		p.events = func(ev upstream.Event) { heard = append(heard, ev.Method+" "+string(ev.Params)) }
		in := p.parkOne(t.Context())
		if len(heard) != 2 || !strings.Contains(heard[0], `"progressToken":"tok"`) || !strings.Contains(heard[1], `"warning"`) {
			t.Fatalf("at first heard %q", heard)
		}
		time.Sleep(2 * time.Minute)
		if got := r.Parked().Dropped; got != 3 || len(heard) != 2 {
			t.Errorf("%d were dropped, heard %q", got, heard)
		}
		heard = nil
		retry := strings.Replace(p.retry(callAsk, in), "tok", "TOK", 1)
		m := mustScan(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":`+everyCapability+`,"progressToken":[2]},`+retry[1:]+`}`)
		reply := r.Call(t.Context(), &router.Call{Gen: r.Generation(), Method: "tools/call", Params: &m.Body, Era: wire.Modern, Events: p.events})
		if !strings.Contains(textOf(reply), "accept ann") {
			t.Errorf("got %s", textOf(reply))
		}
		if len(heard) != 1 || !strings.Contains(heard[0], `"progressToken":[2]`) { // it has named no log level
			t.Errorf("afterwards heard %q", heard)
		}
	})
}

func mustScan(t testing.TB, text string) wire.Message {
	t.Helper()
	m, err := wire.Scan([]byte(text))
	if err != nil {
		t.Fatal(err, text)
	}
	return m
}

// visits is a tool that refuses until its user has been at an address.
func visits(been *atomic.Bool) func() *mcp.Server {
	return serverOf(map[string]tool{"ask": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if been.Load() {
			return done("welcome"), nil
		}
		data := json.RawMessage(`{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://x.example/","message":"go"}]}`)
		return nil, &jsonrpc.Error{Code: -32042, Message: "This request requires more information.", Data: data}
	}})
}

func TestARefusalUntilTheUserHasVisitedAnAddress(t *testing.T) {
	for _, c := range []struct {
		name   string
		client wire.Era
		caps   string
		action string
		want   string
		asked  int
	}{
		{"a legacy client gets it as it is", wire.Legacy, everyCapability, "", `error -32042 This request requires more information. {"elicitations":[{"mode":"url","elicitationId":"e","url":"https://x.example/","message":"go"}]}`, 0},
		{"a modern one is asked", wire.Modern, everyCapability, "accept", "welcome", 1},
		{"and may decline", wire.Modern, everyCapability, "decline", "the user has not agreed to", 1},
		{"one that knows no addresses is told", wire.Modern, `{"elicitation":{}}`, "", `error -32021 This request needs a client with the capability elicitation.url`, 0},
		{"one that cannot be asked, too", wire.Modern, `{}`, "", `error -32021`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var been atomic.Bool
			p := newPerson(t, askRig(t, wire.Legacy, visits(&been), nil), c.client)
			p.caps = c.caps
			p.answer = func(_, params string) (string, *wire.RPCError) {
				if params != `{"mode":"url","url":"https://x.example/","message":"go"}` {
					t.Errorf("asked %s", params)
				}
				been.Store(true)
				return `{"action":"` + c.action + `"}`, nil
			}
			if got := p.call("tools/call", callAsk); !strings.Contains(got, c.want) || len(p.asked) != c.asked {
				t.Errorf("got %s, asked %q", got, p.asked)
			}
		})
	}
}

func TestAPanicCostsTheParkedCallAlone(t *testing.T) {
	r := askRig(t, wire.Legacy, asker(elicits), nil)
	p := newPerson(t, r, wire.Modern)
	p.events = nil
	m := mustScan(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":`+everyCapability+`},"name":"up__ask"}}`)
	h := r.Chain(func(context.Context, *router.Call) (router.Reply, error) { panic("defect") })
	if _, err := h(t.Context(), &router.Call{Gen: r.Generation(), Method: "tools/call", Params: &m.Body, Era: wire.Modern}); err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("got %v", err)
	}
	if got := p.call("tools/call", callAsk); !strings.Contains(got, "accept ann") {
		t.Errorf("got %s", got)
	}
}
