package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// A sessionPeer is a legacy server with sessions, which can forget them.
type sessionPeer struct {
	mu       sync.Mutex
	sessions []string // that live
	opened   int
	ready    map[string]bool // initialized was received
	executed int
	log      []string

	forgetEvery int                                          // all sessions are forgotten after so many calls, if not 0
	refuse      func(w http.ResponseWriter, m *wire.Message) // answers calls in place of a result, if set
	gone        func(w http.ResponseWriter, m *wire.Message) // how it says that a session is gone
}

func (p *sessionPeer) serve(w http.ResponseWriter, r *http.Request, m *wire.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := r.Header.Get("Mcp-Session-Id")
	p.log = append(p.log, strings.TrimSpace(fmt.Sprint(r.Method, " ", m.Method, " ", id, " ", r.Header.Get("Mcp-Protocol-Version"))))
	switch {
	case m.Method == "initialize":
		p.opened++
		id = fmt.Sprint("s", p.opened)
		p.sessions = append(p.sessions, id)
		w.Header().Set("Mcp-Session-Id", id)
		reply(w, m, okResult)
	case !slices.Contains(p.sessions, id):
		p.gone(w, m)
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case m.Kind == wire.Notification:
		p.ready[id] = true
		w.WriteHeader(http.StatusAccepted)
	case !p.ready[id]:
		http.Error(w, "a call before initialized", http.StatusTeapot)
	case p.refuse != nil:
		p.refuse(w, m)
	default:
		if p.executed++; p.forgetEvery > 0 && p.executed%p.forgetEvery == 0 {
			p.sessions = nil
		}
		reply(w, m, okResult)
	}
}

func (p *sessionPeer) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions = nil
}

func gone404(w http.ResponseWriter, _ *wire.Message) {
	http.Error(w, "session not found", http.StatusNotFound)
}

