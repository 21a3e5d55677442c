package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/config"
)

func TestCompareTellsWhatNeedsARestart(t *testing.T) {
	old := parse(t, "{servers: {a: {builtin: notes}}, http: {addr: ':1'}, limits: {drain: 1s}, queues: {q: {slots: 2}}}", env)
	now := parse(t, "{servers: {b: {builtin: notes}}, http: {addr: ':2'}, log: {level: warn, format: json}, breaker: {failures: 9}, queues: {q: {slots: 3}}}", env)
	live, restart := config.Compare(old, now)
	if diff := cmp.Diff([]string{"log.level", "breaker.failures", "queues"}, live); diff != "" {
		t.Errorf("live (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"http.addr", "limits.drain", "log.format"}, restart); diff != "" {
		t.Errorf("restart (-want +got):\n%s", diff)
	}
	inForce := config.WithRestartSettings(old, now)
	if inForce.HTTP.Addr != ":1" || inForce.Limits.Drain != old.Limits.Drain || inForce.Breaker.Failures != 9 || inForce.Servers[0].Name != "b" {
		t.Errorf("in force is %+v", inForce)
	}
	if now.HTTP.Addr != ":2" {
		t.Error("the new configuration was modified")
	}
	if live, restart := config.Compare(now, now); live != nil || restart != nil {
		t.Errorf("equal ones differ: %v %v", live, restart)
	}
}

func TestWithServersReplacesServersAndNothingElse(t *testing.T) {
	c := parse(t, "{servers: {a: {builtin: notes}}, call_timeout: 3s, queues: {q: {slots: 2}}}", env)
	now, err := c.WithServers("request", []byte(`{"servers": {"b": {"builtin": "everything", "queue": "q"}}}`), env)
	if err != nil {
		t.Fatal(err)
	}
	if len(now.Servers) != 1 || now.Servers[0].Name != "b" || now.Servers[0].CallTimeout != 3*time.Second || len(c.Servers) != 1 || c.Servers[0].Name != "a" {
		t.Errorf("servers are %v, those before %v", now.Servers, c.Servers)
	}
	for src, want := range map[string]string{
		`{"servers": {"b": {"builtin": "no"}}}`:                  `request:1:31: servers.b.builtin: expected everything or notes; got "no"`,
		`{"servers": {"b": {"builtin": "notes", "queue": "z"}}}`: `request:1:49: servers.b.queue: there is no queue "z"`,
		"servers: {b: {builtin: notes}}\nlog: {level: debug}":    `request:2:6: log.level: only servers can be set here`,
		"": `request:1:1: the file is empty`,
		`{"mcpServers": {"b": {"command": "x"}}, "servers": {"a": {"url": "x"}}}`: `request:`,
	} {
		if _, err := c.WithServers("request", []byte(src), env); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s…", src, err, want)
		}
	}
}

func TestHowAServerMayAskIsNoReasonToReconnect(t *testing.T) {
	a, b := config.DefaultServer("a"), config.DefaultServer("a")
	if b.Asks = "serialize"; a.Asks != "promote" || a.Equal(b) || !a.SameConnection(b) {
		t.Errorf("asks %s and %s: equal %t, same connection %t", a.Asks, b.Asks, a.Equal(b), a.SameConnection(b))
	}
}
