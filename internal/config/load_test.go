package config_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/config"
)

var update = flag.Bool("update", false, "write the expected files anew")

// variables is the environment of the tests. Values that begin with hunter2 are secrets.
var variables = map[string]string{
	"HOME": "/home/me", "PORT": "9000", "TOKEN": "hunter2-token", "SECRET": "hunter2", "BADTIME": "hunter2 seconds",
	"MCP_INPUT_API_KEY": "hunter2-input", "EMPTY": "",
}

func env(name string) (string, bool) {
	v, ok := variables[name]
	return v, ok
}

func with(more map[string]string) config.Env {
	return func(name string) (string, bool) {
		if v, ok := more[name]; ok {
			return v, true
		}
		return env(name)
	}
}

// parse loads YAML that must be right.
func parse(t *testing.T, src string, e config.Env) *config.Config {
	t.Helper()
	c, err := config.Parse("test.yaml", []byte(src), e)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func problems(t *testing.T, err error) config.Problems {
	t.Helper()
	ps, ok := errors.AsType[*config.Problems](err)
	if !ok {
		t.Fatalf("error is %T (%v), want *config.Problems", err, err)
	}
	return *ps
}

func files(t *testing.T, patterns ...string) []string {
	t.Helper()
	var all []string
	for _, p := range patterns {
		found, err := filepath.Glob(filepath.Join("testdata", p))
		if err != nil || len(found) == 0 {
			t.Fatalf("no files match %s: %v", p, err)
		}
		all = append(all, found...)
	}
	return all
}

func TestGoodFilesLoad(t *testing.T) {
	for _, path := range files(t, "*.good.yaml", "*.good.json") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			if _, err := config.Load(path, env); err != nil {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestBadFilesAreExplained compares all problems of each bad file with the .txt beside it.
func TestBadFilesAreExplained(t *testing.T) {
	for _, path := range files(t, "*.bad.yaml", "*.bad.json") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			_, err := config.Load(path, env)
			if err == nil {
				t.Fatal("loads")
			}
			for _, p := range problems(t, err) {
				if p.Line < 1 || p.Col < 1 || p.Message == "" {
					t.Errorf("problem without place or message: %+v", p)
				}
			}
			got := strings.ReplaceAll(err.Error(), "testdata"+string(filepath.Separator), "") + "\n"
			if strings.Contains(got, "hunter2") {
				t.Errorf("a secret shows:\n%s", got)
			}
			golden(t, strings.TrimSuffix(path, filepath.Ext(path))+".txt", got)
		})
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is stale, run the test with -update if this is meant (-file +now):\n%s", path, diff)
	}
}

func TestTransportsAreInferred(t *testing.T) {
	c, err := config.Load("testdata/transports.good.yaml", env)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range c.Servers {
		got = append(got, s.Name+" "+string(s.Type)+" "+s.URL)
	}
	want := []string{
		"stdio stdio ", "http http https://mcp.example.com/mcp", "HTTP-2 http HTTP://mcp.example.com:8443/mcp", "http.3 http http://[::1]:8080/mcp",
		"sse sse https://mcp.example.com/sse", "ws websocket wss://mcp.example.com", "ws_2 websocket ws://mcp.example.com",
		"builtin builtin ", "sdk builtin ", "a__b builtin ",
		"claude claudeai-proxy https://proxy.example.com/v1/a%20b/mcp", "claude2 claudeai-proxy https://proxy.example.com/v1/xyz",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("servers in file order (-want +got):\n%s", diff)
	}
	first := config.DefaultServer("stdio")
	first.Type, first.Command = config.TypeStdio, "npx"
	first.Args = []string{"-y", "@modelcontextprotocol/server-everything", "8080", "true"}
	first.Env = map[string]string{"DEBUG": "1", "RATIO": "1.10", "ON": "yes", "EMPTY": ""}
	first.Cwd, _ = filepath.Abs("testdata/work")
	if !c.Servers[0].Equal(first) {
		t.Errorf("got %#v", c.Servers[0])
	}
	if got := c.Servers[len(c.Servers)-1].BearerToken; got != "hunter2-token" {
		t.Errorf("bearer token = %q", got)
	}
}