// serveSessions connects to p with a handshake and a hook that repeats it.
func serveSessions(t *testing.T, p *sessionPeer) *httpConn {
	t.Helper()
	p.ready = map[string]bool{}
	if p.gone == nil {
		p.gone = gone404
	}
	conn := servePeer(t, p.serve)
	conn.setInfo(&Info{})
	handshake := func(ctx context.Context) error {
		if got := call(ctx, conn, "initialize"); got != okOutcome {
			return errors.New(got)
		}
		conn.setInfo(&Info{Version: wire.V20251125})
		return conn.Notify(ctx, "notifications/initialized", wire.Value{})
	}
	if err := handshake(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn.setReinit(handshake)
	return conn
}

func TestHTTPSession(t *testing.T) {
	p := &sessionPeer{}
	conn := serveSessions(t, p)
	if got := call(t.Context(), conn, "tools/call"); got != okOutcome {
		t.Fatal(got)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"POST initialize",
		"POST notifications/initialized s1 2025-11-25",
		"POST tools/call s1 2025-11-25",
		"DELETE  s1 2025-11-25",
	}
	if d := cmp.Diff(want, p.log); d != "" {
		t.Error(d)
	}
}

// Every way in which servers say that a session is gone leads to one new session, and
// no caller notices.
func TestHTTPSessionLost(t *testing.T) {
	rpc := func(status int, id string, code int, message string) func(http.ResponseWriter, *wire.Message) {
		return func(w http.ResponseWriter, m *wire.Message) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			reply(w, m, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, id, code, message))
		}
	}
	for _, c := range []struct {
		name string
		gone func(http.ResponseWriter, *wire.Message)
	}{
		{"404 with text", gone404},
		{"404 with an error", rpc(404, "null", -32001, "Session not found")},
		{"404 with an error of another id", rpc(404, `"server-error"`, -32600, "Session terminated")},
		{"400 with an error", rpc(400, "null", -32000, "Bad Request: No valid session ID provided")},
		{"200 with an error", rpc(200, "ID", -32600, "Session not found")},
		{"an error in a stream", func(w http.ResponseWriter, m *wire.Message) {
			events(w, m, `data: {"jsonrpc":"2.0","id":ID,"error":{"code":-32001,"message":"session expired"}}`+"\n\n")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &sessionPeer{gone: c.gone}
			conn := serveSessions(t, p)
			const rounds, callers = 3, 20
			for range rounds {
				p.forget()
				var group sync.WaitGroup
				for range callers {
					group.Go(func() {
						if got := call(t.Context(), conn, "tools/call"); got != okOutcome {
							t.Errorf("got %s", got)
						}
					})
				}
				group.Wait()
			}
			if p.opened != 1+rounds || p.executed != rounds*callers {
				t.Errorf("%d sessions opened, %d calls executed", p.opened, p.executed)
			}
			p.forget()
			if err := conn.Notify(t.Context(), "notifications/x", wire.Value{}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestHTTPSessionNotRenewed(t *testing.T) {
	t.Run("without a hook", func(t *testing.T) {
		p := &sessionPeer{}
		conn := serveSessions(t, p)
		conn.setReinit(nil)
		p.forget()
		if got := call(t.Context(), conn, "tools/call"); got != "unreachable" {
			t.Errorf("got %s", got)
		}
		<-conn.Done()
	})
	t.Run("the server wants credentials now", func(t *testing.T) {
		p := &sessionPeer{}
		conn := serveSessions(t, p)
		conn.setReinit(func(context.Context) error { return fault.Of(fault.Unauthorized, "peer", "no") })
		p.forget()
		if got := call(t.Context(), conn, "tools/call"); got != "unauthorized" {
			t.Errorf("got %s", got)
		}
		<-conn.Done()
	})
	t.Run("the server is away for a moment", func(t *testing.T) {
		p := &sessionPeer{}
		conn := serveSessions(t, p)
		again := conn.reinit
		conn.setReinit(func(context.Context) error { return fault.Of(fault.Unreachable, "peer", "no") })
		p.forget()
		if got := call(t.Context(), conn, "tools/call"); got != "unreachable" {
			t.Errorf("got %s", got)
		}
		conn.setReinit(again)
		if got := call(t.Context(), conn, "tools/call"); got != okOutcome {
			t.Errorf("got %s", got)
		}
	})
	t.Run("each new session is forgotten at once", func(t *testing.T) {
		p := &sessionPeer{}
		conn := serveSessions(t, p)
		again := conn.reinit
		conn.setReinit(func(ctx context.Context) error {
			err := again(ctx)
			p.forget()
			return err
		})
		p.forget()
		if got := call(t.Context(), conn, "tools/call"); got != "unreachable" {
			t.Errorf("got %s", got)
		}
		if err := conn.Notify(t.Context(), "notifications/x", wire.Value{}); fault.KindOf(err) != fault.Unreachable {
			t.Errorf("notifying: %v", err)
		}
		if p.opened != 1+2*maxRenewals || p.executed != 0 {
			t.Errorf("%d sessions opened, %d calls executed", p.opened, p.executed)
		}
		if err := conn.Err(); err != nil {
			t.Errorf("the connection was given up: %v", err)
		}
	})
	t.Run("what looks like a lost session is the answer of a tool", func(t *testing.T) {
		p := &sessionPeer{}
		conn := serveSessions(t, p)
		p.refuse = func(w http.ResponseWriter, m *wire.Message) {
			reply(w, m, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"the browser session has expired"}}`)
		}
		if got := call(t.Context(), conn, "tools/call"); got != "-32000" {
			t.Errorf("got %s", got)
		}
		if p.opened != 1+maxRenewals {
			t.Errorf("%d sessions opened", p.opened)
		}
	})
}

// A server that forgets all sessions after every third call refuses some of many
// callers more than once.
func TestHTTPSessionForgottenEveryFewCalls(t *testing.T) {
	p := &sessionPeer{forgetEvery: 3}
	conn := serveSessions(t, p)
	const callers = 6
	for round := range 20 {
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				if got := call(t.Context(), conn, "tools/call"); got != okOutcome {
					t.Errorf("got %s", got)
				}
			})
		}
		group.Wait()
		if p.executed != (round+1)*callers {
			t.Fatalf("round %d: %d calls executed", round, p.executed)
		}
	}
}

// A renewal that hangs is bounded, and each caller only waits as long as it wants.
func TestHTTPRenewalHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &sessionPeer{gone: gone404, ready: map[string]bool{}}
		conn := pipePeer(t, p.serve, nil)
		call(t.Context(), conn, "initialize")
		conn.setReinit(func(ctx context.Context) error {
			<-ctx.Done()
			return conn.failure(ctx, true, ctx.Err())
		})
		p.forget()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if got := call(ctx, conn, "tools/call"); got != "timeout" || time.Since(began) != 5*time.Second {
			t.Errorf("got %s after %v", got, time.Since(began))
		}
		if got := call(t.Context(), conn, "tools/call"); got != "unreachable" || time.Since(began) != 30*time.Second {
			t.Errorf("got %s after %v", got, time.Since(began))
		}
	})
}

func TestHTTPHeaders(t *testing.T) {
	var got http.Header
	conn := servePeer(t, func(w http.ResponseWriter, r *http.Request, m *wire.Message) {
		got = r.Header.Clone()
		got.Set("Host", r.Host)
		if m.Method == "initialize" {
			w.Header().Set("Mcp-Session-Id", "s1")
		}
		reply(w, m, okResult)
	}, func(s *config.Server, o *Options) {
		s.Headers = map[string]string{"x-team": "blue", "Host": "mcp.example.com"}
		s.BearerToken = "t0ken"
		o.Version = "1.2.3"
	})
	common := http.Header{
		"Accept":        {"application/json, text/event-stream"},
		"Content-Type":  {"application/json"},
		"User-Agent":    {"mcp-aggregator/1.2.3"},
		"Authorization": {"Bearer t0ken"},
		"X-Team":        {"blue"},
		"Host":          {"mcp.example.com"},
	}
	with := func(more ...string) http.Header {
		h := common.Clone()
		for i := 0; i < len(more); i += 2 {
			h.Set(more[i], more[i+1])
		}
		return h
	}
	forwarded := http.Header{"X-Tenant": {"a"}, "Mcp-Session-Id": {"forged"}, "Content-Type": {"text/plain"}}
	for _, c := range []struct {
		name string
		info Info
		r    Request
		want http.Header
	}{
		{"initialize", Info{}, Request{Method: "initialize"}, common},
		{"initialize, again", Info{Version: wire.V20250618}, Request{Method: "initialize"}, common},
		{"legacy", Info{Version: wire.V20250618}, Request{Method: "tools/call", Name: "echo"}, with("Mcp-Session-Id", "s1", "Mcp-Protocol-Version", "2025-06-18")},
		{"legacy with forwarded headers", Info{Version: wire.V20250618}, Request{Method: "tools/call", Header: forwarded},
			with("Mcp-Session-Id", "s1", "Mcp-Protocol-Version", "2025-06-18", "X-Tenant", "a")},
		{"modern", Info{Era: wire.Modern, Version: wire.V20260728}, Request{Method: "tools/list"}, with("Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list")},
		{"modern with a name and parameters", Info{Era: wire.Modern, Version: wire.V20260728},
			Request{Method: "tools/call", Name: " ä", Header: http.Header{"Mcp-Param-Region": {"us"}}},
			with("Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "=?base64?IMOk?=", "Mcp-Param-Region", "us")},
	} {
		conn.setInfo(&c.info)
		c.r.ID = NextID()
		r, err := conn.Call(t.Context(), &c.r)
		if outcome(r, err) != okOutcome {
			t.Fatalf("%s: %s", c.name, outcome(r, err))
		}
		delete(got, "Content-Length")
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
	if len(forwarded) != 3 {
		t.Error("the headers of the request were changed")
	}
}
