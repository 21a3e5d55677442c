package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// counted shows what Metrics has counted.
type counted struct{ *Metrics }

var (
	invocations = desc("mcp_invocations_total", "Calls of a tool by how they ended: ok, tool_error or the kind of failure.", "server", "tool", "kind")
	failed      = desc("mcp_errors_total", "Calls of a tool that did not end well.", "server", "tool", "kind")
	latency     = desc("mcp_invocation_latency_ms", "How long calls took, waiting included, in milliseconds.", "server", "tool")
	retries     = desc("mcp_retries_total", "Attempts after the first.", "server", "tool")
	transitions = desc("mcp_circuit_transitions_total", "Changes of a circuit breaker.", "server", "tool", "to")
	queueWait   = desc("mcp_queue_wait_ms", "How long calls waited in a queue, in milliseconds.", "queue")
	rateLimited = desc("mcp_rate_limited_total", "Calls refused by the rate limit of a server.", "server")
	reloads     = desc("mcp_reloads_total", "Attempts to read the configuration anew.", "result")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (c counted) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{invocations, failed, latency, retries, transitions, queueWait, rateLimited, reloads} {
		ch <- d
	}
	c.Results.describe(ch)
}

// Collect implements prometheus.Collector.
func (c counted) Collect(ch chan<- prometheus.Metric) {
	for k, t := range c.calls.all() {
		t.collect(ch, k)
	}
	for queue, h := range c.queues.all() {
		ch <- h.metric(queueWait, queue)
	}
	for server, n := range c.limited.all() {
		ch <- counter(rateLimited, n.Load(), server)
	}
	c.Results.collect(ch)
	ch <- counter(reloads, c.reloads.Load(), "ok")
	ch <- counter(reloads, c.badReloads.Load(), "failed")
}

func (t *toolCounts) collect(ch chan<- prometheus.Metric, k tool) {
	if n := t.ok.Load(); n > 0 {
		ch <- counter(invocations, n, k.server, k.name, OK)
	}
	for _, f := range t.kinds() {
		n := f.n.Load()
		ch <- counter(invocations, n, k.server, k.name, f.kind)
		ch <- counter(failed, n, k.server, k.name, f.kind)
	}
	if n := t.retries.Load(); n > 0 {
		ch <- counter(retries, n, k.server, k.name)
	}
	for to := range t.transitions {
		if n := t.transitions[to].Load(); n > 0 {
			ch <- counter(transitions, n, k.server, k.name, Circuit(to).String())
		}
	}
	if !t.shared {
		ch <- t.latency.metric(latency, k.server, k.name)
	}
}

func counter(d *prometheus.Desc, n int64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func gauge(d *prometheus.Desc, n float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, labels...)
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
