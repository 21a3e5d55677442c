package admin_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/internal/admin"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/telemetry"
	"mcp-aggregator/internal/upstream"
)

const reconnect = "POST " + api + "/servers/github/reconnect"

func TestRequestsThatAPageCanCauseAreRefused(t *testing.T) {
	foreign := header("Origin", "https://evil.example")
	elsewhere := func(r *http.Request) { // a connection that did not come to loopback
		addr := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 8080}
		*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, addr))
	}
	list := "GET " + api + "/servers"
	for _, tt := range []struct {
		name, request string
		hosts         []string
		edits         []func(*http.Request)
		want          int
	}{
		{"a program", reconnect, nil, nil, 200},
		{"a program by name", reconnect, nil, []func(*http.Request){host("localhost:8080")}, 200},
		{"a program over IPv6", reconnect, nil, []func(*http.Request){host("[::1]:8080")}, 200},
		{"a name made to point here", list, nil, []func(*http.Request){host("evil.example:8080")}, 403},
		{"that name at a health check", "GET /readyz", nil, []func(*http.Request){host("evil.example")}, 403},
		{"a name that is ours", list, []string{"mcp.example"}, []func(*http.Request){host("mcp.example"), bearer(token)}, 200},
		{"a name that is ours, by somebody without the token", list, []string{"mcp.example"}, []func(*http.Request){host("mcp.example")}, 403},
		{"a health check by that name", "GET /livez", []string{"mcp.example"}, []func(*http.Request){host("mcp.example")}, 200},
		{"a proxy on this machine", list, nil, []func(*http.Request){header("X-Forwarded-For", "10.1.1.1")}, 403},
		{"a proxy on this machine, with the token", list, nil, []func(*http.Request){header("X-Forwarded-For", "10.1.1.1"), bearer(token)}, 200},
		{"another name beside ours", list, []string{"mcp.example"}, []func(*http.Request){host("evil.example"), elsewhere}, 403},
		{"any name where others reach us", list, nil, []func(*http.Request){host("mcp.example"), elsewhere, bearer(token)}, 200},
		{"a foreign page", list, nil, []func(*http.Request){foreign}, 403},
		{"a foreign page that acts", reconnect, nil, []func(*http.Request){foreign}, 403},
		{"a sandboxed page", reconnect, nil, []func(*http.Request){header("Origin", "null")}, 403},
		{"a page of another local port", reconnect, nil, []func(*http.Request){header("Origin", "http://127.0.0.1:3000")}, 403},
		{"two origins", reconnect, nil, []func(*http.Request){header("Origin", "http://127.0.0.1:8080"), foreign}, 403},
		{"a page of ours", reconnect, nil, []func(*http.Request){header("Origin", "http://127.0.0.1:8080"), header("Sec-Fetch-Site", "same-origin")}, 200},
		{"a form of another site", reconnect, nil, []func(*http.Request){header("Sec-Fetch-Site", "cross-site")}, 403},
		{"a form of another port", reconnect, nil, []func(*http.Request){header("Sec-Fetch-Site", "same-site")}, 403},
		{"a link of another site", list, nil, []func(*http.Request){header("Sec-Fetch-Site", "cross-site")}, 200},
	} {
		var asked []string
		o := options(&asked)
		o.AllowedHosts = tt.hosts
		for _, edit := range tt.edits { // there is a token where one is sent
			r := &http.Request{Header: http.Header{}}
			if edit(r); r.Header.Get("Authorization") != "" {
				o.Token = token
			}
		}
		got := send(t, admin.New(o), tt.request, "", tt.edits...)
		if got.Code != tt.want || got.Code == 403 && len(asked) > 0 {
			t.Errorf("%s: %d, want %d; %s", tt.name, got.Code, tt.want, got.Body)
		}
		if got.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: pages may read the answer", tt.name)
		}
	}
}

