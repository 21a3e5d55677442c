package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

func TestSetConnectsListsAndLends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, byName(map[string]*mcptest.Raw{"alpha": rawServer("a", "b"), "beta": {Tools: toolDefs(2), Prompts: []string{`{"name":"p"}`}}}),
			stdio("alpha"), stdio("beta"))
		<-s.Settled()
		if !drained(s) {
			t.Error("nobody was told that something has changed")
		}
		if got := toolsOf(s, "alpha") + "|" + toolsOf(s, "beta"); got != "a b|t0 t1" {
			t.Errorf("listed are %q", got)
		}
		st := statusOf(t, s, "beta")
		want := upstream.Status{Server: "beta", Type: "stdio", State: upstream.Connected, Era: "modern", Version: wire.V20260728,
			ServerInfo: []byte(`{"name":"raw","version":"1"}`), Tools: 2, Prompts: 1,
			Phase: upstream.PhaseReady, Sharing: "shared", Connections: 1}
		st.Since = time.Time{}
		if diff := cmp.Diff(&want, st); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
		if err := call(t.Context(), s, "alpha", "a"); err != nil {
			t.Errorf("call: %v", err)
		}
		if err := call(t.Context(), s, "gamma", "a"); fault.KindOf(err) != fault.NotFound {
			t.Errorf("a server that is not configured: %v", err)
		}
	})
}

func TestUseWaitsForTheFirstAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := rawServer("a")
		slow.Answer = mcptest.On(discover, mcptest.Answer{Delay: 2 * time.Second})
		s := newSet(t, always(slow), stdio("beta"))
		begin := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if err := call(t.Context(), s, "beta", "a"); err != nil {
					t.Errorf("call: %v", err)
				}
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := call(ctx, s, "beta", "a")
		if fault.KindOf(err) != fault.Unreachable || time.Since(begin) != time.Second {
			t.Errorf("a caller with a second of time got %v after %v", err, time.Since(begin))
		}
		wg.Wait()
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("the calls took %v", took)
		}
	})
}

func TestUseFailsAtOnceAfterAFailedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := fault.Of(fault.Unreachable, "beta", "cannot connect: refused\nby \x1b[31mhim")
		s := newSet(t, func(context.Context, *config.Server) (upstream.Peer, error) { return nil, refused }, stdio("beta"))
		<-s.Settled()
		synctest.Wait()
		begin := time.Now()
		err := call(t.Context(), s, "beta", "a")
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != fault.Unreachable {
			t.Fatalf("call: %v (%v)", err, fault.KindOf(err))
		}
		if want := "is not connected: cannot connect: refused by [31mhim"; !strings.HasPrefix(f.Reason, want) {
			t.Errorf("the reason is %q, want %q...", f.Reason, want)
		}
		if f.RetryAfter < 800*time.Millisecond || f.RetryAfter > 1200*time.Millisecond {
			t.Errorf("the next attempt is said to be in %v", f.RetryAfter)
		}
		if !errors.Is(err, refused) {
			t.Error("the cause is not in the chain")
		}
		if time.Since(begin) != 0 {
			t.Errorf("it took %v", time.Since(begin))
		}
		st := statusOf(t, s, "beta")
		if st.State != upstream.Failed || st.Attempt != 1 || st.LastError == "" || st.NextAttempt.Before(time.Now()) {
			t.Errorf("status is %+v", st)
		}
	})
}

func TestApplyLeavesEqualServersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spawns := &spawner{peers: []*mcptest.Raw{rawServer("a")}}
		s := newSet(t, spawns.dial, stdio("alpha"), stdio("beta"))
		<-s.Settled()
		changed := stdio("beta")
		changed.Args = []string{"-v"}
		s.Apply([]*config.Server{changed, stdio("alpha"), stdio("gamma")})
		<-s.Settled()
		if n := len(spawns.starts()); n != 4 {
			t.Errorf("%d connections were made, want 2 and then those of beta and gamma", n)
		}
		var order []string
		for _, st := range s.Status() {
			order = append(order, st.Server)
		}
		if diff := cmp.Diff([]string{"beta", "alpha", "gamma"}, order); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

// holding is a server one of whose tools answers when told to.
func holding(release <-chan struct{}) *mcptest.Raw {
	r := rawServer("slow")
	r.Answer = mcptest.On("tools/call", mcptest.Answer{Hold: release})
	return r
}

func TestARemovedServerFinishesItsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := newSet(t, always(holding(release)), stdio("beta"))
		<-s.Settled()
		done := make(chan error, 1)
		go func() { done <- call(t.Context(), s, "beta", "slow") }()
		synctest.Wait()
		if n := statusOf(t, s, "beta").InFlight; n != 1 {
			t.Errorf("%d calls in flight, want 1", n)
		}
		s.Apply(nil)
		time.Sleep(5 * time.Second)
		if err := call(t.Context(), s, "beta", "slow"); fault.KindOf(err) != fault.NotFound {
			t.Errorf("a new call: %v", err)
		}
		close(release)
		if err := <-done; err != nil {
			t.Errorf("the call in flight: %v", err)
		}
	})
}

