package upstream_test

import (
	"context"
	"errors"
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
)

// faultOf returns the classified error, which every error of Use is.
func faultOf(t *testing.T, err error) *fault.Error {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) {
		t.Fatalf("the error is %v", err)
	}
	return f
}

func TestCallersWaitTogetherAndNoLongerThanAcquireTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := rawServer("a")
		slow.Answer = mcptest.On(discover, mcptest.Answer{Delay: 2900 * time.Millisecond})
		opts := options()
		opts.AcquireTimeout = 2 * time.Second
		s := newSetWith(t, opts, always(slow), stdio("beta"))
		begin := time.Now()
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				err := call(t.Context(), s, "beta", "a")
				if i > 0 {
					if err != nil {
						t.Errorf("caller %d: %v", i, err)
					}
					return
				}
				if f := faultOf(t, err); f.Kind != fault.Unreachable || f.Code != fault.CodeRestartInProgress || time.Since(begin) != 2*time.Second {
					t.Errorf("after %v: %+v", time.Since(begin), f)
				}
			})
		}
		wg.Wait()
		if took := time.Since(begin); took != 2900*time.Millisecond {
			t.Errorf("the calls took %v", took)
		}
	})
}

func TestCallersFailTogetherAndThenAtOnceUntilAStartSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("no luck")
		var mu sync.Mutex
		fails, attempts := 3, 0
		s := newSet(t, func(context.Context, *config.Server) (upstream.Peer, error) {
			mu.Lock()
			defer mu.Unlock()
			if attempts++; attempts <= fails {
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				return nil, fault.Of(fault.Unreachable, "beta", "cannot start: %w", broken)
			}
			return rawServer("a").Serve, nil
		}, stdio("beta"))
		begin := time.Now()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				f := faultOf(t, call(t.Context(), s, "beta", "a"))
				if f.Code != fault.CodeRestartFailed || !errors.Is(f, broken) || f.RetryAfter <= 0 || time.Since(begin) != time.Second {
					t.Errorf("after %v: %+v", time.Since(begin), f)
				}
			})
		}
		wg.Wait()
		for statusOf(t, s, "beta").State != upstream.Connected {
			now := time.Now()
			if f := faultOf(t, call(t.Context(), s, "beta", "a")); f.Code != fault.CodeRestartFailed || time.Since(now) != 0 {
				t.Errorf("after %v: %+v", time.Since(now), f)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(begin); took < 5500*time.Millisecond {
			t.Errorf("callers of a process made it start sooner: after %v", took)
		}
		if err := call(t.Context(), s, "beta", "a"); err != nil {
			t.Errorf("after a start that worked: %v", err)
		}
	})
}

// remote dials like an attempt at a remote server that fails.
func TestACallerBringsTheNextAttemptForward(t *testing.T) {
	refused := fault.Of(fault.Unreachable, "beta", "connection refused")
	denied := fault.Of(fault.Unauthorized, "beta", "HTTP status 401")
	tests := []struct {
		name        string
		server      *config.Server
		err         error
		least, most int // attempts in a minute of calls
	}{
		{"of a remote server, once a second", web("beta"), refused, 40, 62},
		{"not of one that wants other credentials", web("beta"), denied, 1, 1},
		{"not of a process that does not start", stdio("beta"), refused, 6, 7},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &failing{err: tt.err}
				s := newSet(t, f.dial, tt.server)
				<-s.Settled()
				for range 600 {
					now := time.Now()
					if faultOf(t, call(t.Context(), s, "beta", "a")); time.Since(now) != 0 {
						t.Errorf("a caller waited for %v", time.Since(now))
					}
					time.Sleep(100 * time.Millisecond)
				}
				if n := len(f.attempts()); n < tt.least || n > tt.most {
					t.Errorf("%d attempts, want %d to %d", n, tt.least, tt.most)
				}
			})
		})
	}
}

// A circuit that refuses calls keeps them from the set, but not the wish.
func TestAWishBringsTheNextAttemptForwardAsACallerDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{err: fault.Of(fault.Unreachable, "beta", "connection refused")}
		s := newSet(t, f.dial, web("beta"))
		<-s.Settled()
		for range 600 {
			s.Want("beta")
			s.Want("nobody")
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(f.attempts()); n < 40 || n > 62 {
			t.Errorf("%d attempts in a minute of wishing, want one a second", n)
		}
	})
}

func TestAProcessThatKeepsDyingComesBackSoonerIfItIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mortal{spawner: spawner{peers: []*mcptest.Raw{rawServer("a")}}}
		s := newSet(t, m.dial, stdio("beta"))
		<-s.Settled()
		for begin := time.Now(); time.Since(begin) < 20*time.Second; {
			time.Sleep(2 * time.Second)
			m.die()
			synctest.Wait()
		}
		if took := untilOK(t, s, "beta", time.Second, 100*time.Millisecond); took > 7*time.Second {
			t.Errorf("it was back after %v", took)
		}
		if st := statusOf(t, s, "beta"); st.Restarts < 4 {
			t.Errorf("%d restarts counted", st.Restarts)
		}
	})
}

func TestCallersOfASetThatClosesAreToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := rawServer("a")
		never.Answer = mcptest.On(discover, mcptest.Answer{Silent: true})
		s := upstream.NewSet(options(), always(never))
		s.Apply([]*config.Server{stdio("beta")})
		result := make(chan error, 1)
		go func() { result <- call(t.Context(), s, "beta", "a") }()
		synctest.Wait()
		_ = s.Close(t.Context())
		if f := faultOf(t, <-result); f.Kind != fault.ShuttingDown || f.Code != fault.CodeShuttingDown {
			t.Errorf("%+v", f)
		}
	})
}

func TestAFailedStartIsReportedOnceAndAlike(t *testing.T) {
	var stop atomic.Bool
	var load sync.WaitGroup
	defer load.Wait()
	defer stop.Store(true)
	for range 4 { // the ways in which the end of a process shows race when processors are short
		load.Go(func() {
			for !stop.Load() {
			}
		})
	}
	const want = `did not answer initialize: the process ended with exit status 3; its last line on standard error: boom`
	scripts := []string{"echo boom >&2; exit 3", "read line; echo boom >&2; exit 3", "echo boom >&2; exec 0<&-; exit 3",
		"echo boom >&2; exec 1>&-; exit 3", "(sleep 1) & echo boom >&2; exit 3"}
	var wg sync.WaitGroup
	for _, script := range scripts {
		for range 4 {
			wg.Go(func() {
				server := config.DefaultServer("beta")
				server.Type, server.Command, server.Args = config.TypeStdio, "sh", []string{"-c", script}
				opts := options()
				_, err := upstream.NewDialer(server, &opts, nil).Dial(t.Context())
				if err == nil || !strings.HasSuffix(err.Error(), want) {
					t.Errorf("%s: %v", script, err)
				}
			})
		}
	}
	wg.Wait()
}
