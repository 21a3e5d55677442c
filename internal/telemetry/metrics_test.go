package telemetry_test

import (
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/telemetry"
)

// scrape returns the lines of our own metrics, comments left out, sorted.
func scrape(t *testing.T, m *telemetry.Metrics) []string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body, _ := io.ReadAll(w.Body)
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, body)
	}
	var lines []string
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "mcp_") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	slices.Sort(lines)
	return lines
}

// only keeps the lines of some metrics.
func only(lines []string, names ...string) (out []string) {
	for _, line := range lines {
		if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(line, n+"{") || strings.HasPrefix(line, n+" ") }) {
			out = append(out, line)
		}
	}
	return out
}

func TestCallsAreCountedByHowTheyEnded(t *testing.T) {
	m := telemetry.New(telemetry.Options{})
	m.Call("github", "search", telemetry.OK, time.Millisecond)
	m.Call("github", "search", telemetry.OK, time.Millisecond)
	m.Call("github", "search", "timeout", time.Minute)
	m.Call("github", "search", telemetry.ToolError, time.Second)
	m.Call("files", "read", telemetry.OK, time.Second)
	m.Retry("github", "search")
	m.Transition("github", "search", telemetry.Open)
	m.RateLimited("files")
	m.Reload(true)
	m.Reload(false)
	m.Reload(false)
	want := []string{
		`mcp_circuit_transitions_total{server="github",to="open",tool="search"} 1`,
		`mcp_errors_total{kind="timeout",server="github",tool="search"} 1`,
		`mcp_errors_total{kind="tool_error",server="github",tool="search"} 1`,
		`mcp_invocations_total{kind="ok",server="files",tool="read"} 1`,
		`mcp_invocations_total{kind="ok",server="github",tool="search"} 2`,
		`mcp_invocations_total{kind="timeout",server="github",tool="search"} 1`,
		`mcp_invocations_total{kind="tool_error",server="github",tool="search"} 1`,
		`mcp_rate_limited_total{server="files"} 1`,
		`mcp_reloads_total{result="failed"} 2`,
		`mcp_reloads_total{result="ok"} 1`,
		`mcp_retries_total{server="github",tool="search"} 1`,
	}
	got := only(scrape(t, m), "mcp_circuit_transitions_total", "mcp_errors_total", "mcp_invocations_total",
		"mcp_rate_limited_total", "mcp_reloads_total", "mcp_retries_total")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLatenciesAreCumulatedInMilliseconds(t *testing.T) {
	m := telemetry.New(telemetry.Options{})
	for _, took := range []time.Duration{0, time.Millisecond, 1500 * time.Microsecond, 90 * time.Second, time.Hour} {
		m.Call("s", "t", telemetry.OK, took)
	}
	got := scrape(t, m)
	for _, want := range []string{
		`mcp_invocation_latency_ms_bucket{server="s",tool="t",le="1"} 2`,
		`mcp_invocation_latency_ms_bucket{server="s",tool="t",le="2"} 3`,
		`mcp_invocation_latency_ms_bucket{server="s",tool="t",le="30000"} 3`,
		`mcp_invocation_latency_ms_bucket{server="s",tool="t",le="90000"} 4`,
		`mcp_invocation_latency_ms_bucket{server="s",tool="t",le="+Inf"} 5`,
		`mcp_invocation_latency_ms_count{server="s",tool="t"} 5`,
		`mcp_invocation_latency_ms_sum{server="s",tool="t"} 3.6900025e+06`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s", want)
		}
	}
	if t.Failed() {
		t.Log(strings.Join(got, "\n"))
	}
}

