//go:build e2e && linux

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// reloading is an aggregator whose configuration is changed again and again: alpha
// and gamma stay as they are, beta is changed, delta comes and goes.
type reloading struct {
	*rig
	path   string // of the configuration file
	hangup bool   // the program is told by a signal; else it sees the file change

	beta, delta mcptest.Ledger
	gammaConfig harness.Config
	gamma       *mcptest.Raw
	gammaLedger mcptest.Ledger
	version     int // of beta
	withDelta   bool
}

func newReloading(t *testing.T, hangup bool) *reloading {
	r := &reloading{rig: &rig{alpha: harness.Ledger(t)}, hangup: hangup,
		beta: harness.Ledger(t), delta: harness.Ledger(t), gammaLedger: harness.Ledger(t)}
	r.gammaConfig, r.gamma = harness.ChaosHTTP(t, mcptest.Chaos{Era: mcptest.Legacy, Ledger: r.gammaLedger})
	r.path = r.config(t).Write(t)
	r.Aggregator = harness.ServeFile(t, r.path)
	r.client = r.Connect(t, mcptest.Modern)
	for _, tool := range []string{"alpha__echo", "beta__echo", "gamma__echo"} {
		awaitTool(t, r.client, tool, 10*time.Second)
	}
	return r
}

func (r *reloading) config(t *testing.T) harness.Config {
	servers := map[string]harness.Config{
		"alpha": harness.Chaos(t, mcptest.Chaos{Ledger: r.alpha}),
		"gamma": r.gammaConfig,
		"beta": harness.Chaos(t, mcptest.Chaos{Ledger: r.beta,
			Definitions: []string{fmt.Sprintf(`{"name":"v%d","inputSchema":{"type":"object"}}`, r.version)}}),
	}
	if r.withDelta {
		servers["delta"] = harness.Chaos(t, mcptest.Chaos{Ledger: r.delta})
	}
	return harness.Servers(servers).With("watch", !r.hangup)
}

