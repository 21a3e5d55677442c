package upstream_test

import (
	"context"
	"io"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
)

// gaps are the pauses between starts.
func gaps(starts []time.Time) []time.Duration {
	var all []time.Duration
	for i := 1; i < len(starts); i++ {
		all = append(all, starts[i].Sub(starts[i-1]))
	}
	return all
}

// checkGaps compares pauses with what they should be, jitter of ±20 % allowed.
func checkGaps(t *testing.T, starts []time.Time, want []time.Duration) {
	t.Helper()
	got := gaps(starts)
	if len(got) < len(want) {
		t.Fatalf("pauses between starts are %v, want %v", got, want)
	}
	for i, w := range want {
		if got[i] < w*8/10 || got[i] > w*12/10 {
			t.Errorf("pause %d is %v, want %v ± 20 %% (all: %v)", i+1, got[i], w, got)
		}
	}
}

// failing records attempts that fail.
type failing struct {
	err error
	mu  sync.Mutex
	at  []time.Time
}

func (f *failing) dial(context.Context, *config.Server) (upstream.Peer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = append(f.at, time.Now())
	return nil, f.err
}

func (f *failing) attempts() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at
}

func TestAFailedStartIsRepeatedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{err: fault.Of(fault.Unreachable, "beta", "refused")}
		s := newSet(t, f.dial, stdio("beta"))
		time.Sleep(10 * time.Minute)
		want := append(upstream.RestartDelays[1:len(upstream.RestartDelays):len(upstream.RestartDelays)], time.Minute, time.Minute)
		checkGaps(t, f.attempts(), want)
		if got := statusOf(t, s, "beta"); got.Attempt != len(f.attempts()) || got.State != upstream.Failed {
			t.Errorf("after %d attempts the status is %+v", len(f.attempts()), got)
		}
	})
}

func TestWhatRetryingCannotMendIsTriedSlowly(t *testing.T) {
	tests := []struct {
		name  string
		err   error
		state string
		kind  fault.Kind // of calls
	}{
		{"credentials", fault.Of(fault.Unauthorized, "beta", "HTTP status 401"), upstream.NeedsAuth, fault.Unauthorized},
		{"a missing command", fault.Of(fault.Unreachable, "beta", "cannot start: %w", exec.ErrNotFound), upstream.Failed, fault.Unreachable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &failing{err: tt.err}
				s := newSet(t, f.dial, stdio("beta"))
				time.Sleep(5*time.Minute + time.Second)
				n := len(f.attempts())
				if n < 5 || n > 6 {
					t.Errorf("%d attempts in five minutes, want one a minute", n)
				}
				for _, gap := range gaps(f.attempts()) {
					if gap < time.Minute {
						t.Errorf("an attempt followed after %v", gap)
					}
				}
				if st := statusOf(t, s, "beta"); st.State != tt.state {
					t.Errorf("the state is %q, want %q", st.State, tt.state)
				}
				if err := call(t.Context(), s, "beta", "a"); fault.KindOf(err) != tt.kind {
					t.Errorf("call: %v (%v)", err, fault.KindOf(err))
				}
			})
		})
	}
}

func TestAServerMayAskForALongerPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{err: &fault.Error{Kind: fault.RateLimited, Reason: "429", RetryAfter: 45 * time.Second}}
		newSet(t, f.dial, stdio("beta"))
		time.Sleep(46 * time.Second)
		if got := gaps(f.attempts()); len(got) != 1 || got[0] != 45*time.Second {
			t.Errorf("pauses are %v, want 45 s", got)
		}
	})
}

func TestAChildThatCrashesAtStartIsNotStartedOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crash := &mcptest.Raw{Answer: mcptest.Always(mcptest.Answer{Close: true})}
		spawns := &spawner{peers: []*mcptest.Raw{crash}}
		newSet(t, spawns.dial, stdio("beta"))
		time.Sleep(20 * time.Second)
		if n := len(spawns.starts()); n < 5 || n > 8 {
			t.Errorf("%d starts in 20 s, want 5 to 8: %v", n, gaps(spawns.starts()))
		}
	})
}

