package admin_test

import (
	"strings"
	"testing"

	"mcp-aggregator/internal/admin"
	"mcp-aggregator/internal/telemetry"
)

func TestReadinessListsItsChecks(t *testing.T) {
	good := admin.Check{Name: "lists", OK: true}
	bad := admin.Check{Name: "server/github", Message: "failed"}
	for _, tt := range []struct {
		name, query string
		checks      []admin.Check
		status      int
		body        string
	}{
		{"nothing to check", "", nil, 200, "ok\n"},
		{"all well", "", []admin.Check{good}, 200, "ok\n"},
		{"all well, in detail", "?verbose", []admin.Check{good}, 200, "[+]lists ok\nok\n"},
		{"one failed", "", []admin.Check{good, bad}, 503, "not ready\n"},
		{"one failed, in detail", "?verbose", []admin.Check{good, bad}, 503, "[+]lists ok\n[-]server/github failed: failed\nnot ready\n"},
	} {
		o := options(new([]string))
		o.Actions.Ready = func() []admin.Check { return tt.checks }
		if got := send(t, admin.New(o), "GET /readyz"+tt.query, ""); got.Code != tt.status || got.Body.String() != tt.body {
			t.Errorf("%s: %d %q", tt.name, got.Code, got.Body)
		}
	}
}

func TestWarningsAreShownAndNeverMakeItUnhealthy(t *testing.T) {
	o := options(new([]string))
	o.Warnings = telemetry.NewWarnings(nil)
	h := admin.New(o)
	if got := decoded(t, send(t, h, "GET /healthz", "")); got["status"] != "ok" || got["warning_count"] != 0.0 {
		t.Errorf("%v", got)
	}
	o.Warnings.Set("state/github", telemetry.Warning{Category: telemetry.Health, Message: "github is not connected"})
	reply := send(t, h, "GET /healthz", "")
	if got := decoded(t, reply); reply.Code != 200 || got["status"] != "degraded" || !strings.Contains(reply.Body.String(), "github is not connected") {
		t.Errorf("%d %v", reply.Code, got)
	}
	if got := send(t, h, "GET /readyz", ""); got.Code != 200 {
		t.Errorf("a warning made it unready: %s", got.Body)
	}
}

// Health checks are open to everybody, so names and reasons are for those only who may see everything.
func TestHealthChecksTellStrangersNoNames(t *testing.T) {
	for _, tt := range []struct {
		name      string
		health    bool
		token     string
		given     string
		knows, up bool
	}{
		{"on the admin side without a token", false, "", "", true, true},
		{"on the admin side, a stranger", false, token, "", false, true},
		{"on the admin side, with the token", false, token, token, true, true},
		{"only health checks", true, "", "", false, false},
		{"only health checks, with the token", true, token, token, true, false},
	} {
		o := options(new([]string))
		o.Health, o.Token = tt.health, tt.token
		o.Warnings = telemetry.NewWarnings(nil)
		o.Warnings.Set("x", telemetry.Warning{Message: "github is down"})
		o.Actions.Ready = func() []admin.Check { return []admin.Check{{Name: "servers", Message: "github is down"}} }
		h := admin.New(o)
		for _, path := range []string{"/healthz", "/readyz?verbose"} {
			body := send(t, h, "GET "+path, "", bearer(tt.given)).Body.String()
			if strings.Contains(body, "github") != tt.knows {
				t.Errorf("%s: %s answers %s", tt.name, path, body)
			}
		}
		got := send(t, h, "GET "+api+"/servers", "", bearer(tt.token))
		if (got.Code == 200) != tt.up {
			t.Errorf("%s: the API answers %d", tt.name, got.Code)
		}
	}
}
