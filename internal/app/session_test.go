package app_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/app"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/mcptest"
)

// A server with a connection for one session hears when that client's roots change, and
// what it asks then, outside of any call, reaches that client and no other. So does what
// it says.
func TestAServerAndTheClientItHasAConnectionForTalkOutsideOfCalls(t *testing.T) {
	var peers perSession
	web := httptest.NewServer(&peers)
	t.Cleanup(web.Close)
	server := config.DefaultServer("lab")
	server.Type, server.URL, server.Protocol, server.Sharing = config.TypeHTTP, web.URL, "legacy", "session"
	a := newApp(t, configure(server))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	asked := make(chan string, 10)
	opts := &mcptest.Options{Capabilities: `{"roots":{"listChanged":true}}`, OnRequest: func(q *mcptest.Request) string {
		asked <- q.Method
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[{"uri":"file:///one"}]}}`, q.ID)
	}}
	one := onStdio(ctx, t, a, opts)
	heard, err := one.Listen(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	if x, err := one.Call(ctx, "tools/call", `{"name":"lab__a","arguments":{}}`); err != nil || x.Result == nil {
		t.Fatalf("%v, %+v", err, x)
	}
	if _, err := one.Notify(ctx, "notifications/roots/list_changed", ""); err != nil {
		t.Fatal(err)
	}
	own := peers.last()
	if _, err := own.Await(ctx, "notifications/roots/list_changed", 1); err != nil {
		t.Fatal(err)
	}
	if caps := string(mcptest.Field(own.Received("initialize")[0].Params, "capabilities")); caps != `{"roots":{"listChanged":true}}` {
		t.Errorf("the connection of the session declares %s", caps)
	}
	got, err := own.Ask(ctx, "roots/list", "")
	if err != nil || string(got.Result) != `{"roots":[{"uri":"file:///one"}]}` {
		t.Fatalf("%v, %+v", err, got)
	}
	if method := await(t, "a question", asked); method != "roots/list" {
		t.Errorf("the client was asked %s", method)
	}
	own.Notify("notifications/vendor/x", `{"a":1}`)
	for {
		msg, err := heard.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if msg.Method == "notifications/vendor/x" && string(msg.Params) == `{"a":1}` {
			break
		}
	}
}

// Progress of a client on what it is asked reaches the server under its own token, in
// order and before the answer.
func TestProgressOfALegacyClientOnAQuestionReachesTheServer(t *testing.T) {
	raw := &mcptest.Raw{Era: mcptest.Legacy, Tools: []string{`{"name":"a","inputSchema":{"type":"object"}}`}}
	raw.Answer = func(q *mcptest.Request) *mcptest.Answer {
		if q.Method != "tools/call" {
			return nil
		}
		return &mcptest.Answer{Asking: func(ask mcptest.Ask) string {
			got, err := ask("sampling/createMessage", `{"_meta":{"progressToken":7},"maxTokens":1}`)
			if err != nil {
				return ""
			}
			return `{"content":[],"structuredContent":` + string(got.Result) + `}`
		}}
	}
	web := httptest.NewServer(raw)
	t.Cleanup(web.Close)
	server := config.DefaultServer("lab")
	server.Type, server.URL, server.Protocol = config.TypeHTTP, web.URL, "legacy"
	a := newApp(t, configure(server))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var c *mcptest.Client
	c = onStdio(ctx, t, a, &mcptest.Options{Capabilities: `{"sampling":{}}`, OnRequest: func(q *mcptest.Request) string {
		for n := range 3 {
			if _, err := c.Notify(ctx, "notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":%d.0}`, q.Token, n)); err != nil {
				t.Error(err)
			}
		}
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"model":"m"}}`, q.ID)
	}})
	x, err := c.Call(ctx, "tools/call", `{"name":"lab__a","arguments":{}}`)
	if err != nil || !strings.Contains(string(x.Result), `{"model":"m"}`) {
		t.Fatalf("%v, %+v", err, x)
	}
	var order []string
	for _, q := range raw.Requests() {
		if q.Method == "notifications/progress" || string(q.Result) != "" {
			order = append(order, string(q.Params)+string(q.Result))
		}
	}
	want := []string{`{"progressToken":7,"progress":0.0}`, `{"progressToken":7,"progress":1.0}`, `{"progressToken":7,"progress":2.0}`, `{"model":"m"}`}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// perSession is an HTTP server that has a peer for each session.
type perSession struct {
	mu  sync.Mutex
	all []*mcptest.Raw
}

func (p *perSession) last() *mcptest.Raw {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[len(p.all)-1]
}

func (p *perSession) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	n, err := strconv.Atoi(r.Header.Get("Mcp-Session-Id"))
	if err != nil { // an initialize
		n = len(p.all)
		p.all = append(p.all, &mcptest.Raw{Era: mcptest.Legacy, Stateless: true, Tools: []string{`{"name":"a","inputSchema":{"type":"object"}}`}})
	}
	peer := p.all[n]
	p.mu.Unlock()
	w.Header().Set("Mcp-Session-Id", strconv.Itoa(n))
	peer.ServeHTTP(w, r)
}

// onStdio connects a legacy client to an app that runs until the end of the test.
func onStdio(ctx context.Context, t *testing.T, a *app.App, opts *mcptest.Options) *mcptest.Client {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	a.ServeStdio(inR, outW)
	ended := make(chan error, 1)
	run, stop := context.WithCancel(context.Background())
	go func() { ended <- a.Run(run); outW.Close() }()
	c, err := mcptest.ConnectPipes(ctx, outR, inW, mcptest.Legacy, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		stop()
		<-ended
	})
	return c
}
