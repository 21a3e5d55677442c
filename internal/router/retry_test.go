package router_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/wire"
)

func rpcError(code int) *wire.RPCError { return &wire.RPCError{Code: code, Message: "no"} }

// outcomes is an end of the path that goes through them and then works.
func outcomes(errs ...error) (end router.Handler, reached *int) {
	reached = new(int)
	return func(context.Context, *router.Call) (router.Reply, error) {
		if *reached++; *reached <= len(errs) {
			return router.Reply{}, errs[*reached-1]
		}
		return router.Reply{Result: wire.Value{Raw: []byte(`{"content":[]}`)}}, nil
	}, reached
}

func TestOnlyWhatDoesNoHarmIsRepeated(t *testing.T) {
	kind := func(k fault.Kind) error { return fault.Of(k, "demo", "x") }
	limited := func(d time.Duration) error {
		return &fault.Error{Kind: fault.RateLimited, Server: "demo", Reason: "slow down", RetryAfter: d}
	}
	lent := &fault.Error{Kind: fault.Unreachable, Code: fault.CodeRestartInProgress, Server: "demo"}
	for _, c := range []struct {
		name    string
		safe    bool
		errs    []error
		reached int
		want    string // code and attempts, "" if the call worked
	}{
		{"never sent", false, []error{kind(fault.Unreachable)}, 2, ""},
		{"never sent, all the time", true, []error{kind(fault.Unreachable), kind(fault.Unreachable), kind(fault.Unreachable)}, 3, "unreachable 3"},
		{"lost", false, []error{kind(fault.Lost)}, 1, "lost 1"},
		{"lost, safe", true, []error{kind(fault.Lost)}, 2, ""},
		{"lost twice, safe", true, []error{kind(fault.Lost), kind(fault.Lost)}, 2, "lost 2"},
		{"never sent, then lost", false, []error{kind(fault.Unreachable), kind(fault.Lost)}, 2, "lost 2"},
		{"timed out, safe", true, []error{kind(fault.Timeout)}, 1, "timeout 1"},
		{"cancelled, safe", true, []error{kind(fault.Cancelled)}, 1, "cancelled 1"},
		{"no MCP, safe", true, []error{kind(fault.Protocol)}, 1, "protocol 1"},
		{"asked to wait", false, []error{limited(5 * time.Second)}, 2, ""},
		{"asked to wait, without a time", false, []error{limited(0)}, 2, ""},
		{"asked to wait for too long", true, []error{limited(31 * time.Second)}, 1, "rate_limited 1"},
		{"no connection", true, []error{lent}, 1, "unreachable 1"},
		{"another refusal", true, []error{kind(fault.Rejected)}, 1, "rejected 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRouter(t, func(s *config.Server) {
					s.ToolOverrides = map[string]*config.ToolOverride{"add": {Idempotent: &c.safe}}
				})
				end, reached := outcomes(c.errs...)
				_, err := r.Chain(end)(t.Context(), newCall(t, r, "demo__add", `{}`))
				got := ""
				if f, ok := errors.AsType[*fault.Error](err); ok {
					got = f.Kind.String() + " " + string(rune('0'+f.Attempts))
				}
				if got != c.want || *reached != c.reached {
					t.Errorf("sent %d times, ended %q; want %d, %q", *reached, got, c.reached, c.want)
				}
			})
		})
	}
}

func TestPausesGrowAndEndWithTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouter(t, func(s *config.Server) { s.CallTimeout = 10 * time.Second })
		var at []time.Duration
		began := time.Now()
		h := r.Chain(func(context.Context, *router.Call) (router.Reply, error) {
			at = append(at, time.Since(began))
			return router.Reply{}, fault.Of(fault.Unreachable, "demo", "x")
		})
		_, _ = h(t.Context(), newCall(t, r, "demo__add", `{}`))
		if len(at) != 3 || at[1] < 400*time.Millisecond || at[1] > 600*time.Millisecond || at[2]-at[1] < 800*time.Millisecond || at[2]-at[1] > 1200*time.Millisecond {
			t.Errorf("attempts after %v", at)
		}

		began = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := h(ctx, newCall(t, r, "demo__add", `{}`))
		if took := time.Since(began); fault.KindOf(err) != fault.Timeout || took != 100*time.Millisecond {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

func TestAttemptsShareTheTimeOfTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouter(t, func(s *config.Server) {
			s.CallTimeout = 4 * time.Second
			s.ToolOverrides = map[string]*config.ToolOverride{"add": {Idempotent: new(true)}}
		})
		began := time.Now()
		first := true
		h := r.Chain(func(ctx context.Context, _ *router.Call) (router.Reply, error) {
			if first {
				first = false
				time.Sleep(3 * time.Second)
				return router.Reply{}, fault.Of(fault.Lost, "demo", "x")
			}
			<-ctx.Done()
			return router.Reply{}, context.Cause(ctx)
		})
		_, err := h(t.Context(), newCall(t, r, "demo__add", `{}`))
		if took := time.Since(began); fault.KindOf(err) != fault.Timeout || took != 4*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

func TestAServerInTroubleGetsNoMultipleOfItsLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouter(t, nil)
		var sent atomic.Int64
		h := r.Chain(func(context.Context, *router.Call) (router.Reply, error) {
			sent.Add(1)
			time.Sleep(time.Millisecond)
			return router.Reply{}, fault.Of(fault.RateLimited, "demo", "x")
		})
		for range 100 {
			go h(t.Context(), newCall(t, r, "demo__add", `{}`))
		}
		time.Sleep(time.Minute)
		if n := sent.Load(); n < 103 || n > 140 { // 20 % of the 100 calls, and three at once
			t.Errorf("%d attempts for 100 calls", n)
		}
	})
}

