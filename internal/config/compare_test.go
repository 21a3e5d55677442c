package config_test

import (
	"testing"

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
