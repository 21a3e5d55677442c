package upstream_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
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
	"mcp-aggregator/internal/wire"
)

func TestAServerThatAsksServesEachSessionWithAConnectionOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h herd
		dial := func(ctx context.Context, s *config.Server) (upstream.Peer, error) {
			if _, err := h.dial(ctx, s); err != nil {
				return nil, err
			}
			return askingServer(nil).Serve, nil
		}
		var kept *catalog.Kept
		opts := options()
		opts.Keep = func(_ *config.Server, k *catalog.Kept) { kept = k }
		s := newSetWith(t, opts, dial, asks("promote"))
		synctest.Wait()
		one, two, mute := &client{t: t, set: s, session: "one"}, &client{t: t, set: s, session: "two"}, &client{t: t, set: s, session: "three", mute: true}
		one.mustAsk(0) // the first one, still on the shared connection
		var all sync.WaitGroup
		for n := range 100 {
			all.Go(func() { one.mustAsk(n) })
			all.Go(func() { two.mustAsk(n) })
			all.Go(func() {
				if got := mute.ask(n); !strings.Contains(got, "cannot be asked") {
					t.Errorf("a client that cannot be asked got %s", got)
				}
			})
		}
		all.Wait()
		if st := statusOf(t, s, "beta"); st.Connections != 3 || st.Asked != 201 || st.Refused != 100 {
			t.Errorf("%d connections, %d asked, %d refused", st.Connections, st.Asked, st.Refused)
		}
		if kept == nil || !kept.Asks {
			t.Fatalf("not kept: %+v", kept)
		}
		s.EndSession("two")
		synctest.Wait()
		if st := statusOf(t, s, "beta"); st.Connections != 2 {
			t.Errorf("%d connections after the end of a session", st.Connections)
		}

		opts.Recall = func(*config.Server) *catalog.Kept { return kept }
		again := newSetWith(t, opts, always(askingServer(nil)), asks("promote"))
		synctest.Wait()
		if !statusOf(t, again, "beta").Asks {
			t.Error("forgotten over a restart")
		}
		one.set, two.set = again, again
		all.Go(func() { one.mustAsk(1) })
		all.Go(func() { two.mustAsk(2) })
		all.Wait()
		if st := statusOf(t, again, "beta"); st.Connections != 3 {
			t.Errorf("%d connections after a restart, want one for each session and the shared one", st.Connections)
		}
	})
}

func TestCallsWithoutASessionTakeTurnsOnConnectionsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, always(askingServer(nil)), asks("promote"))
		c := &client{t: t, set: s, think: time.Second} // so that calls meet
		synctest.Wait()
		for round := range 3 {
			var all sync.WaitGroup
			for n := range 4 {
				all.Go(func() { c.mustAsk(10*round + n) })
				if round == 0 {
					all.Wait() // the first marks the server
				}
			}
			all.Wait()
		}
		if st := statusOf(t, s, "beta"); st.Connections != 5 {
			t.Errorf("%d connections for 4 calls at a time and the shared one", st.Connections)
		}
	})
}

func TestSerializeRunsCallsThatCanBeAskedOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, always(askingServer(nil)), asks("serialize"))
		one, two := &client{t: t, set: s, session: "one"}, &client{t: t, set: s, session: "two"}
		synctest.Wait()
		one.mustAsk(0)
		var all sync.WaitGroup
		for n := range 50 {
			all.Go(func() { one.mustAsk(n) })
			all.Go(func() { two.mustAsk(n) })
		}
		all.Wait()
		if st := statusOf(t, s, "beta"); st.Connections != 1 || st.Refused != 0 {
			t.Errorf("%d connections, %d refused", st.Connections, st.Refused)
		}
		// A call that waits for its turn can be given up.
		hold := make(chan upstream.Ask, 1)
		all.Go(func() { one.call(t.Context(), "ask", "1", func(a upstream.Ask) { hold <- a }) })
		first := <-hold
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := two.call(ctx, "ask", "2", two.answer); !strings.Contains(got, "asks: serialize") {
			t.Errorf("got %s", got)
		}
		first.Answer([]byte(`{}`), nil)
		all.Wait()
	})
}

// Roots that are asked for right after the handshake must not be those of the client
// whose call happens to wait for the connection.
func TestRootsAtTheStartAreThoseOfNobodyOrOfTheSession(t *testing.T) {
	for sharing, want := range map[string][]string{
		"shared":  {`{"roots":[]}`},
		"session": {`{"roots":["of one"]}`, `{"roots":[]}`}, // the latter on the connection that lists
	} {
		t.Run(sharing, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := stdio("beta")
				server.Sharing = sharing
				answers := make(chan string, 2)
				s := newSet(t, func(context.Context, *config.Server) (upstream.Peer, error) {
					p := rawServer("plain")
					p.Answer = func(q *mcptest.Request) *mcptest.Answer {
						if q.Method == "initialize" || q.Method == "server/discover" {
							return nil
						}
						return &mcptest.Answer{Delay: time.Second}
					}
					go func() {
						_, _ = p.Await(t.Context(), "notifications/initialized", 1)
						if got, err := p.Ask(t.Context(), "roots/list", ""); err == nil {
							answers <- string(got.Result)
						}
					}()
					return p.Serve, nil
				}, server)
				one := &client{t: t, set: s, session: "one"}
				got := one.call(t.Context(), "plain", "{}", func(a upstream.Ask) { a.Answer([]byte(`{"roots":["of one"]}`), nil) })
				if strings.HasPrefix(got, "error") {
					t.Fatal(got)
				}
				synctest.Wait()
				close(answers)
				var all []string
				for a := range answers {
					all = append(all, a)
				}
				if slices.Sort(all); !slices.Equal(all, want) {
					t.Errorf("the server got %q, want %q", all, want)
				}
				if st := statusOf(t, s, "beta"); st.Asks {
					t.Error("the server is taken for one that asks")
				}
			})
		})
	}
}

