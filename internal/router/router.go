package router

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"mcp-aggregator/internal/breaker"
	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/limit"
	"mcp-aggregator/internal/results"
	"mcp-aggregator/internal/upstream"
)

// A Router carries calls of clients to upstreams.
type Router struct {
	upstreams *upstream.Set
	identity  bridge.Identity
	log       *slog.Logger
	watch     Watch
	handle    Handler

	breakers *breaker.Set
	queues   *limit.Queues
	rates    *limit.Rates
	budget   *limit.Budget
	results  *results.Reducer // nil: results are passed on whole

	gen       atomic.Pointer[Generation]
	news      atomic.Pointer[chan struct{}] // closed and replaced when gen is
	ready     chan struct{}                 // closed when the first lists are worth serving
	readyOnce sync.Once

	subs   subscriptions
	levels levels
	lot    lot
	lanes  lanes
	tasks  tasks
}

// Options are the parts a Router joins.
type Options struct {
	Upstreams *upstream.Set
	Identity  bridge.Identity
	Log       *slog.Logger // nil discards
	Watch     Watch

	Breakers *breaker.Set  // nil: the router has its own
	Queues   *limit.Queues // the same

	// Results makes large results small; nil: they are passed on whole.
	Results *results.Reducer

	// Seal closes what modern clients carry between the rounds of a call; nil: one with a
	// key that nobody else has.
	Seal *bridge.Seal
}

// New returns a router that serves the given generation until Publish replaces it.
func New(o Options, first *Generation) *Router {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &Router{
		upstreams: o.Upstreams, identity: o.Identity, log: o.Log, watch: o.Watch, ready: make(chan struct{}),
		breakers: o.Breakers, queues: o.Queues, rates: limit.NewRates(), budget: limit.NewBudget(),
		results: o.Results,
	}
	if r.breakers == nil {
		r.breakers = breaker.New(nil)
	}
	if r.queues == nil {
		r.queues = limit.NewQueues()
	}
	r.lot.seal = o.Seal
	if r.lot.seal == nil {
		r.lot.seal, _ = bridge.NewSeal(nil) // fails for keys of the wrong length only
	}
	if first.Config != nil {
		r.Configure(first.Config)
	}
	r.gen.Store(first)
	r.news.Store(new(make(chan struct{})))
	stages := r.stages()
	h := r.send
	for i := len(stages) - 1; i >= 0; i-- {
		h = stages[i](h)
	}
	r.handle = h
	return r
}

// Configure changes what calls share: the settings of breakers, the queues, and which
// servers there are to count for. What is in force stays: open breakers, callers in
// queues, counted calls. Everything else of the configuration comes with generations.
func (r *Router) Configure(c *config.Config) {
	r.breakers.Configure(breaker.Settings{Failures: c.Breaker.Failures, Cooldown: c.Breaker.Cooldown, HalfOpen: c.Breaker.HalfOpen})
	names := make(map[string]bool, len(c.Servers))
	for _, s := range c.Servers {
		names[s.Name] = true
	}
	known := func(server string) bool { return names[server] }
	r.breakers.Keep(func(server string) bool { return c.Breaker.Enabled && names[server] })
	r.rates.Keep(known)
	r.budget.Keep(known)
	queues := make(map[string]limit.Settings, len(c.Queues))
	for name, q := range c.Queues {
		queues[name] = limit.Settings{Slots: q.Slots, Waiting: q.Waiting, Timeout: q.Timeout}
	}
	r.queues.Apply(queues)
}

// Identity is how the aggregator introduces itself.
func (r *Router) Identity() bridge.Identity { return r.identity }

// Generation returns what new calls should carry.
func (r *Router) Generation() *Generation { return r.gen.Load() }

// Publish replaces the generation for calls that begin from now on. One goroutine
// publishes.
func (r *Router) Publish(g *Generation) {
	r.gen.Store(g)
	close(*r.news.Swap(new(make(chan struct{}))))
}

// MarkReady ends the waiting of Ready.
func (r *Router) MarkReady() { r.readyOnce.Do(func() { close(r.ready) }) }

// Ready waits until the first lists are worth serving: every server has connected
// or failed once, or the time allowed for that is over.
func (r *Router) Ready(ctx context.Context) {
	select {
	case <-r.ready:
	case <-ctx.Done():
	}
}

// EndSession ends what upstreams hold for a session of a client alone. It does not wait.
func (r *Router) EndSession(session string) {
	r.tasks.forget("s" + session)
	r.upstreams.EndSession(session)
}

// RootsChanged tells upstreams that the roots of a session's client have changed, as far
// as they serve that session alone. It does not wait.
func (r *Router) RootsChanged(session string) { r.upstreams.RootsChanged(session) }

// IsReady reports whether Ready would return at once.
func (r *Router) IsReady() bool {
	select {
	case <-r.ready:
		return true
	default:
		return false
	}
}

// Call carries one call to its upstream. Whatever happens, it ends in a reply fit
// for the client: a defect in here costs this call alone.
func (r *Router) Call(ctx context.Context, c *Call) (reply Reply) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("call panicked", "kind", fault.Internal, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
			reply = r.failure(c, fault.Of(fault.Internal, "", "internal error"))
		}
	}()
	reply, err := r.handle(ctx, c)
	if err != nil {
		return r.failure(c, err)
	}
	return reply
}
