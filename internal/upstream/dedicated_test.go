package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// A herd starts a new peer for each connection and remembers all of them. The first
// one is that of the owner.
type herd struct {
	answer func(n int, q *mcptest.Request) *mcptest.Answer // by the n-th peer; nil: the usual

	mu    sync.Mutex
	peers []*mcptest.Raw
	tries []time.Time
	fail  error        // of starts that follow the first; nil: they work
	alive atomic.Int64 // peers that are connected
}

func (h *herd) dial(context.Context, *config.Server) (upstream.Peer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tries = append(h.tries, time.Now())
	if h.fail != nil && len(h.peers) > 0 {
		return nil, h.fail
	}
	raw, n := rawServer("a", "die", "hang"), len(h.peers)
	if h.answer != nil {
		raw.Answer = func(q *mcptest.Request) *mcptest.Answer { return h.answer(n, q) }
	}
	h.peers = append(h.peers, raw)
	return func(ctx context.Context, in io.Reader, out io.Writer) error {
		h.alive.Add(1)
		defer h.alive.Add(-1)
		return raw.Serve(ctx, in, out)
	}, nil
}

func (h *herd) breakDown(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fail = err
}

func (h *herd) attempts() []time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tries
}

// calls returns how many tool calls each peer has got.
func (h *herd) calls() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []int
	for _, p := range h.peers {
		all = append(all, len(p.Received("tools/call")))
	}
	return fmt.Sprint(all)
}

func sharing(how string) *config.Server {
	s := stdio("beta")
	s.Sharing = how
	return s
}

// callAs calls a tool for a session.
func callAs(ctx context.Context, s *upstream.Set, session, tool string) error {
	return s.Use(ctx, "beta", session, func(c upstream.Conn) error {
		reply, err := c.Call(ctx, &upstream.Request{ID: upstream.NextID(), Method: "tools/call", Name: tool,
			Params: wire.Value{Raw: []byte(`{"name":"` + tool + `","arguments":{}}`)}})
		if err == nil && reply.Err != nil {
			err = reply.Err
		}
		return err
	})
}

func mustCall(t *testing.T, s *upstream.Set, session string) {
	t.Helper()
	if err := callAs(t.Context(), s, session, "a"); err != nil {
		t.Fatalf("call of session %q: %v", session, err)
	}
}

func TestWhoSharesAConnection(t *testing.T) {
	for how, want := range map[string]struct {
		calls string // of each connection, that of the owner first
		live  int    // connections at the end
	}{
		"shared":  {"[5]", 1},
		"session": {"[0 2 2 1]", 3}, // a call without a session has its own
		"call":    {"[0 1 1 1 1 1]", 1},
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h herd
				s := newSet(t, h.dial, sharing(how))
				for _, session := range []string{"one", "two", "one", "two", ""} {
					mustCall(t, s, session)
				}
				synctest.Wait()
				if got := h.calls(); got != want.calls {
					t.Errorf("calls of the connections are %s, want %s", got, want.calls)
				}
				st := statusOf(t, s, "beta")
				if st.Connections != want.live || int(h.alive.Load()) != want.live {
					t.Errorf("%d connections, %d peers, want %d", st.Connections, h.alive.Load(), want.live)
				}
			})
		})
	}
}

func TestTheEndOfASessionEndsItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h herd
		s := newSet(t, h.dial, sharing("session"))
		mustCall(t, s, "one")
		mustCall(t, s, "two")
		s.EndSession("one")
		synctest.Wait()
		if n := h.alive.Load(); n != 2 {
			t.Errorf("%d peers are connected, want that of the owner and of the other session", n)
		}
		mustCall(t, s, "two")
		if got := h.calls(); got != "[0 1 2]" {
			t.Errorf("calls of the connections are %s", got)
		}
	})
}

// A call that the end of its session has cancelled must not bring the session back.
func TestACallOfAnEndedSessionMakesNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h herd
		s := newSet(t, h.dial, sharing("session"))
		<-s.Settled()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s.EndSession("one")
		if err := callAs(ctx, s, "one", "a"); fault.KindOf(err) != fault.Cancelled {
			t.Errorf("got %v", err)
		}
		if n := len(h.attempts()); n != 1 {
			t.Errorf("%d connections were made", n)
		}
	})
}

func TestTheEndOfASessionEndsTheMakingOfItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := herd{answer: func(n int, q *mcptest.Request) *mcptest.Answer {
			if n > 0 {
				return &mcptest.Answer{Silent: true}
			}
			return nil
		}}
		s := newSet(t, h.dial, sharing("session"))
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- callAs(ctx, s, "one", "a") }()
		time.Sleep(time.Second)
		cancel()
		s.EndSession("one")
		if err := <-result; fault.KindOf(err) != fault.Cancelled {
			t.Errorf("got %v", err)
		}
		time.Sleep(time.Second)
		if n := h.alive.Load(); n != 1 {
			t.Errorf("%d peers are connected, want that of the owner", n)
		}
	})
}

