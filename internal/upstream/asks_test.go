package upstream_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// askingServer is a legacy server whose tool "ask" asks the client who it is and
// answers with what it said. What it is called with comes back in the question.
func askingServer(change func(*mcptest.Answer)) *mcptest.Raw {
	r := rawServer("ask", "plain")
	r.Answer = func(q *mcptest.Request) *mcptest.Answer {
		if q.Method != "tools/call" || q.Name != "ask" {
			return nil
		}
		a := &mcptest.Answer{Asking: func(ask mcptest.Ask) string {
			got, err := ask("elicitation/create", `{"message":`+string(mcptest.Field(q.Params, "arguments"))+`}`)
			if err != nil {
				return ""
			}
			if got.Error != nil {
				return `{"refused":` + string(got.Error) + `}`
			}
			return string(got.Result)
		}}
		if change != nil {
			change(a)
		}
		return a
	}
	return r
}

// A client calls tools as one session, and answers with its name and what it was asked.
type client struct {
	t         *testing.T
	set       *upstream.Set
	session   string // "" is a client without
	mute      bool   // it cannot be asked
	principal string
	think     time.Duration // before it answers

	mu    sync.Mutex
	asked []string
}

func (c *client) answer(a upstream.Ask) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, a.Method+" "+string(a.Params))
	answer := fmt.Appendf(nil, `{"by":%q,"to":%s}`, c.session, mcptest.Field(a.Params, "message"))
	go func() {
		time.Sleep(c.think)
		a.Answer(answer, nil)
	}()
}

// call returns the result, or the error as text.
func (c *client) call(ctx context.Context, tool, args string, ask func(upstream.Ask)) (result string) {
	use := func(ctx context.Context, server, session string, fn func(upstream.Conn) error) error {
		return c.set.UseAsking(ctx, server, session, c.principal, fn)
	}
	if c.mute {
		use, ask = c.set.Use, nil
	}
	err := use(ctx, "beta", c.session, func(conn upstream.Conn) error {
		r := &upstream.Request{ID: upstream.NextID(), Method: "tools/call", Name: tool, Session: c.session, Ask: ask,
			Params: wire.Value{Raw: []byte(`{"name":"` + tool + `","arguments":` + args + `}`)}}
		reply, err := conn.Call(ctx, r)
		defer reply.Release()
		if err == nil && reply.Err != nil {
			err = reply.Err
		}
		result = string(reply.Result.Raw)
		return err
	})
	if err != nil {
		return "error: " + err.Error()
	}
	return result
}

func (c *client) ask(n int) string { return c.call(c.t.Context(), "ask", fmt.Sprint(n), c.answer) }

// want is what ask(n) of the client returns.
func (c *client) want(n int) string { return fmt.Sprintf(`{"by":%q,"to":%d}`, c.session, n) }

func (c *client) mustAsk(n int) {
	c.t.Helper()
	if got := c.ask(n); got != c.want(n) {
		c.t.Errorf("session %q got %s, want %s", c.session, got, c.want(n))
	}
}

func asks(how string) *config.Server {
	s := stdio("beta")
	s.Asks = how
	return s
}

func TestARequestOfTheServerGoesToTheOnlyCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, always(askingServer(nil)), asks("promote"))
		c := &client{t: t, set: s, session: "one"}
		synctest.Wait()
		c.mustAsk(7)
		if diff := cmp.Diff([]string{`elicitation/create {"message":7}`}, c.asked); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if st := statusOf(t, s, "beta"); st.Asked != 1 || st.Refused != 0 || !st.Asks {
			t.Errorf("%+v", st)
		}
	})
}

