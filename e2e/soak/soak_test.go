//go:build e2e && linux

package soak_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

func TestMain(m *testing.M) { mcptest.Children{}.Main(m) }

// An amount is how much is done.
type amount struct {
	sessions, calls, crashes int
	mortals                  int // servers that are killed; each takes about five seconds to be killed again
	probe                    int // percent of it all that are done once more before and after
}

func (a amount) share(percent int) amount {
	return amount{a.sessions * percent / 100, a.calls * percent / 100, a.crashes * percent / 100, a.mortals, 0}
}

var (
	long  = amount{sessions: 30_000, calls: 200_000, crashes: 1_000, mortals: 40, probe: 10}
	short = amount{sessions: 1_500, calls: 10_000, crashes: 20, mortals: 10, probe: 60}
)

// callers is how many sessions exist at the same time.
const callers = 16

func TestSoakLeavesNothing(t *testing.T) {
	todo := long
	if os.Getenv("SOAK") == "short" || testing.Short() {
		todo = short
	}
	t.Setenv("MCPTEST_CHILD_LIFE", "1h")
	s := newSoak(t, todo)
	// The same work needs the same memory before and after: how much of it is resident
	// at rest says more about the collector of garbage.
	probe := todo.share(todo.probe)
	s.ResetPeak(t)
	s.run(t, probe)
	before := s.settled(t, usage{})
	t.Logf("start: %s", before)

	began := time.Now()
	s.run(t, todo)
	t.Logf("%d sessions, %d calls, %d crashes in %s; %d calls to servers that had crashed were refused",
		s.sessions.Load(), s.calls.Load(), s.crashes.Load(), time.Since(began).Round(time.Second), s.refused.Load())
	s.ResetPeak(t)
	s.run(t, probe)
	after := s.settled(t, before)
	t.Logf("end:   %s", after)
	for _, complaint := range after.above(before) {
		t.Error(complaint)
	}
	if z := s.Zombies(); len(z) > 0 {
		t.Errorf("zombies: %s", z)
	}
}

// soak is an aggregator with a server on stdio, one on HTTP and many that are killed.
type soak struct {
	*harness.Aggregator
	mortals []mcptest.Ledger

	sessions, calls, crashes, refused atomic.Int64
}

func newSoak(t *testing.T, a amount) *soak {
	s := &soak{}
	raw := mcptest.Chaos{}.Raw()
	raw.Unrecorded = true
	site, err := mcptest.NewSite(raw)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(site.Down)
	servers := map[string]harness.Config{"alpha": harness.Chaos(t, mcptest.Chaos{}), "gamma": {"url": site.URL}}
	for i := range a.mortals {
		s.mortals = append(s.mortals, harness.Ledger(t))
		servers[fmt.Sprintf("mortal%d", i)] = harness.Chaos(t, mcptest.Chaos{Ledger: s.mortals[i]})
	}
	s.Aggregator = harness.Serve(t, harness.Servers(servers).
		With("log", harness.Config{"level": "error"}).With("http", harness.Config{"session_idle": "5s"}))
	c := s.Connect(t, mcptest.Modern)
	defer c.Close()
	for name := range servers {
		harness.Eventually(t, 30*time.Second, name+" works", func() bool { return echo(t.Context(), c, name, "{}") == nil })
	}
	return s
}