func dieOnDemand(_ int, q *mcptest.Request) *mcptest.Answer {
	if q.Method == "tools/call" && q.Name == "die" {
		return &mcptest.Answer{Close: true}
	}
	return nil
}

func TestALostConnectionOfASessionIsMadeAnewByTheNextCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := herd{answer: dieOnDemand}
		s := newSet(t, h.dial, sharing("session"))
		numbers := map[int64]bool{}
		for range 2 {
			err := callAs(t.Context(), s, "one", "die")
			var f *fault.Error
			if !errors.As(err, &f) || f.Kind != fault.Lost || f.Conn == 0 {
				t.Fatalf("the call that kills the server is answered with %v", err)
			}
			numbers[f.Conn] = true
			mustCall(t, s, "one")
		}
		if len(numbers) != 2 {
			t.Errorf("the lost connections have the numbers %v", numbers)
		}
		if st := statusOf(t, s, "beta"); st.State != upstream.Connected || st.Restarts != 0 {
			t.Errorf("the server is %s and has been restarted %d times", st.State, st.Restarts)
		}
		if got := h.calls(); got != "[0 1 2 1]" {
			t.Errorf("calls of the connections are %s", got)
		}
	})
}

func TestConnectionsOfSessionsThatCannotBeMadeAreNotTriedHot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h herd
		s := newSet(t, h.dial, sharing("session"))
		mustCall(t, s, "one")
		h.breakDown(fault.Of(fault.Unreachable, "beta", "no more licences"))
		begin := len(h.attempts())
		for i := range 200 { // 20 s
			err := callAs(t.Context(), s, fmt.Sprint("s", i%20), "a")
			var f *fault.Error
			if !errors.As(err, &f) || f.Kind != fault.Unreachable || f.Code != fault.CodeRestartFailed {
				t.Fatalf("got %v", err)
			}
			if i%50 == 0 {
				mustCall(t, s, "one") // who has a connection keeps it
			}
			time.Sleep(100 * time.Millisecond)
		}
		// After 0, 1, 2, 5, 10 s, by the next caller.
		if n := len(h.attempts()) - begin; n < 5 || n > 6 {
			t.Errorf("%d attempts in 20 s: %v", n, gaps(h.attempts()[begin:]))
		}
		h.breakDown(nil)
		time.Sleep(time.Minute)
		mustCall(t, s, "s1")
		mustCall(t, s, "s2")
	})
}

// Many sessions that find the server broken at the same moment are one failure.
func TestConnectionsThatFailSideBySideCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := herd{answer: func(n int, q *mcptest.Request) *mcptest.Answer {
			if n > 0 {
				return &mcptest.Answer{Error: `{"code":-32603,"message":"no more licences"}`, Delay: 100 * time.Millisecond}
			}
			return nil
		}}
		opts := options()
		opts.StartConcurrency = 50
		s := newSetWith(t, opts, h.dial, sharing("session"))
		<-s.Settled()
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				if err := callAs(t.Context(), s, fmt.Sprint(i), "a"); err == nil {
					t.Error("a call was answered")
				}
			})
		}
		wg.Wait()
		before := len(h.attempts())
		var f *fault.Error
		for range 2 { // the first pause is none, the second one a second
			if err := callAs(t.Context(), s, "late", "a"); !errors.As(err, &f) {
				t.Fatalf("got %v", err)
			}
		}
		if f.RetryAfter < 800*time.Millisecond || f.RetryAfter > 1200*time.Millisecond || len(h.attempts()) != before+1 {
			t.Errorf("the next attempt is due in %v, %d were made", f.RetryAfter, len(h.attempts())-before)
		}
	})
}

func TestAnUnusedConnectionOfASessionIsClosed(t *testing.T) {
	for name, limit := range map[string]time.Duration{"after ten minutes": 0, "after idle_timeout": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h herd
				server := sharing("session")
				server.IdleTimeout = limit
				if limit == 0 {
					limit = 10 * time.Minute
				}
				s := newSet(t, h.dial, server)
				for range 3 {
					mustCall(t, s, "one")
					time.Sleep(limit - time.Second)
				}
				if got := h.calls(); got != "[0 3]" {
					t.Errorf("calls of the connections are %s", got)
				}
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if st := statusOf(t, s, "beta"); st.Connections > 1 || h.alive.Load() > 1 {
					t.Errorf("%d connections, %d peers", st.Connections, h.alive.Load())
				}
				mustCall(t, s, "one")
			})
		})
	}
}

func TestConnectionsOfSessionsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h herd
		s := newSet(t, h.dial, sharing("session"))
		for i := range upstream.MaxDedicated {
			mustCall(t, s, fmt.Sprint(i))
		}
		if err := callAs(t.Context(), s, "one too many", "a"); fault.KindOf(err) != fault.Overloaded {
			t.Errorf("got %v", err)
		}
		s.EndSession("7")
		synctest.Wait()
		mustCall(t, s, "one too many")
	})
}

func TestANewcomerTakesThePlaceOfTheLongestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := herd{answer: func(_ int, q *mcptest.Request) *mcptest.Answer {
			if q.Method == "tools/call" && q.Name == "hang" {
				return &mcptest.Answer{Delay: time.Minute}
			}
			return nil
		}}
		s := newSet(t, h.dial, sharing("session"))
		busy := make(chan error, 1)
		go func() { busy <- callAs(t.Context(), s, "busy", "hang") }()
		synctest.Wait()
		for i := range upstream.MaxDedicated - 1 {
			time.Sleep(time.Millisecond)
			mustCall(t, s, fmt.Sprint(i))
		}
		time.Sleep(29 * time.Second)
		err := callAs(t.Context(), s, "one too many", "a")
		if fault.KindOf(err) != fault.Overloaded || !strings.Contains(err.Error(), "256") || !strings.Contains(err.Error(), "sharing") {
			t.Errorf("got %v", err)
		}
		time.Sleep(time.Second)
		mustCall(t, s, "0") // not idle any more
		mustCall(t, s, "one too many")
		synctest.Wait()
		if n := h.alive.Load(); n != upstream.MaxDedicated+1 {
			t.Errorf("%d peers are connected", n)
		}
		starts := len(h.attempts())
		for _, session := range []string{"0", "2", "254"} {
			mustCall(t, s, session)
		}
		if n := len(h.attempts()); n != starts {
			t.Errorf("others than the longest idle one lost their place: %d new starts", n-starts)
		}
		mustCall(t, s, "1") // had lost its place, and takes that of another
		if n := len(h.attempts()); n != starts+1 {
			t.Errorf("%d new starts, want 1", n-starts)
		}
		if err := <-busy; err != nil {
			t.Errorf("the call in flight: %v", err)
		}
	})
}

// hangingOnDemand are servers that never answer the tool hang. A deaf one answers
// nothing any more then.
func hangingOnDemand(deaf bool) func(int, *mcptest.Request) *mcptest.Answer {
	var hangs atomic.Bool
	return func(n int, q *mcptest.Request) *mcptest.Answer {
		switch {
		case n != 1: // not the first one of a session
		case q.Method == "tools/call" && q.Name == "hang":
			hangs.Store(true)
			return &mcptest.Answer{Silent: true}
		case deaf && hangs.Load():
			return &mcptest.Answer{Silent: true}
		}
		return nil
	}
}

func TestAProcessThatHangsInACancelledCallIsReplaced(t *testing.T) {
	for name, tc := range map[string]struct {
		deaf bool
		want string // calls of the connections
	}{
		"if it answers nothing": {true, "[0 1 1]"},
		"unless it answers":     {false, "[0 2]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := herd{answer: hangingOnDemand(tc.deaf)}
				s := upstream.NewProcessSet(options(), h.dial)
				defer s.Close(context.Background())
				s.Apply([]*config.Server{sharing("session")})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := callAs(ctx, s, "one", "hang"); fault.KindOf(err) != fault.Timeout {
					t.Errorf("got %v", err)
				}
				time.Sleep(5*time.Second + time.Millisecond)
				mustCall(t, s, "one")
				if got := h.calls(); got != tc.want {
					t.Errorf("calls of the connections are %s, want %s", got, tc.want)
				}
			})
		})
	}
}

