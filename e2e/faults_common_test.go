//go:build e2e && linux

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// The fault suite: alpha is a healthy server beside a sick one, beta. Whatever
// beta does, alpha works, and beta works again when its fault is over.

// A rig is an aggregator with alpha, and a client of it.
type rig struct {
	*harness.Aggregator
	client *mcptest.Client
	alpha  mcptest.Ledger
}

// beside starts an aggregator with alpha and these servers, with more settings if
// there are any, and waits until alpha can be called.
func beside(t *testing.T, servers map[string]harness.Config, settings ...harness.Config) *rig {
	t.Helper()
	r := &rig{alpha: harness.Ledger(t)}
	all := map[string]harness.Config{"alpha": harness.Chaos(t, mcptest.Chaos{Ledger: r.alpha})}
	for name, s := range servers {
		all[name] = s
	}
	config := harness.Servers(all)
	for _, more := range settings {
		for k, v := range more {
			config[k] = v
		}
	}
	r.Aggregator = harness.Serve(t, config)
	r.client = r.Connect(t, mcptest.Modern)
	awaitTool(t, r.client, "alpha__echo", 5*time.Second)
	return r
}

// betaBeside is beside with one other server, and waits for it too.
func betaBeside(t *testing.T, beta harness.Config, settings ...harness.Config) *rig {
	t.Helper()
	r := beside(t, map[string]harness.Config{"beta": beta}, settings...)
	awaitTool(t, r.client, "beta__echo", 10*time.Second)
	return r
}

// awaitTool waits until a tool is listed.
func awaitTool(t *testing.T, c *mcptest.Client, name string, d time.Duration) {
	t.Helper()
	harness.Eventually(t, d, name+" is listed", func() bool { return hasTool(t, c, name) })
}

func hasTool(t *testing.T, c *mcptest.Client, name string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tools, _, err := c.List(ctx, "tools/list")
	if err != nil {
		t.Fatalf("listing tools: %v", err)
	}
	for _, def := range tools {
		if string(mcptest.Field(def, "name")) == `"`+name+`"` {
			return true
		}
	}
	return false
}

// An outcome is how a call ended.
type outcome struct {
	answer string // the message, clipped
	text   string // the first text of a result, or the message of an error
	failed bool   // an error, or a result with isError
	code   string // machine-readable, of a failure the aggregator reports
	took   time.Duration
	err    error // nothing was answered
}

func (o outcome) String() string {
	return fmt.Sprintf("after %s: %v %s", o.took.Round(time.Millisecond), o.err, o.answer)
}

// ok turns anything but a good result into an error.
func (o outcome) ok() error {
	if o.err != nil || o.failed {
		return fmt.Errorf("%s", o)
	}
	return nil
}

// call calls a tool and waits at most d.
func call(ctx context.Context, c *mcptest.Client, tool, arguments string, d time.Duration) outcome {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	began := time.Now()
	x, err := c.Call(ctx, "tools/call", `{"name":"`+tool+`","arguments":`+arguments+`}`)
	o := outcomeOf(x, err)
	o.took = time.Since(began)
	return o
}

func outcomeOf(x *mcptest.Exchange, err error) outcome {
	o := outcome{answer: show(x), err: err}
	if err != nil {
		return o
	}
	var result struct {
		Content []struct{ Text string }
		IsError bool
		Meta    map[string]json.RawMessage `json:"_meta"`
	}
	var failure struct {
		Message string
		Data    json.RawMessage
	}
	switch {
	case x.Result != nil:
		_ = json.Unmarshal(x.Result, &result)
		o.failed = result.IsError
		if len(result.Content) > 0 {
			o.text = result.Content[0].Text
		}
		_ = json.Unmarshal(mcptest.Field(result.Meta["mcp-aggregator/error"], "code"), &o.code)
	default:
		o.failed = true
		_ = json.Unmarshal(x.Error, &failure)
		o.text = failure.Message
		_ = json.Unmarshal(mcptest.Field(failure.Data, "code"), &o.code)
	}
	return o
}

// call is call with the rig's client, bounded by twenty seconds.
func (r *rig) call(t *testing.T, tool, arguments string) outcome {
	return call(t.Context(), r.client, tool, arguments, 20*time.Second)
}

// loadAlpha keeps calling alpha from a client of its own.
func (r *rig) loadAlpha(t *testing.T) *harness.Load {
	t.Helper()
	c := r.Connect(t, mcptest.Legacy)
	return harness.StartLoad(t, 1, 5*time.Millisecond, func(ctx context.Context, _ int) error {
		return echoes(ctx, c, "alpha__echo", `{"a":1}`)
	})
}