func TestSettingsAreRead(t *testing.T) {
	c, err := config.Load("testdata/settings.good.yaml", env)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.Path = "testdata/settings.good.yaml"
	want.HTTP.Addr, want.HTTP.Path, want.HTTP.SSE = ":9000", "/", false
	want.HTTP.AllowedHosts = []string{"mcp.example.com", "mcp.example.com:8443", "[::1]:8080", "::1"}
	want.HTTP.AllowedOrigins = []string{"https://app.example.com", "*"}
	want.Catalog.PageSize = 1
	want.Limits.Body, want.Limits.QueueBytes, want.Limits.Stderr = 65536, 2_000_000, 0
	want.Limits.List, want.Limits.Drain = 90*time.Second, 0
	want.StartConcurrency, want.ListWait, want.Startup = 3, 0, "strict"
	s := config.DefaultServer("s")
	s.Type, s.Command, s.Prefix = config.TypeStdio, "x", new("")
	s.Tools = config.Filter{Allow: []string{"any", "read_*", "[a-z]?", `\[literal`}, Deny: []string{"*delete*"}, ReadOnlyOnly: true, HideDestructive: true}
	s.ToolVersions = map[string][]string{"echo": {"1.0", "2"}}
	s.Protocol, s.CallTimeout, s.Instructions = "modern", time.Hour, false
	s.CallIdleTimeout, s.Sharing, s.Lazy, s.IdleTimeout, s.Queue = 20*time.Second, "session", true, 10*time.Minute, "heavy"
	s.Probe.Method, s.RateLimit.PerSecond = "list_tools", 2.5
	s.ToolOverrides = map[string]*config.ToolOverride{"build": {CallTimeout: 10 * time.Minute, Queue: "one", Idempotent: new(true),
		Fallback: []config.Fallback{{Tool: "t.make"}, {Tool: "t.other", Arguments: map[string]string{"target": "goal"}}}}}
	u := config.DefaultServer("t")
	u.Type, u.Builtin, u.Sharing, u.CallTimeout = config.TypeBuiltin, "notes", "session", 2*time.Minute
	u.Probe.Interval, u.Probe.Failures = time.Second, 5
	u.RateLimit = config.RateLimit{PerSecond: 10, Burst: 3}
	want.Servers = []*config.Server{s, u}
	want.Queues = map[string]*config.Queue{"heavy": {Slots: 2, Waiting: 64, Timeout: 30 * time.Second}, "one": {Slots: 1, Timeout: time.Second}}
	want.Retry.MaxAttempts, want.Retry.Factor = 1, 1.5
	want.Breaker = config.Breaker{Failures: 2, Cooldown: time.Second, HalfOpen: 1}
	want.Admin = config.Admin{Addr: "0.0.0.0:9001", Token: "a-token-of-some-length"}
	want.CallTimeout, want.AcquireTimeout, want.StateDir, want.Watch = 2*time.Minute, 5*time.Second, "off", false
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnchorsAndMergeKeys(t *testing.T) {
	c, err := config.Load("testdata/anchors.good.yaml", env)
	if err != nil {
		t.Fatal(err)
	}
	type seen struct {
		url     string
		timeout time.Duration
		headers map[string]string
	}
	var got []seen
	for _, s := range c.Servers {
		got = append(got, seen{s.URL, s.CallTimeout, s.Headers})
	}
	team := map[string]string{"X-Team": "tools"}
	want := []seen{
		{"https://one.example.com", 5 * time.Second, team},
		{"https://two.example.com", 5 * time.Second, team},
		{"https://three.example.com", 7 * time.Second, map[string]string{"X-Team": "tools", "X-More": "1"}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(seen{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDefaults(t *testing.T) {
	c := parse(t, "servers: {a: {command: x}}", env)
	want := config.Default()
	want.Path = "test.yaml"
	a := config.DefaultServer("a")
	a.Type, a.Command = config.TypeStdio, "x"
	want.Servers = []*config.Server{a}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	type some struct {
		enabled, instructions bool
		init, call            time.Duration
		protocol              string
	}
	if got, want := (some{a.Enabled, a.Instructions, a.InitTimeout, a.CallTimeout, a.Protocol}), (some{true, true, 30 * time.Second, 90 * time.Second, "auto"}); got != want {
		t.Errorf("server defaults %+v, want %+v", got, want)
	}
	if want.Limits.Body != 4<<20 || want.Limits.Drain != 10*time.Second || want.HTTP.MaxSessions != 10000 || want.ListWait != 1500*time.Millisecond || want.StartConcurrency != 8 {
		t.Errorf("defaults %+v", want)
	}
}

func TestAKeyWithoutValueKeepsTheDefault(t *testing.T) {
	c := parse(t, "servers: {a: {command: x, enabled: , tools: , args: ~, call_timeout: null}}\nlimits:\nlist_wait:\nhttp: {addr: }", env)
	a := config.DefaultServer("a")
	a.Type, a.Command = config.TypeStdio, "x"
	want := config.Default()
	want.Path, want.Servers = "test.yaml", []*config.Server{a}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, make([]byte, config.MaxFile+1), 0o644); err != nil {
		t.Fatal(err)
	}
	cases := map[string]string{
		filepath.Join(dir, "absent.yaml"): "cannot be read: no such file or directory",
		dir:                               "is a folder, not a file",
		large:                             "larger than 4 MiB",
	}
	for path, want := range cases {
		_, err := config.Load(path, env)
		if err == nil || err.Error() != path+": "+want {
			t.Errorf("Load(%s) = %v, want %q", path, err, want)
		}
	}
}

func TestAByteOrderMarkIsIgnored(t *testing.T) {
	for _, src := range []string{"\ufeffservers: {a: {builtin: notes}}", "\ufeff{\"servers\": {\"a\": {\"builtin\": \"notes\"}}}"} {
		if _, err := config.Parse("config", []byte(src), env); err != nil {
			t.Errorf("%q: %v", src, err)
		}
	}
}

// A broken file of megabytes must not cost a gigabyte of messages or minutes of guessing.
func TestTheReportIsBounded(t *testing.T) {
	src := "servers: {a: {builtin: notes}}\n" + strings.Repeat("x: 1\n", 100_000)
	_, err := config.Parse("test.yaml", []byte(src), env)
	ps := problems(t, err)
	if len(ps) != 1001 || ps[len(ps)-1].Message != "there is more like this" {
		t.Errorf("%d problems, the last: %v", len(ps), ps[len(ps)-1])
	}
}

func TestTLSPathsAreRelativeToTheFile(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir)
	path := filepath.Join(dir, "c.yaml")
	src := "servers: {a: {url: 'https://x.example.com', tls: {ca_file: certs/ca.pem, cert_file: certs/client.pem, key_file: certs/client.key}}}"
	c, err := config.Parse(path, []byte(src), env)
	if err != nil {
		t.Fatal(err)
	}
	certs := filepath.Join(dir, "certs")
	want := config.TLS{CAFile: filepath.Join(certs, "ca.pem"), CertFile: filepath.Join(certs, "client.pem"), KeyFile: filepath.Join(certs, "client.key")}
	if c.Servers[0].TLS != want {
		t.Errorf("got %+v, want %+v", c.Servers[0].TLS, want)
	}
}
