// Package app puts the parts together: it builds them from one configuration, runs
// them as one list of actors and ends them in order.
//
// Concurrency: Run owns every actor goroutine it starts and waits for all of them.
// The conductor (conductor.go) is the only goroutine that changes what calls see.
package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/builtin"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/downstream"
	"mcp-aggregator/internal/router"
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
}

// An App is the whole aggregator of one configuration.
type App struct {
	cfg  *config.Config
	log  *slog.Logger
	set  *upstream.Set
	rout *router.Router
	down *downstream.Server

	actors   []actor
	settled  chan struct{} // closed by the conductor
	problems atomic.Pointer[[]catalog.Problem]
}

// New builds everything and connects nothing. Run or Start must follow: they end
// what it has begun.
func New(o Options) (*App, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := &App{cfg: o.Config, log: o.Log, settled: make(chan struct{})}
	a.set = upstream.New(upstream.Options{
		Log: o.Log, Limits: o.Config.Limits, Version: o.Version, Builtins: builtin.Servers(),
		StartConcurrency: o.Config.StartConcurrency, Notify: a.notice,
	})
	first, _ := a.build(nil, 0)
	a.rout = router.New(router.Options{Upstreams: a.set, Identity: bridge.NewIdentity(Name, o.Version), Log: o.Log}, first)
	a.down = downstream.New(a.rout, downstream.Options{Config: o.Config, Log: o.Log, Version: o.Version})
	a.add("conductor", a.conduct, nil)
	return a, nil
}

// ServeHTTP adds the HTTP face. The address is bound at once, so that a wrong one is
// reported before anything starts. Anything but a loopback address needs
// http.allow_unauthenticated, since there is no authentication yet.
func (a *App) ServeHTTP(addr string) (net.Listener, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("opening the HTTP face: %w", err)
	}
	if tcp, ok := ln.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() && !a.cfg.HTTP.AllowUnauthenticated {
		ln.Close()
		return nil, fmt.Errorf("refusing to serve %s: everybody who reaches this address could call every tool; "+
			"bind to 127.0.0.1, or set http.allow_unauthenticated: true if the network protects it", addr)
	}
	srv := a.down.HTTPServer()
	a.add("http", func(context.Context) error { return ignoreClosed(srv.Serve(ln)) }, func(ctx context.Context) {
		if srv.Shutdown(ctx) != nil {
			srv.Close()
		}
	})
	return ln, nil
}

// ServeStdio adds the stdio face; the end of its input ends Run.
func (a *App) ServeStdio(in io.Reader, out io.Writer) {
	a.add("stdio", func(ctx context.Context) error { return a.down.ServeStdio(ctx, in, out) }, nil)
}

// Run connects the upstreams and serves the added faces until ctx ends, a face ends
// or one fails. Then it stops accepting, lets calls in flight finish within
// limits.drain, ends the connections and returns once everything has stopped.
func (a *App) Run(ctx context.Context) error {
	defer keepHeapFloor()()
	a.set.Apply(a.cfg.Servers)
	return a.runActors(ctx, a.cfg.Limits.Drain)
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
	c := &router.Call{Gen: a.rout.Generation(), Method: m.Method, Params: &m.Body, Era: wire.Legacy}
	if progress != nil {
		c.Events = func(ev upstream.Event) { progress(ev.Method, ev.Params) }
	}
	reply := a.rout.Call(ctx, c)
	if reply.Err != nil {
		return nil, reply.Err
	}
	return reply.Result.Bytes(), nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) || isServerClosed(err) {
		return nil
	}
	return err
}

// coalesce is how long changes of upstreams are collected before the catalogue is
// built anew. While servers start there is a change every few milliseconds and
// nobody is shown a list before they have settled.
func coalesce(settled bool) time.Duration {
	if settled {
		return 20 * time.Millisecond
	}
	return 200 * time.Millisecond
}
