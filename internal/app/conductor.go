package app

import (
	"context"
	"slices"
	"time"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// conduct is the one goroutine that changes what calls see: it turns changes of the
// upstreams into new generations and tells the clients.
func (a *App) conduct(ctx context.Context) error {
	settled := a.set.Settled()
	patience := time.NewTimer(a.cfg.ListWait)
	defer patience.Stop()
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.set.Changed():
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

// rebuild makes the next generation of what the upstreams offer now and publishes
// it; clients are told what changed.
func (a *App) rebuild() {
	old := a.rout.Generation()
	next, problems := a.build(a.set.Listings(), old.Number+1)
	changes := catalog.Diff(old.Catalog, next.Catalog)
	a.problems.Store(&problems)
	a.rout.Publish(next)
	if changes.Any() {
		a.down.Publish(changes)
	}
}

// build is pure: listings and configuration in, generation out.
func (a *App) build(listings []*catalog.Listing, number int64) (*router.Generation, []catalog.Problem) {
	snapshot, problems := catalog.Build(listings, catalog.Rules{
		Servers: a.cfg.Servers, Catalog: a.cfg.Catalog, Unavailable: a.unavailable(), Pending: len(listings) < a.enabled(),
	})
	servers := make(map[string]*config.Server, len(a.cfg.Servers))
	for _, s := range a.cfg.Servers {
		servers[s.Name] = s
	}
	return &router.Generation{Number: number, Config: a.cfg, Servers: servers, Catalog: snapshot, Starting: a.starting(listings)}, problems
}

// enabled is how many servers should have a listing by and by. Capabilities are told
// once, so what a server that failed may bring later is declared already.
func (a *App) enabled() (n int) {
	for _, s := range a.cfg.Servers {
		if s.Enabled {
			n++
		}
	}
	return n
}

// starting reports whether some server may still bring its first listing: it is
// enabled, has none and no attempt to connect it has failed yet.
func (a *App) starting(listings []*catalog.Listing) bool {
	known := make(map[string]bool, len(a.cfg.Servers)) // server name → listed or failed
	for _, l := range listings {
		known[l.Server] = true
	}
	for _, s := range a.set.Status() {
		known[s.Server] = known[s.Server] || lacking(s)
	}
	return slices.ContainsFunc(a.cfg.Servers, func(s *config.Server) bool { return s.Enabled && !known[s.Name] })
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
	if n.Method != "notifications/resources/updated" {
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
