package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mcp-aggregator/internal/app"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// demo, dead and mute are the servers of these tests: one that works, one that cannot
// be started, one that never answers.
func demo() *config.Server {
	s := config.DefaultServer("demo")
	s.Type, s.Builtin = config.TypeBuiltin, "everything"
	return s
}

func dead() *config.Server {
	s := config.DefaultServer("dead")
	s.Type, s.Command = config.TypeStdio, "no-such-program-anywhere"
	return s
}

func mute() *config.Server {
	s := config.DefaultServer("mute")
	s.Type, s.Command, s.Args = config.TypeStdio, "sleep", []string{"600"}
	return s
}

func configure(servers ...*config.Server) *config.Config {
	c := config.Default()
	c.Servers, c.ListWait = servers, 50*time.Millisecond
	c.Limits.StopInput, c.Limits.Drain = 50*time.Millisecond, time.Second
	return c
}

func newApp(t *testing.T, c *config.Config) *app.App {
	t.Helper()
	a, err := app.New(app.Options{Config: c, Version: "9.9.9"})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// await fails the test unless c is closed or brings a value soon.
func await[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(20 * time.Second):
		t.Fatal(what + " did not happen")
	}
	return v
}

func TestRunEndsWithItsContextAndLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	a := newApp(t, configure(demo(), dead()))
	ln, err := a.ServeHTTP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	await(t, "settling", a.Settled())
	res, err := http.Get("http://" + ln.Addr().String() + "/nowhere")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	cancel()
	if err := await(t, "the end of Run", ended); err != nil {
		t.Errorf("Run: %v", err)
	}
	if c, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		c.Close()
		t.Error("still listening")
	}
	http.DefaultClient.CloseIdleConnections()
	goleak.VerifyNone(t, before)
}

func TestAnAddressOthersReachNeedsConsent(t *testing.T) {
	for _, tt := range []struct {
		addr    string
		consent bool
		refused bool
	}{
		{"127.0.0.1:0", false, false},
		{"localhost:0", false, false},
		{"0.0.0.0:0", false, true},
		{":0", false, true},
		{"0.0.0.0:0", true, false},
	} {
		c := configure(demo())
		c.HTTP.AllowUnauthenticated = tt.consent
		a := newApp(t, c)
		_, err := a.ServeHTTP(tt.addr)
		if (err != nil) != tt.refused || err != nil && !strings.Contains(err.Error(), "http.allow_unauthenticated") {
			t.Errorf("%s, consent %v: %v", tt.addr, tt.consent, err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.Run(ended); err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}` + "\n"

const listTools = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n"

// converse opens a session over the stdio face, asks for the tools and ends the input.
// It returns the answer to the list. With settle the servers settle first.
func converse(t *testing.T, a *app.App, settle bool) string {
	t.Helper()
	in, client := io.Pipe()
	var out bytes.Buffer
	a.ServeStdio(in, &out)
	ended := make(chan error, 1)
	go func() { ended <- a.Run(t.Context()) }()
	if settle {
		await(t, "settling", a.Settled())
	}
	if _, err := io.WriteString(client, initialize+listTools); err != nil {
		t.Fatal(err)
	}
	client.Close()
	if err := await(t, "the end of Run", ended); err != nil {
		t.Errorf("Run: %v", err)
	}
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, `"id":1,`) {
			return line
		}
	}
	return "no answer: " + out.String()
}

func TestTheEndOfInputEndsRun(t *testing.T) {
	c := configure(demo())
	c.ListWait = 10 * time.Second // the list is here for its content; 50 ms are short on a busy machine
	if got := converse(t, newApp(t, c), false); !strings.Contains(got, `"name":"demo__echo"`) {
		t.Error(got)
	}
}

func TestListsFailOnlyWhenNoServerIsLeft(t *testing.T) {
	for _, tt := range []struct {
		name    string
		servers []*config.Server
		settle  bool
		want    string
	}{
		{"all have failed", []*config.Server{dead()}, true, `"code":"unreachable"`},
		{"one works", []*config.Server{dead(), demo()}, true, `"name":"demo__echo"`},
		{"one is still starting", []*config.Server{dead(), mute()}, false, `"tools":[]`},
		{"there is none", nil, true, `"tools":[]`},
	} {
		if got := converse(t, newApp(t, configure(tt.servers...)), tt.settle); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestOneCommandWithoutAFace(t *testing.T) {
	a := newApp(t, configure(demo(), dead()))
	stop, err := a.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if e, ok := a.Snapshot().Tool("demo__add"); !ok || e.Server != "demo" || e.Name != "add" {
		t.Errorf("the catalogue has demo__add as %+v, %v", e, ok)
	}
	var states []string
	for _, s := range a.Status() {
		states = append(states, s.Server+" "+s.State)
	}
	if got := strings.Join(states, ", "); got != "demo "+upstream.Connected+", dead "+upstream.Failed {
		t.Error(got)
	}
	var sum struct{ StructuredContent struct{ Sum int } }
	result, err := a.Call(t.Context(), "demo__add", json.RawMessage(`{"a":2,"b":40}`), nil)
	if err != nil || json.Unmarshal(result, &sum) != nil || sum.StructuredContent.Sum != 42 {
		t.Errorf("demo__add: %s, %v", result, err)
	}
	var heard []string
	_, err = a.Call(t.Context(), "demo__long_running", json.RawMessage(`{"duration":0.02,"steps":2}`),
		func(method string, _ []byte) { heard = append(heard, method) })
	if err != nil || len(heard) == 0 || heard[0] != "notifications/progress" {
		t.Errorf("demo__long_running: heard %q, %v", heard, err)
	}
	if _, err := a.Call(t.Context(), "demo__nothing", json.RawMessage(`{}`), nil); err == nil || fault.KindOf(err) == fault.Unreachable {
		t.Errorf("a tool that nobody has: %v", err)
	}
	if got := len(a.Snapshot().Entries(catalog.Prompts)); got == 0 {
		t.Error("no prompts")
	}
}

func TestStartGivesUpWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := newApp(t, configure(mute())).Start(ctx); err == nil {
		t.Error("no error although the server never answered")
	}
}