// Without connections of their own, the calls of several clients stand in each other's way.
func TestARequestIsRefusedUnlessItIsClearWhoseItIs(t *testing.T) {
	for name, c := range map[string]struct {
		before, after bool          // when the call of the other session begins, seen from the request
		lasts         time.Duration // that call
		want          string
	}{
		"the other call ends soon":      {before: true, lasts: 3 * time.Second, want: "not clear which"},
		"the other call goes on":        {before: true, lasts: time.Minute, want: "not clear which"},
		"the other began only after it": {after: true, lasts: time.Minute, want: `{"by":"one","to":1}`},
		"there is no other":             {want: `{"by":"one","to":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				peer := askingServer(nil)
				ask := peer.Answer
				peer.Answer = func(q *mcptest.Request) *mcptest.Answer {
					if q.Name == "plain" {
						return &mcptest.Answer{Delay: c.lasts}
					}
					return ask(q)
				}
				s := newSet(t, always(peer), asks("refuse"))
				one, two := &client{t: t, set: s, session: "one"}, &client{t: t, set: s, session: "two"}
				synctest.Wait()
				var all sync.WaitGroup
				other := func() { two.call(t.Context(), "plain", "{}", two.answer) }
				if c.before {
					all.Go(other)
					synctest.Wait()
				}
				began := time.Now()
				got := one.call(t.Context(), "ask", "1", func(a upstream.Ask) {
					if c.after {
						all.Go(other)
						time.AfterFunc(time.Second, func() { one.answer(a) })
						return
					}
					one.answer(a)
				})
				if !strings.Contains(got, c.want) {
					t.Errorf("got %s", got)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("took %v", took)
				}
				if len(two.asked) > 0 {
					t.Errorf("the other client was asked %v", two.asked)
				}
				all.Wait()
			})
		})
	}
}

// A call that was given up may have asked before the server learnt of it.
func TestARequestOfACallThatWasGivenUpReachesNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connect(t)
		ctx, cancel := context.WithCancel(t.Context())
		ask := func(who string, into *[]string) func(upstream.Ask) {
			return func(a upstream.Ask) { *into = append(*into, who+" "+string(a.Params)) }
		}
		var got []string
		call := func(ctx context.Context, session string) {
			_, _ = l.Call(ctx, &upstream.Request{ID: upstream.NextID(), Method: "tools/call", Session: session, Ask: ask(session, &got)})
		}
		go call(ctx, "one")
		first := l.hear()
		go call(t.Context(), "two")
		second := l.hear()
		l.say(`{"jsonrpc":"2.0","id":"early","method":"elicitation/create","params":{}}`)
		if m := l.hear(); !strings.Contains(string(m.Raw), "not clear which") {
			t.Errorf("heard %s", m.Raw)
		}
		cancel()
		if m := l.hear(); m.Method != "notifications/cancelled" {
			t.Fatalf("heard %s", m.Raw)
		}
		l.say(`{"jsonrpc":"2.0","id":"late","method":"elicitation/create","params":{}}`)
		if m := l.hear(); !strings.Contains(string(m.Raw), "not clear which") {
			t.Errorf("heard %s", m.Raw)
		}
		l.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, first.ID)
		l.say(`{"jsonrpc":"2.0","id":"clear","method":"elicitation/create","params":{"for":"two"}}`)
		synctest.Wait()
		if diff := cmp.Diff([]string{`two {"for":"two"}`}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		l.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, second.ID)
		if m := l.hear(); string(m.ID) != `"clear"` || !strings.Contains(string(m.Raw), "has ended") {
			t.Errorf("the open request was answered with %s", m.Raw)
		}
	})
}

func TestARequestGoesOnToAnotherCallOfTheSessionWhenItsCallEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connect(t)
		got := make(chan string, 4)
		asked := make(chan upstream.Ask, 4)
		var ids [2][]byte
		for i := range 2 {
			go func() {
				_, err := l.Call(t.Context(), &upstream.Request{ID: upstream.NextID(), Method: "tools/call", Session: "one", Ask: func(a upstream.Ask) {
					asked <- a
					got <- fmt.Sprint("asked ", i)
				}})
				got <- fmt.Sprint("over ", i, err)
			}()
			ids[i] = l.hear().ID
		}
		l.say(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"n":1}}`)
		first := <-asked
		l.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, ids[0])
		second := <-asked
		if !isDone(first.Done) || isDone(second.Done) {
			t.Error("Done does not say whose the request is")
		}
		first.Answer([]byte(`{"from":"first"}`), nil)
		second.Answer([]byte(`{"from":"second"}`), nil)
		second.Answer([]byte(`{"from":"second again"}`), nil)
		if m := l.hear(); !strings.Contains(string(m.Raw), `{"from":"second"}`) || !isDone(second.Done) {
			t.Errorf("answered with %s", m.Raw)
		}
		l.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, ids[1])
		synctest.Wait()
		close(got)
		all := slices.Sorted(func(yield func(string) bool) {
			for s := range got {
				if !yield(s) {
					return
				}
			}
		})
		if diff := cmp.Diff([]string{"asked 0", "asked 1", "over 0 <nil>", "over 1 <nil>"}, all); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestWhatEndsAQuestionClosesDone(t *testing.T) {
	for name, end := range map[string]func(*line, context.CancelFunc, []byte){
		"the server withdraws it": func(l *line, _ context.CancelFunc, _ []byte) {
			l.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}`)
		},
		"the call is answered": func(l *line, _ context.CancelFunc, id []byte) {
			l.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
			_ = l.hear()
		},
		"the call is cancelled": func(l *line, cancel context.CancelFunc, _ []byte) {
			cancel()
			_, _ = l.hear(), l.hear()
		},
		"the connection is lost": func(l *line, _ context.CancelFunc, _ []byte) { _ = l.Close(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := connect(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				asked := make(chan upstream.Ask, 1)
				go func() {
					_, _ = l.Call(ctx, &upstream.Request{ID: upstream.NextID(), Method: "tools/call", Ask: func(a upstream.Ask) { asked <- a }})
				}()
				id := l.hear().ID
				l.say(`{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{}}`)
				a := <-asked
				synctest.Wait()
				if isDone(a.Done) {
					t.Fatal("done before anything ended")
				}
				end(l, cancel, id)
				<-a.Done
				a.Answer([]byte(`{}`), nil) // no-op: nobody reads it any more
			})
		})
	}
}

func TestTooManyQuestionsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connect(t)
		n := 0
		go func() {
			_, _ = l.Call(t.Context(), &upstream.Request{ID: upstream.NextID(), Method: "tools/call", Ask: func(upstream.Ask) { n++ }})
		}()
		_ = l.hear()
		for i := range 17 {
			l.say(`{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":{}}`, i)
		}
		if m := l.hear(); !strings.Contains(string(m.Raw), "too many") || string(m.ID) != "16" {
			t.Errorf("heard %s", m.Raw)
		}
		if n != 16 {
			t.Errorf("asked %d times", n)
		}
	})
}