// reload does what the i-th reload does and waits until it shows.
func (r *reloading) reload(t *testing.T, i int) {
	switch i % 5 {
	case 0:
		r.withDelta = true
		r.put(t, r.config(t))
		awaitTool(t, r.client, "delta__echo", 5*time.Second)
	case 1:
		r.version++
		r.put(t, r.config(t))
		awaitTool(t, r.client, fmt.Sprintf("beta__v%d", r.version), 5*time.Second)
	case 2:
		broken := []string{"servers: [", "", "servers:\n  alpha:\n    command: [1]\n    nonsense: true\n", "\x00"}[i/5%4]
		if err := os.WriteFile(r.path, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		r.tell()
		pause(t, 200*time.Millisecond)
		for _, tool := range []string{"alpha__echo", "delta__echo", fmt.Sprintf("beta__v%d", r.version)} {
			if !hasTool(t, r.client, tool) {
				t.Fatalf("reload %d: a broken file has removed %s", i, tool)
			}
		}
	case 3:
		r.withDelta = false
		r.put(t, r.config(t))
		harness.Eventually(t, 5*time.Second, "delta is gone", func() bool { return !hasTool(t, r.client, "delta__echo") })
	case 4:
		r.put(t, r.config(t))
		pause(t, 200*time.Millisecond)
	}
}

// put replaces the file, with a rename or in place.
func (r *reloading) put(t *testing.T, config harness.Config) {
	if r.version%2 == 0 {
		config.Replace(t, r.path)
	} else {
		text, err := os.ReadFile(config.Write(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(r.path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.tell()
}

func (r *reloading) tell() {
	if r.hangup {
		_ = r.Cmd.Process.Signal(syscall.SIGHUP)
	}
}

// One hundred reloads under sixteen callers, with long calls in flight.
func TestReloadsLoseNothing(t *testing.T) {
	t.Parallel()
	for name, hangup := range map[string]bool{"on SIGHUP": true, "on a change of the file": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReloading(t, hangup)
			sessions := len(r.gamma.Received("initialize"))
			clients := make([]*mcptest.Client, 18)
			for i := range clients {
				clients[i] = r.Connect(t, []mcptest.Era{mcptest.Legacy, mcptest.Modern}[i%2])
			}
			var next atomic.Int64
			load := harness.StartLoad(t, 16, 10*time.Millisecond, func(ctx context.Context, i int) error {
				server := []string{"alpha", "alpha", "gamma", "beta"}[i%4]
				return echoes(ctx, clients[i], server+"__write", fmt.Sprintf(`{"key":"k%d"}`, next.Add(1)))
			})
			long := harness.StartLoad(t, 2, 0, func(ctx context.Context, i int) error {
				return echoes(ctx, clients[16+i], []string{"alpha", "beta"}[i]+"__slow", `{"ms":3000}`)
			})
			began := time.Now()
			for i := range 100 {
				r.reload(t, i)
			}
			took := time.Since(began)
			f, l := load.Stop(), long.Stop()
			t.Logf("100 reloads in %s; %s; long calls: %s", took.Round(time.Millisecond), f, l)
			if took > time.Minute {
				t.Errorf("100 reloads took %s, want at most a minute", took)
			}
			if len(f.Errors) > 0 {
				t.Errorf("lost or wrong: %s", f)
			}
			if len(l.Errors) > 0 {
				t.Errorf("long calls: %s", l)
			}
			r.eachOnce(t, next.Load(), len(f.Errors) > 0)
			if pids := r.alpha.PIDs("start"); len(pids) != 1 {
				t.Errorf("alpha, which never changed, was started %d times", len(pids))
			}
			if n := len(r.gamma.Received("initialize")); n != sessions {
				t.Errorf("gamma, which never changed, has %d sessions, had %d", n, sessions)
			}
			harness.Eventually(t, 10*time.Second, "only one beta and no delta run", func() bool {
				return len(running(r.beta)) == 1 && len(running(r.delta)) == 0
			})
			r.noZombies(t)
		})
	}
}

// eachOnce sees in the ledgers that each of the calls k1 to kn was executed once, or
// perhaps not at all if some were lost.
func (r *reloading) eachOnce(t *testing.T, n int64, someLost bool) {
	executed := map[string]int{}
	for _, ledger := range []mcptest.Ledger{r.alpha, r.beta, r.gammaLedger} {
		for _, note := range ledger.Notes("") {
			executed[note.Event]++
		}
	}
	for i := range n {
		if times := executed[fmt.Sprintf("exec write k%d", i+1)]; times != 1 && !someLost || times > 1 {
			t.Errorf("call %d was executed %d times", i+1, times)
		}
	}
}

// A change of what is only shown, or of how calls are treated, touches no connection.
func TestReloadsThatConcernNoConnectionKeepIt(t *testing.T) {
	t.Parallel()
	ledger := harness.Ledger(t)
	servers := func(settings harness.Config) harness.Config {
		beta := harness.Chaos(t, mcptest.Chaos{Ledger: ledger})
		for k, v := range settings {
			beta[k] = v
		}
		return harness.Servers(map[string]harness.Config{"beta": beta})
	}
	path := servers(nil).Write(t)
	a := harness.ServeFile(t, path)
	c := a.Connect(t, mcptest.Modern)
	awaitTool(t, c, "beta__echo", 10*time.Second)
	servers(harness.Config{"prefix": "other"}).Replace(t, path)
	awaitTool(t, c, "other__echo", 5*time.Second)
	servers(harness.Config{"prefix": "other", "tools": harness.Config{"deny": []string{"echo"}}, "call_timeout": "1s"}).Replace(t, path)
	harness.Eventually(t, 5*time.Second, "echo is hidden", func() bool { return !hasTool(t, c, "other__echo") })
	if o := call(t.Context(), c, "other__hang", `{}`, 5*time.Second); o.code != "timeout" || o.took > 3*time.Second {
		t.Errorf("with a call_timeout of 1s: %s", o)
	}
	servers(nil).Replace(t, path)
	awaitTool(t, c, "beta__echo", 5*time.Second)
	if n := ledger.Count("start"); n != 1 {
		t.Errorf("beta was started %d times, want once", n)
	}
}
