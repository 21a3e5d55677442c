package app

import (
	"context"
	"slices"
	"time"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/telemetry"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// conduct is the one goroutine that changes what calls see: it turns changes of the
// upstreams into new generations and tells the clients.
func (a *App) conduct(ctx context.Context) error {
	defer close(a.ended)
	a.remembered()
	settled := a.set.Settled()
	patience := time.NewTimer(a.config().ListWait)
	defer patience.Stop()
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case order := <-a.orders:
			order()
		case <-a.tripped:
			a.memory.keepBreakers(a.config().Path, a.breakers.States())
		case <-a.set.Changed():
			a.observe()
			if due == nil {
				due = time.After(coalesce(settled == nil))
			}
		case <-due:
			due = nil
			a.rebuild()
		case <-settled:
			settled, due = nil, nil
			a.rebuild()
			a.rout.MarkReady()
			close(a.settled)
			a.log.Info("all servers have started or failed", "tools", len(a.Snapshot().Entries(catalog.Tools)))
		case <-patience.C:
			a.rebuild()
			a.rout.MarkReady()
		}
	}
}

// remembered serves the lists that were kept over a restart. If every server has
// some, the first client need not wait for any server.
func (a *App) remembered() {
	listings := a.set.Listings()
	if len(listings) == 0 {
		return
	}
	a.rebuild()
	if len(listings) >= a.enabled() {
		a.rout.MarkReady()
	}
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

// rebuild makes the next generation of what the upstreams offer now and publishes
// it; clients are told what changed.
func (a *App) rebuild() {
	old := a.rout.Generation()
	next, problems := a.build(old.Catalog, a.set.Listings(), old.Number+1)
	changes := catalog.Diff(old.Catalog, next.Catalog)
	a.problems.Store(&problems)
	a.rout.Publish(next)
	a.warnProblems(problems)
	if changes.Any() {
		a.down.Publish(changes)
		a.events.Append(telemetry.ToolChanged, "", toolsChange(changes))
	}
}

// build makes a generation of the listings and the configuration in force. Before is
// the catalogue of the generation before, nil if there is none.
func (a *App) build(before *catalog.Snapshot, listings []*catalog.Listing, number int64) (*router.Generation, []catalog.Problem) {
	f := a.force.Load()
	c := f.Config
	for i, l := range listings {
		listings[i] = l.Hide(f.masks.shown)
	}
	snapshot, problems := catalog.Rebuild(before, listings, catalog.Rules{
		Servers: c.Servers, Catalog: c.Catalog, Unavailable: a.unavailable(), Pending: len(listings) < a.enabled(), Own: f.own,
	})
	servers := make(map[string]*config.Server, len(c.Servers))
	for _, s := range c.Servers {
		servers[s.Name] = s
	}
	return &router.Generation{Number: number, Config: c, Servers: servers, Catalog: snapshot, Starting: a.starting(listings), Masks: f.masks.of, Shrinks: f.shrinks}, problems
}

// enabled is how many servers should have a listing by and by. Capabilities are told
// once, so what a server that failed may bring later is declared already.
func (a *App) enabled() (n int) {
	for _, s := range a.config().Servers {
		if s.Enabled {
			n++
		}
	}
	return n
}

// starting reports whether some server may still bring its first listing: it is
// enabled, has none and no attempt to connect it has failed yet.
func (a *App) starting(listings []*catalog.Listing) bool {
	known := make(map[string]bool, len(a.config().Servers)) // server name → listed or failed
	for _, l := range listings {
		known[l.Server] = true
	}
	for _, s := range a.set.Status() {
		known[s.Server] = known[s.Server] || lacking(s)
	}
	return slices.ContainsFunc(a.config().Servers, func(s *config.Server) bool { return s.Enabled && !known[s.Name] })
}

// lacking reports whether the last attempt to connect a server has failed.
func lacking(s *upstream.Status) bool {
	return s.State == upstream.Failed || s.State == upstream.NeedsAuth
}

// unavailable names the servers whose offers are missing, and why.
func (a *App) unavailable() []catalog.Unavailable {
	var out []catalog.Unavailable
	for _, s := range a.set.Status() {
		if lacking(s) {
			out = append(out, catalog.Unavailable{Server: s.Server, Reason: s.LastError})
		}
	}
	return out
}

// notice hands on what an upstream says outside of calls. It runs on the reader of
// the upstream's connection.
func (a *App) notice(n upstream.Notice) {
	switch n.Method {
	case wire.TaskStatus:
		if session, params, ok := a.rout.TaskStatus(n); ok {
			a.down.Tell(session, n.Method, params)
		}
		return
	case "notifications/resources/updated":
	default:
		if n.Session != "" { // else it is not clear for whom
			a.down.Tell(n.Session, n.Method, a.rout.TaskFor(n.Session, n.Server, n.Params))
		}
		return
	}
	span := wire.Span{Lo: 0, Hi: len(n.Params)}
	at := wire.Field(n.Params, span, "uri")
	uri, ok := wire.Unquote(at.Of(n.Params))
	if !ok {
		return
	}
	// The resource has one or two names for clients; whoever subscribed to either hears it.
	if e, ok := a.Snapshot().Resource(uri); ok && e.Server == n.Server {
		a.down.Updated(uri, n.Params)
	}
	qualified := catalog.Qualify(n.Server, uri)
	v := wire.Value{Raw: n.Params}.With(wire.Edit{Span: at, With: wire.AppendQuote(nil, qualified)})
	a.down.Updated(qualified, v.Bytes())
}
