//go:build e2e && linux

package e2e_test

import (
	"context"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// One healthy server beside sick ones of nine kinds, which are called all the time.
func TestNineSickServersDoNotSlowAHealthyOne(t *testing.T) {
	r, listening := open(t, map[string]harness.Config{})
	alone := r.measureAlpha(t)
	if err := r.Stop(10 * time.Second); err != nil {
		t.Error(err)
	}

	login, _ := harness.ChaosHTTP(t, mcptest.Chaos{Always: mcptest.Unauthorized})
	html, _ := harness.ChaosHTTP(t, mcptest.Chaos{Always: mcptest.HTML})
	mute := []string{"initialize", "server/discover"}
	r, listeningNow := open(t, map[string]harness.Config{
		"hanging":  harness.Chaos(t, mcptest.Chaos{}),
		"silent":   harness.Chaos(t, mcptest.Chaos{Mute: mute}).With("init_timeout", "5s"),
		"crashing": harness.Chaos(t, mcptest.Chaos{}),
		"flooding": harness.Chaos(t, mcptest.Chaos{Junk: true, StderrFirst: 1 << 20}),
		"slow":     harness.Chaos(t, mcptest.Chaos{StartAfter: time.Second}),
		"login":    login,
		"html":     html,
		"endless":  harness.Chaos(t, mcptest.Chaos{Endless: true}),
		"stormy":   harness.Chaos(t, mcptest.Chaos{}),
		"many":     harness.Chaos(t, mcptest.Chaos{Extra: 10000}),
	})
	if listeningNow > listening+500*time.Millisecond {
		t.Errorf("listening after %s, alone after %s", listeningNow, listening)
	}
	provoked := r.provoke(t)
	pause(t, time.Second)
	beset, meanwhile := r.measureAlpha(t), provoked.Stop()
	t.Logf("alone:  %s\nbeset:  %s\nothers: %s", alone, beset, meanwhile)
	if limit := max(2*alone.P99, alone.P99+5*time.Millisecond); beset.P99 > limit || len(beset.Errors) > 0 {
		t.Errorf("p99 is %s beside the sick servers, want at most %s: %s", beset.P99, limit, beset)
	}
	if len(meanwhile.Errors) > 0 {
		t.Errorf("the sick ones: %s", meanwhile)
	}
}

// open starts alpha with these servers and a short call_timeout, and says after what
// time the face listened.
func open(t *testing.T, servers map[string]harness.Config) (r *rig, listening time.Duration) {
	t.Helper()
	servers["alpha"] = harness.Chaos(t, mcptest.Chaos{})
	began := time.Now()
	r = &rig{Aggregator: harness.Serve(t, harness.Servers(servers).With("call_timeout", "2s"))}
	listening = time.Since(began)
	r.client = r.Connect(t, mcptest.Legacy)
	opened := time.Since(began)
	awaitTool(t, r.client, "alpha__echo", 5*time.Second)
	t.Logf("listening after %s, opened after %s, alpha listed after %s", listening, opened, time.Since(began))
	if opened > 2*time.Second {
		t.Errorf("a session was opened after %s, want at most 2s", opened)
	}
	return r, listening
}

func (r *rig) measureAlpha(t *testing.T) harness.Figures {
	load := r.loadAlpha(t)
	pause(t, 6*time.Second)
	return load.Stop()
}

// provoke keeps calling each of the sick servers.
func (r *rig) provoke(t *testing.T) *harness.Load {
	provocations := []struct{ tool, arguments string }{
		{"hanging__hang", `{}`}, {"silent__echo", `{}`}, {"crashing__die", `{}`}, {"flooding__flood", `{"bytes":1000000}`},
		{"slow__slow", `{"ms":1000}`}, {"login__echo", `{}`}, {"html__echo", `{}`}, {"endless__echo", `{}`},
		{"stormy__storm", `{"n":100}`}, {"many__extra_00042", `{}`},
	}
	c := r.Connect(t, mcptest.Legacy)
	return harness.StartLoad(t, len(provocations), 200*time.Millisecond, func(ctx context.Context, i int) error {
		return answered(ctx, c, provocations[i].tool, provocations[i].arguments, 10*time.Second)
	})
}
