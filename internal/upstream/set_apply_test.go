package upstream_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
)

func TestApplySaysWhatHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := upstream.NewSet(options(), always(rawServer("a")))
		defer s.Close(t.Context())
		check := func(want upstream.Changes, servers ...*config.Server) {
			t.Helper()
			if diff := cmp.Diff(want, s.Apply(servers)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		}
		check(upstream.Changes{Added: []string{"alpha", "beta", "gamma"}}, stdio("alpha"), stdio("beta"), stdio("gamma"))
		check(upstream.Changes{}, stdio("gamma"), stdio("alpha"), stdio("beta"))
		adopted, changed := stdio("alpha"), stdio("beta")
		adopted.CallTimeout, changed.Command = time.Second, "other"
		check(upstream.Changes{Added: []string{"delta"}, Changed: []string{"alpha", "beta"}, Removed: []string{"gamma"}}, adopted, changed, stdio("delta"))
		check(upstream.Changes{Removed: []string{"alpha", "beta", "delta"}})
	})
}

func TestAServerIsShownByItsNewSettingsOnTheSameConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spawns := &spawner{peers: []*mcptest.Raw{rawServer("a", "b")}}
		s := newSet(t, spawns.dial, stdio("beta"))
		<-s.Settled()
		narrow := stdio("beta")
		prefix := "p"
		narrow.Prefix, narrow.Tools.Deny = &prefix, []string{"a"}
		s.Apply([]*config.Server{narrow})
		if l := s.Listings()[0]; toolsOf(s, "beta") != "b" || l.Prefix != "p" || l.Stale {
			t.Errorf("%q is listed with prefix %q, stale: %v", toolsOf(s, "beta"), l.Prefix, l.Stale)
		}
		if err := call(t.Context(), s, "beta", "b"); err != nil {
			t.Errorf("a call: %v", err)
		}
		spawns.peers[0].Change(func(r *mcptest.Raw) { r.Tools = append(r.Tools, toolDef("c")) })
		spawns.peers[0].Notify("notifications/tools/list_changed", "")
		time.Sleep(2 * time.Second)
		if got := toolsOf(s, "beta"); got != "b c" {
			t.Errorf("after a change %q is listed", got)
		}
		s.Apply([]*config.Server{stdio("beta")})
		if got := toolsOf(s, "beta"); got != "a b c" {
			t.Errorf("with the old settings %q is listed", got)
		}
		if n := len(spawns.starts()); n != 1 {
			t.Errorf("started %d times", n)
		}
	})
}

func TestSettingsOfAServerThatIsAwayApplyToWhatItOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mortal{spawner: spawner{peers: []*mcptest.Raw{rawServer("a", "b"), {Answer: mcptest.Always(mcptest.Answer{Silent: true})}}}}
		s := newSet(t, m.dial, stdio("beta"))
		<-s.Settled()
		m.die()
		synctest.Wait()
		narrow := stdio("beta")
		narrow.Tools.Deny = []string{"a"}
		s.Apply([]*config.Server{narrow})
		if got := toolsOf(s, "beta"); got != "b" || !s.Listings()[0].Stale {
			t.Errorf("%q is listed", got)
		}
	})
}

func TestAChangedServerStaysListedAndItsCallersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := rawServer("a", "b", "c")
		slow.Answer = mcptest.On(discover, mcptest.Answer{Delay: 2 * time.Second})
		spawns := &spawner{peers: []*mcptest.Raw{rawServer("a", "b"), slow}}
		s := newSet(t, spawns.dial, stdio("beta"))
		<-s.Settled()
		other := stdio("beta")
		other.Args, other.Tools.Deny = []string{"-v"}, []string{"b"}
		begin := time.Now()
		s.Apply([]*config.Server{other})
		if st := statusOf(t, s, "beta"); toolsOf(s, "beta") != "a" || !st.Stale || st.State != upstream.Pending {
			t.Errorf("%q is listed; the status is %+v", toolsOf(s, "beta"), st)
		}
		if err := call(t.Context(), s, "beta", "a"); err != nil || time.Since(begin) != 2*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		synctest.Wait()
		if got := toolsOf(s, "beta"); got != "a c" || statusOf(t, s, "beta").Stale {
			t.Errorf("%q is listed", got)
		}
	})
}

func TestCallsInFlightOnAChangedServerHaveTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw := rawServer("slow")
		raw.Answer = mcptest.On("tools/call", mcptest.Answer{Delay: time.Minute})
		s := newSet(t, always(raw), stdio("beta"), stdio("gamma"))
		<-s.Settled()
		var wg sync.WaitGroup
		for _, server := range []string{"beta", "gamma"} {
			wg.Go(func() {
				if err := call(t.Context(), s, server, "slow"); err != nil {
					t.Errorf("%s: %v", server, err)
				}
			})
		}
		time.Sleep(time.Second)
		other := stdio("beta")
		other.Args = []string{"-v"}
		s.Apply([]*config.Server{other})
		wg.Wait()
	})
}

func TestNoCallIsLostByAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, always(rawServer("a")), stdio("beta"), stdio("alpha"))
		<-s.Settled()
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for !isDone(stop) {
					for _, server := range []string{"alpha", "beta"} {
						if err := call(t.Context(), s, server, "a"); err != nil {
							t.Errorf("%s: %v", server, err)
						}
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		for n := range 100 {
			beta, gamma := stdio("beta"), stdio("gamma")
			switch n % 4 {
			case 0:
				beta.Args = []string{fmt.Sprint(n)}
			case 1:
				beta.CallTimeout = time.Duration(n+1) * time.Second
			case 2:
				beta.Tools.Deny = []string{fmt.Sprint(n)}
			}
			s.Apply([]*config.Server{beta, stdio("alpha"), gamma}[:2+n%2])
			time.Sleep(7 * time.Millisecond)
		}
		close(stop)
		wg.Wait()
		if st := statusOf(t, s, "alpha"); st.Restarts != 0 {
			t.Errorf("the status of alpha is %+v", st)
		}
	})
}

func TestListsAreKeptAndRecalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		odd := `{ "z":1.0, "name" : "n", "inputSchema":{"type":"object" }, "u":"\u00e9<" }`
		raw := &mcptest.Raw{Era: mcptest.Legacy, Tools: []string{odd}, Instructions: "be kind",
			Resources: []string{`{"uri":"file:///x","name":"x"}`}, Capabilities: `{"tools":{"listChanged":true},"resources":{}}`}
		first := upstream.NewSet(m.options(), always(raw))
		first.Apply([]*config.Server{stdio("beta")})
		<-first.Settled()
		synctest.Wait()
		want := first.Listings()[0]
		if m.stored() != 1 {
			t.Errorf("stored %d times", m.stored())
		}
		raw.Notify("notifications/tools/list_changed", "")
		time.Sleep(5 * time.Second)
		if m.stored() != 1 {
			t.Errorf("stored %d times although nothing has changed", m.stored())
		}
		raw.Change(func(r *mcptest.Raw) { r.Tools = append(r.Tools, toolDef("b")) })
		raw.Notify("notifications/tools/list_changed", "")
		time.Sleep(5 * time.Second)
		if m.stored() != 2 || len(m.of("beta").Tools) != 2 {
			t.Errorf("stored %d times: %+v", m.stored(), m.of("beta"))
		}
		raw.Change(func(r *mcptest.Raw) { r.Tools = r.Tools[:1] })
		raw.Notify("notifications/tools/list_changed", "")
		time.Sleep(5 * time.Second)
		_ = first.Close(t.Context())

		hang := &mcptest.Raw{Answer: mcptest.Always(mcptest.Answer{Silent: true})}
		second := newSetWith(t, m.options(), always(hang), stdio("beta"))
		got := second.Listings()
		if len(got) != 1 || !got[0].Stale {
			t.Fatalf("listed are %+v", got)
		}
		if diff := cmp.Diff(string(want.Tools[0].Def), string(got[0].Tools[0].Def)); diff != "" {
			t.Errorf("definition (-want +got):\n%s", diff)
		}
		if got[0].Instructions != "be kind" || len(got[0].Resources) != 1 || string(got[0].ServerInfo) != string(want.ServerInfo) {
			t.Errorf("recalled is %+v", got[0])
		}
	})
}

func TestWhatIsRecalledIsReplacedListByList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := keptTools("old")
		kept.Prompts = [][]byte{[]byte(`{"name":"p"}`)}
		m := &memory{kept: map[string]*catalog.Kept{"beta": kept}}
		raw := &mcptest.Raw{Era: mcptest.Legacy, Tools: toolDefs(1), Capabilities: `{"tools":{},"prompts":{}}`,
			Answer: mcptest.On("prompts/list", mcptest.Answer{Delay: 5 * time.Second})}
		s := newSetWith(t, m.options(), always(raw), stdio("beta"))
		time.Sleep(time.Second)
		if st := statusOf(t, s, "beta"); toolsOf(s, "beta") != "t0" || st.Prompts != 1 || st.Stale {
			t.Errorf("%q is listed; the status is %+v", toolsOf(s, "beta"), st)
		}
		if m.stored() != 0 {
			t.Error("half a picture was stored")
		}
		time.Sleep(10 * time.Second)
		if st := statusOf(t, s, "beta"); st.Prompts != 0 || m.stored() != 1 {
			t.Errorf("stored %d times; the status is %+v", m.stored(), st)
		}
	})
}

func TestAFailedListIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		raw := rawServer("a")
		raw.Errors = map[string]string{"tools/list": `{"code":-32603,"message":"not now"}`}
		s := newSetWith(t, m.options(), always(raw), stdio("beta"))
		<-s.Settled()
		time.Sleep(time.Minute)
		if m.stored() != 0 {
			t.Errorf("stored %d times", m.stored())
		}
	})
}

func TestListsAreReadAgainAfterTheStreamWasBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw := rawServer("a")
		host := newWebHost(t, raw)
		s := newWebSet(t, options(), host)
		time.Sleep(10 * time.Second)
		before := len(raw.Received("tools/list"))
		raw.Change(func(r *mcptest.Raw) { r.Tools = append(r.Tools, toolDef("b")) }) // announced to nobody
		host.cut()
		time.Sleep(10 * time.Second)
		if got := toolsOf(s, "beta"); got != "a b" {
			t.Errorf("%q is listed", got)
		}
		for range 20 {
			host.cut()
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if n := len(raw.Received("tools/list")) - before; n > 8 {
			t.Errorf("%d listings", n)
		}
		if st := statusOf(t, s, "beta"); st.State != upstream.Connected || strings.Join(st.Degraded, "") != "" {
			t.Errorf("the status is %+v", st)
		}
	})
}
