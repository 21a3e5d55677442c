package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mcp-aggregator/internal/config"
)

const secretive = `
servers:
  remote:
    url: "https://user:hunter2-password@x.example.com/mcp?key=hunter2-query&${TOKEN}"
    headers: {X-Key: hunter2-header, X-Auth: Basic hunter2-basic}
    bearer_token: hunter2-bearer
  local:
    command: run
    args: [--api-key, hunter2-arg, "--token=hunter2-flag", "-v", "--dir=${HOME}", "${TOKEN}", --password, -x]
    env: {GITHUB_TOKEN: hunter2-literal, PLAIN: hunter2-hidden-but-no-secret, FROM: "<${TOKEN}>", DEBUG: "1", KEY_TOKEN: short}
`

func TestServersPrintRedacted(t *testing.T) {
	c := parse(t, secretive, env)
	var logged bytes.Buffer
	slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "server", c.Servers[0], "other", *c.Servers[1])
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "server", c.Servers[0], "other", *c.Servers[1])
	encoded, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	printed := map[string]string{
		"slog": logged.String(), "json": string(encoded), "config": fmt.Sprintf("%v %+v", c, c),
		"verbs": fmt.Sprintf("%v %+v %#v %s %q %d %x", c.Servers[0], c.Servers[0], c.Servers[1], c.Servers[1], *c.Servers[0], *c.Servers[0], c.Servers),
	}
	for how, s := range printed {
		if strings.Contains(s, "hunter2") {
			t.Errorf("%s shows a secret: %s", how, s)
		}
		if !strings.Contains(s, "x.example.com") {
			t.Errorf("%s does not show the server: %s", how, s)
		}
	}
	want := []string{
		"remote (http: https://user:x@x.example.com/mcp?%2A%2A%2A=x&key=x)",
		"local (stdio: run --api-key *** --token=*** -v --dir=/home/me *** --password -x)",
	}
	if diff := cmp.Diff(want, []string{c.Servers[0].String(), c.Servers[1].String()}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSecretsAreListed(t *testing.T) {
	c := parse(t, secretive, env)
	want := []string{"Basic hunter2-basic", "hunter2-password", "hunter2-bearer", "hunter2-header", "hunter2-basic", "hunter2-query", "hunter2-token"}
	if diff := cmp.Diff(want, c.Servers[0].Secrets()); diff != "" {
		t.Errorf("remote (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"hunter2-literal", "hunter2-token", "hunter2-flag", "hunter2-arg"}, c.Servers[1].Secrets()); diff != "" {
		t.Errorf("local (-want +got):\n%s", diff)
	}
	if got := len(c.Secrets()); got != 10 {
		t.Errorf("%d different secrets of all servers, want 10", got)
	}
	file := load(t, "testdata/vscode.good.json", env)
	if !slices.Contains(file.Secrets(), "hunter2-file") || !slices.Contains(file.Secrets(), "hunter2-input") {
		t.Errorf("values of an envFile or an input are missing: %d secrets", len(file.Secrets()))
	}
}

func TestSecretsStandInArgumentsAndURLs(t *testing.T) {
	for _, tt := range []struct {
		what, server, shown string
		want                []string
	}{
		{"the value of a flag", "args: [--token, hunter2-a]", "run --token ***", []string{"hunter2-a"}},
		{"the value of a flag behind =", "args: [--api-key=hunter2=a]", "run --api-key=***", []string{"hunter2=a"}},
		{"a flag behind a flag", "args: [--token, --verbose]", "run --token --verbose", nil},
		{"the value of another flag", "args: [--file, some-file]", "run --file some-file", nil},
		{"a value again elsewhere", "args: [--token, hunter2-a, x/hunter2-a]", "run --token *** x/***", []string{"hunter2-a"}},
		{"a password in the URL of an argument", `args: ["--db=postgres://me:hunter2@db/x"]`, "run --db=postgres://me:***@db/x", []string{"hunter2"}},
		{"a short one", `args: ["postgres://me:abc@db/x"]`, "run postgres://me:***@db/x", nil},
		{"one with an @", `args: ["postgres://me:hunter@2@db/x"]`, "run postgres://me:***@db/x", []string{"hunter@2"}},
		{"an escaped one", `args: ["postgres://me:hunter%402@db/x"]`, "run postgres://me:***@db/x", []string{"hunter%402", "hunter@2"}},
		{"two in one variable", `env: {DB: "redis://:hunter2-a@a, redis://:hunter2-bc@b"}`, "run", []string{"hunter2-bc", "hunter2-a"}},
		{"a port and an @ in the path", `args: ["http://host:8080/@someone"]`, "run http://host:8080/@someone", nil},
	} {
		t.Run(tt.what, func(t *testing.T) {
			s := parse(t, "servers: {a: {command: run, "+tt.server+"}}", env).Servers[0]
			if diff := cmp.Diff(tt.want, s.Secrets(), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			if got := s.String(); got != "a (stdio: "+tt.shown+")" {
				t.Errorf("shown as %q, want %q", got, tt.shown)
			}
		})
	}
}

func TestRedactedLeavesTheServerAlone(t *testing.T) {
	s := parse(t, secretive, env).Servers[1]
	before := *s
	r := s.Redacted()
	if r.Env["GITHUB_TOKEN"] != "***" || r.Env["DEBUG"] != "***" || s.Env["GITHUB_TOKEN"] != "hunter2-literal" || !s.Equal(&before) {
		t.Errorf("redacted %v", r.Env)
	}
	if len(r.Secrets()) != 0 {
		t.Errorf("a redacted server still has secrets: %d", len(r.Secrets()))
	}
}

func TestEqual(t *testing.T) {
	make := func() *config.Server {
		return parse(t, secretive, env).Servers[1]
	}
	literal := make()
	literal = literal.Redacted()
	cases := []struct {
		what   string
		change func(*config.Server)
		want   bool
	}{
		{"nothing", func(*config.Server) {}, true},
		{"a name", func(s *config.Server) { s.Name = "x" }, false},
		{"an argument", func(s *config.Server) { s.Args = append(slices.Clone(s.Args), "x") }, false},
		{"an environment value", func(s *config.Server) { s.Env = map[string]string{} }, false},
		{"a prefix from the name to nothing", func(s *config.Server) { s.Prefix = new("") }, false},
		{"a time-out", func(s *config.Server) { s.CallTimeout = time.Second }, false},
		{"a filter", func(s *config.Server) { s.Tools.Deny = []string{"x"} }, false},
		{"what is hidden", func(s *config.Server) { *s = *literal }, false},
	}
	for _, c := range cases {
		t.Run(c.what, func(t *testing.T) {
			a, b := make(), make()
			c.change(b)
			if a.Equal(b) != c.want || b.Equal(a) != c.want {
				t.Errorf("equal = %v, want %v", !c.want, c.want)
			}
		})
	}
	fromEnv := parse(t, "servers: {a: {command: '${TOKEN}', prefix: p}}", env).Servers[0]
	written := parse(t, "servers: {a: {command: hunter2-token, prefix: p}}", env).Servers[0]
	if !fromEnv.Equal(written) {
		t.Error("a value from the environment differs from the same value in the file")
	}
	var none *config.Server
	if none.Equal(fromEnv) || fromEnv.Equal(none) || !none.Equal(nil) {
		t.Error("nil equals a server")
	}
}
