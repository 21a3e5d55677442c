package router_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// withQueue gives the server a queue with so many slots, and calls two seconds.
func withQueue(slots int) func(*config.Config) {
	return func(c *config.Config) {
		c.Queues = map[string]*config.Queue{"q": {Slots: slots, Waiting: 10000, Timeout: time.Hour}}
		c.Servers[0].Queue, c.Servers[0].CallTimeout = "q", 2*time.Second
	}
}

func TestStatesAreGoodForOneCallOfOneClientOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := askRig(t, wire.Legacy, asker(elicits), nil)
		ann, bob := newPerson(t, r, wire.Modern), newPerson(t, r, wire.Modern)
		ann.name, bob.name = "ann", "bob"
		in := ann.parkOne(t.Context())
		retry := ann.retry(callAsk, in)
		for _, c := range []struct {
			name           string
			p              *person
			method, params string
			want           string
		}{
			{"of another client", bob, "tools/call", retry, `"reason":"foreign"`},
			{"of an anonymous client", newPerson(t, r, wire.Modern), "tools/call", retry, `"reason":"foreign"`},
			{"forged", ann, "tools/call", strings.Replace(retry, in.RequestState, in.RequestState[:40]+"A"+in.RequestState[41:], 1), `"reason":"forged"`},
			{"empty", ann, "tools/call", strings.Replace(retry, in.RequestState, "", 1), `"reason":"forged"`},
			{"that is no text", ann, "tools/call", strings.Replace(retry, quoted(in.RequestState), "7", 1), `error -32602 invalid params: requestState is no string`},
			{"with answers that are none", ann, "tools/call", `{"name":"up__ask","requestState":` + quoted(in.RequestState) + `,"inputResponses":{"1":"yes"}}`, `error -32602 invalid params: one of inputResponses`},
		} {
			if got := textOf(c.p.request(t.Context(), c.method, c.params)); !strings.Contains(got, c.want) || !strings.HasPrefix(got, "error -32602") {
				t.Errorf("%s: got %s", c.name, got)
			}
		}
		if got := textOf(ann.request(t.Context(), "tools/call", retry)); !strings.Contains(got, "accept ann") {
			t.Errorf("after all that: %s", got)
		}
		if got := textOf(ann.request(t.Context(), "tools/call", retry)); !strings.Contains(got, `"reason":"replayed"`) {
			t.Errorf("again: %s", got)
		}
		time.Sleep(patience + time.Second)
		if got := textOf(ann.request(t.Context(), "tools/call", retry)); !strings.Contains(got, `"reason":"expired"`) {
			t.Errorf("later: %s", got)
		}
	})
}

func TestAStateIsOfOneToolOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := func(ctx context.Context, q *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			text, err := elicits(ctx, q.Session, q)
			return done(text), err
		}
		p := newPerson(t, askRig(t, wire.Legacy, serverOf(map[string]tool{"ask": ask, "drop": ask}), nil), wire.Modern)
		in := p.parkOne(t.Context())
		if got := textOf(p.request(t.Context(), "tools/call", p.retry(`{"name":"up__drop","arguments":{}}`, in))); !strings.Contains(got, `"reason":"foreign"`) {
			t.Errorf("got %s", got)
		}
		if got := textOf(p.request(t.Context(), "tools/call", p.retry(`{"name":"up__ask","arguments":{"other":1}}`, in))); !strings.Contains(got, "ann") {
			t.Errorf("got %s", got)
		}
	})
}

func TestOfTwoRetriesOneWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPerson(t, askRig(t, wire.Legacy, asker(elicits), nil), wire.Modern)
		for range 50 {
			in := p.parkOne(t.Context())
			retry := p.retry(callAsk, in)
			var won, lost atomic.Int64
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					switch got := textOf(p.request(t.Context(), "tools/call", retry)); {
					case strings.Contains(got, "accept ann"):
						won.Add(1)
					case strings.Contains(got, `"reason":"replayed"`):
						lost.Add(1)
					default:
						t.Errorf("got %s", got)
					}
				})
			}
			all.Wait()
			if won.Load() != 1 || lost.Load() != 3 {
				t.Fatalf("%d retries won, %d lost", won.Load(), lost.Load())
			}
		}
	})
}

func TestWhatIsNotAnsweredIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPerson(t, askRig(t, wire.Legacy, asking("up", "form+roots"), nil), wire.Modern)
		in := p.parkOne(t.Context())
		var answered string
		for key, q := range in.InputRequests {
			if q.Method == "roots/list" {
				answered = key
			}
		}
		first := in.RequestState
		reply := p.request(t.Context(), "tools/call", fmt.Sprintf(`{"name":"up__ask","requestState":%q,"inputResponses":{%q:{"roots":[{"uri":"file:///here"}]},"77":{"unasked":1}}}`, in.RequestState, answered))
		in = pendingIn(t, reply)
		if _, again := in.InputRequests[answered]; again || len(in.InputRequests) != 1 || in.RequestState == first {
			t.Fatalf("got %s", textOf(reply))
		}
		reply = p.request(t.Context(), "tools/call", fmt.Sprintf(`{"name":"up__ask","requestState":%q}`, in.RequestState)) // with no answers at all
		in = pendingIn(t, reply)
		if len(in.InputRequests) != 1 {
			t.Fatalf("got %s", textOf(reply))
		}
		if got := textOf(p.request(t.Context(), "tools/call", p.retry(callAsk, in))); !strings.Contains(got, "file:///here") || !strings.Contains(got, "ann") {
			t.Errorf("got %s", got)
		}
	})
}

func TestTheTimeOfACallStandsStillWhileItsClientIsAsked(t *testing.T) {
	for _, client := range []wire.Era{wire.Legacy, wire.Modern} {
		synctest.Test(t, func(t *testing.T) {
			r := askRig(t, wire.Legacy, asker(func(ctx context.Context, s *mcp.ServerSession, q *mcp.CallToolRequest) (string, error) {
				time.Sleep(1500 * time.Millisecond)
				text, err := elicits(ctx, s, q)
				if err == nil && string(q.Params.Arguments) != `{}` {
					<-ctx.Done()
				}
				return text, err
			}), func(c *config.Config) {
				c.Servers[0].CallTimeout, c.Servers[0].CallIdleTimeout = 2*time.Second, 1800*time.Millisecond
			})
			p := newPerson(t, r, client)
			p.answer = func(method, params string) (string, *wire.RPCError) {
				time.Sleep(4 * time.Minute)
				return answerTo(method, params), nil
			}
			if got := p.call("tools/call", callAsk); !strings.Contains(got, "accept ann") {
				t.Errorf("%v client: got %s", client, got)
			}
			began := time.Now()
			got := p.call("tools/call", `{"name":"up__ask","arguments":{"hang":1}}`)
			took := time.Since(began).Round(10 * time.Millisecond)
			if !strings.Contains(got, "no answer and no progress within call_idle_timeout") || took < 4*time.Minute+1800*time.Millisecond || took > 4*time.Minute+2*time.Second {
				t.Errorf("%v client: after %v: %s", client, took, got)
			}
		})
	}
}