// overHTTP routes to a scripted server, with pauses that a test can wait for.
func overHTTP(t *testing.T, answer func(*mcptest.Request) *mcptest.Answer, tools ...string) (*router.Router, *mcptest.Raw) {
	t.Helper()
	raw := &mcptest.Raw{Answer: answer}
	for _, name := range tools {
		readOnly := "false"
		if strings.HasPrefix(name, "read_") {
			readOnly = "true"
		}
		raw.Tools = append(raw.Tools, `{"name":"`+name+`","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":`+readOnly+`}}`)
	}
	web := httptest.NewServer(raw)
	t.Cleanup(web.Close)
	c := config.Default()
	c.Retry.Base = 10 * time.Millisecond
	s := config.DefaultServer("web")
	s.Type, s.URL = config.TypeHTTP, web.URL
	c.Servers = []*config.Server{s}
	return newRig(t, c, nil, router.Watch{}), raw
}

func TestAWriteThatWasLostIsExecutedOnceAndSaidToBe(t *testing.T) {
	for _, how := range []mcptest.Answer{{Close: true}, {Reset: true}} {
		r, raw := overHTTP(t, func(q *mcptest.Request) *mcptest.Answer {
			if q.Method != "tools/call" {
				return nil
			}
			return &how
		}, "write", "read_rows")
		f := failed(t, t.Context(), r, "web__write")
		want := failure{Code: "lost", Kind: "lost", Attempts: 1, Server: "web", Tool: "write", Text: f.Text}
		if diff := cmp.Diff(want, f); diff != "" || !strings.Contains(f.Text, "may have been executed") {
			t.Errorf("%s\n%s", f.Text, diff)
		}
		if n := len(raw.Received("tools/call")); n != 1 {
			t.Errorf("executed %d times", n)
		}
		f = failed(t, t.Context(), r, "web__read_rows")
		if n := len(raw.Received("tools/call")) - 1; n != 2 || f.Attempts != 2 || !f.Retryable {
			t.Errorf("one that only reads was executed %d times and answered %+v", n, f)
		}
	}
}

func TestAServerThatAsksToWaitIsCalledAgainThen(t *testing.T) {
	first := make(chan struct{}, 1)
	first <- struct{}{}
	r, raw := overHTTP(t, func(q *mcptest.Request) *mcptest.Answer {
		if q.Method == "tools/call" {
			select {
			case <-first:
				return &mcptest.Answer{HTTP: &mcptest.HTTPAnswer{Status: 429}}
			default:
			}
		}
		return nil
	}, "write")
	works(t, r, "web__write", `{"a":1}`)
	if n := len(raw.Received("tools/call")); n != 2 {
		t.Errorf("called %d times", n)
	}
}

func TestACallThatFoundNobodyIsMadeAgainAndExecutedOnce(t *testing.T) {
	raw := &mcptest.Raw{Tools: []string{`{"name":"write","inputSchema":{"type":"object"}}`}}
	site, err := mcptest.NewSite(raw)
	if err != nil {
		t.Fatal(err)
	}
	defer site.Down()
	c := config.Default()
	c.Retry.Base = 10 * time.Millisecond
	s := config.DefaultServer("web")
	s.Type, s.URL = config.TypeHTTP, site.URL
	c.Servers = []*config.Server{s}
	retried := 0
	r := newRig(t, c, nil, router.Watch{Retried: func(server, tool string) {
		retried++
		if err := site.Up(); err != nil || server != "web" || tool != "write" {
			t.Error(err, server, tool)
		}
	}})
	site.Down()
	works(t, r, "web__write", `{"a":1}`)
	if n := len(raw.Received("tools/call")); n != 1 || retried != 1 {
		t.Errorf("executed %d times, retried %d times", n, retried)
	}
}

func TestACallThatKillsItsServerIsExecutedOnce(t *testing.T) {
	ledger := mcptest.Ledger(filepath.Join(t.TempDir(), "ledger"))
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Retry.Base = 10 * time.Millisecond
	s := config.DefaultServer("child")
	s.Type, s.Command = config.TypeStdio, exe
	if s.Env, err = (mcptest.Chaos{Ledger: ledger}).Env(); err != nil {
		t.Fatal(err)
	}
	c.Servers = []*config.Server{s}
	r := newRig(t, c, nil, router.Watch{})

	f := errorOf(t, request(t, t.Context(), r, "child__write_die", `{"key":"k"}`))
	if f.Code != "lost" || f.Attempts != 1 || f.Retryable || !strings.Contains(f.Text, "may have been executed") {
		t.Errorf("a write was answered %+v", f)
	}
	if n := ledger.Count("exec write_die k"); n != 1 {
		t.Errorf("a write was executed %d times", n)
	}
	works(t, r, "child__echo", `{}`) // it waits for the restart
	f = errorOf(t, request(t, t.Context(), r, "child__read_die", `{"key":"k"}`))
	if f.Kind != "lost" && f.Code != fault.CodeRestartFailed {
		t.Errorf("a read was answered %+v", f)
	}
	if n := ledger.Count("exec read_die k"); n > 2 {
		t.Errorf("a read that kills its server was executed %d times", n)
	}
}
