package upstream_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
)

// sessions are clients that can be asked outside of calls, by session.
type sessions struct {
	mute bool // they cannot be, now

	mu    sync.Mutex
	asked []string
	open  []upstream.Ask // without an answer
}

func (c *sessions) ask(server, session string, a upstream.Ask) bool {
	if c.mute {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, fmt.Sprintf("%s of %s: %s %s", session, server, a.Method, a.Params))
	c.open = append(c.open, a)
	return true
}

// answer answers what is open.
func (c *sessions) answer(result string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.open {
		a.Answer([]byte(result), nil)
	}
	c.open = nil
}

// ownConnection makes a set whose server has a connection with session "one", and returns
// the server's end of it and that of the shared connection.
func ownConnection(t *testing.T, opts upstream.Options, answer func(q *mcptest.Request) *mcptest.Answer) (s *upstream.Set, own, shared *mcptest.Raw) {
	t.Helper()
	h := herd{answer: func(_ int, q *mcptest.Request) *mcptest.Answer {
		if answer == nil {
			return nil
		}
		return answer(q)
	}}
	server := stdio("beta")
	server.Sharing, server.Protocol = "session", "legacy"
	s = newSetWith(t, opts, h.dial, server)
	mustCall(t, s, "one")
	synctest.Wait()
	return s, h.peers[1], h.peers[0]
}

// said is what a server gets for a request.
func said(t *testing.T, peer *mcptest.Raw, method, params string) string {
	t.Helper()
	got, err := peer.Ask(t.Context(), method, params)
	if err != nil {
		return "nothing: " + err.Error()
	}
	return string(got.Result) + string(got.Error)
}

func TestARequestOutsideOfCallsGoesToTheSessionWhoseConnectionItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c sessions
		opts := options()
		opts.Ask = c.ask
		s, own, shared := ownConnection(t, opts, nil)
		got := make(chan string, 3)
		for _, method := range []string{"roots/list", "vendor/x", "sampling/createMessage"} {
			go func() { got <- said(t, own, method, `{"a":1}`) }()
			synctest.Wait()
			c.answer(`{"of":"one"}`)
			if answer := <-got; answer != `{"of":"one"}` {
				t.Errorf("%s: %s", method, answer)
			}
		}
		want := []string{`one of beta: roots/list {"a":1}`, `one of beta: vendor/x {"a":1}`, `one of beta: sampling/createMessage {"a":1}`}
		if diff := cmp.Diff(want, c.asked); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if st := statusOf(t, s, "beta"); st.Asked != 3 || st.Refused != 0 || st.Asks {
			t.Errorf("%d asked, %d refused, marked %t", st.Asked, st.Refused, st.Asks)
		}
		for method, want := range map[string]string{"roots/list": `{"roots":[]}`, "sampling/createMessage": "-32600", "vendor/x": "-32601"} {
			if answer := said(t, shared, method, ""); !strings.Contains(answer, want) {
				t.Errorf("%s on the shared connection: %s", method, answer)
			}
		}
		if len(c.asked) != 3 {
			t.Errorf("a shared connection asked %q", c.asked[3:])
		}
	})
}

// A client over HTTP that has no stream open can be asked during its calls only.
func TestAClientThatCannotBeAskedOutsideOfCallsIsAskedForRootsInTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessions{mute: true}
		opts := options()
		opts.Ask = c.ask
		s, own, _ := ownConnection(t, opts, func(q *mcptest.Request) *mcptest.Answer {
			return &mcptest.Answer{Delay: time.Second}
		})
		if answer := said(t, own, "elicitation/create", "{}"); !strings.Contains(answer, "-32600") {
			t.Errorf("an elicitation: %s", answer)
		}
		began := time.Now()
		if answer := said(t, own, "roots/list", ""); answer != `{"roots":[]}` || time.Since(began) != 5*time.Second {
			t.Errorf("roots without a call: %s after %v", answer, time.Since(began))
		}
		got := make(chan string, 1)
		go func() { got <- said(t, own, "roots/list", "") }()
		synctest.Wait()
		one := &client{t: t, set: s, session: "one"}
		one.call(t.Context(), "a", "{}", func(a upstream.Ask) { a.Answer([]byte(`{"roots":["of one"]}`), nil) })
		if answer := <-got; answer != `{"roots":["of one"]}` {
			t.Errorf("roots before a call: %s", answer)
		}
	})
}