func TestWhatEndsTheConnectionsOfSessions(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(*upstream.Set)
		call fault.Kind // of the next call; Internal: it works
		live int64      // peers in the end
	}{
		"the removal of the server":  {func(s *upstream.Set) { s.Apply(nil) }, fault.NotFound, 0},
		"a change of the server":     {func(s *upstream.Set) { c := sharing("session"); c.Args = []string{"x"}; s.Apply([]*config.Server{c}) }, fault.Internal, 2},
		"a reconnect":                {func(s *upstream.Set) { _ = s.Reconnect("beta") }, fault.Internal, 2},
		"a disconnect":               {func(s *upstream.Set) { _ = s.Disconnect("beta") }, fault.Unreachable, 0},
		"not that it is hidden":      {func(s *upstream.Set) { _ = s.Disable("beta") }, fault.Unreachable, 2},
		"the end of the whole set":   {func(s *upstream.Set) { _ = s.Close(context.Background()) }, fault.ShuttingDown, 0},
		"not a change of the limits": {func(s *upstream.Set) { c := sharing("session"); c.CallTimeout = 1; s.Apply([]*config.Server{c}) }, fault.Internal, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				h := herd{answer: func(_ int, q *mcptest.Request) *mcptest.Answer {
					if q.Name == "hang" {
						return &mcptest.Answer{Hold: release}
					}
					return nil
				}}
				s := newSet(t, h.dial, sharing("session"))
				mustCall(t, s, "one")
				// A call in flight is answered whatever happens.
				inFlight := make(chan error, 1)
				go func() { inFlight <- callAs(t.Context(), s, "one", "hang") }()
				synctest.Wait()
				time.AfterFunc(time.Second, func() { close(release) })
				tc.do(s)
				if err := <-inFlight; err != nil {
					t.Errorf("the call in flight: %v", err)
				}
				if err := callAs(t.Context(), s, "one", "a"); (err != nil || tc.call != fault.Internal) && fault.KindOf(err) != tc.call {
					t.Errorf("the next call: %v", err)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if n := h.alive.Load(); n != tc.live {
					t.Errorf("%d peers are connected, want %d", n, tc.live)
				}
			})
		})
	}
}

func TestConnectionsOfSessionsAreToldTheLogLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h herd
		first := func(context.Context, *config.Server) (upstream.Peer, error) {
			p, err := h.dial(t.Context(), nil)
			h.mu.Lock()
			defer h.mu.Unlock()
			h.peers[len(h.peers)-1].Capabilities = `{"tools":{},"logging":{}}`
			return p, err
		}
		s := newSet(t, first, sharing("session"))
		s.SetLevel("debug")
		mustCall(t, s, "one")
		synctest.Wait()
		s.SetLevel("error")
		synctest.Wait()
		for i, p := range h.peers {
			told := p.Received("logging/setLevel")
			if len(told) == 0 || string(mcptest.Field(told[len(told)-1].Params, "level")) != `"error"` {
				t.Errorf("connection %d was told %d levels", i, len(told))
			}
		}
	})
}

// A lazy server is asleep but for the time that sessions need it.
func TestASessionWakesALazyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h herd
		server := sharing("session")
		server.Lazy, server.IdleTimeout = true, time.Minute
		s := newSet(t, h.dial, server)
		<-s.Settled()
		for range 2 {
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			if n := h.alive.Load(); n != 0 {
				t.Fatalf("%d peers are connected while nobody needs them", n)
			}
			mustCall(t, s, "one")
			if n := h.alive.Load(); n != 2 {
				t.Errorf("%d peers are connected for a session", n)
			}
		}
	})
}

func TestEachSessionHasASessionOfAnHTTPServer(t *testing.T) {
	raw := rawServer("a")
	web := httptest.NewServer(raw)
	defer web.Close()
	server := sharing("session")
	server.Type, server.Command, server.URL = config.TypeHTTP, "", web.URL
	s := upstream.New(options())
	defer s.Close(context.Background())
	s.Apply([]*config.Server{server})
	for _, session := range []string{"one", "two", "one"} {
		mustCall(t, s, session)
	}
	ids := map[string]int{}
	for _, q := range raw.Received("tools/call") {
		ids[q.Header.Get("Mcp-Session-Id")]++
	}
	if len(ids) != 2 || len(raw.Received("initialize")) != 3 {
		t.Errorf("calls of the sessions are %v, of %d sessions", ids, len(raw.Received("initialize")))
	}
	raw.ForgetSessions() // and each is made anew, unnoticed
	mustCall(t, s, "one")
	mustCall(t, s, "two")
}

// The starts of sessions wait for a place like all others.
func TestStartsOfSessionsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := herd{answer: func(n int, q *mcptest.Request) *mcptest.Answer {
			if n > 0 && q.Method == "initialize" {
				return &mcptest.Answer{Delay: 500 * time.Millisecond}
			}
			return nil
		}}
		opts := options()
		opts.StartConcurrency = 2
		s := newSetWith(t, opts, h.dial, sharing("session"))
		<-s.Settled()
		begin := time.Now()
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() { mustCall(t, s, fmt.Sprint(i)) })
		}
		wg.Wait()
		if took := time.Since(begin); took != 1500*time.Millisecond {
			t.Errorf("6 starts of 500 ms, 2 at a time, took %v", took)
		}
	})
}