// run does so much, all kinds at the same time.
func (s *soak) run(t *testing.T, a amount) {
	var wg sync.WaitGroup
	var sessions, crashes atomic.Int64
	perSession := max(1, a.calls/max(1, a.sessions))
	for range callers {
		wg.Go(func() {
			for sessions.Add(1) <= int64(a.sessions) && t.Context().Err() == nil {
				if err := s.visit(t.Context(), perSession); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range s.mortals {
		wg.Go(func() {
			for crashes.Add(1) <= int64(a.crashes) && t.Context().Err() == nil {
				s.crash(t, i)
			}
		})
	}
	wg.Wait()
	// What is left of the calls.
	c := s.Connect(t, mcptest.Modern)
	defer c.Close()
	for range a.calls - perSession*a.sessions {
		if err := echo(t.Context(), c, "alpha", `{"rest":1}`); err != nil {
			t.Error(err)
		}
		s.calls.Add(1)
	}
	http.DefaultClient.CloseIdleConnections()
}

// visit is one session with its calls, of either era, and its stream now and then.
func (s *soak) visit(ctx context.Context, calls int) error {
	n := s.sessions.Add(1)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := mcptest.ConnectHTTP(ctx, s.URL, mcptest.Legacy, &mcptest.Options{Own: true})
	if err != nil {
		return err
	}
	defer c.Close()
	if n%10 == 0 {
		streamCtx, end := context.WithCancel(ctx)
		defer end()
		if _, err := c.Listen(streamCtx, ""); err != nil {
			return err
		}
	}
	for i := range calls {
		if err := echo(ctx, c, []string{"alpha", "gamma"}[i%2], fmt.Sprintf(`{"session":%d,"call":%d}`, n, i)); err != nil {
			return err
		}
		s.calls.Add(1)
	}
	if n%7 == 0 {
		return nil // goes without a word; the session expires
	}
	if status, err := c.Delete(ctx); err != nil || status > 299 {
		return fmt.Errorf("DELETE: status %d, %v", status, err)
	}
	return nil
}

// crash kills one of the mortals and waits until it works again.
func (s *soak) crash(t *testing.T, i int) {
	pids := s.mortals[i].PIDs("start")
	_ = syscall.Kill(pids[len(pids)-1], syscall.SIGKILL)
	s.crashes.Add(1)
	c, err := mcptest.ConnectHTTP(t.Context(), s.URL, mcptest.Modern, &mcptest.Options{Own: true})
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	back := func() bool {
		err = echo(t.Context(), c, fmt.Sprintf("mortal%d", i), `{"again":1}`)
		if err == nil && len(s.mortals[i].PIDs("start")) > len(pids) {
			return true
		}
		s.refused.Add(1)
		return false
	}
	if !harness.Poll(90*time.Second, 250*time.Millisecond, back) {
		t.Errorf("mortal%d does not come back: %v", i, err)
	}
}

func echo(ctx context.Context, c *mcptest.Client, server, arguments string) error {
	x, err := c.Call(ctx, "tools/call", `{"name":"`+server+`__echo","arguments":`+arguments+`}`)
	if err != nil {
		return err
	}
	if !strings.Contains(string(x.Result), strings.Trim(mcptest.Quote(arguments), `"`)) {
		return fmt.Errorf("calling %s: %.300s", server, x.Raw)
	}
	return nil
}

// usage is what must not grow.
type usage struct {
	harness.Usage
	heap                  int64 // in use, as the program says
	goroutines, processes int
}

func (u usage) String() string {
	return fmt.Sprintf("%d goroutines, %d processes, heap %.1f MB, %s", u.goroutines, u.processes, float64(u.heap)/(1<<20), u.Usage)
}

// above lists what has grown too much. Memory may by a tenth; connections of ours
// that the measurement itself needs are allowed for.
func (u usage) above(before usage) (complaints []string) {
	check := func(what string, now, limit int64) {
		if now > limit {
			complaints = append(complaints, fmt.Sprintf("%s: %d, want at most %d", what, now, limit))
		}
	}
	check("goroutines", int64(u.goroutines), int64(before.goroutines)+2)
	check("fds", int64(u.FDs), int64(before.FDs)+2)
	check("processes", int64(u.processes), int64(before.processes))
	check("most resident memory", u.Peak, before.Peak+before.Peak/10)
	return complaints
}

// settled measures when nothing has changed for two seconds and, if there is an aim,
// it is as good as that, after a minute at the latest.
func (s *soak) settled(t *testing.T, aim usage) usage {
	var last, now usage
	harness.Poll(time.Minute, 2*time.Second, func() bool {
		http.DefaultClient.CloseIdleConnections()
		last, now = now, s.measure(t)
		calm := now.goroutines == last.goroutines && now.FDs == last.FDs && now.processes == last.processes
		return calm && (aim.goroutines == 0 || len(now.above(aim)) == 0)
	})
	return now
}

func (s *soak) measure(t *testing.T) usage {
	resp, err := http.Get("http://" + s.Addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("metrics: %s, %v", resp.Status, err)
	}
	value := func(name string) int64 {
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, name+" "); ok {
				f, _ := strconv.ParseFloat(strings.TrimSpace(rest), 64)
				return int64(f)
			}
		}
		t.Errorf("no metric is called %s", name)
		return 0
	}
	return usage{Usage: s.Usage(t), heap: value("go_memstats_heap_inuse_bytes"),
		goroutines: int(value("go_goroutines")), processes: len(s.Children())}
}
