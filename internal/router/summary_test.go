package router_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

func TestTheTimeOfASummaryIsNotThatOfTheCall(t *testing.T) {
	for _, client := range eras {
		synctest.Test(t, func(t *testing.T) {
			c := pressing(wire.Legacy, "summarize")
			withQueue(1)(c) // and two seconds for a call
			var running atomic.Int64
			big := counted(&running, answers(lines(1000)))
			r := newPress(t, c, upWith(map[string]tool{"big": big, "small": answers("x")}), nil)
			p := newPerson(t, r.Router, client)
			p.answer = func(method, params string) (string, *wire.RPCError) {
				time.Sleep(20 * time.Second)
				if other := newPerson(t, r.Router, wire.Legacy).call("tools/call", `{"name":"up__small","arguments":{}}`); !strings.Contains(other, `"x"`) {
					t.Errorf("%v: a summary keeps the place of its call: %s", client, other)
				}
				return answerTo(method, params), nil
			}
			if got := p.call("tools/call", callBig); !strings.Contains(got, "sampled") {
				t.Errorf("%v: %.300s", client, got)
			}
			nothingLeft(t, r.Router, r.set)
		})
	}
}

func TestASummaryIsWaitedForOnlySoLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPress(t, pressing(wire.Modern, "summarize"), upWith(map[string]tool{"big": answers(lines(1000))}), nil)
		p := newPerson(t, r.Router, wire.Legacy)
		p.answer = func(string, string) (string, *wire.RPCError) { return "never", nil }
		began := time.Now()
		f := fittedIn(t, p.call("tools/call", callBig))
		if took := time.Since(began); f.Meta.Result.Policy != "page" || took != 30*time.Second {
			t.Errorf("%+v after %v", f.Meta, took)
		}
		nothingLeft(t, r.Router, r.set)
	})
}

func TestCancellingACallEndsItsSummary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPress(t, pressing(wire.Legacy, "summarize"), upWith(map[string]tool{"big": answers(lines(1000))}), nil)
		p := newPerson(t, r.Router, wire.Legacy)
		p.answer = func(string, string) (string, *wire.RPCError) { return "never", nil }
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		began := time.Now()
		reply := p.request(ctx, "tools/call", callBig)
		if took := time.Since(began); reply.Err == nil || !strings.Contains(string(reply.Err.Data), `"code":"cancelled"`) || took != 5*time.Second {
			t.Errorf("%.300s after %v", textOf(reply), took)
		}
		nothingLeft(t, r.Router, r.set)
	})
}

// Equal calls share a summary; when the one whose client is asked goes away, the other
// does not wait for it.
func TestASharedSummaryDoesNotWaitForTheClientOfACallThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPress(t, pressing(wire.Legacy, "summarize"), upWith(map[string]tool{"big": answers(lines(1000))}), nil)
		asked := 0
		call := func(ctx context.Context) router.Reply {
			c := newCall(t, r.Router, "up__big", `{}`)
			c.Caps, c.Session = []byte(everyCapability), "one"
			c.Ask = func(ctx context.Context, _ string, _ []byte, _ func([]byte)) ([]byte, *wire.RPCError) {
				asked++
				<-ctx.Done()
				return nil, &wire.RPCError{Code: -32603, Message: "gave up"}
			}
			return r.Call(ctx, c)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go call(ctx)
		synctest.Wait()
		time.AfterFunc(5*time.Second, cancel)
		began := time.Now()
		f := fittedIn(t, textOf(call(t.Context())))
		if took := time.Since(began); f.Meta.Result.Policy != "page" || took != 5*time.Second || asked != 1 {
			t.Errorf("%+v after %v, %d questions", f.Meta, took, asked)
		}
		nothingLeft(t, r.Router, r.set)
	})
}

func TestAModernClientThatDoesNotComeBackWithASummaryIsGivenUp(t *testing.T) {
	for _, server := range eras {
		synctest.Test(t, func(t *testing.T) {
			r := newPress(t, pressing(server, "summarize"), upWith(map[string]tool{"big": answers(lines(1000))}), nil)
			p := newPerson(t, r.Router, wire.Modern)
			p.name = "ann"
			in := pendingIn(t, p.request(t.Context(), "tools/call", callBig))
			if r.Parked().Calls != 1 || len(in.InputRequests) != 1 {
				t.Fatalf("%+v, %+v", r.Parked(), in)
			}
			time.Sleep(time.Minute) // the summary has given up, the call has not
			f := fittedIn(t, textOf(p.request(t.Context(), "tools/call", p.retry(callBig, in))))
			if f.Meta.Result.Policy != "page" || p.readBack(f.Meta.Result.Handle, 1000) != lines(1000) {
				t.Errorf("late: %+v", f.Meta)
			}
			p.request(t.Context(), "tools/call", strings.Replace(callBig, "{}", `{"again":1}`, 1))
			time.Sleep(patience + time.Second)
			nothingLeft(t, r.Router, r.set)
			if got := r.Parked(); got.Expired != 1 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// goesFar is a tool that reports so much progress before a large result.
func goesFar(progress ...float64) tool {
	return func(ctx context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for _, n := range progress {
			_ = q.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: q.Params.GetProgressToken(), Progress: n})
		}
		return done(lines(1000)), nil
	}
}

func TestProgressOfASummaryGoesOnFromThatOfTheServer(t *testing.T) {
	for _, client := range eras {
		for _, progress := range [][]float64{nil, {0.25, 0.5}, {1, 2.5, 70}, {-3}} {
			synctest.Test(t, func(t *testing.T) {
				r := newPress(t, pressing(wire.Legacy, "summarize"), upWith(map[string]tool{"big": goesFar(progress...)}), nil)
				p := newPerson(t, r.Router, client)
				var heard []string
				p.events = func(ev upstream.Event) { heard = append(heard, ev.Method+" "+string(ev.Params)) }
				p.call("tools/call", callBig)
				checkProgress(t, heard, len(progress))
			})
		}
	}
}

// checkProgress looks at the notifications of one call, of which so many are the server's.
func checkProgress(t *testing.T, heard []string, theirs int) {
	t.Helper()
	if len(heard) <= theirs {
		t.Errorf("nothing of the summary in %q", heard)
	}
	last := -1e9
	for i, h := range heard {
		method, params, _ := strings.Cut(h, " ")
		var n struct {
			ProgressToken string
			Progress      float64
			Message       string
		}
		if err := json.Unmarshal([]byte(params), &n); err != nil || method != "notifications/progress" || n.ProgressToken != "tok" || n.Progress <= last {
			t.Errorf("%d of %q: %v", i, heard, err)
		}
		if i >= theirs && !strings.Contains(n.Message, "summarizing the result of up__big") {
			t.Errorf("%d of %q", i, heard)
		}
		last = n.Progress
	}
}

func TestThereIsNoProgressForThoseWhoDidNotAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPress(t, pressing(wire.Legacy, "summarize"), upWith(map[string]tool{"big": goesFar()}), nil)
		c := newCall(t, r.Router, "up__big", `{}`)
		c.Caps, c.Session = []byte(everyCapability), "s"
		c.Ask = func(_ context.Context, method string, params []byte, _ func([]byte)) ([]byte, *wire.RPCError) {
			return []byte(answerTo(method, string(params))), nil
		}
		c.Events = func(ev upstream.Event) { t.Errorf("heard %s %s", ev.Method, ev.Params) }
		if got := textOf(r.Call(t.Context(), c)); !strings.Contains(got, "sampled") {
			t.Errorf("%.300s", got)
		}
	})
}