// echoes calls a tool that echoes its arguments and compares.
func echoes(ctx context.Context, c *mcptest.Client, tool, arguments string) error {
	o := call(ctx, c, tool, arguments, 30*time.Second)
	if err := o.ok(); err != nil {
		return err
	}
	if o.text != arguments {
		return fmt.Errorf("another's answer: %s", o)
	}
	return nil
}

// unhurt stops a load and complains about errors and slowness.
func unhurt(t *testing.T, l *harness.Load, p99 time.Duration) harness.Figures {
	t.Helper()
	f := l.Stop()
	t.Logf("alpha: %s", f)
	if len(f.Errors) > 0 {
		t.Errorf("alpha: %s", f)
	}
	if p99 > 0 && f.P99 > p99 {
		t.Errorf("alpha: p99 is %s, want at most %s", f.P99, p99)
	}
	return f
}

// works waits until a call of the tool succeeds and returns how long that took.
func (r *rig) works(t *testing.T, tool string, within time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		o := call(t.Context(), r.client, tool, `{"again":1}`, within+5*time.Second)
		took := time.Since(began)
		if o.ok() == nil && took <= within {
			t.Logf("%s works after %s", tool, took.Round(time.Millisecond))
			return took
		}
		if took > within {
			t.Errorf("%s does not work within %s: %s", tool, within, o)
			return took
		}
		pause(t, 50*time.Millisecond)
	}
}

// pause waits between two looks at a process that cannot tell.
func pause(t *testing.T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// together makes n calls at the same time and returns how they ended.
func together(n int, f func(i int) outcome) []outcome {
	out := make([]outcome, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { out[i] = f(i) })
	}
	wg.Wait()
	return out
}

// slowest complains about calls that took longer than allowed or got no answer.
func slowest(t *testing.T, what string, all []outcome, within time.Duration) {
	t.Helper()
	var worst time.Duration
	for _, o := range all {
		worst = max(worst, o.took)
		if o.err != nil || o.took > within {
			t.Errorf("%s: answered %s, want within %s", what, o, within)
			return
		}
	}
	t.Logf("%s: %d answers, the slowest after %s", what, len(all), worst.Round(time.Millisecond))
}

// noZombies complains about children that were not reaped.
func (r *rig) noZombies(t *testing.T) {
	t.Helper()
	harness.Eventually(t, 2*time.Second, "no zombies", func() bool { return len(r.Zombies()) == 0 })
}

// killNewest kills the newest process that has noted its start, like kill -9.
func killNewest(t *testing.T, l mcptest.Ledger) {
	t.Helper()
	pids := l.PIDs("start")
	if len(pids) == 0 {
		t.Fatal("no process has been started")
	}
	_ = syscall.Kill(pids[len(pids)-1], syscall.SIGKILL)
}

// running lists the processes of a ledger that still run.
func running(l mcptest.Ledger) (pids []int) {
	for _, pid := range l.PIDs("start") {
		if harness.Running(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// memoryAtMost complains if the process has used more than so many MB above a
// former usage at any time since.
func (r *rig) memoryAtMost(t *testing.T, before harness.Usage, mb int64) {
	t.Helper()
	now := r.Usage(t)
	grown := (max(now.Peak, now.RSS) - before.RSS) >> 20
	t.Logf("memory: +%d MB at most (%s)", grown, now)
	if grown > mb {
		t.Errorf("memory: +%d MB, want at most +%d MB", grown, mb)
	}
}

func (r *rig) before(t *testing.T) harness.Usage {
	t.Helper()
	r.ResetPeak(t)
	return r.Usage(t)
}

// A status is what the admin side says about a server.
type status struct {
	State, Phase       string
	LastError          string `json:"last_error"`
	PID                int
	Skipped, Restarts  int64
	Attempt, Refs      int
	Tools, Connections int
	Stale              bool
	Degraded           []string
	Problems           []struct{ Name, Reason, Severity string }
}

// status asks the admin side about a server.
func (r *rig) status(t *testing.T, server string) (s status) {
	t.Helper()
	r.ask(t, "/api/v1/mcp/servers/"+server, &s)
	return s
}

// ask reads JSON from the admin side.
func (r *rig) ask(t *testing.T, path string, into any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.Addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %s, %v", path, resp.Status, err)
	}
}

// mayHaveExecuted is what a person and a model are told about a lost call.
func mayHaveExecuted(o outcome) bool {
	return o.failed && strings.Contains(o.text, "may have") && strings.Contains(o.text, "executed")
}
