package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-aggregator/internal/admin"
	"mcp-aggregator/internal/breaker"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/limit"
	"mcp-aggregator/internal/telemetry"
	"mcp-aggregator/internal/upstream"
)

// running is an aggregator as commands see it: the real admin side in front of states
// that a test makes up.
type running struct {
	url string

	mu     sync.Mutex
	status []*upstream.Status
	lines  []string
	asked  []string
	plan   admin.Plan
}

const adminToken = "the-token-of-the-test"

func startRunning(t *testing.T, edit func(*admin.Options)) *running {
	t.Helper()
	r := &running{}
	control := func(what string) func(string) error {
		return func(server string) error {
			if server != "github" {
				return fault.Of(fault.NotFound, server, "there is no such server")
			}
			r.asked = append(r.asked, what+" "+server)
			return nil
		}
	}
	o := admin.Options{Token: adminToken, Warnings: telemetry.NewWarnings(nil), Actions: admin.Actions{
		Info: func() admin.Info {
			return admin.Info{Version: "1.2.3", Started: time.Now().Add(-90 * time.Minute), Generation: 4, Config: "/etc/mcp.yaml"}
		},
		Servers: func() []*upstream.Status { return r.status },
		Connect: control("connect"), Disconnect: control("disconnect"), Reconnect: control("reconnect"),
		Enable: control("enable"), Disable: control("disable"),
		Logs: func(server string) ([]string, error) { return r.lines, control("logs")(server) },
		Reset: func(server, tool string) bool {
			r.asked = append(r.asked, "reset "+server+" "+tool)
			return tool != "unknown"
		},
		Breakers: func() []breaker.State {
			return []breaker.State{
				{Server: "github", Tool: "search", State: breaker.Open, Failures: 5, OpenedAt: time.Now(), RetryAt: time.Now().Add(50 * time.Second)},
				{Server: "github", Tool: "read", State: breaker.Closed},
			}
		},
		Queues: func() []limit.QueueState {
			return []limit.QueueState{{Name: "heavy", Slots: 2, Running: 1, Waiting: 3}}
		},
		Reload: func(context.Context) (admin.Plan, error) { return r.plan, nil },
	}}
	if edit != nil {
		edit(&o)
	}
	h := admin.New(o)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		h.ServeHTTP(w, req)
	}))
	t.Cleanup(s.Close)
	r.url = s.URL
	t.Setenv(configVariable, filepath.Join(t.TempDir(), "none.yaml"))
	t.Setenv(adminVariable, s.URL)
	t.Setenv(adminTokenVariable, adminToken)
	return r
}

// typed runs a command line in this process.
func typed(args ...string) (code int, out, err string) {
	var o, e strings.Builder
	code = run(args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

func TestTheRunningAggregatorIsFound(t *testing.T) {
	const server = "servers: {demo: {builtin: everything}}\n"
	for _, tt := range []struct {
		name, config string
		args         []string
		env          string
		want         string // the address, or a part of the error
	}{
		{"by flag", server, []string{"--admin", "http://10.0.0.1:9/x/"}, "http://other:1", "http://10.0.0.1:9/x"},
		{"by flag without a scheme", server, []string{"--admin", "10.0.0.1:9"}, "", "http://10.0.0.1:9"},
		{"by port", server, []string{"--admin", "9090"}, "", "http://127.0.0.1:9090"},
		{"by environment", server, nil, "https://there:1", "https://there:1"},
		{"by admin.addr", server + "admin: {addr: '127.0.0.1:9090'}\n", nil, "", "http://127.0.0.1:9090"},
		{"by an address for all", server + "admin: {addr: '0.0.0.0:9090', token: '" + adminToken + "'}\n", nil, "", "http://127.0.0.1:9090"},
		{"by http.addr", server + "http: {addr: '127.0.0.1:7070'}\n", nil, "", "http://127.0.0.1:7070"},
		{"by default", server, nil, "", "http://127.0.0.1:8080"},
		{"switched off", server + "admin: {addr: off}\n", nil, "", "answers no questions"},
		{"at any port", server + "http: {addr: '127.0.0.1:0'}\n", nil, "", "does not say at which port"},
		{"with a broken configuration", "servers: 7\n", nil, "", "expected a mapping"},
		{"in spite of a broken configuration", "servers: 7\n", nil, "http://there:1", "http://there:1"},
		{"by nonsense", server, []string{"--admin", "ftp://x"}, "", "wants an address such as"},
	} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(tt.config), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv(adminVariable, tt.env)
		c := &cli{err: new(strings.Builder), configPath: path}
		if len(tt.args) > 0 {
			c.adminURL = tt.args[1]
		}
		a, err := c.admin()
		switch {
		case err != nil:
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
			}
		case a.base != tt.want:
			t.Errorf("%s: %s, want %s", tt.name, a.base, tt.want)
		}
	}
}

func TestTheTokenComesFromTheEnvironmentOrTheConfiguration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte("servers: {demo: {builtin: everything}}\nadmin: {token: configured-token-1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for env, want := range map[string]string{"": "configured-token-1", "environment-token": "environment-token"} {
		if env != "" {
			t.Setenv(adminTokenVariable, env)
		} else {
			os.Unsetenv(adminTokenVariable)
		}
		a, err := (&cli{configPath: path, adminURL: "http://x:1"}).admin()
		if err != nil || a.token != want {
			t.Errorf("with %q: %v %v", env, a, err)
		}
	}
}

func TestWhatDoesNotAnswerIsExplained(t *testing.T) {
	r := startRunning(t, nil)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	defer page.Close()
	elsewhere := httptest.NewServer(http.RedirectHandler(r.url, http.StatusTemporaryRedirect))
	defer elsewhere.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, tt := range []struct{ name, url, token, want string }{
		{"nobody", gone.URL, adminToken, "no aggregator answers at " + gone.URL + " ("},
		{"a web page", page.URL, adminToken, "is not the admin side of an aggregator"},
		{"a redirection", elsewhere.URL, adminToken, "is not the admin side of an aggregator"},
		{"without the token", r.url, "wrong", "this needs the token"},
	} {
		t.Setenv(adminTokenVariable, tt.token)
		code, out, err := typed("status", "--admin", tt.url)
		if code != exitFailure || out != "" || !strings.Contains(err, tt.want) {
			t.Errorf("%s: %d %s%s", tt.name, code, out, err)
		}
	}
}

func github(state string) *upstream.Status {
	return &upstream.Status{
		Server: "github", Type: "http", State: state, Since: time.Now().Add(-200 * time.Second), Version: "2026-07-28",
		Tools: 12, Prompts: 1, Resources: 2, Templates: 1, Refs: 3, InFlight: 2, Restarts: 4,
	}
}

func failing() *upstream.Status {
	return &upstream.Status{
		Server: "files", Type: "stdio", State: upstream.Failed, Since: time.Now().Add(-26 * time.Hour), Stale: true, Tools: 3,
		LastError: "exit status 1:\n\x1b[31mevil\x1b[0m \u202etxt", Attempt: 3, NextAttempt: time.Now().Add(30 * time.Second),
		Problems: []catalog.Problem{{Server: "files", Kind: catalog.Tools, Name: "x", Severity: catalog.Rejected}},
	}
}