func TestCloseWaitsForCallsUntilDrainHasPassed(t *testing.T) {
	tests := []struct {
		name       string
		patience   time.Duration // of the caller of Close
		wait, took time.Duration // of the call, of Close
		cut        bool
	}{
		{"short calls are answered", time.Minute, 2 * time.Second, 2 * time.Second, false},
		{"long ones are cut when drain has passed", time.Minute, time.Hour, 10 * time.Second, true},
		{"or when the caller has no more time", 3 * time.Second, time.Hour, 3 * time.Second, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				peer := rawServer("slow")
				peer.Answer = mcptest.On("tools/call", mcptest.Answer{Delay: tt.wait})
				s := upstream.NewSet(options(), always(peer))
				s.Apply([]*config.Server{stdio("alpha"), stdio("beta")})
				<-s.Settled()
				done := make(chan error, 1)
				go func() { done <- call(t.Context(), s, "beta", "slow") }()
				synctest.Wait()
				begin := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), tt.patience)
				defer cancel()
				if err := s.Close(ctx); (err != nil) != (tt.took == tt.patience) {
					t.Errorf("Close returned %v", err)
				}
				if took := time.Since(begin); took != tt.took {
					t.Errorf("Close took %v, want %v", took, tt.took)
				}
				if err := <-done; (fault.KindOf(err) == fault.Lost) != tt.cut {
					t.Errorf("the call in flight: %v", err)
				}
				if err := call(t.Context(), s, "beta", "slow"); fault.KindOf(err) != fault.ShuttingDown {
					t.Errorf("a new call: %v", err)
				}
				s.Apply([]*config.Server{stdio("gamma")})
				if n := len(s.Status()); n != 2 {
					t.Errorf("a closed set took other servers: %d", n)
				}
			})
		})
	}
}

func TestDisabledServersAreNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spawns := &spawner{peers: []*mcptest.Raw{rawServer("a")}}
		off := stdio("beta")
		off.Enabled = false
		s := newSet(t, spawns.dial, off)
		<-s.Settled()
		if n := len(spawns.starts()); n != 0 {
			t.Errorf("%d connections were made", n)
		}
		if st := statusOf(t, s, "beta"); st.State != upstream.Disabled {
			t.Errorf("the state is %q", st.State)
		}
		if err := call(t.Context(), s, "beta", "a"); fault.KindOf(err) != fault.Unreachable || !strings.Contains(err.Error(), "disabled") {
			t.Errorf("call: %v", err)
		}
	})
}

func TestStartsAreLimitedButHangingOnesMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		slow := func(ctx context.Context, s *config.Server) (upstream.Peer, error) {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(300 * time.Millisecond)
			now.Add(-1)
			if s.Command == "hang" {
				return func(ctx context.Context, in io.Reader, _ io.Writer) error {
					_, err := io.Copy(io.Discard, in)
					return err
				}, nil
			}
			return rawServer("a").Serve, nil
		}
		var servers []*config.Server
		for i := range 20 {
			server := stdio(fmt.Sprint("hang", i))
			server.Command = "hang"
			servers = append(servers, server)
		}
		s := newSet(t, slow, append(servers, stdio("alpha"))...)
		begin := time.Now()
		if err := call(t.Context(), s, "alpha", "a"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("20 servers that hang held up the one that works for %v", took)
		}
		if n := most.Load(); n != 8 {
			t.Errorf("%d servers were started at the same time, want 8", n)
		}
	})
}

func TestNoticesCarryTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := rawServer("a")
		opts := options()
		var mu sync.Mutex
		var got []upstream.Notice
		opts.Notify = func(n upstream.Notice) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, n)
		}
		s := newSetWith(t, opts, always(peer), stdio("beta"))
		<-s.Settled()
		peer.Notify("notifications/resources/updated", `{"uri":"file:///x"}`)
		peer.Notify("notifications/tools/list_changed", "")
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		want := []upstream.Notice{{Server: "beta", Method: "notifications/resources/updated", Params: []byte(`{"uri":"file:///x"}`)}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("notices (-want +got):\n%s", diff)
		}
	})
}

func TestSecretsOfTheConfigurationAreNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const secret = "hunter2-hunter2"
		server := stdio("beta")
		server.BearerToken = secret
		s := newSet(t, func(context.Context, *config.Server) (upstream.Peer, error) {
			return nil, fault.Of(fault.Unreachable, "beta", "refused: who sends %s?", secret)
		}, server)
		<-s.Settled()
		err := call(t.Context(), s, "beta", "a")
		if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "who sends ***?") {
			t.Errorf("the error is %v", err)
		}
		if st := statusOf(t, s, "beta"); strings.Contains(st.LastError, secret) {
			t.Errorf("the status is %+v", st)
		}
	})
}
