package upstream_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
)

// A memory keeps lists as a store on disk would.
type memory struct {
	mu    sync.Mutex
	kept  map[string]*catalog.Kept // server name → its last offer
	saves int
}

func (m *memory) options() upstream.Options {
	opts := options()
	opts.Recall = func(s *config.Server) *catalog.Kept {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.kept[s.Name]
	}
	opts.Keep = func(s *config.Server, k *catalog.Kept) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.kept == nil {
			m.kept = map[string]*catalog.Kept{}
		}
		m.kept[s.Name] = k
		m.saves++
	}
	return opts
}

// stored says how often lists were stored.
func (m *memory) stored() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.saves
}

// of returns what is stored about a server.
func (m *memory) of(server string) *catalog.Kept {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept[server]
}

func keptTools(names ...string) *catalog.Kept {
	k := &catalog.Kept{Capabilities: []byte(`{"tools":{"listChanged":true}}`), Version: "2025-11-25", ServerInfo: []byte(`{"name":"raw","version":"1"}`)}
	for _, n := range names {
		k.Tools = append(k.Tools, []byte(toolDef(n)))
	}
	return k
}

func lazy(name string) *config.Server {
	s := stdio(name)
	s.Lazy = true
	return s
}

func TestALazyServerIsStartedByItsFirstUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{kept: map[string]*catalog.Kept{"beta": keptTools("a")}}
		spawns := &spawner{peers: []*mcptest.Raw{rawServer("a")}}
		s := newSetWith(t, m.options(), spawns.dial, lazy("beta"))
		<-s.Settled()
		time.Sleep(time.Hour)
		st := statusOf(t, s, "beta")
		if n := len(spawns.starts()); n != 0 || !st.Idle || st.Phase != upstream.PhaseIdle || st.State != upstream.Pending || !st.Lazy || !st.Stale || toolsOf(s, "beta") != "a" {
			t.Errorf("%d starts; the status is %+v", n, st)
		}
		if err := call(t.Context(), s, "beta", "a"); err != nil {
			t.Errorf("the first call: %v", err)
		}
		time.Sleep(time.Hour)
		if st := statusOf(t, s, "beta"); len(spawns.starts()) != 1 || st.Idle || st.Stale || st.State != upstream.Connected || st.Restarts != 0 {
			t.Errorf("%d starts; the status is %+v", len(spawns.starts()), st)
		}
		if m.stored() != 0 {
			t.Errorf("lists that had not changed were stored %d times", m.stored())
		}
	})
}

func TestALazyServerOfWhichNothingIsKnownIsStartedOnceToLearnItsLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		spawns := &spawner{peers: []*mcptest.Raw{rawServer("a")}}
		s := newSetWith(t, m.options(), spawns.dial, lazy("beta"))
		<-s.Settled()
		time.Sleep(time.Hour)
		st := statusOf(t, s, "beta")
		if n := len(spawns.starts()); n != 1 || !st.Idle || st.Connections != 0 || toolsOf(s, "beta") != "a" || m.stored() != 1 {
			t.Errorf("%d starts, %d times stored; the status is %+v", n, m.stored(), st)
		}
		if err := call(t.Context(), s, "beta", "a"); err != nil {
			t.Errorf("a call: %v", err)
		}
	})
}

func TestAChangedLazyServerIsStartedOnceToLearnItsLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{kept: map[string]*catalog.Kept{"beta": keptTools("a")}}
		spawns := &spawner{peers: []*mcptest.Raw{rawServer("b")}}
		begun, goOn := make(chan struct{}), make(chan struct{})
		dial := func(ctx context.Context, c *config.Server) (upstream.Peer, error) {
			close(begun)
			<-goOn
			return spawns.dial(ctx, c)
		}
		s := newSetWith(t, m.options(), dial, lazy("beta"))
		<-s.Settled()
		other := lazy("beta")
		other.Command = "other"
		s.Apply([]*config.Server{other})
		<-begun
		if got := toolsOf(s, "beta"); got != "a" {
			t.Errorf("%q is listed meanwhile", got)
		}
		close(goOn)
		<-s.Settled()
		time.Sleep(time.Hour)
		st := statusOf(t, s, "beta")
		if n := len(spawns.starts()); n != 1 || !st.Idle || st.Connections != 0 || toolsOf(s, "beta") != "b" {
			t.Errorf("%d starts, %q is listed; the status is %+v", n, toolsOf(s, "beta"), st)
		}
	})
}

