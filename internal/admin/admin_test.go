package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/admin"
	"mcp-aggregator/internal/breaker"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/limit"
	"mcp-aggregator/internal/telemetry"
	"mcp-aggregator/internal/upstream"
)

const token = "a-token-for-the-tests"

// options are those of an aggregator with one server, github, that notes what is asked of it.
func options(asked *[]string) admin.Options {
	note := func(what string) func(string) error {
		return func(server string) error {
			if server != "github" {
				return fault.Of(fault.NotFound, server, "there is no such server")
			}
			*asked = append(*asked, what)
			return nil
		}
	}
	return admin.Options{
		Addr: "127.0.0.1:8080",
		Actions: admin.Actions{
			Info: func() admin.Info {
				return admin.Info{Name: "mcp-aggregator", Version: "1.2.3", Config: "/etc/mcp.yaml", Generation: 4, Saved: 77, Limits: config.Default().Limits}
			},
			Servers:    func() []*upstream.Status { return []*upstream.Status{status()} },
			Connect:    note("connect"),
			Disconnect: note("disconnect"),
			Reconnect:  note("reconnect"),
			Enable:     note("enable"),
			Disable:    note("disable"),
			Logs:       func(string) ([]string, error) { return []string{"one", "two"}, nil },
			SetServers: func(_ context.Context, body []byte) (admin.Plan, error) {
				*asked = append(*asked, string(body))
				return admin.Plan{Generation: 5, Applied: true, Added: []string{"new"}}, nil
			},
			Reload: func(context.Context) (admin.Plan, error) {
				return admin.Plan{Generation: 4, Errors: []string{"mcp.yaml:3:1: servers.x: unknown key"}}, nil
			},
			Breakers: func() []breaker.State {
				return []breaker.State{{Server: "github", Tool: "search", State: breaker.Open, Failures: 5, OpenedAt: time.Unix(10, 0).UTC()}}
			},
			Reset: func(server, tool string) bool { return server == "github" && tool != "unknown" },
			Queues: func() []limit.QueueState {
				return []limit.QueueState{{Name: "heavy", Slots: 2, Running: 1, Waiting: 3}}
			},
		},
	}
}

func status() *upstream.Status {
	return &upstream.Status{
		Server: "github", Type: "http", State: upstream.Failed, Phase: upstream.PhaseWaiting, Since: time.Unix(5, 0).UTC(),
		LastError: "connection refused", Attempt: 3, NextAttempt: time.Unix(9, 0).UTC(), Tools: 7, Stale: true,
		ServerInfo: []byte(`{"name":"g"`), Restarts: 2, Sharing: "shared",
	}
}

type reply struct {
	*httptest.ResponseRecorder
	code string // of a typed error
}