// mortal starts peers that die when told to.
type mortal struct {
	spawner
	mu   sync.Mutex
	kill context.CancelFunc // of the newest
}

func (m *mortal) dial(ctx context.Context, s *config.Server) (upstream.Peer, error) {
	peer, err := m.spawner.dial(ctx, s)
	return func(ctx context.Context, in io.Reader, out io.Writer) error {
		ctx, cancel := context.WithCancel(ctx)
		m.mu.Lock()
		m.kill = cancel
		m.mu.Unlock()
		return peer(ctx, in, out)
	}, err
}

func (m *mortal) die() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kill()
}

func TestALostServerIsRestartedAtOnceAndCallersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mortal{spawner: spawner{peers: []*mcptest.Raw{rawServer("a"), rawServer("a", "b")}}}
		m.peers[1].Answer = mcptest.On(initialize, mcptest.Answer{Delay: time.Second})
		s := newSet(t, m.dial, stdio("beta"))
		<-s.Settled()
		time.Sleep(time.Second)
		drained(s)
		m.die()
		synctest.Wait()

		if !drained(s) {
			t.Error("nobody was told of the loss")
		}
		st := statusOf(t, s, "beta")
		if st.State != upstream.Pending || !st.Stale || st.Tools != 1 || st.LastError == "" {
			t.Errorf("after the loss the status is %+v", st)
		}
		if got := toolsOf(s, "beta"); got != "a" {
			t.Errorf("after the loss %q is listed", got)
		}
		if err := call(t.Context(), s, "beta", "a"); err != nil {
			t.Errorf("a call during the restart: %v", err)
		}
		synctest.Wait()
		if got := toolsOf(s, "beta"); got != "a b" {
			t.Errorf("after the restart %q is listed", got)
		}
		if st := statusOf(t, s, "beta"); st.State != upstream.Connected || st.Stale || st.Tools != 2 {
			t.Errorf("after the restart the status is %+v", st)
		}
		if got := gaps(m.starts()); len(got) != 1 || got[0] != time.Second {
			t.Errorf("restarted %v after the start, want 1 s: at once", got)
		}
	})
}

func TestAServerThatKeepsDyingIsRestartedEverMoreSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mortal{spawner: spawner{peers: []*mcptest.Raw{rawServer("a")}}}
		s := newSet(t, m.dial, stdio("beta"))
		<-s.Settled()
		kill := func(after time.Duration) {
			for statusOf(t, s, "beta").State != upstream.Connected {
				<-s.Changed()
			}
			time.Sleep(after)
			m.die()
			synctest.Wait()
		}
		for range 4 {
			kill(time.Second)
		}
		err := call(t.Context(), s, "beta", "a")
		if fault.KindOf(err) != fault.Unreachable || !strings.Contains(err.Error(), "is being restarted: the server closed the connection") {
			t.Errorf("a call while the next attempt is seconds away: %v", err)
		}
		kill(61 * time.Second)
		kill(time.Second)
		time.Sleep(time.Second)
		var waits []time.Duration
		for i, gap := range gaps(m.starts()) {
			lived := time.Second
			if i == 4 {
				lived = 61 * time.Second
			}
			waits = append(waits, gap-lived)
		}
		want := []time.Duration{0, time.Second, 2 * time.Second, 5 * time.Second, 0}
		for i, w := range want {
			if waits[i] < w*8/10 || waits[i] > w*12/10 {
				t.Errorf("pauses before restarts are %v, want %v ± 20 %%", waits, want)
				break
			}
		}
	})
}

func TestALossEndsTheCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		m := &mortal{spawner: spawner{peers: []*mcptest.Raw{holding(never)}}}
		s := newSet(t, m.dial, stdio("beta"))
		<-s.Settled()
		results := make(chan error, 10)
		for range 10 {
			go func() { results <- call(t.Context(), s, "beta", "slow") }()
		}
		synctest.Wait()
		m.die()
		for range 10 {
			if err := <-results; fault.KindOf(err) != fault.Lost {
				t.Errorf("a call in flight: %v (%v)", err, fault.KindOf(err))
			}
		}
		synctest.Wait()
		if st := statusOf(t, s, "beta"); st.State != upstream.Connected {
			t.Errorf("the state is %q", st.State)
		}
	})
}

func TestADefectOfOneServerIsNotTheEndOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, func(_ context.Context, server *config.Server) (upstream.Peer, error) {
			if server.Name == "beta" {
				panic("a bug")
			}
			return rawServer("a").Serve, nil
		}, stdio("alpha"), stdio("beta"))
		<-s.Settled()
		if err := call(t.Context(), s, "alpha", "a"); err != nil {
			t.Errorf("alpha: %v", err)
		}
		if st := statusOf(t, s, "beta"); st.State != upstream.Failed || !strings.Contains(st.LastError, "a bug") {
			t.Errorf("the status of beta is %+v", st)
		}
	})
}

func TestUseReleasesAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, always(rawServer("a")), stdio("beta"))
		<-s.Settled()
		func() {
			defer func() { _ = recover() }()
			_ = s.Use(t.Context(), "beta", "", func(upstream.Conn) error { panic("in a callback") })
		}()
		if n := statusOf(t, s, "beta").InFlight; n != 0 {
			t.Errorf("%d references are left", n)
		}
	})
}

func TestTheLogLevelReachesServersThatLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := &mcptest.Raw{Era: mcptest.Legacy, Capabilities: `{"logging":{}}`}
		m := &mortal{spawner: spawner{peers: []*mcptest.Raw{logs}}}
		silent, modern := rawServer("a"), &mcptest.Raw{Era: mcptest.Modern}
		dial := func(ctx context.Context, s *config.Server) (upstream.Peer, error) {
			switch s.Name {
			case "beta":
				return m.dial(ctx, s)
			case "silent":
				return silent.Serve, nil
			}
			return modern.Serve, nil
		}
		s := newSet(t, dial, stdio("beta"), stdio("silent"), stdio("modern"))
		<-s.Settled()
		s.SetLevel("warning")
		synctest.Wait()
		s.SetLevel("debug")
		synctest.Wait()
		m.die()
		synctest.Wait()
		var levels []string
		for _, r := range logs.Received("logging/setLevel") {
			levels = append(levels, string(r.Params))
		}
		if got := strings.Join(levels, " "); got != `{"level":"warning"} {"level":"debug"} {"level":"debug"}` {
			t.Errorf("levels set: %s", got)
		}
		if n := len(silent.Received("logging/setLevel")) + len(modern.Received("logging/setLevel")); n != 0 {
			t.Errorf("%d requests to servers that do not have it", n)
		}
	})
}

func TestAServerThatAsksForCredentialsAfterTheHandshake(t *testing.T) {
	web := httptest.NewServer(&mcptest.Raw{Era: mcptest.Legacy, Capabilities: `{"tools":{},"prompts":{}}`,
		Answer: func(q *mcptest.Request) *mcptest.Answer {
			if strings.HasSuffix(q.Method, "/list") {
				return &mcptest.Answer{HTTP: mcptest.Unauthorized}
			}
			return nil
		}})
	defer web.Close()
	server := config.DefaultServer("beta")
	server.Type, server.URL = config.TypeHTTP, web.URL
	s := upstream.New(options())
	defer s.Close(t.Context())
	s.Apply([]*config.Server{server})
	<-s.Settled()
	if st := statusOf(t, s, "beta"); st.State != upstream.NeedsAuth || time.Until(st.NextAttempt) < 50*time.Second {
		t.Errorf("the status is %+v", st)
	}
}
