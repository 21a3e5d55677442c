package telemetry

import (
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Kinds of invocations besides the code words of failures.
const (
	OK        = "ok"         // the tool answered
	ToolError = "tool_error" // the tool answered that it failed
)

// Options are what New needs.
type Options struct {
	Version, Commit string
	Sources         Sources
}

// Metrics counts what happens and shows it in the format of Prometheus.
type Metrics struct {
	calls   calls
	queues  named[histogram]    // queue → waits
	limited named[atomic.Int64] // server → refused calls
	Results

	reloads, badReloads atomic.Int64

	handler http.Handler
}

// New makes metrics with a registry of their own.
func New(o Options) *Metrics {
	m := new(Metrics)
	reg := prometheus.NewRegistry()
	info := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "mcp_build_info", Help: "What this binary was made from; always 1.",
		ConstLabels: prometheus.Labels{"version": o.Version, "commit": o.Commit, "go": runtime.Version()},
	}, func() float64 { return 1 })
	reg.MustRegister(info, counted{m}, sampled{o.Sources},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.handler = promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4, DisableCompression: false,
	})
	return m
}

// Handler answers scrapes.
func (m *Metrics) Handler() http.Handler { return m.handler }

// Call counts one invocation of a tool and how long it took. Kind is OK, ToolError or
// the code word of a failure. Tool is the server's own name of one of its tools.
func (m *Metrics) Call(server, tool, kind string, took time.Duration) {
	t := m.calls.of(server, tool)
	t.count(kind)
	t.latency.observe(took)
}

// Retry counts an attempt after the first.
func (m *Metrics) Retry(server, tool string) { m.calls.of(server, tool).retries.Add(1) }

// Transition counts a change of a tool's circuit breaker.
func (m *Metrics) Transition(server, tool string, to Circuit) {
	if to <= Open {
		m.calls.of(server, tool).transitions[to].Add(1)
	}
}

// RateLimited counts a call that a limit of ours refused.
func (m *Metrics) RateLimited(server string) { m.limited.of(server).Add(1) }

// QueueWait notes how long a call waited in a queue before it ran or gave up.
func (m *Metrics) QueueWait(queue string, took time.Duration) { m.queues.of(queue).observe(took) }

// Reload counts an attempt to read the configuration anew.
func (m *Metrics) Reload(ok bool) {
	if ok {
		m.reloads.Add(1)
	} else {
		m.badReloads.Add(1)
	}
}

// Forget drops what was counted for a server that is no more, so that servers which
// come and go do not use up the bound on names. A call that ends later counts anew.
func (m *Metrics) Forget(server string) {
	m.calls.forget(server)
	m.limited.forget(server)
	m.Results.forget(server)
}