func TestStatesAreSampledWhenSomebodyAsks(t *testing.T) {
	up := false
	m := telemetry.New(telemetry.Options{Version: "1.2.3", Sources: telemetry.Sources{
		Servers: func() []telemetry.Server {
			return []telemetry.Server{{Name: "a", Up: up, Restarts: 3, InFlight: 2, Refs: 4, Connections: 1, Asked: 6, Refused: 2}}
		},
		Breakers: func() []telemetry.Breaker {
			return []telemetry.Breaker{{"a", "x", telemetry.Open}, {"a", "y", telemetry.HalfOpen}, {"a", "z", telemetry.Closed}}
		},
		Queues:   func() []telemetry.Queue { return []telemetry.Queue{{"heavy", 2, 1, 5}} },
		Sessions: func() int { return 7 },
		Parked:   func() telemetry.Parked { return telemetry.Parked{Calls: 8, Expired: 4, Refused: 5} },
		Dropped:  func() int64 { return 9 },
		Warnings: func() int { return 1 },
		Config:   func() (int64, time.Time) { return 12, time.Unix(1000, 0) },
	}})
	m.QueueWait("heavy", time.Second)
	up = true
	got := scrape(t, m)
	for _, want := range []string{
		`mcp_upstream_up{server="a"} 1`, `mcp_upstream_restarts_total{server="a"} 3`, `mcp_upstream_in_flight{server="a"} 2`,
		`mcp_upstream_refs{server="a"} 4`, `mcp_upstream_connections{server="a"} 1`,
		`mcp_upstream_asked_total{server="a"} 6`, `mcp_upstream_ask_refused_total{server="a"} 2`,
		`mcp_parked_calls 8`, `mcp_parked_expired_total 4`, `mcp_parked_refused_total 5`,
		`mcp_circuit_state{server="a",tool="x"} 2`, `mcp_circuit_state{server="a",tool="y"} 1`, `mcp_circuit_state{server="a",tool="z"} 0`,
		`mcp_queue_slots{queue="heavy"} 2`, `mcp_queue_running{queue="heavy"} 1`, `mcp_queue_depth{queue="heavy"} 5`,
		`mcp_queue_wait_ms_count{queue="heavy"} 1`, `mcp_sessions 7`, `mcp_messages_dropped_total 9`, `mcp_warnings 1`,
		`mcp_config_generation 12`, `mcp_config_loaded_timestamp_seconds 1000`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s", want)
		}
	}
	if !slices.ContainsFunc(got, func(s string) bool {
		return strings.HasPrefix(s, "mcp_build_info{") && strings.Contains(s, `version="1.2.3"`)
	}) {
		t.Error("no build information")
	}
}

// A server can have any number of tools, with any names. None of them may grow the
// metrics without bound or spoil a scrape.
func TestNamesThatServersMakeUpAreBounded(t *testing.T) {
	m := telemetry.New(telemetry.Options{Sources: telemetry.Sources{
		Breakers: func() (out []telemetry.Breaker) {
			for i := range 10_000 {
				out = append(out, telemetry.Breaker{Server: "s", Tool: fmt.Sprintf("tool%d", i/2)})
			}
			return append(out, telemetry.Breaker{Server: "s", Tool: "\xff"}, telemetry.Breaker{Server: "s", Tool: ""})
		},
	}})
	calls := 0
	for i := range 10_000 {
		for range 2 {
			m.Call("s", fmt.Sprintf("tool%d", i), telemetry.OK, 0)
			calls++
		}
		m.Call("s", "first", fmt.Sprintf("kind%d", i), 0)
		m.Call(fmt.Sprintf("server%d", i), "x", telemetry.OK, 0)
		m.RateLimited(fmt.Sprintf("server%d", i))
		m.QueueWait(fmt.Sprintf("queue%d", i), 0)
		calls += 2
	}
	for _, name := range []string{"\xff\xfe", strings.Repeat("x", 1<<20), "", "quote\"\nline"} {
		m.Call("s", name, telemetry.OK, 0)
		calls++
	}
	lines := scrape(t, m)
	if len(lines) > 42_000 {
		t.Errorf("%d lines", len(lines))
	}
	sum, ofS := 0, 0
	for _, line := range only(lines, "mcp_invocations_total") {
		if len(line) > 400 {
			t.Errorf("a line of %d bytes", len(line))
		}
		var n int
		fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &n)
		sum += n
		if strings.Contains(line, `server="s"`) {
			ofS += n
		}
	}
	if want := calls - 10_000; sum != calls || ofS != want {
		t.Errorf("%d calls are counted of %d, %d of %d as of their server", sum, calls, ofS, want)
	}
	if n := len(only(lines, "mcp_circuit_state")); n != 2000 {
		t.Errorf("%d breakers", n)
	}
	observed := 0
	for _, line := range only(lines, "mcp_invocation_latency_ms_count") {
		var n int
		fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &n)
		observed += n
	}
	if observed != calls {
		t.Errorf("%d latencies are counted of %d", observed, calls)
	}
}