func TestACallDuringTheStartThatLearnsKeepsTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw := rawServer("a", "slow")
		raw.Answer = mcptest.On("tools/call slow", mcptest.Answer{Delay: 5 * time.Second})
		spawns := &spawner{peers: []*mcptest.Raw{raw}}
		s := newSet(t, spawns.dial, lazy("beta"))
		if err := call(t.Context(), s, "beta", "slow"); err != nil {
			t.Errorf("a call: %v", err)
		}
		time.Sleep(time.Minute)
		if err := call(t.Context(), s, "beta", "a"); err != nil || len(spawns.starts()) > 2 {
			t.Errorf("%d starts, %v", len(spawns.starts()), err)
		}
	})
}

func TestAnUnusedServerIsStoppedAndStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw := rawServer("a", "slow")
		raw.Answer = func(q *mcptest.Request) *mcptest.Answer {
			if q.Name == "slow" {
				return &mcptest.Answer{Delay: 10 * time.Minute}
			}
			return nil
		}
		spawns := &spawner{peers: []*mcptest.Raw{raw}}
		server := stdio("beta")
		server.IdleTimeout = time.Minute
		s := newSet(t, spawns.dial, server)
		<-s.Settled()
		for range 10 { // in use
			time.Sleep(30 * time.Second)
			if err := call(t.Context(), s, "beta", "a"); err != nil {
				t.Errorf("a call: %v", err)
			}
		}
		if n := len(spawns.starts()); n != 1 {
			t.Errorf("a server in use was started %d times", n)
		}
		if err := call(t.Context(), s, "beta", "slow"); err != nil || len(spawns.starts()) != 1 {
			t.Errorf("a call of ten minutes: %v, %d starts", err, len(spawns.starts()))
		}
		stopped := time.Now()
		for !statusOf(t, s, "beta").Idle {
			time.Sleep(time.Second)
		}
		if took := time.Since(stopped); took < time.Minute || took > 70*time.Second {
			t.Errorf("it was stopped after %v", took)
		}
		if st := statusOf(t, s, "beta"); !st.Stale || st.Connections != 0 || toolsOf(s, "beta") != "a slow" {
			t.Errorf("the status is %+v", st)
		}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if err := call(t.Context(), s, "beta", "a"); err != nil {
					t.Errorf("a call: %v", err)
				}
			})
		}
		wg.Wait()
		time.Sleep(2 * time.Minute)
		if st := statusOf(t, s, "beta"); len(spawns.starts()) != 2 || !st.Idle || st.Restarts != 0 {
			t.Errorf("%d starts; the status is %+v", len(spawns.starts()), st)
		}
	})
}

func TestNoCallIsLostWhileAServerIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spawns := &spawner{peers: []*mcptest.Raw{rawServer("a")}}
		server := stdio("beta")
		server.IdleTimeout = 80 * time.Millisecond
		s := newSet(t, spawns.dial, server)
		<-s.Settled()
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for n := range 200 {
					if err := call(t.Context(), s, "beta", "a"); err != nil {
						t.Errorf("a call: %v", err)
					}
					time.Sleep(time.Duration(70+7*i+n%13) * time.Millisecond)
				}
			})
			time.Sleep(3 * time.Millisecond)
		}
		wg.Wait()
	})
}

func TestASubscriptionIsUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw := rawServer("a")
		raw.Capabilities = `{"tools":{},"resources":{"subscribe":true}}`
		spawns := &spawner{peers: []*mcptest.Raw{raw}}
		server := stdio("beta")
		server.IdleTimeout = time.Minute
		s := newSet(t, spawns.dial, server)
		<-s.Settled()
		must(t, s.Subscribe(t.Context(), "beta", "file:///x"))
		time.Sleep(time.Hour)
		if st := statusOf(t, s, "beta"); st.State != upstream.Connected {
			t.Errorf("the status is %+v", st)
		}
		must(t, s.Unsubscribe(t.Context(), "beta", "file:///x"))
		time.Sleep(3 * time.Minute)
		if st := statusOf(t, s, "beta"); !st.Idle {
			t.Errorf("the status is %+v", st)
		}
	})
}

func TestConnectStartsAnIdleServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{kept: map[string]*catalog.Kept{"beta": keptTools("a")}}
		s := newSetWith(t, m.options(), always(rawServer("a")), lazy("beta"))
		<-s.Settled()
		must(t, s.Connect("beta"))
		synctest.Wait()
		if st := statusOf(t, s, "beta"); st.State != upstream.Connected {
			t.Errorf("the status is %+v", st)
		}
	})
}

func TestAServerThatIsNotLazyAnyMoreIsStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{kept: map[string]*catalog.Kept{"beta": keptTools("a")}}
		s := newSetWith(t, m.options(), always(rawServer("a")), lazy("beta"))
		<-s.Settled()
		s.Apply([]*config.Server{stdio("beta")})
		synctest.Wait()
		if st := statusOf(t, s, "beta"); st.State != upstream.Connected || st.Lazy {
			t.Errorf("the status is %+v", st)
		}
	})
}