// Whatever the calls do to each other on a connection that several sessions share, a
// question reaches its own client or is refused.
func TestAQuestionNeverReachesAnotherClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := askingServer(nil)
		s := newSet(t, always(peer), asks("refuse"))
		synctest.Wait()
		var all sync.WaitGroup
		var answered, refused, cancelled atomic.Int64
		for i := range 4 {
			c := &client{t: t, set: s, session: fmt.Sprint("s", i)}
			for worker := range 3 {
				r := rand.New(rand.NewPCG(uint64(i), uint64(worker)))
				all.Go(func() {
					for n := range 30 {
						time.Sleep(time.Duration(r.IntN(20_000)) * time.Millisecond)
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+r.IntN(3000))*time.Millisecond)
						got := c.call(ctx, "ask", fmt.Sprintf(`"%s %d"`, c.session, n), func(a upstream.Ask) {
							if !strings.Contains(string(a.Params), `"`+c.session+" ") {
								t.Errorf("%s was asked %s", c.session, a.Params)
							}
							time.AfterFunc(time.Duration(r.IntN(2000))*time.Millisecond, func() { c.answer(a) })
						})
						cancel()
						switch {
						case strings.Contains(got, `"refused"`):
							refused.Add(1)
						case strings.HasPrefix(got, "error"):
							cancelled.Add(1)
						case got == fmt.Sprintf(`{"by":%q,"to":"%s %d"}`, c.session, c.session, n):
							answered.Add(1)
						default:
							t.Errorf("%s got %s", c.session, got)
						}
					}
				})
			}
		}
		all.Wait()
		if answered.Load() < 50 || cancelled.Load() < 20 {
			t.Errorf("%d answered, %d refused, %d given up: that tests nothing", answered.Load(), refused.Load(), cancelled.Load())
		}
	})
}

func init() {
	children["asking"] = mcptest.Stdio(func() *mcptest.Raw {
		return askingServer(func(a *mcptest.Answer) {
			ask := a.Asking
			a.Asking = func(do mcptest.Ask) string {
				result := ask(do)
				return strings.TrimSuffix(result, "}") + fmt.Sprintf(`,"pid":%d}`, os.Getpid())
			}
		})
	})
}

func TestAServerThatAsksRunsOneProcessForEachSession(t *testing.T) {
	server := config.DefaultServer("beta")
	command, env, err := mcptest.Command("asking")
	if err != nil {
		t.Fatal(err)
	}
	server.Type, server.Command, server.Env = config.TypeStdio, command, env
	s := upstream.New(options())
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	s.Apply([]*config.Server{server})
	<-s.Settled()
	if era, known := s.EraOf("beta"); era != wire.Legacy || !known {
		t.Errorf("era %v, known %t", era, known)
	}
	one, two := &client{t: t, set: s, session: "one"}, &client{t: t, set: s, session: "two"}
	shared := string(mcptest.Field([]byte(one.ask(0)), "pid"))
	pids := map[string]map[string]bool{"one": {}, "two": {}}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, c := range []*client{one, two} {
		for n := range 16 {
			all.Go(func() {
				for i := range 10 {
					got := []byte(c.ask(100*i + n))
					if by := string(mcptest.Field(got, "by")); by != mcptest.Quote(c.session) || string(mcptest.Field(got, "to")) != fmt.Sprint(100*i+n) {
						t.Errorf("%s got %s", c.session, got)
					}
					mu.Lock()
					pids[c.session][string(mcptest.Field(got, "pid"))] = true
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	delete(pids["one"], shared)
	if len(pids["one"]) != 1 || len(pids["two"]) != 1 || maps.Equal(pids["one"], pids["two"]) || pids["two"][shared] {
		t.Errorf("processes are %v beside %s", pids, shared)
	}
}

// What comes on the connection of one session without belonging to a call is for that
// session, unless it is about the server.
func TestNoticesOfASessionsConnectionNameTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h herd
		server := stdio("beta")
		server.Sharing = "session"
		got := make(chan upstream.Notice, 10)
		opts := options()
		opts.Notify = func(n upstream.Notice) { got <- n }
		s := newSetWith(t, opts, h.dial, server)
		mustCall(t, s, "one")
		peer := h.peers[len(h.peers)-1]
		peer.Notify("notifications/tools/list_changed", "")
		peer.Notify("notifications/elicitation/complete", `{"elicitationId":"e"}`)
		synctest.Wait()
		want := upstream.Notice{Server: "beta", Session: "one", Method: "notifications/elicitation/complete", Params: []byte(`{"elicitationId":"e"}`)}
		if diff := cmp.Diff(want, <-got); diff != "" || len(got) > 0 {
			t.Errorf("and %d more (-want +got):\n%s", len(got), diff)
		}
	})
}