func TestNamesThatAreNoLabelsCountAsOthers(t *testing.T) {
	m := telemetry.New(telemetry.Options{})
	for _, name := range []string{"\xff\xfe", strings.Repeat("x", 1<<20), "", strings.Repeat("y", 128), "a\"b\nc"} {
		m.Call("s", name, telemetry.OK, 0)
	}
	want := []string{
		`mcp_invocations_total{kind="ok",server="s",tool="` + strings.Repeat("y", 128) + `"} 1`,
		`mcp_invocations_total{kind="ok",server="s",tool="a\"b\nc"} 1`,
		`mcp_invocations_total{kind="ok",server="s",tool="other"} 3`,
	}
	got := only(scrape(t, m), "mcp_invocations_total")
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestARemovedServerMakesRoom(t *testing.T) {
	m := telemetry.New(telemetry.Options{})
	for i := range 10_000 {
		server := fmt.Sprintf("server%d", i)
		m.Call(server, "x", telemetry.OK, 0)
		m.RateLimited(server)
		m.Forget(server)
	}
	m.Call("last", "x", telemetry.OK, 0)
	m.RateLimited("last")
	want := []string{`mcp_invocations_total{kind="ok",server="last",tool="x"} 1`, `mcp_rate_limited_total{server="last"} 1`}
	if diff := cmp.Diff(want, only(scrape(t, m), "mcp_invocations_total", "mcp_rate_limited_total")); diff != "" {
		t.Error(diff)
	}
}

func TestCallsAreCountedWhileOthersScrape(t *testing.T) {
	m := telemetry.New(telemetry.Options{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for n := range 500 {
				m.Call("s", fmt.Sprintf("t%d", n%50), []string{telemetry.OK, "lost", "timeout"}[n%3], 0)
			}
		})
	}
	for range 5 {
		scrape(t, m)
	}
	wg.Wait()
	sum := 0
	for _, line := range only(scrape(t, m), "mcp_invocations_total") {
		var n int
		fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &n)
		sum += n
	}
	if sum != 8*500 {
		t.Errorf("%d calls are counted of 4000", sum)
	}
}

func TestCountingACallAllocatesNothing(t *testing.T) {
	m := telemetry.New(telemetry.Options{})
	count := func() {
		m.Call("github", "search_repositories", telemetry.OK, time.Millisecond)
		m.Call("github", "search_repositories", "timeout", time.Millisecond)
		m.QueueWait("heavy", time.Millisecond)
	}
	count()
	if n := testing.AllocsPerRun(100, count); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCall(b *testing.B) {
	m := telemetry.New(telemetry.Options{})
	for i := range 1000 {
		m.Call("github", fmt.Sprintf("tool_number_%d", i), telemetry.OK, 0)
	}
	for _, kind := range []string{telemetry.OK, "timeout"} {
		b.Run(kind, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.Call("github", "tool_number_500", kind, 3*time.Millisecond)
			}
		})
	}
	b.Run("parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				m.Call("github", "tool_number_500", telemetry.OK, 3*time.Millisecond)
			}
		})
	})
}

func BenchmarkScrape(b *testing.B) {
	m := telemetry.New(telemetry.Options{})
	for i := range 1000 {
		m.Call("github", fmt.Sprintf("tool_number_%d", i), telemetry.OK, 0)
	}
	for b.Loop() {
		m.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil))
	}
}