// A server may ask on its own account while a call runs, which nothing tells apart.
func TestARequestWhoseCallHasEndedGoesOnToTheSession(t *testing.T) {
	for name, c := range map[string]struct {
		method   string
		gaveUp   bool // the client gives up the call
		want     string
		answered bool
	}{
		"the call ends":                         {method: "elicitation/create", want: `{"of":"one"}`},
		"the client gives the call up":          {method: "elicitation/create", gaveUp: true, want: "has ended"},
		"the client gives it up, but has roots": {method: "roots/list", gaveUp: true, want: `{"of":"one"}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var outside sessions
				opts := options()
				opts.Ask = outside.ask
				s, own, _ := ownConnection(t, opts, func(q *mcptest.Request) *mcptest.Answer {
					if q.Name != "hang" {
						return nil
					}
					return &mcptest.Answer{Delay: 2 * time.Second}
				})
				var during []upstream.Ask
				limit := time.Minute
				if c.gaveUp {
					limit = time.Second
				}
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				got := make(chan string, 1)
				one := &client{t: t, set: s, session: "one"}
				ended := make(chan string, 1)
				go func() { ended <- one.call(ctx, "hang", "{}", func(a upstream.Ask) { during = append(during, a) }) }()
				synctest.Wait()
				go func() { got <- said(t, own, c.method, "{}") }()
				<-ended
				synctest.Wait()
				if len(during) != 1 || !isDone(during[0].Done) {
					t.Fatalf("asked %d times during the call", len(during))
				}
				outside.answer(`{"of":"one"}`)
				if answer := <-got; !strings.Contains(answer, c.want) {
					t.Errorf("the server got %s", answer)
				}
			})
		})
	}
}

func TestARequestOutsideOfCallsEndsWithItsReason(t *testing.T) {
	for name, end := range map[string]func(s *upstream.Set, own *mcptest.Raw){
		"the server withdraws it": func(_ *upstream.Set, own *mcptest.Raw) {
			own.Notify("notifications/cancelled", `{"requestId":"ask-1"}`)
		},
		"the session ends":         func(s *upstream.Set, _ *mcptest.Raw) { s.EndSession("one") },
		"the server is taken away": func(s *upstream.Set, _ *mcptest.Raw) { s.Apply(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c sessions
				opts := options()
				opts.Ask = c.ask
				s, own, _ := ownConnection(t, opts, nil)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { _, _ = own.Ask(ctx, "elicitation/create", "{}") }()
				synctest.Wait()
				if len(c.open) != 1 || isDone(c.open[0].Done) {
					t.Fatalf("%d open", len(c.open))
				}
				end(s, own)
				time.Sleep(time.Second)
				if !isDone(c.open[0].Done) {
					t.Error("the client is not told")
				}
			})
		})
	}
}

func TestRequestsOutsideOfCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c sessions
		opts := options()
		opts.Ask = c.ask
		_, own, _ := ownConnection(t, opts, nil)
		got := make(chan string, 20)
		for range 20 {
			go func() { got <- said(t, own, "vendor/x", "") }()
		}
		synctest.Wait()
		if len(c.open) != 16 || len(got) != 4 {
			t.Errorf("%d open, %d answered", len(c.open), len(got))
		}
		c.answer(`{}`)
	})
}

// A server over HTTP asks on the stream of its session.
func TestOverHTTPARequestOutsideOfCallsGoesToTheSession(t *testing.T) {
	peers := &sessionPeers{make: func() *mcptest.Raw { return rawServer("a") }}
	web := httptest.NewServer(peers)
	t.Cleanup(web.Close)
	server := config.DefaultServer("beta")
	server.Type, server.URL, server.Protocol, server.Sharing = config.TypeHTTP, web.URL, "legacy", "session"
	opts := options()
	asked := make(chan string, 1)
	opts.Ask = func(server, session string, a upstream.Ask) bool {
		asked <- session + " " + a.Method
		a.Progress([]byte(`{"progressToken":"ours","progress":1}`))
		a.Progress([]byte(`{"progress":2,"progressToken":3}`))
		a.Answer([]byte(`{"roots":["of one"]}`), nil)
		return true
	}
	heard := make(chan upstream.Notice, 8)
	opts.Notify = func(n upstream.Notice) { heard <- n }
	s := upstream.New(opts)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	s.Apply([]*config.Server{server})
	<-s.Settled()
	mustCall(t, s, "one")
	peers.mu.Lock()
	own := peers.bySession["s1"]
	peers.mu.Unlock()
	s.RootsChanged("one")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := own.Await(ctx, "notifications/roots/list_changed", 1); err != nil {
		t.Fatal(err)
	}
	got, err := own.Ask(ctx, "roots/list", `{"_meta":{"progressToken":"its"}}`)
	if err != nil || string(got.Result) != `{"roots":["of one"]}` || <-asked != "one roots/list" {
		t.Fatalf("%v, %+v", err, got)
	}
	told := own.Received("notifications/progress")
	if len(told) != 2 || string(told[0].Params) != `{"progressToken":"its","progress":1}` || string(told[1].Params) != `{"progress":2,"progressToken":"its"}` {
		t.Errorf("told %v before the answer", told)
	}
	own.Notify("notifications/message", `{"level":"info"}`)
	if n := <-heard; n.Session != "one" || n.Method != "notifications/message" {
		t.Errorf("heard %+v", n)
	}
}

func TestNewsOfRootsGoToTheSessionsOwnConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, own, shared := ownConnection(t, options(), nil)
		mustCall(t, s, "two")
		for range 3 {
			s.RootsChanged("one") // at once: they fall together
		}
		s.RootsChanged("nobody")
		synctest.Wait()
		const news = "notifications/roots/list_changed"
		if n := len(own.Received(news)); n == 0 || n > 3 {
			t.Errorf("its own connection heard it %d times", n)
		}
		if n := len(shared.Received(news)); n != 0 {
			t.Errorf("the shared one heard it %d times", n)
		}
	})
}

func TestAConnectionOfASessionDeclaresWhatItsClientCan(t *testing.T) {
	const all = `{"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true}}`
	for name, c := range map[string]struct {
		caps  string
		known bool
		want  string
	}{
		"roots alone":         {`{"roots":{}}`, true, `{"roots":{}}`},
		"nothing":             {`{}`, true, `{}`},
		"not even an object":  {``, true, `{}`},
		"tasks, among others": {`{"elicitation":{}, "tasks":{"list":{}},"experimental":{"x":{}}}`, true, `{"elicitation":{},"experimental":{"x":{}}}`},
		"a modern client":     {``, false, all},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := options()
				opts.Capabilities = func(session string) ([]byte, bool) { return []byte(c.caps), c.known && session == "one" }
				_, own, shared := ownConnection(t, opts, nil)
				declared := func(r *mcptest.Raw) string {
					return strings.ReplaceAll(string(mcptest.Field(r.Received("initialize")[0].Params, "capabilities")), " ", "")
				}
				if got := declared(own); got != c.want {
					t.Errorf("declared %s, want %s", got, c.want)
				}
				if got := declared(shared); got != all {
					t.Errorf("the shared one declared %s", got)
				}
			})
		})
	}
}

