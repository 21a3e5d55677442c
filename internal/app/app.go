// Package app puts the parts together: it builds them from one configuration, runs
// them as one list of actors and ends them in order.
//
// Concurrency: Run owns every actor goroutine it starts and waits for all of them.
// The conductor (conductor.go) is the only goroutine that changes what calls see; it
// also does what the admin side orders (reload.go).
package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"mcp-aggregator/internal/breaker"
	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/builtin"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/downstream"
	"mcp-aggregator/internal/limit"
	"mcp-aggregator/internal/results"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/store"
	"mcp-aggregator/internal/telemetry"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// Name is how the aggregator introduces itself to its peers.
const Name = "mcp-aggregator"

// Options are what New needs.
type Options struct {
	Config  *config.Config
	Log     *slog.Logger // nil discards
	Version string
	Commit  string // the source it was built from; may be empty

	// Reread reads the configuration file anew for a reload; nil: there is none.
	Reread func() (*config.Config, error)
	// Level is changed to log.level by a reload; nil: the level stays.
	Level *slog.LevelVar
	// StateDir is where lists and breakers are kept over restarts; "" keeps nothing.
	StateDir string
}

// An App is the whole aggregator of one configuration.
type App struct {
	log      *slog.Logger
	version  string
	revision string
	started  time.Time
	reread   func() (*config.Config, error)
	level    *slog.LevelVar

	force    atomic.Pointer[inForce] // stored by the conductor
	memory   *memory
	set      *upstream.Set
	breakers *breaker.Set
	queues   *limit.Queues
	results  *results.Reducer
	rout     *router.Router
	down     *downstream.Server
	metrics  *telemetry.Metrics
	events   *telemetry.Events
	warnings *telemetry.Warnings

	actors   []actor
	turn     chan struct{} // buffered 1, full while a change of the configuration is being made
	orders   chan func()   // for the conductor
	tripped  chan struct{} // buffered 1: a breaker has changed
	ended    chan struct{} // closed when the conductor has ended
	settled  chan struct{} // closed by the conductor
	stopping chan struct{} // closed when shutdown begins
	drained  chan struct{} // closed when the calls of clients have ended, or were ended
	problems atomic.Pointer[[]catalog.Problem]

	// Owned by the conductor.
	seen     map[string]string // server → the state that was told last
	rejected map[string]string // server → the rejected definitions that were told last
}

// New builds everything and connects nothing. Run, Start or Discard must follow: they
// end what it has begun.
func New(o Options) (_ *App, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := o.Config
	a := &App{
		log: o.Log, version: o.Version, revision: o.Commit, started: time.Now(), reread: o.Reread, level: o.Level,
		turn: make(chan struct{}, 1), orders: make(chan func()), tripped: make(chan struct{}, 1), ended: make(chan struct{}),
		settled: make(chan struct{}), stopping: make(chan struct{}), drained: make(chan struct{}),
		seen: map[string]string{}, rejected: map[string]string{},
	}
	hidden, err := newMasks(c, nil)
	if err != nil {
		return nil, err
	}
	a.force.Store(newInForce(c, hidden, "file"))
	a.events = telemetry.NewEvents()
	a.warnings = telemetry.NewWarnings(a.events)
	a.memory = newMemory(a.openStore(o.StateDir))
	a.metrics = telemetry.New(telemetry.Options{Version: o.Version, Commit: o.Commit, Sources: a.sources()})
	a.breakers = breaker.New(a.breakerChanged)
	a.breakers.Restore(a.memory.recallBreakers(c.Path))
	for _, st := range a.breakers.States() {
		a.warnCircuit(st.Server, st.Tool)
	}
	a.queues = limit.NewQueues()
	if a.results, err = a.newResults(c, o.StateDir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			a.Discard()
		}
	}()
	a.set = upstream.New(upstream.Options{
		Log: o.Log, Limits: c.Limits, Version: o.Version, Builtins: builtin.Servers(),
		StartConcurrency: c.StartConcurrency, AcquireTimeout: c.AcquireTimeout, Notify: a.notice,
		Ask: func(server, session string, q upstream.Ask) bool {
			return a.down.Ask(session, a.rout.AskFor(session, server, q))
		},
		Capabilities: func(session string) ([]byte, bool) { return a.down.Declared(session) },
		Mask:         func(server, text string) string { return a.rout.Hide(server, text) },
		Recovered:    a.breakers.Recovered,
		Recall:       a.memory.recall,
		Keep:         a.memory.keep,
	})
	seal, err := bridge.NewSeal(c.SealKey())
	if err != nil {
		return nil, fmt.Errorf("using state_key: %w", err)
	}
	first, _ := a.build(nil, nil, 0)
	a.rout = router.New(router.Options{
		Upstreams: a.set, Identity: bridge.NewIdentity(Name, o.Version), Seal: seal, Log: o.Log,
		Breakers: a.breakers, Queues: a.queues, Results: a.results, Watch: router.Watch{
			Called: a.metrics.Call, Retried: a.metrics.Retry, QueueWaited: a.metrics.QueueWait, RateLimited: a.metrics.RateLimited,
			Masked: a.metrics.Masked, Sized: a.metrics.Sized, Started: a.callStarted, Ended: a.callEnded,
		},
	}, first)
	a.rout.Configure(c)
	if err := a.results.Configure(c); err != nil {
		return nil, err
	}
	a.down = downstream.New(a.rout, downstream.Options{Config: c, Log: o.Log, Version: o.Version})
	a.add("conductor", a.conduct, nil)
	return a, nil
}

