package app

import (
	"context"
	"slices"
	"time"

	"mcp-aggregator/internal/admin"
	"mcp-aggregator/internal/breaker"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/telemetry"
)

// actions are what the admin side can ask and do.
func (a *App) actions() admin.Actions {
	return admin.Actions{
		Info:       a.info,
		Ready:      a.ready,
		Servers:    a.set.Status,
		Config:     a.serverConfig,
		Snapshot:   a.Snapshot,
		Problems:   a.Problems,
		Connect:    a.set.Connect,
		Disconnect: a.set.Disconnect,
		Reconnect:  a.set.Reconnect,
		Enable:     a.set.Enable,
		Disable:    a.set.Disable,
		Logs:       a.set.Logs,
		SetServers: a.SetServers,
		Reload:     func(ctx context.Context) (admin.Plan, error) { return a.Reload(ctx, "request") },
		Breakers:   a.breakers.States,
		Reset:      a.breakers.Reset,
		Queues:     a.queues.States,
	}
}

// info is what the admin side tells about the aggregator itself.
func (a *App) info() admin.Info {
	c := a.force.Load()
	return admin.Info{
		Name: Name, Version: a.version, Commit: a.revision, Started: a.started, Config: c.Path, Source: c.source, Loaded: c.at,
		Generation: a.rout.Generation().Number, Servers: len(c.Servers), Sessions: a.down.Stats().Sessions, Saved: a.metrics.Saved(), Limits: c.Limits,
	}
}

func (a *App) serverConfig(name string) *config.Server {
	servers := a.config().Servers
	if i := slices.IndexFunc(servers, func(s *config.Server) bool { return s.Name == name }); i >= 0 {
		return servers[i]
	}
	return nil
}

// sources are what a scrape of the metrics asks.
func (a *App) sources() telemetry.Sources {
	return telemetry.Sources{
		Servers:  a.serverSamples,
		Breakers: a.breakerSamples,
		Queues:   a.queueSamples,
		Sessions: func() int { return a.down.Stats().Sessions },
		Parked:   a.parkedSample,
		Dropped:  func() int64 { return a.down.Stats().Dropped },
		Warnings: func() int { return a.warnings.Len() },
		Kept:     a.keptSample,
		Config:   func() (int64, time.Time) { return a.rout.Generation().Number, a.force.Load().at },
	}
}

func (a *App) serverSamples() []telemetry.Server {
	var out []telemetry.Server
	for _, s := range a.set.Status() {
		out = append(out, telemetry.Server{
			Name: s.Server, Up: s.State == "connected", Stale: s.Stale, Restarts: s.Restarts, InFlight: s.InFlight,
			Refs: s.Refs, Connections: s.Connections, Tools: s.Tools, Skipped: s.Skipped, Asked: s.Asked, Refused: s.Refused,
		})
	}
	return out
}

func (a *App) parkedSample() telemetry.Parked {
	p := a.rout.Parked()
	return telemetry.Parked{Calls: p.Calls, Expired: p.Expired, Refused: p.Refused}
}

func (a *App) breakerSamples() []telemetry.Breaker {
	var out []telemetry.Breaker
	for _, s := range a.breakers.States() {
		out = append(out, telemetry.Breaker{Server: s.Server, Tool: s.Tool, State: circuit(s.State)})
	}
	return out
}

func (a *App) queueSamples() []telemetry.Queue {
	var out []telemetry.Queue
	for _, q := range a.queues.States() {
		out = append(out, telemetry.Queue{Name: q.Name, Slots: q.Slots, Running: q.Running, Waiting: q.Waiting})
	}
	return out
}

// circuit is the number that metrics show for the state of a breaker.
func circuit(state string) telemetry.Circuit {
	switch state {
	case breaker.Open:
		return telemetry.Open
	case breaker.HalfOpen:
		return telemetry.HalfOpen
	}
	return telemetry.Closed
}

// breakerChanged takes a change of a breaker. It runs on the goroutine of a call.
func (a *App) breakerChanged(c breaker.Change) {
	a.metrics.Transition(c.Server, c.Tool, circuit(c.To))
	a.events.Append(telemetry.BreakerState, c.Server, c)
	if c.To == breaker.Open {
		a.warnCircuit(c.Server, c.Tool)
	} else if c.To == breaker.Closed {
		a.warnings.Clear(circuitKey(c.Server, c.Tool))
	}
	select {
	case a.tripped <- struct{}{}:
	default:
	}
}

func circuitKey(server, tool string) string { return "breaker/" + server + "/" + tool }

// warnCircuit tells that a tool rests.
func (a *App) warnCircuit(server, tool string) {
	a.warnings.Set(circuitKey(server, tool), telemetry.Warning{Category: telemetry.Circuits, Server: server,
		Message: "tool " + fault.Name(server, tool) + " failed repeatedly and rests"})
}

// Enable exposes a server again that was disabled, starting it if need be.
func (a *App) Enable(server string) error { return a.set.Enable(server) }

// Disable makes a server expose nothing; its connection stays.
func (a *App) Disable(server string) error { return a.set.Disable(server) }