// On a shared channel the end of an elicitation goes to who was shown it, and to nobody
// else, even if that one alone has a call in flight.
func TestTheEndOfAnElicitationIsForWhoWasShownIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := rawServer("ask", "url", "slow")
		peer.Answer = func(q *mcptest.Request) *mcptest.Answer {
			id := string(mcptest.Field(q.Params, "arguments"))
			switch q.Name {
			case "ask":
				return &mcptest.Answer{Asking: func(ask mcptest.Ask) string {
					_, _ = ask("elicitation/create", `{"mode":"url","elicitationId":`+id+`}`)
					return `{}`
				}}
			case "url":
				return &mcptest.Answer{Error: `{"code":-32042,"message":"visit","data":{"elicitations":[{"mode":"url"},{"mode":"url","elicitationId":` + id + `}]}}`}
			case "slow":
				return &mcptest.Answer{Delay: time.Minute}
			}
			return nil
		}
		opts := options()
		var heard []string
		opts.Notify = func(n upstream.Notice) { heard = append(heard, n.Session+" "+n.Method+" "+string(n.Params)) }
		s := newSetWith(t, opts, always(peer), asks("refuse"))
		synctest.Wait()
		one, two := &client{t: t, set: s, session: "one"}, &client{t: t, set: s, session: "two"}
		one.call(t.Context(), "ask", `"asked"`, one.answer)
		one.call(t.Context(), "url", `"refused"`, nil)
		two.call(t.Context(), "url", `"of two"`, nil)
		one.call(t.Context(), "url", `"of both"`, nil)
		two.call(t.Context(), "url", `"of both"`, nil)
		go two.call(t.Context(), "slow", `{}`, nil)
		synctest.Wait()
		for _, id := range []string{"asked", "refused", "of both", "unknown", "of two"} {
			peer.Notify("notifications/elicitation/complete", `{"elicitationId":"`+id+`"}`)
			synctest.Wait()
		}
		want := []string{
			`one notifications/elicitation/complete {"elicitationId":"asked"}`,
			`one notifications/elicitation/complete {"elicitationId":"refused"}`,
		} // that of two goes to its call
		if diff := cmp.Diff(want, heard); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if st := statusOf(t, s, "beta"); st.Skipped != 2 {
			t.Errorf("%d counted as nobody's, want 2", st.Skipped)
		}
	})
}

func TestWhatIsKeptOfElicitationsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := rawServer("url")
		peer.Answer = func(q *mcptest.Request) *mcptest.Answer {
			if q.Method != "tools/call" {
				return nil
			}
			var all []string
			for n := range 1000 {
				all = append(all, fmt.Sprintf(`{"elicitationId":"%d"}`, n))
			}
			all = append(all, `{"elicitationId":"`+strings.Repeat("x", 300)+`"}`)
			return &mcptest.Answer{Error: `{"code":-32042,"message":"visit","data":{"elicitations":[` + strings.Join(all, ",") + `]}}`}
		}
		opts := options()
		heard := 0
		opts.Notify = func(upstream.Notice) { heard++ }
		s := newSetWith(t, opts, always(peer), asks("refuse"))
		synctest.Wait()
		one := &client{t: t, set: s, session: "one"}
		one.call(t.Context(), "url", `{}`, nil)
		for n := range 1000 {
			peer.Notify("notifications/elicitation/complete", fmt.Sprintf(`{"elicitationId":"%d"}`, n))
		}
		peer.Notify("notifications/elicitation/complete", `{"elicitationId":"`+strings.Repeat("x", 300)+`"}`)
		synctest.Wait()
		if heard != upstream.MaxShown {
			t.Errorf("%d known, want %d", heard, upstream.MaxShown)
		}
	})
}

func TestProgressOfAClientComesInOrderBeforeItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c sessions
		opts := options()
		opts.Ask = c.ask
		_, own, _ := ownConnection(t, opts, nil)
		got := make(chan string, 1)
		go func() { got <- said(t, own, "sampling/createMessage", `{"_meta":{"progressToken":"its"}}`) }()
		synctest.Wait()
		a := c.open[0]
		for n := range 5 {
			a.Progress(fmt.Appendf(nil, `{"progressToken":"ours","progress":%d}`, n))
		}
		a.Progress([]byte(`{"progress":6}`)) // of nothing
		a.Answer([]byte(`{}`), nil)
		a.Progress([]byte(`{"progressToken":"ours","progress":7}`)) // too late
		<-got
		synctest.Wait()
		var order []string
		for _, q := range own.Requests() {
			if q.Method == "notifications/progress" || q.Method == "" {
				order = append(order, string(q.Params))
			}
		}
		var want []string
		for n := range 5 {
			want = append(want, fmt.Sprintf(`{"progressToken":"its","progress":%d}`, n))
		}
		if diff := cmp.Diff(append(want, ""), order); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		go func() { got <- said(t, own, "sampling/createMessage", `{"_meta":{}}`) }()
		synctest.Wait()
		if c.open[1].Progress != nil {
			t.Error("a server that wants no progress is told of it")
		}
		c.answer(`{}`)
	})
}

// Clients without a session never use a connection that another principal has used.
func TestPrincipalsWithoutASessionDoNotShareConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		seen := map[string]map[string]bool{} // connection → what it was called with
		var starts atomic.Int64
		dial := func(context.Context, *config.Server) (upstream.Peer, error) {
			conn := fmt.Sprint("connection ", starts.Add(1))
			return askingServer(func(a *mcptest.Answer) {
				inner := a.Asking
				a.Asking = func(ask mcptest.Ask) string {
					result := inner(ask)
					mu.Lock()
					defer mu.Unlock()
					if seen[conn] == nil {
						seen[conn] = map[string]bool{}
					}
					seen[conn][string(mcptest.Field([]byte(result), "to"))] = true
					return result
				}
			}).Serve, nil
		}
		opts := options()
		opts.Recall = func(*config.Server) *catalog.Kept { return &catalog.Kept{Asks: true} }
		s := newSetWith(t, opts, dial, asks("promote"))
		synctest.Wait()
		for round := range 3 {
			var all sync.WaitGroup
			for i := range 6 {
				c := &client{t: t, set: s, principal: []string{"ann", "bob", ""}[(i+round)%3], think: time.Second}
				all.Go(func() {
					c.call(t.Context(), "ask", fmt.Sprintf("%q", c.principal), c.answer)
				})
			}
			all.Wait()
		}
		if len(seen) != 6 {
			t.Errorf("%d connections, want two for each principal", len(seen))
		}
		for conn, by := range seen {
			if len(by) != 1 {
				t.Errorf("%s was used by %v", conn, by)
			}
		}
	})
}

func TestAPrincipalCannotTakeAllConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := options()
		opts.Recall = func(*config.Server) *catalog.Kept { return &catalog.Kept{Asks: true} }
		s := newSetWith(t, opts, always(askingServer(nil)), asks("promote"))
		synctest.Wait()
		greedy := &client{t: t, set: s, principal: "greedy", think: time.Minute}
		results := make(chan string, 100)
		for n := range 100 {
			go func() { results <- greedy.ask(n) }()
		}
		time.Sleep(time.Second)
		refused := 0
		for len(results) > 0 {
			if got := <-results; !strings.Contains(got, "of this caller") {
				t.Errorf("got %s", got)
			}
			refused++
		}
		other := &client{t: t, set: s, principal: "other"}
		other.mustAsk(1)
		if refused != 100-upstream.MaxPlaces {
			t.Errorf("%d refused, want all but %d", refused, upstream.MaxPlaces)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		again := &client{t: t, set: s, principal: "greedy"}
		again.mustAsk(1)
	})
}
