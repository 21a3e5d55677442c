package router_test

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/wire"
)

func TestAToolThatStandsInMayAskToo(t *testing.T) {
	for _, client := range []wire.Era{wire.Legacy, wire.Modern} {
		for _, server := range []wire.Era{wire.Legacy, wire.Modern} {
			c := withFallbacks(config.Fallback{Tool: "spare.ask"})
			c.Servers[0].Protocol, c.Servers[1].Protocol = "modern", server.String()
			c.Servers[1].RateLimit = config.RateLimit{PerSecond: 0.001, Burst: 1} // rounds are one call
			spare := asking("spare", "form", "roots")
			if server == wire.Legacy {
				spare = asking("spare", "form+roots") // the SDK goes one round with legacy clients
			}
			r := newRig(t, c, map[string]func() *mcp.Server{"main": serverOf(map[string]tool{"search": echoes}), "spare": spare}, router.Watch{})
			works(t, r, "main__search", `{}`) // takes the one call that main allows

			p := newPerson(t, r, client)
			if client == wire.Modern && server == wire.Modern {
				c.Servers[1].RateLimit = config.RateLimit{} // there each round is a call of its client
			}
			got := p.call("tools/call", `{"name":"main__search","arguments":{"q":1}}`)
			if !strings.Contains(got, "ann") || !strings.Contains(got, "file:///here") || !strings.Contains(got, `"mcp-aggregator/fallback":"spare.ask"`) {
				t.Errorf("%v client, %v server: got %s", client, server, got)
			}
			if len(p.asked) != 2 {
				t.Errorf("%v client, %v server: asked %q", client, server, p.asked)
			}
		}
	}
}
