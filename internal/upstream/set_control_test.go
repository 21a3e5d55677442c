package upstream_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
)

func TestControlOfAServerThatIsNotConfigured(t *testing.T) {
	s := upstream.New(options())
	defer s.Close(t.Context())
	_, logs := s.Logs("beta")
	for _, err := range []error{s.Connect("beta"), s.Disconnect("beta"), s.Reconnect("beta"), s.Enable("beta"), s.Disable("beta"), logs} {
		if fault.KindOf(err) != fault.NotFound {
			t.Errorf("got %v", err)
		}
	}
}

// must is for errors that control returns only for unknown servers.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestADisconnectedServerStaysDownUntilItIsConnected(t *testing.T) {
	for name, back := range map[string]func(*upstream.Set) error{
		"connect":   func(s *upstream.Set) error { return s.Connect("beta") },
		"reconnect": func(s *upstream.Set) error { return s.Reconnect("beta") },
		"enable":    func(s *upstream.Set) error { return s.Enable("beta") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spawns := &spawner{peers: []*mcptest.Raw{rawServer("a")}}
				s := newSet(t, spawns.dial, stdio("beta"))
				<-s.Settled()
				must(t, s.Disconnect("beta"))
				time.Sleep(time.Hour)
				if f := faultOf(t, call(t.Context(), s, "beta", "a")); f.Code == "" || !strings.Contains(f.Reason, "disconnected") {
					t.Errorf("a call: %+v", f)
				}
				st := statusOf(t, s, "beta")
				if st.Phase != upstream.PhaseDisconnected || st.State != upstream.Pending || !st.Stale || st.Connections != 0 || toolsOf(s, "beta") != "a" {
					t.Errorf("the status is %+v", st)
				}
				if n := len(spawns.starts()); n != 1 {
					t.Errorf("started %d times", n)
				}
				must(t, back(s))
				if err := call(t.Context(), s, "beta", "a"); err != nil {
					t.Errorf("after it was connected: %v", err)
				}
			})
		})
	}
}

func TestDisconnectEndsAnAttemptAndLetsCallsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := rawServer("a")
		hang.Answer = mcptest.On(discover, mcptest.Answer{Silent: true})
		release := make(chan struct{})
		s := newSet(t, byName(map[string]*mcptest.Raw{"beta": hang, "alpha": holding(release)}), stdio("beta"), stdio("alpha"))
		waiting, done := make(chan error, 1), make(chan error, 1)
		go func() { waiting <- call(t.Context(), s, "beta", "a") }()
		go func() { done <- call(t.Context(), s, "alpha", "slow") }()
		time.Sleep(time.Second)
		must(t, s.Disconnect("beta"))
		must(t, s.Disconnect("alpha"))
		if f := faultOf(t, <-waiting); !strings.Contains(f.Reason, "disconnected") {
			t.Errorf("a caller that waited: %+v", f)
		}
		time.Sleep(time.Second)
		close(release)
		if err := <-done; err != nil {
			t.Errorf("the call in flight: %v", err)
		}
		if !isDone(s.Settled()) {
			t.Error("not settled")
		}
	})
}

func TestReconnect(t *testing.T) {
	tests := []struct {
		name   string
		before func(*testing.T, *upstream.Set, *mortal) // brings about the situation
	}{
		{"replaces a connection that works", func(*testing.T, *upstream.Set, *mortal) {}},
		{"does not wait for the next attempt", func(t *testing.T, s *upstream.Set, m *mortal) {
			for range 5 {
				m.die()
				synctest.Wait()
				for statusOf(t, s, "beta").Phase == upstream.PhaseDialing {
					time.Sleep(time.Millisecond)
				}
				if statusOf(t, s, "beta").State != upstream.Connected {
					time.Sleep(time.Until(statusOf(t, s, "beta").NextAttempt) + time.Second)
				}
			}
			m.die()
			synctest.Wait()
			if left := time.Until(statusOf(t, s, "beta").NextAttempt); left < 5*time.Second {
				t.Fatalf("the next attempt is due in %v", left)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &mortal{spawner: spawner{peers: []*mcptest.Raw{rawServer("a")}}}
				s := newSet(t, m.dial, stdio("beta"))
				<-s.Settled()
				tt.before(t, s, m)
				starts, began := len(m.starts()), time.Now()
				must(t, s.Reconnect("beta"))
				synctest.Wait()
				if err := call(t.Context(), s, "beta", "a"); err != nil || time.Since(began) > time.Second {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				if n := len(m.starts()); n != starts+1 {
					t.Errorf("started %d times", n-starts)
				}
				time.Sleep(time.Minute)
				if n := len(m.starts()); n != starts+1 {
					t.Errorf("started %d times after a minute", n-starts)
				}
			})
		})
	}
}

func TestReconnectEndsAnAttemptThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := &mcptest.Raw{Answer: mcptest.Always(mcptest.Answer{Silent: true})}
		spawns := &spawner{peers: []*mcptest.Raw{hang, rawServer("a")}}
		s := newSet(t, spawns.dial, stdio("beta"))
		time.Sleep(time.Second)
		must(t, s.Reconnect("beta"))
		began := time.Now()
		if err := call(t.Context(), s, "beta", "a"); err != nil || time.Since(began) > 2*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func TestADisabledServerIsHiddenAndKeepsItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spawns := &spawner{peers: []*mcptest.Raw{rawServer("a")}}
		s := newSet(t, spawns.dial, stdio("beta"))
		<-s.Settled()
		drained(s)
		must(t, s.Disable("beta"))
		if f := faultOf(t, call(t.Context(), s, "beta", "a")); f.Kind != fault.Unreachable || f.Code == "" || !strings.Contains(f.Reason, "is disabled") {
			t.Errorf("a call: %+v", f)
		}
		if got := toolsOf(s, "beta"); got != "-" || !drained(s) {
			t.Errorf("%q is listed", got)
		}
		time.Sleep(time.Minute)
		if st := statusOf(t, s, "beta"); st.State != upstream.Disabled || st.Connections != 1 {
			t.Errorf("the status is %+v", st)
		}
		must(t, s.Enable("beta"))
		if err := call(t.Context(), s, "beta", "a"); err != nil || toolsOf(s, "beta") != "a" {
			t.Errorf("%q is listed, call: %v", toolsOf(s, "beta"), err)
		}
		if st := statusOf(t, s, "beta"); st.State != upstream.Connected || len(spawns.starts()) != 1 {
			t.Errorf("%d starts, status %+v", len(spawns.starts()), st)
		}
	})
}

func TestDisableReachesCallersThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := rawServer("a")
		hang.Answer = mcptest.On(discover, mcptest.Answer{Delay: 2 * time.Second})
		s := newSet(t, always(hang), stdio("beta"))
		waiting := make(chan error, 1)
		go func() { waiting <- call(t.Context(), s, "beta", "a") }()
		synctest.Wait()
		must(t, s.Disable("beta"))
		if f := faultOf(t, <-waiting); !strings.Contains(f.Reason, "is disabled") {
			t.Errorf("a caller that waited: %+v", f)
		}
		must(t, s.Enable("beta"))
		if err := call(t.Context(), s, "beta", "a"); err != nil {
			t.Errorf("a call: %v", err)
		}
	})
}

func TestEnableStartsAServerThatTheConfigurationDisables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off := stdio("beta")
		off.Enabled = false
		s := newSet(t, always(rawServer("a")), off)
		<-s.Settled()
		must(t, s.Enable("beta"))
		if err := call(t.Context(), s, "beta", "a"); err != nil {
			t.Errorf("a call: %v", err)
		}
		synctest.Wait()
		if got := toolsOf(s, "beta"); got != "a" {
			t.Errorf("%q is listed", got)
		}
	})
}

func TestOrdersOutlastTheConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, always(rawServer("a")), stdio("beta"), stdio("gamma"))
		<-s.Settled()
		must(t, s.Disable("beta"))
		must(t, s.Disconnect("gamma"))
		other := func(name string) *config.Server {
			c := stdio(name)
			c.Args = []string{"-v"}
			return c
		}
		s.Apply([]*config.Server{other("beta"), other("gamma")})
		time.Sleep(time.Second)
		if b, c := statusOf(t, s, "beta"), statusOf(t, s, "gamma"); b.State != upstream.Disabled || b.Connections != 1 || c.Phase != upstream.PhaseDisconnected {
			t.Errorf("beta is %+v, gamma is %+v", b, c)
		}
		off := other("beta")
		off.Enabled = false
		s.Apply([]*config.Server{off})
		s.Apply([]*config.Server{other("beta")})
		<-s.Settled()
		if st := statusOf(t, s, "beta"); st.State != upstream.Connected {
			t.Errorf("after the configuration had its say beta is %+v", st)
		}
	})
}
