package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// TestChurn: callers, crashes, orders and changes of the configuration at random. Every call
// gets exactly one end, which says truly whether the call was sent, and nothing is
// left over.
func TestChurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var executed sync.Map // id of the call → true
		peer := rawServer("a")
		peer.Answer = func(q *mcptest.Request) *mcptest.Answer {
			if q.Method == "tools/call" {
				executed.Store(string(mcptest.Field(q.Params, "n")), true)
				return &mcptest.Answer{Delay: time.Duration(rand.IntN(100)) * time.Millisecond, Result: `{"content":[]}`}
			}
			return nil
		}
		m := &mortal{spawner: spawner{peers: []*mcptest.Raw{peer}}}
		s := newSet(t, m.dial, stdio("beta"))
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		var calls, good atomic.Int64
		var wg sync.WaitGroup
		for caller := range 16 {
			wg.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					id := fmt.Sprint(caller*1_000_000 + n)
					calls.Add(1)
					err := callNumber(t.Context(), s, id)
					_, ran := executed.Load(id)
					switch kind := fault.KindOf(err); {
					case err == nil && ran:
						good.Add(1)
					case kind == fault.Lost, kind == fault.Unreachable && !ran, kind == fault.NotFound && !ran:
					default:
						t.Errorf("call %s, executed: %v, ended with %v (%v)", id, ran, err, kind)
					}
					time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
				}
			})
		}
		for n := 0; ctx.Err() == nil; n++ {
			time.Sleep(time.Duration(rand.IntN(2000)) * time.Millisecond)
			switch rand.IntN(6) {
			case 0:
				m.die()
			case 1:
				changed := stdio("beta")
				changed.Args = []string{fmt.Sprint(n)}
				s.Apply([]*config.Server{changed, stdio("gamma")})
			case 2:
				s.Apply([]*config.Server{stdio("gamma")})
				s.Apply([]*config.Server{stdio("beta")})
			case 3:
				_ = s.Reconnect("beta")
			case 4:
				_ = s.Disconnect("beta")
				time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
				_ = s.Connect("beta")
			case 5:
				_ = s.Disable("beta")
				time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
				_ = s.Enable("beta")
			}
		}
		wg.Wait()
		if good.Load() < calls.Load()/2 {
			t.Errorf("%d of %d calls were answered", good.Load(), calls.Load())
		}
		if st := s.Status(); len(st) > 0 && st[0].InFlight != 0 {
			t.Errorf("%d references are left", st[0].InFlight)
		}
	})
}

func callNumber(ctx context.Context, s *upstream.Set, n string) error {
	return s.Use(ctx, "beta", "", func(c upstream.Conn) error {
		reply, err := c.Call(ctx, &upstream.Request{ID: upstream.NextID(), Method: "tools/call", Name: "a",
			Params: wire.Value{Raw: []byte(`{"name":"a","n":` + n + `}`)}})
		defer reply.Release()
		if err == nil && reply.Err != nil {
			return errors.New("refused")
		}
		return err
	})
}

func BenchmarkUse(b *testing.B) {
	s := upstream.NewSet(options(), always(rawServer("a")))
	s.Apply([]*config.Server{stdio("beta")})
	<-s.Settled()
	defer s.Close(b.Context())
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := s.Use(b.Context(), "beta", "", func(upstream.Conn) error { return nil }); err != nil {
				b.Error(err)
			}
		}
	})
}