// send sends a request; edits change it first.
func send(t *testing.T, h http.Handler, line, body string, edits ...func(*http.Request)) reply {
	t.Helper()
	method, path, _ := strings.Cut(line, " ")
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "127.0.0.1:8080"
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
	for _, edit := range edits {
		edit(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var failure struct {
		Error struct{ Code, Message string }
	}
	if w.Code >= 400 && w.Header().Get("Content-Type") == "application/json" {
		if err := json.Unmarshal(w.Body.Bytes(), &failure); err != nil || failure.Error.Message == "" {
			t.Errorf("%s: an error without a message: %s", line, w.Body)
		}
	}
	return reply{w, failure.Error.Code}
}

// header returns an edit that sets a header, host one that sets the Host.
func header(key, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Add(key, value) }
}

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

func bearer(s string) func(*http.Request) { return header("Authorization", "Bearer "+s) }

const api = "/api/v1/mcp"

func TestRequestsThatCannotBeServedAreAnsweredWithTheReason(t *testing.T) {
	for _, tt := range []struct {
		name, request, body string
		status              int
		code                string
	}{
		{"unknown path", "GET /", "", 404, "not_found"},
		{"unknown path of the API", "GET " + api + "/nothing", "", 404, "not_found"},
		{"wrong method", "DELETE " + api + "/servers", "", 405, "method_not_allowed"},
		{"reading what changes something", "GET " + api + "/reload", "", 405, "method_not_allowed"},
		{"unknown server", "GET " + api + "/servers/gitlab", "", 404, "not_found"},
		{"action on an unknown server", "POST " + api + "/servers/gitlab/reconnect", "", 404, "not_found"},
		{"unknown action", "POST " + api + "/servers/github/explode", "", 404, "not_found"},
		{"nothing to reset", "POST " + api + "/circuit-breakers/reset", `{"server":"github","tool":"unknown"}`, 404, "not_found"},
		{"a body that is none", "POST " + api + "/circuit-breakers/reset", `{"server"`, 400, "bad_request"},
		{"a body that names nothing", "POST " + api + "/circuit-breakers/reset", `{}`, 400, "bad_request"},
		{"a body without end", "POST " + api + "/circuit-breakers/reset", strings.Repeat(" ", 1<<20), 413, "too_large"},
		{"a set of servers without end", "PUT " + api + "/servers", strings.Repeat(" ", 8<<20), 413, "too_large"},
		{"a file that cannot be used", "POST " + api + "/reload", "", 400, "configuration"},
		{"events after no number", "GET " + api + "/events?since=x", "", 400, "bad_request"},
		{"what this aggregator has not", "GET " + api + "/tools", "", 404, "not_found"},
		{"no metrics", "GET /metrics", "", 404, "not_found"},
	} {
		var asked []string
		o := options(&asked)
		o.Events = telemetry.NewEvents()
		got := send(t, admin.New(o), tt.request, tt.body)
		if got.Code != tt.status || got.code != tt.code || len(asked) > 0 {
			t.Errorf("%s: %d %s %q, want %d %s", tt.name, got.Code, got.code, asked, tt.status, tt.code)
		}
		if tt.status == 405 && got.Header().Get("Allow") == "" {
			t.Errorf("%s: does not say what is allowed", tt.name)
		}
	}
}

func TestErrorsOfActionsKeepTheirMeaning(t *testing.T) {
	for _, tt := range []struct {
		err    error
		status int
		code   string
	}{
		{fault.Of(fault.NotFound, "x", "there is no such server"), 404, "not_found"},
		{fault.Of(fault.Denied, "x", "no"), 403, "denied"},
		{&fault.Error{Kind: fault.ShuttingDown, Code: fault.CodeShuttingDown, Reason: "stopping"}, 503, "mcp_shutting_down"},
		{fault.Of(fault.Cancelled, "x", "gone"), 503, "cancelled"},
		{fmt.Errorf("reloading: %w", admin.ErrConflict), 409, "conflict"},
		{fmt.Errorf("waiting: %w", context.DeadlineExceeded), 503, "unavailable"},
		{fmt.Errorf("taking the file: %w", &config.Problems{{File: "f", Message: "m"}}), 400, "configuration"},
		{errors.New("a defect"), 500, "internal"},
	} {
		o := options(new([]string))
		o.Actions.Enable = func(string) error { return tt.err }
		if got := send(t, admin.New(o), "POST "+api+"/servers/github/enable", ""); got.Code != tt.status || got.code != tt.code {
			t.Errorf("%v: %d %s, want %d %s", tt.err, got.Code, got.code, tt.status, tt.code)
		}
	}
}

func TestActionsReachTheServer(t *testing.T) {
	var asked []string
	h := admin.New(options(&asked))
	actions := []string{"connect", "disconnect", "reconnect", "enable", "disable"}
	for _, what := range actions {
		if got := send(t, h, "POST "+api+"/servers/github/"+what, ""); got.Code != 200 || !strings.Contains(got.Body.String(), `"name": "github"`) {
			t.Errorf("%s: %d %s", what, got.Code, got.Body)
		}
	}
	if diff := cmp.Diff(actions, asked); diff != "" {
		t.Error(diff)
	}
}

func TestSettingTheServersAnswersWhatChanged(t *testing.T) {
	var asked []string
	got := send(t, admin.New(options(&asked)), "PUT "+api+"/servers", "servers: {new: {builtin: notes}}")
	want := map[string]any{
		"generation": 5.0, "applied": true, "added": []any{"new"}, "removed": []any{}, "changed": []any{}, "errors": []any{},
	}
	if diff := cmp.Diff(want, decoded(t, got)); diff != "" || !slices.Equal(asked, []string{"servers: {new: {builtin: notes}}"}) {
		t.Errorf("%s %q", diff, asked)
	}
}

func TestAReloadThatFailsNamesEveryProblem(t *testing.T) {
	got := send(t, admin.New(options(new([]string))), "POST "+api+"/reload", "")
	want := map[string]any{"error": map[string]any{
		"code": "configuration", "message": "the configuration cannot be used; nothing was changed",
		"problems": []any{"mcp.yaml:3:1: servers.x: unknown key"},
	}}
	if diff := cmp.Diff(want, decoded(t, got)); diff != "" {
		t.Error(diff)
	}
}

func decoded(t *testing.T, r reply) (out map[string]any) {
	t.Helper()
	if err := json.Unmarshal(r.Body.Bytes(), &out); err != nil {
		t.Fatalf("%v: %s", err, r.Body)
	}
	return out
}

func TestWhatIsAskedForIsShown(t *testing.T) {
	h := admin.New(options(new([]string)))
	for path, want := range map[string]string{
		"/servers": `{"servers":[{"attempt":3,"connections":0,"in_flight":0,"last_error":"connection refused","name":"github",` +
			`"next_attempt":"1970-01-01T00:00:09Z","phase":"waiting","prompts":0,"refs":0,"resources":0,"restarts":2,"sharing":"shared",` +
			`"since":"1970-01-01T00:00:05Z","stale":true,"state":"failed","templates":0,"tools":7,"type":"http"}]}`,
		"/circuit-breakers":    `{"circuit_breakers":[{"failures":5,"opened_at":"1970-01-01T00:00:10Z","server":"github","state":"open","tool":"search"}]}`,
		"/queues":              `{"queues":[{"name":"heavy","running":1,"slots":2,"waiting":3}]}`,
		"/warnings":            `{"warnings":[]}`,
		"/servers/github/logs": `{"lines":["one","two"]}`,
	} {
		got, _ := json.Marshal(decoded(t, send(t, h, "GET "+api+path, "")))
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	info := decoded(t, send(t, h, "GET "+api+"/info", ""))
	limits, _ := info["limits"].(map[string]any)
	if info["version"] != "1.2.3" || limits["body"] != float64(4<<20) || limits["read_header"] != "10s" || info["tokens_saved"] != float64(77) {
		t.Errorf("%v", info)
	}
}