func TestEverythingButHealthChecksWantsTheToken(t *testing.T) {
	o := options(new([]string))
	o.Token = token
	o.Metrics = telemetry.New(telemetry.Options{}).Handler()
	h := admin.New(o)
	for _, path := range []string{"GET /metrics", "GET " + api + "/servers", "GET " + api + "/info", reconnect} {
		for name, edits := range map[string][]func(*http.Request){
			"none": nil, "another": {bearer("not-the-token")}, "a part": {bearer(token[:5])}, "more": {bearer(token + "x")},
			"basic": {header("Authorization", "Basic "+token)}, "in the address": {func(r *http.Request) { r.URL.RawQuery = "token=" + token }},
		} {
			if got := send(t, h, path, "", edits...); got.Code != 401 || got.code != "unauthorized" || got.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("%s with token %s: %d", path, name, got.Code)
			}
		}
		if got := send(t, h, path, "", header("Authorization", "bearer "+token)); got.Code != 200 {
			t.Errorf("%s with the token: %d", path, got.Code)
		}
	}
	for _, path := range []string{"GET /livez", "GET /readyz", "GET /healthz", "HEAD /livez"} {
		if got := send(t, h, path, ""); got.Code != 200 {
			t.Errorf("%s: %d", path, got.Code)
		}
	}
}

func TestAnswersAreNotKeptOrFramed(t *testing.T) {
	h := admin.New(options(new([]string)))
	for _, path := range []string{"/livez", "/nothing", api + "/servers"} {
		got := send(t, h, "GET "+path, "").Header()
		if got.Get("Cache-Control") != "no-store" || got.Get("X-Content-Type-Options") != "nosniff" ||
			!strings.Contains(got.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s: %v", path, got)
		}
	}
}

const secret = "s3cr3t-value"

// secretive is a server with a secret wherever one can be.
func secretive() *config.Server {
	s := config.DefaultServer("github")
	s.Type = config.TypeHTTP
	s.URL = "https://user:" + secret + "@example.com/mcp?key=" + secret
	s.BearerToken = secret
	s.Headers = map[string]string{"X-Api-Key": secret}
	s.Env = map[string]string{"GITHUB_TOKEN": secret}
	s.Command, s.Args = "run", []string{"--token", secret, "--key=" + secret, "plain"}
	s.Cwd = "/home/" + secret
	s.Probe.Interval = 7 * time.Second
	return s
}

func TestNoAnswerHoldsASecret(t *testing.T) {
	o := options(new([]string))
	o.Token = token
	o.Actions.Config = func(string) *config.Server { return secretive() }
	o.Mask = func(s string) string { return strings.ReplaceAll(s, secret, "***") }
	o.Actions.Ready = func() []admin.Check { return []admin.Check{{Name: "servers", Message: "with " + secret}} }
	o.Actions.Disable = func(string) error { return &config.Problems{{File: "f", Message: "value " + secret}} }
	o.Actions.Connect = func(string) error { return fault.Of(fault.Denied, "github", "wants %s", secret) }
	o.Actions.Reload = func(context.Context) (admin.Plan, error) {
		return admin.Plan{Errors: []string{"value " + secret}}, nil
	}
	o.Metrics = telemetry.New(telemetry.Options{}).Handler()
	h := admin.New(o)
	for _, request := range []string{
		"GET " + api + "/servers", "GET " + api + "/servers/github", "GET " + api + "/info", "GET /metrics", "GET /readyz?verbose",
		"POST " + api + "/servers/github/enable", "POST " + api + "/servers/github/disable",
		"POST " + api + "/servers/github/connect", "POST " + api + "/reload",
	} {
		got := send(t, h, request, "", bearer(token))
		if body := got.Body.String(); strings.Contains(body, secret) || strings.Contains(body, token) || body == "" {
			t.Errorf("%s: %s", request, body)
		}
	}
	settings, _ := decoded(t, send(t, h, "GET "+api+"/servers/github", "", bearer(token)))["settings"].(map[string]any)
	probe, _ := settings["probe"].(map[string]any)
	if settings["type"] != "http" || probe["interval"] != "7s" || settings["bearer_token"] != "***" {
		t.Errorf("the settings are %v", settings)
	}
}

func TestAServerInfoThatIsNoJSONSpoilsNothing(t *testing.T) {
	for _, info := range []string{`{"name":`, strings.Repeat("[", 20), `{"icon":"` + strings.Repeat("x", 1<<20) + `"}`, ""} {
		o := options(new([]string))
		o.Actions.Servers = func() []*upstream.Status {
			return []*upstream.Status{{Server: "bad", ServerInfo: []byte(info)}, {Server: "good", ServerInfo: []byte(`{"name":"g"}`)}}
		}
		got := send(t, admin.New(o), "GET "+api+"/servers", "")
		if body := got.Body.String(); got.Code != 200 || !strings.Contains(body, `"name": "g"`) || len(body) > 10_000 {
			t.Errorf("%.20s: %d %.200s", info, got.Code, body)
		}
	}
}
