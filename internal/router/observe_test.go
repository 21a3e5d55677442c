package router_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/wire"
)

// A diary is what somebody who watches calls has been told.
type diary struct {
	mu    sync.Mutex
	lines []string
	first int64 // number of the first call
}

func (d *diary) watch() router.Watch {
	note := func(id int64, text string) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.first == 0 {
			d.first = id
		}
		d.lines = append(d.lines, fmt.Sprint(id-d.first, " ", text))
	}
	return router.Watch{
		Started: func(id int64, server, tool string) { note(id, "started "+server+"."+tool) },
		Ended: func(id int64, server, tool, kind string, took time.Duration) {
			note(id, fmt.Sprint("ended ", server, ".", tool, " ", kind, " ", took.Truncate(time.Second)))
		},
	}
}

func (d *diary) check(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if diff := cmp.Diff(want, d.lines); diff != "" {
		t.Error(diff)
	}
	d.lines, d.first = nil, 0
}

func TestThoseWhoWatchSeeACallFromBeginningToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		c := withFallbacks(config.Fallback{Tool: "spare.find"})
		r := newRig(t, c, map[string]func() *mcp.Server{
			"main":  serverOf(map[string]tool{"search": answers("x"), "bad": fails("no")}),
			"spare": serverOf(map[string]tool{"find": answers("y")}),
		}, d.watch())
		works(t, r, "main__search", `{}`)
		d.check(t, "0 started main.search", "0 ended main.search ok 0s")
		works(t, r, "main__search", `{}`) // by its fallback
		d.check(t, "0 started main.search", "0 ended main.search ok 0s")
		request(t, t.Context(), r, "main__bad", `{}`)
		d.check(t, "0 started main.bad", "0 ended main.bad rate_limited 0s")
		request(t, t.Context(), r, "main__nothing", `{}`)
		newPerson(t, r, wire.Legacy).call("resources/read", `{"uri":"x://y"}`)
		d.check(t)
		works(t, r, "spare__find", `{}`)
		d.check(t, "0 started spare.find", "0 ended spare.find ok 0s")
	})
}

func TestACallThatWaitsForItsClientIsOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		c := config.Default()
		c.Servers = []*config.Server{builtinServer("up")}
		c.Servers[0].Protocol = "legacy"
		r := newRig(t, c, map[string]func() *mcp.Server{"up": asker(elicits)}, d.watch())
		p := newPerson(t, r, wire.Modern)

		in := p.parkOne(t.Context())
		time.Sleep(time.Minute)
		d.check(t, "0 started up.ask")
		retry := p.retry(callAsk, in)
		if got := textOf(p.request(t.Context(), "tools/call", retry)); !strings.Contains(got, "accept ann") {
			t.Fatal(got)
		}
		p.request(t.Context(), "tools/call", retry) // a replay is no call
		d.check(t, "0 ended up.ask ok 1m0s")

		p.parkOne(t.Context())
		time.Sleep(patience + time.Second)
		d.check(t, "0 started up.ask", "0 ended up.ask cancelled 5m0s")

		in = p.parkOne(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p.request(ctx, "tools/call", strings.Replace(p.retry(callAsk, in), `"inputResponses":{"1":`, `"inputResponses":{"2":`, 1))
		d.check(t, "0 started up.ask", "0 ended up.ask cancelled 0s")

		p.parkOne(t.Context())
		r.Close(t.Context())
		d.check(t, "0 started up.ask", "0 ended up.ask shutting_down 0s")
	})
}

func TestRoundsOfAModernClientWithAModernServerAreCallsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		c := config.Default()
		c.Servers = []*config.Server{builtinServer("up")}
		c.Servers[0].Protocol = "modern"
		r := newRig(t, c, map[string]func() *mcp.Server{"up": asking("up", "form")}, d.watch())
		newPerson(t, r, wire.Modern).call("tools/call", callAsk)
		d.check(t, "0 started up.ask", "0 ended up.ask ok 0s", "1 started up.ask", "1 ended up.ask ok 0s")
		newPerson(t, r, wire.Legacy).call("tools/call", callAsk)
		d.check(t, "0 started up.ask", "0 ended up.ask ok 0s")
	})
}