func TestALegacyClientThatNeverAnswersIsNotWaitedForForEver(t *testing.T) {
	for _, server := range []wire.Era{wire.Legacy, wire.Modern} {
		synctest.Test(t, func(t *testing.T) {
			p := newPerson(t, askRig(t, server, asking("up", "form"), nil), wire.Legacy)
			p.answer = func(string, string) (string, *wire.RPCError) { return "never", nil }
			began := time.Now()
			if got := p.call("tools/call", callAsk); !strings.Contains(got, "has not answered within parked_ttl (5m0s)") || time.Since(began) < patience || time.Since(began) > patience+time.Second {
				t.Errorf("%v server, after %v: %s", server, time.Since(began), got)
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			began = time.Now()
			if got := textOf(p.request(ctx, "tools/call", callAsk)); !strings.Contains(got, `"code":"cancelled"`) || time.Since(began) != time.Second {
				t.Errorf("%v server, cancelled, after %v: %s", server, time.Since(began), got)
			}
		})
	}
}

// nothingLeft checks that calls hold nothing any more: a call that needs all of the
// queue works, and the server has no other users.
func nothingLeft(t *testing.T, r *router.Router, set *upstream.Set) {
	t.Helper()
	synctest.Wait()
	if got := r.Parked(); got.Calls != 0 {
		t.Errorf("%d calls are parked", got.Calls)
	}
	for _, s := range set.Status() {
		if s.Refs != 0 {
			t.Errorf("server %s has %d users", s.Server, s.Refs)
		}
	}
}

func TestAThousandAbandonedCallsLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const servers, each = 5, 210 // together more than the bound of 1000
		var running atomic.Int64
		server := asker(func(ctx context.Context, s *mcp.ServerSession, q *mcp.CallToolRequest) (string, error) {
			running.Add(1)
			defer running.Add(-1)
			return elicits(ctx, s, q)
		})
		c := config.Default()
		c.Queues = map[string]*config.Queue{"q": {Slots: servers * each, Waiting: 1, Timeout: time.Hour}}
		builtins := map[string]func() *mcp.Server{}
		for i := range servers {
			s := builtinServer(fmt.Sprint("up", i))
			s.Protocol, s.Sharing, s.Queue = "legacy", "call", "q"
			c.Servers, builtins[s.Name] = append(c.Servers, s), server
		}
		r, set := newRigSet(t, c, builtins, router.Watch{})
		var parked, refused atomic.Int64
		var all sync.WaitGroup
		for i := range servers * each {
			all.Go(func() {
				p := newPerson(t, r, wire.Modern)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel() // the client disconnects after the answer: the call waits all the same
				switch reply := p.request(ctx, "tools/call", fmt.Sprintf(`{"name":"up%d__ask","arguments":{}}`, i%servers)); {
				case pendingIn(t, reply).ResultType == "input_required":
					parked.Add(1)
				case strings.Contains(textOf(reply), "1000 calls are waiting for answers of their clients already"):
					refused.Add(1)
				default:
					t.Errorf("got %s", textOf(reply))
				}
			})
		}
		all.Wait()
		if parked.Load() != 1000 || refused.Load() != servers*each-1000 || r.Parked().Calls != 1000 || running.Load() != 1000 {
			t.Errorf("%d calls are parked, %d were refused, %d run; %+v", parked.Load(), refused.Load(), running.Load(), r.Parked())
		}
		time.Sleep(patience)
		nothingLeft(t, r, set)
		if got := r.Parked(); got.Expired != 1000 || running.Load() != 0 {
			t.Errorf("%d calls run; %+v", running.Load(), got)
		}
		if got := r.Queues().States()[0]; got.Running != 0 || got.Waiting != 0 {
			t.Errorf("the queue has %+v", got)
		}
	})
}

func TestThereIsABoundForParkedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := askRig(t, wire.Legacy, asker(elicits), func(c *config.Config) { c.Limits.Parked = 1; c.Servers[0].Sharing = "call" })
		p := newPerson(t, r, wire.Modern)
		in := p.parkOne(t.Context())
		got := textOf(p.request(t.Context(), "tools/call", callAsk))
		if !strings.Contains(got, "1 calls are waiting for answers of their clients already") || r.Parked().Refused != 1 {
			t.Errorf("got %s, %+v", got, r.Parked())
		}
		if got := textOf(p.request(t.Context(), "tools/call", p.retry(callAsk, in))); !strings.Contains(got, "accept ann") {
			t.Errorf("got %s", got)
		}
		if got := p.call("tools/call", callAsk); !strings.Contains(got, "accept ann") {
			t.Errorf("got %s", got)
		}
	})
}

func TestAParkedCallKeepsItsPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config.Default()
		c.Servers = []*config.Server{builtinServer("up")}
		c.Servers[0].Protocol = "legacy"
		withQueue(1)(c)
		r, set := newRigSet(t, c, map[string]func() *mcp.Server{"up": asker(elicits)}, router.Watch{})
		p := newPerson(t, r, wire.Modern)
		in := p.parkOne(t.Context())
		if got := set.Status()[0].Refs; got != 1 {
			t.Errorf("%d references", got)
		}
		second := make(chan pending)
		go func() { second <- p.parkOne(t.Context()) }()
		time.Sleep(time.Minute)
		select {
		case <-second:
			t.Error("another call got the slot")
		default:
		}
		if got := textOf(p.request(t.Context(), "tools/call", p.retry(callAsk, in))); !strings.Contains(got, "accept ann") {
			t.Errorf("got %s", got)
		}
		if got := textOf(p.request(t.Context(), "tools/call", p.retry(callAsk, <-second))); !strings.Contains(got, "accept ann") {
			t.Errorf("got %s", got)
		}
		nothingLeft(t, r, set)
	})
}

func TestACancelledRetryStopsTheServersWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config.Default()
		c.Servers = []*config.Server{builtinServer("up")}
		c.Servers[0].Protocol = "legacy"
		withQueue(1)(c)
		c.Servers[0].CallTimeout = time.Hour
		var stopped atomic.Int64
		r, set := newRigSet(t, c, map[string]func() *mcp.Server{"up": asker(func(ctx context.Context, s *mcp.ServerSession, q *mcp.CallToolRequest) (string, error) {
			if _, err := elicits(ctx, s, q); err != nil {
				return "", err
			}
			<-ctx.Done()
			stopped.Store(time.Now().UnixNano())
			return "", ctx.Err()
		})}, router.Watch{})
		p := newPerson(t, r, wire.Modern)
		ctx, cancel := context.WithCancel(t.Context())
		in := p.parkOne(ctx)
		cancel() // the client goes while nothing waits: that is how it is
		time.Sleep(time.Minute)
		ctx, cancel = context.WithCancel(t.Context())
		ended := make(chan router.Reply)
		go func() { ended <- p.request(ctx, "tools/call", p.retry(callAsk, in)) }()
		time.Sleep(time.Minute)
		at := time.Now()
		cancel()
		if reply := <-ended; reply.Err == nil || !strings.Contains(string(reply.Err.Data), `"code":"cancelled"`) {
			t.Errorf("got %s", textOf(reply))
		}
		nothingLeft(t, r, set)
		if took := time.Unix(0, stopped.Load()).Sub(at); took < 0 || took > 100*time.Millisecond {
			t.Errorf("the server stopped after %v", took)
		}
	})
}

func TestTheEndOfACallWaitsForItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPerson(t, askRig(t, wire.Legacy, asker(func(ctx context.Context, s *mcp.ServerSession, q *mcp.CallToolRequest) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			_, err := elicits(ctx, s, q)
			if !errors.Is(err, context.DeadlineExceeded) {
				return "", fmt.Errorf("ended with %w", err)
			}
			return "went on without the user", nil
		}), nil), wire.Modern)
		in := p.parkOne(t.Context())
		time.Sleep(time.Minute)
		if got := textOf(p.request(t.Context(), "tools/call", p.retry(callAsk, in))); !strings.Contains(got, "went on without the user") {
			t.Errorf("got %s", got)
		}
		p.parkOne(t.Context()) // nobody comes for the end of this one
		time.Sleep(2 * patience)
		if got := p.r.Parked(); got.Calls != 0 || got.Expired != 1 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestClosingEndsParkedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := askRig(t, wire.Legacy, asker(func(ctx context.Context, s *mcp.ServerSession, q *mcp.CallToolRequest) (string, error) {
			if string(q.Params.Arguments) == "{}" {
				return elicits(ctx, s, q)
			}
			<-ctx.Done()
			return "", ctx.Err()
		}), nil)
		p := newPerson(t, r, wire.Modern)
		in := p.parkOne(t.Context())
		waiting := make(chan string)
		go func() {
			waiting <- textOf(p.request(t.Context(), "tools/call", `{"name":"up__ask","arguments":{"hang":1}}`))
		}()
		synctest.Wait()
		began := time.Now()
		r.Close(t.Context())
		if took := time.Since(began); took > time.Second {
			t.Errorf("closing took %v", took)
		}
		if got := <-waiting; !strings.Contains(got, "the aggregator is stopping") {
			t.Errorf("a call that was there got %s", got)
		}
		if got := textOf(p.request(t.Context(), "tools/call", p.retry(callAsk, in))); !strings.Contains(got, `"reason":"replayed"`) {
			t.Errorf("the parked one got %s", got)
		}
		if got := textOf(p.request(t.Context(), "tools/call", callAsk)); !strings.Contains(got, "the aggregator is stopping") {
			t.Errorf("a new one got %s", got)
		}
		r.Close(t.Context())
	})
}
