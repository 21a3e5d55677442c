//go:build e2e && linux

package e2e_test

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// What beta never answers costs alpha nothing. With default settings.
func TestAServerThatNeverOpensDelaysNobody(t *testing.T) {
	mutes := map[string][]string{
		"answers nothing at all":      {"initialize", "server/discover"},
		"never answers discover":      {"server/discover"},
		"never answers initialize":    {"initialize"},
		"never answers tools/list":    {"tools/list"},
		"never answers any list":      {"tools/list", "prompts/list", "resources/list", "resources/templates/list"},
		"opens and answers no method": {"tools/list", "prompts/list", "resources/list", "resources/templates/list", "ping", "tools/call"},
	}
	for name, mute := range mutes {
		for _, onHTTP := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, on HTTP %t", name, onHTTP), func(t *testing.T) {
				t.Parallel()
				chaos := mcptest.Chaos{Mute: mute, Era: mcptest.Legacy}
				if name == "never answers discover" {
					chaos.Era = mcptest.Both
				}
				config := harness.Chaos(t, chaos)
				if onHTTP {
					config, _ = harness.ChaosHTTP(t, chaos)
				}
				neverOpens(t, config)
			})
		}
	}
}

func neverOpens(t *testing.T, beta harness.Config) {
	alpha := harness.Chaos(t, mcptest.Chaos{})
	began := time.Now()
	a := harness.Serve(t, harness.Servers(map[string]harness.Config{"alpha": alpha, "beta": beta}))
	opened := time.Now()
	c := a.Connect(t, mcptest.Legacy)
	asked := time.Now()
	if took := asked.Sub(opened); took > time.Second {
		t.Errorf("initialize took %s, want at most 1s", took)
	}
	if _, _, err := c.List(harness.Context(t, 5*time.Second), "tools/list"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(asked); took > 2*time.Second {
		t.Errorf("the merged list took %s, want at most 2s", took)
	}
	awaitTool(t, c, "alpha__echo", 5*time.Second-time.Since(began))
	o := call(t.Context(), c, "alpha__echo", `{"a":1}`, 5*time.Second)
	if o.ok() != nil || time.Since(began) > 5*time.Second {
		t.Errorf("%s after the start alpha answers %s", time.Since(began), o)
	}
	t.Logf("initialize took %s, alpha was called %s after the start", asked.Sub(opened).Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
}

// With default settings.
func TestAServerThatComesLateIsAnnounced(t *testing.T) {
	t.Parallel()
	const late = 6 * time.Second
	t.Run("a child that reads nothing at first", func(t *testing.T) {
		t.Parallel()
		comesLate(t, harness.Chaos(t, mcptest.Chaos{StartAfter: late}), func() {})
	})
	t.Run("a port that nobody listens on at first", func(t *testing.T) {
		t.Parallel()
		config, site, _ := harness.Site(t, mcptest.Chaos{})
		site.Down()
		comesLate(t, config, func() {
			pause(t, late)
			if err := site.Up(); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("an HTTP server that answers 503 at first", func(t *testing.T) {
		t.Parallel()
		raw := mcptest.Chaos{}.Raw()
		usual := raw.Answer
		raw.Answer = mcptest.Always(mcptest.Answer{HTTP: &mcptest.HTTPAnswer{Status: 503, Body: "starting"}})
		srv := httptest.NewServer(raw)
		t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
		comesLate(t, harness.Config{"url": srv.URL}, func() {
			pause(t, late)
			raw.Change(func(r *mcptest.Raw) { r.Answer = usual })
		})
	})
}

// comesLate sees beta appear at most ten seconds after it has been made to work.
func comesLate(t *testing.T, beta harness.Config, work func()) {
	r := beside(t, map[string]harness.Config{"beta": beta})
	ctx := harness.Context(t, 40*time.Second)
	legacy := r.Connect(t, mcptest.Legacy)
	legacyInbox, err := legacy.Listen(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	modernInbox, err := r.client.Listen(ctx, `{"toolsListChanged":true}`)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	work()
	awaitTool(t, r.client, "beta__echo", 20*time.Second)
	t.Logf("listed %s after the aggregator", time.Since(began).Round(time.Millisecond))
	for name, inbox := range map[string]*mcptest.Inbox{"legacy": legacyInbox, "modern": modernInbox} {
		if _, err := inbox.Await(harness.Context(t, 3*time.Second), "notifications/tools/list_changed"); err != nil {
			t.Errorf("%s client: %v", name, err)
		}
	}
	if o := r.call(t, "beta__echo", `{}`); o.ok() != nil {
		t.Error(o)
	}
	if time.Since(began) > 16*time.Second {
		t.Errorf("it took %s, want at most 10s after it works", time.Since(began))
	}
}

func TestAServerThatAnswers401ForEverIsAskedRarely(t *testing.T) {
	t.Parallel()
	config, raw := harness.ChaosHTTP(t, mcptest.Chaos{Always: mcptest.Unauthorized})
	r := beside(t, map[string]harness.Config{"beta": config})
	load := r.loadAlpha(t)
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); pause(t, 500*time.Millisecond) {
		o := r.call(t, "beta__echo", `{}`)
		if o.err != nil || !o.failed || o.took > 5*time.Second {
			t.Fatalf("calling a tool of it: %s", o)
		}
	}
	t.Logf("%d requests in 20 s", len(raw.Requests()))
	if state := r.status(t, "beta").State; state != "needs-auth" {
		t.Errorf("the status is %q, want needs-auth", state)
	}
	if n := len(raw.Requests()); n > 10 {
		t.Errorf("%d requests in 20 s, want at most 10", n)
	}
	unhurt(t, load, 0)
}
