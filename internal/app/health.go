package app

import (
	"fmt"
	"strings"

	"mcp-aggregator/internal/admin"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/telemetry"
	"mcp-aggregator/internal/upstream"
)

// A stateChange is the data of a server.state event.
type stateChange struct {
	From  string `json:"from,omitempty"`
	To    string `json:"to"`
	Error string `json:"error,omitempty"`
	Tools int    `json:"tools"`
}

// toolsChange is the data of a tool.changed event.
type toolsChange struct {
	Tools     bool `json:"tools,omitempty"`
	Prompts   bool `json:"prompts,omitempty"`
	Resources bool `json:"resources,omitempty"`
}

// observe turns what the upstreams report into events and warnings. It runs on the
// conductor's goroutine.
func (a *App) observe() {
	for _, s := range a.set.Status() {
		before, known := a.seen[s.Server]
		if known && before == s.State {
			a.warnState(s)
			continue
		}
		a.seen[s.Server] = s.State
		a.events.Append(telemetry.ServerState, s.Server, stateChange{From: before, To: s.State, Error: lastError(s), Tools: s.Tools})
		a.warnState(s)
	}
}

// warnState raises or clears what is to be known about one server.
func (a *App) warnState(s *upstream.Status) {
	state, lists := "state/"+s.Server, "lists/"+s.Server
	if lacking(s) {
		what := "is not connected"
		if s.State == upstream.NeedsAuth {
			what = "wants other credentials"
		}
		a.warnings.Set(state, telemetry.Warning{Category: telemetry.Health, Server: s.Server,
			Message: fmt.Sprintf("server %q %s", s.Server, what), Details: s.LastError})
	} else if s.State == upstream.Connected || s.State == upstream.Disabled {
		a.warnings.Clear(state)
	}
	if len(s.Degraded) > 0 {
		a.warnings.Set(lists, telemetry.Warning{Category: telemetry.Health, Server: s.Server,
			Message: fmt.Sprintf("lists of server %q are not complete", s.Server), Details: strings.Join(s.Degraded, "\n")})
	} else {
		a.warnings.Clear(lists)
	}
}

// lastError is the error of a server that does not work now.
func lastError(s *upstream.Status) string {
	if s.State == upstream.Connected {
		return ""
	}
	return s.LastError
}

// warnProblems raises one warning for each server with definitions that clients do not
// get, and tells which they are once.
func (a *App) warnProblems(problems []catalog.Problem) {
	rejected := map[string][]string{} // server → what
	for _, p := range problems {
		if p.Severity == catalog.Rejected {
			rejected[p.Server] = append(rejected[p.Server], p.String())
		}
	}
	for server := range a.rejected {
		if rejected[server] == nil {
			a.warnings.Clear("definitions/" + server)
		}
	}
	for server, what := range rejected {
		details := strings.Join(what[:min(len(what), maxDetails)], "\n")
		if a.rejected[server] == details {
			continue
		}
		a.events.Append(telemetry.ToolRejected, server, what[:min(len(what), maxDetails)])
		a.warnings.Set("definitions/"+server, telemetry.Warning{Category: telemetry.Definitions, Server: server,
			Message: fmt.Sprintf("%d definitions of server %q were rejected", len(what), server), Details: details})
		rejected[server] = []string{details}
	}
	a.rejected = make(map[string]string, len(rejected))
	for server, details := range rejected {
		a.rejected[server] = details[0]
	}
}

// maxDetails bounds the definitions that a warning names.
const maxDetails = 20

// forget drops what is remembered about a server that is no longer configured.
func (a *App) forget(server string) {
	delete(a.seen, server)
	for _, kind := range []string{"state/", "lists/", "definitions/"} {
		a.warnings.Clear(kind + server)
	}
}

// ready lists what must be so before clients should be sent here.
func (a *App) ready() []admin.Check {
	lists := admin.Check{Name: "lists", OK: a.rout.IsReady()}
	if !lists.OK {
		lists.Message = "servers are still starting"
	}
	checks := []admin.Check{lists}
	if a.config().Startup != "strict" {
		return checks
	}
	for _, s := range a.set.Status() {
		if s.State == upstream.Disabled || s.Idle {
			continue
		}
		check := admin.Check{Name: "server/" + s.Server, OK: s.State == upstream.Connected}
		if !check.OK {
			check.Message = s.State
		}
		checks = append(checks, check)
	}
	return checks
}
