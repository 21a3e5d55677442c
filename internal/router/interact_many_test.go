package router_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/wire"
)

// Clients that call the same server at the same time, eight calls of each of them. The
// server says in its question what it was called with.
func TestQuestionsReachTheClientThatCausedThem(t *testing.T) {
	server := asker(func(ctx context.Context, s *mcp.ServerSession, q *mcp.CallToolRequest) (string, error) {
		in := *inputs["form"].(*mcp.ElicitParams)
		in.Message = string(q.Params.Arguments)
		a, err := s.Elicit(ctx, &in)
		if err != nil {
			return "", err
		}
		return fmt.Sprint(a.Content["name"]), nil
	})
	for _, sharing := range []string{"promote", "serialize", "HTTP"} {
		t.Run(sharing, func(t *testing.T) {
			r := webRig(t, wire.Legacy, server)
			if sharing != "HTTP" {
				r = askRig(t, wire.Legacy, server, func(c *config.Config) { c.Servers[0].Asks = sharing })
			}
			if sharing != "HTTP" { // the first question shows that the server asks
				if got := newPerson(t, r, wire.Legacy).call("tools/call", callAsk); !strings.Contains(got, "ann") {
					t.Fatalf("got %s", got)
				}
			}
			var all sync.WaitGroup
			var right atomic.Int64
			for i, era := range []wire.Era{wire.Legacy, wire.Modern, wire.Legacy, wire.Modern} {
				for range 8 {
					all.Go(func() {
						p := newPerson(t, r, era)
						p.name = fmt.Sprint("client", i)
						p.answer = func(_, params string) (string, *wire.RPCError) {
							if !strings.Contains(params, p.name) {
								t.Errorf("%s was asked %s", p.name, params)
							}
							return `{"action":"accept","content":{"name":"it is ` + p.name + `"}}`, nil
						}
						for range 8 {
							if got := p.call("tools/call", `{"name":"up__ask","arguments":{"who":"`+p.name+`"}}`); strings.Contains(got, "it is "+p.name) {
								right.Add(1)
							} else {
								t.Errorf("%s got %s", p.name, got)
							}
						}
					})
				}
			}
			all.Wait()
			if right.Load() != 4*8*8 {
				t.Errorf("%d calls had the right end", right.Load())
			}
		})
	}
}
