package upstream_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
)

// recovery counts what Options.Recovered is told.
type recovery struct{ n atomic.Int64 }

func (r *recovery) options() upstream.Options {
	opts := options()
	opts.Recovered = func(string) { r.n.Add(1) }
	return opts
}

func TestAnHTTPServerThatGoesAwayIsMissedAndHeals(t *testing.T) {
	tests := []struct {
		name   string
		away   hostState
		missed time.Duration // at most, from the first call on
	}{
		{"its host refuses connections", hostDown, 3 * time.Second},
		{"its network swallows everything", hostBlack, 13 * time.Second},
	}
	for _, tt := range tests {
		for _, gone := range []time.Duration{5 * time.Second, 20 * time.Second, 90 * time.Second} {
			t.Run(tt.name+" for "+gone.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var back recovery
					host := newWebHost(t, rawServer("a"))
					s := newWebSet(t, back.options(), host)
					time.Sleep(time.Minute)
					host.become(tt.away)
					begin := time.Now()
					failed := time.Duration(0)
					for time.Since(begin) < gone {
						if err := callIn(t, 3*time.Second, s, "beta", "a"); err == nil {
							t.Fatal("a call got through")
						}
						if failed == 0 && statusOf(t, s, "beta").State != upstream.Connected {
							failed = time.Since(begin)
						}
						time.Sleep(200 * time.Millisecond)
					}
					if gone > tt.missed && (failed == 0 || failed > tt.missed) {
						t.Errorf("missed after %v, want %v", failed, tt.missed)
					}
					host.become(hostUp)
					if took := untilOK(t, s, "beta", 3*time.Second, 200*time.Millisecond); took > 10*time.Second {
						t.Errorf("the first success came %v after it was back", took)
					}
					synctest.Wait()
					if st := statusOf(t, s, "beta"); st.State != upstream.Connected || st.Stale || gone > tt.missed && (st.Restarts != 1 || back.n.Load() != 1) {
						t.Errorf("told %d times, status %+v", back.n.Load(), st)
					}
				})
			})
		}
	}
}

func TestAnHTTPServerThatNobodyCallsIsMissedAndHeals(t *testing.T) {
	for _, away := range []hostState{hostDown, hostBlack} {
		synctest.Test(t, func(t *testing.T) {
			host := newWebHost(t, rawServer("a"))
			s := newWebSet(t, options(), host)
			time.Sleep(time.Minute)
			host.become(away)
			time.Sleep(50 * time.Second)
			if st := statusOf(t, s, "beta"); st.State != upstream.Failed || !st.Stale || st.Tools != 1 || st.LastError == "" {
				t.Errorf("the status is %+v", st)
			}
			host.become(hostUp)
			time.Sleep(75 * time.Second)
			if st := statusOf(t, s, "beta"); st.State != upstream.Connected {
				t.Errorf("the status is %+v", st)
			}
		})
	}
}

func TestAServerThatStopsAcceptingTheCredentialsIsNotPestered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw := rawServer("a")
		host := newWebHost(t, raw)
		s := newWebSet(t, options(), host)
		raw.Change(func(r *mcptest.Raw) { r.Answer = mcptest.Always(mcptest.Answer{HTTP: mcptest.Unauthorized}) })
		time.Sleep(40 * time.Second)
		if st := statusOf(t, s, "beta"); st.State != upstream.NeedsAuth {
			t.Errorf("the status is %+v", st)
		}
		before := len(raw.Requests())
		for range 200 {
			if f := faultOf(t, call(t.Context(), s, "beta", "a")); f.Kind != fault.Unauthorized || f.Code != fault.CodeRestartFailed {
				t.Errorf("a call: %+v", f)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(raw.Requests()) - before; n > 5 {
			t.Errorf("%d requests in 20 s", n)
		}
	})
}

func TestCallsInFlightOutliveADoubtfulConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		raw := rawServer("a", "slow")
		raw.Answer = func(q *mcptest.Request) *mcptest.Answer {
			switch {
			case q.Name == "slow":
				return &mcptest.Answer{Delay: 40 * time.Second}
			case q.Method == "ping", q.Method == "tools/list" && asked.Add(1) > 1:
				return &mcptest.Answer{Silent: true}
			}
			return nil
		}
		host := newWebHost(t, raw)
		s := newWebSet(t, options(), host)
		done := make(chan error, 1)
		go func() { done <- call(t.Context(), s, "beta", "slow") }()
		raw.Change(func(r *mcptest.Raw) { r.Results = map[string]string{} })
		time.Sleep(time.Second)
		_ = callIn(t, time.Millisecond, s, "beta", "slow") // times out: the server becomes suspect
		time.Sleep(30 * time.Second)
		if st := statusOf(t, s, "beta"); st.Restarts == 0 {
			t.Errorf("the status is %+v", st)
		}
		if err := <-done; err != nil {
			t.Errorf("the call in flight: %v", err)
		}
	})
}

// deaf is a server that answers the handshake, the first list and calls.
func deaf(tools ...string) *mcptest.Raw {
	var asked atomic.Int64
	raw := rawServer(tools...)
	raw.Answer = func(q *mcptest.Request) *mcptest.Answer {
		switch {
		case q.Method == "ping", q.Method == "tools/list" && asked.Add(1) > 1:
			return &mcptest.Answer{Silent: true}
		case q.Name == "slow":
			return &mcptest.Answer{Delay: time.Minute}
		case q.Name == "never":
			return &mcptest.Answer{Silent: true}
		}
		return nil
	}
	return raw
}

func TestProbesOfAProcess(t *testing.T) {
	tests := []struct {
		name  string
		calls func(*testing.T, *upstream.Set) // what goes on for two minutes
		most  int                             // starts
		least int
	}{
		{"one that hangs is replaced", func(*testing.T, *upstream.Set) {}, 5, 3},
		{"one whose calls succeed works", func(t *testing.T, s *upstream.Set) {
			for range 60 {
				if err := call(t.Context(), s, "beta", "a"); err != nil {
					t.Errorf("call: %v", err)
				}
				time.Sleep(2 * time.Second)
			}
		}, 1, 1},
		{"one with a call in flight is busy", func(t *testing.T, s *upstream.Set) {
			for range 2 {
				if err := call(t.Context(), s, "beta", "slow"); err != nil {
					t.Errorf("call: %v", err)
				}
			}
		}, 1, 1},
		{"it is busy even if others time out behind the call", func(t *testing.T, s *upstream.Set) {
			for range 2 {
				done := make(chan error, 1)
				go func() { done <- call(t.Context(), s, "beta", "slow") }()
				for range 10 {
					_ = callIn(t, 5*time.Second, s, "beta", "never")
				}
				if err := <-done; err != nil {
					t.Errorf("call: %v", err)
				}
			}
		}, 1, 1},
		{"one that answers no call for longer than calls take is replaced", func(t *testing.T, s *upstream.Set) {
			var wg sync.WaitGroup
			for range 2 {
				for range 31 {
					wg.Go(func() { _ = callIn(t, 5*time.Second, s, "beta", "never") })
					time.Sleep(4 * time.Second)
				}
			}
			wg.Wait()
		}, 3, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spawns := &spawner{peers: []*mcptest.Raw{deaf("a", "slow", "never"), deaf("a", "slow", "never"), deaf("a", "slow", "never"), deaf("a", "slow", "never"), deaf("a")}}
				s := newSet(t, spawns.dial, stdio("beta"))
				<-s.Settled()
				begin := time.Now()
				tt.calls(t, s)
				time.Sleep(2*time.Minute - time.Since(begin))
				if n := len(spawns.starts()); n < tt.least || n > tt.most {
					t.Errorf("started %d times, want %d to %d", n, tt.least, tt.most)
				}
			})
		})
	}
}

func TestAnyAnswerToAProbeIsAGoodOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw := rawServer("a")
		raw.Errors = map[string]string{"ping": `{"code":-32601,"message":"unknown"}`}
		spawns := &spawner{peers: []*mcptest.Raw{raw}}
		s := newSet(t, spawns.dial, stdio("beta"))
		<-s.Settled()
		time.Sleep(10 * time.Minute)
		if n := len(spawns.starts()); n != 1 {
			t.Errorf("started %d times", n)
		}
		if n := len(raw.Received("ping")); n < 35 || n > 45 {
			t.Errorf("%d probes in ten minutes, want one in 15 s", n)
		}
	})
}

func TestAServerThatIgnoresPingsIsNotDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back recovery
		raw := rawServer("a")
		raw.Answer = mcptest.On("ping", mcptest.Answer{Silent: true})
		spawns := &spawner{peers: []*mcptest.Raw{raw}}
		s := newSetWith(t, back.options(), spawns.dial, stdio("beta"))
		<-s.Settled()
		time.Sleep(10 * time.Minute)
		if starts, pings := len(spawns.starts()), len(raw.Received("ping")); starts != 1 || pings != 1 {
			t.Errorf("%d starts, %d pings", starts, pings)
		}
	})
}

func TestWhatAProbeAsks(t *testing.T) {
	modern := &mcptest.Raw{Era: mcptest.Modern, Tools: toolDefs(3), PageSize: 1, Capabilities: `{"tools":{}}`}
	bare := &mcptest.Raw{Era: mcptest.Modern, Capabilities: `{"logging":{}}`}
	tests := []struct {
		name   string
		peer   *mcptest.Raw
		method string
		want   string
		before int // questions of this method at start
	}{
		{"a ping where the revision has it", rawServer("a"), "auto", "ping", 0},
		{"the first page of a list where it has none", modern, "auto", "tools/list", 3},
		{"for the revisions where there are no lists", bare, "auto", "server/discover", 1},
		{"a list if that is wanted", rawServer("a"), "list_tools", "tools/list", 1},
		{"nothing if that is wanted", rawServer("a"), "none", "ping", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := stdio("beta")
				server.Probe.Method = tt.method
				s := newSet(t, always(tt.peer), server)
				<-s.Settled()
				time.Sleep(20 * time.Second)
				want := tt.before + 1
				if tt.method == "none" {
					want = 0
				}
				if n := len(tt.peer.Received(tt.want)); n != want {
					t.Errorf("%d questions %s, want %d", n, tt.want, want)
				}
			})
		})
	}
}

func TestSettingsOfProbesApplyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw := rawServer("a")
		spawns := &spawner{peers: []*mcptest.Raw{raw}}
		server := stdio("beta")
		server.Probe.Interval = time.Hour
		s := newSet(t, spawns.dial, server)
		<-s.Settled()
		often := *server
		often.Probe.Interval = time.Second
		s.Apply([]*config.Server{&often})
		time.Sleep(10 * time.Second)
		if n, starts := len(raw.Received("ping")), len(spawns.starts()); n < 7 || starts != 1 {
			t.Errorf("%d probes in 10 s, %d starts", n, starts)
		}
	})
}

func TestAServerThatAnswersAgainHasRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back recovery
		raw := rawServer("a")
		host := newWebHost(t, raw)
		s := newWebSet(t, back.options(), host)
		if n := back.n.Load(); n != 0 {
			t.Errorf("told %d times of the first connection", n)
		}
		for i, wait := range []func(){synctest.Wait, func() {}} { // for a probe to fail, or not
			host.become(hostDown)
			_ = call(t.Context(), s, "beta", "a")
			wait()
			host.become(hostUp)
			time.Sleep(2 * time.Second)
			if st := statusOf(t, s, "beta"); back.n.Load() != int64(i+1) || st.Restarts != 0 || st.State != upstream.Connected {
				t.Errorf("told %d times; the status is %+v", back.n.Load(), st)
			}
		}
	})
}

func TestLostCallsNameTheirConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mortal{spawner: spawner{peers: []*mcptest.Raw{holding(make(chan struct{}))}}}
		s := newSet(t, m.dial, stdio("beta"))
		<-s.Settled()
		numbers := map[int64]int{}
		for range 2 {
			results := make(chan error, 5)
			for range 5 {
				go func() { results <- call(context.Background(), s, "beta", "slow") }()
			}
			synctest.Wait()
			m.die()
			for range 5 {
				if f, ok := (<-results).(*fault.Error); ok && f.Kind == fault.Lost {
					numbers[f.Conn]++
				}
			}
			time.Sleep(time.Second)
		}
		if len(numbers) != 2 || numbers[0] != 0 {
			t.Errorf("calls lost by the number of their connection: %v", numbers)
		}
	})
}