// openStore opens the folder for what outlives a restart; nil if there is none.
func (a *App) openStore(dir string) *store.Store {
	if dir == "" {
		return nil
	}
	s, err := store.Open(dir, a.log)
	if err != nil {
		a.log.Warn("nothing is kept over a restart", "err", err)
		a.warnings.Set("state", telemetry.Warning{Category: telemetry.Configuration, Message: "state_dir cannot be used; nothing is kept over a restart", Details: err.Error()})
		return nil
	}
	return s
}

// Discard ends what New has begun, in place of Run.
func (a *App) Discard() {
	a.results.Close()
	a.memory.Close()
}

// Run connects the upstreams and serves the added faces until ctx ends, a face ends
// or one fails. Then it stops accepting, lets calls in flight finish within
// limits.drain, ends the connections and returns once everything has stopped.
func (a *App) Run(ctx context.Context) error {
	defer keepHeapFloor()()
	defer a.Discard()
	if c := a.config(); a.reread != nil && c.Watch {
		a.add("watch", func(ctx context.Context) error {
			return watchFile(ctx, c.Path, func() { _, _ = a.Reload(ctx, "file changed") })
		}, nil)
	}
	a.set.Apply(a.config().Servers)
	return a.runActors(ctx, a.config().Limits.Drain)
}

// Start connects the upstreams without any face and waits until each has connected
// or failed once. Stop ends the connections; it must be called.
func (a *App) Start(ctx context.Context) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stop = func() {
		cancel()
		<-done
	}
	select {
	case <-a.Settled():
		return stop, nil
	case <-ctx.Done():
		stop()
		return nil, context.Cause(ctx)
	}
}

// Settled returns a channel that is closed once every server has connected or failed
// its first attempt and the catalogue shows it. Without Run it is never closed.
func (a *App) Settled() <-chan struct{} { return a.settled }

// Snapshot is the catalogue of the moment.
func (a *App) Snapshot() *catalog.Snapshot { return a.rout.Generation().Catalog }

// Status tells how each server is, in the order of the configuration.
func (a *App) Status() []*upstream.Status { return a.set.Status() }

// Problems lists definitions that were rejected, mapped or warned about.
func (a *App) Problems() []catalog.Problem {
	if p := a.problems.Load(); p != nil {
		return *p
	}
	return nil
}

// Call calls one tool and returns its raw result; a failure of the protocol or of
// the way there is the error. Progress may be nil.
func (a *App) Call(ctx context.Context, tool string, arguments json.RawMessage, progress func(method string, params []byte)) (json.RawMessage, error) {
	params := wire.AppendQuote([]byte(`{"name":`), tool)
	params = append(append(params, `,"arguments":`...), arguments...)
	if progress != nil {
		params = append(params, `,"_meta":{"progressToken":1}`...)
	}
	m, err := wire.Scan(wire.AppendRequest(nil, 1, "tools/call", wire.Value{Raw: append(params, '}')}))
	if err != nil {
		return nil, fmt.Errorf("reading the arguments: %w", err)
	}
	gen := *a.rout.Generation()
	gen.Shrinks = false // who called reads everything, and nothing outlives this process
	c := &router.Call{Gen: &gen, Method: m.Method, Params: &m.Body, Era: wire.Legacy}
	if progress != nil {
		c.Events = func(ev upstream.Event) { progress(ev.Method, ev.Params) }
	}
	reply := a.rout.Call(ctx, c)
	if reply.Err != nil {
		return nil, reply.Err
	}
	return reply.Result.Bytes(), nil
}
