package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Results counts what happened to results. The zero value is ready.
type Results struct {
	bytes     named[inOut]               // server → bytes of results
	tokens    named[inOut]               // server → tokens of those that were too large
	policies  named[named[atomic.Int64]] // server → policy → results
	outcomes  named[named[atomic.Int64]] // model → outcome → summaries
	summaries named[inOut]               // model → tokens
	masked    named[named[atomic.Int64]] // server → kind → values
	saved     atomic.Int64
}

// inOut counts what came in and what went out.
type inOut struct{ in, out atomic.Int64 }

// Sized counts a result that went to a client with n bytes.
func (r *Results) Sized(server string, n int) {
	c := r.bytes.of(server)
	c.in.Add(int64(n))
	c.out.Add(int64(n))
}

// Reduced counts a result that was too large: its bytes and tokens as the server gave
// them, and as the client got them.
func (r *Results) Reduced(server, policy string, bytesIn, bytesOut, tokensIn, tokensOut int) {
	r.policies.of(server).of(policy).Add(1)
	r.bytes.of(server).in.Add(int64(bytesIn - bytesOut))
	t := r.tokens.of(server)
	t.in.Add(int64(tokensIn))
	t.out.Add(int64(tokensOut))
	r.saved.Add(int64(tokensIn - tokensOut))
}

// Summary counts how asking a model for a summary ended, and what it has cost.
func (r *Results) Summary(model, outcome string, tokensIn, tokensOut int) {
	r.outcomes.of(model).of(outcome).Add(1)
	t := r.summaries.of(model)
	t.in.Add(int64(tokensIn))
	t.out.Add(int64(tokensOut))
}

// Masked counts values of a kind that were hidden.
func (r *Results) Masked(server, kind string, n int) { r.masked.of(server).of(kind).Add(int64(n)) }

// Saved is how many tokens clients were spared, as estimated.
func (r *Results) Saved() int64 { return r.saved.Load() }

// forget drops what was counted for a server.
func (r *Results) forget(server string) {
	r.bytes.forget(server)
	r.tokens.forget(server)
	r.policies.forget(server)
	r.masked.forget(server)
}

var (
	resultBytes   = desc("mcp_result_bytes_total", "Bytes of results of tools: in from servers, out to clients.", "server", "direction")
	resultTokens  = desc("mcp_result_tokens_total", "Estimated tokens of results that were too large: in from servers, out to clients.", "server", "direction")
	resultPolicy  = desc("mcp_results_reduced_total", "Results that were too large, by what the client got instead.", "server", "policy")
	summaryEnds   = desc("mcp_summaries_total", "Attempts to have a summary written, by model and how they ended; cached ones cost nothing.", "model", "outcome")
	summaryTokens = desc("mcp_summary_tokens_total", "Tokens that models were given and gave back.", "model", "direction")
	maskedValues  = desc("mcp_masked_values_total", "Values hidden in what servers said.", "server", "kind")
	savedTokens   = desc("mcp_tokens_saved_total", "Estimated tokens that clients were spared.")
)

func (r *Results) describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{resultBytes, resultTokens, resultPolicy, summaryEnds, summaryTokens, maskedValues, savedTokens} {
		ch <- d
	}
}

func (r *Results) collect(ch chan<- prometheus.Metric) {
	both := func(d *prometheus.Desc, counts map[string]*inOut) {
		for name, n := range counts {
			ch <- counter(d, n.in.Load(), name, "in")
			ch <- counter(d, n.out.Load(), name, "out")
		}
	}
	nested := func(d *prometheus.Desc, counts map[string]*named[atomic.Int64]) {
		for name, inner := range counts {
			for key, n := range inner.all() {
				ch <- counter(d, n.Load(), name, key)
			}
		}
	}
	both(resultBytes, r.bytes.all())
	both(resultTokens, r.tokens.all())
	both(summaryTokens, r.summaries.all())
	nested(resultPolicy, r.policies.all())
	nested(summaryEnds, r.outcomes.all())
	nested(maskedValues, r.masked.all())
	ch <- counter(savedTokens, r.saved.Load())
}

// Kept is what a scrape shows of the originals that are kept.
type Kept struct {
	Entries                int
	MemoryBytes, DiskBytes int64
	Spilled, Expired, Lost int64
}
