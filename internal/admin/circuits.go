package admin

import (
	"encoding/json"
	"net/http"

	"mcp-aggregator/internal/breaker"
	"mcp-aggregator/internal/limit"
	"mcp-aggregator/internal/telemetry"
)

func (s *server) breakers(w http.ResponseWriter, _ *http.Request) error {
	if s.Actions.Breakers == nil {
		return errAbsent
	}
	out := s.Actions.Breakers()
	if out == nil {
		out = []breaker.State{} // null is no list to programs
	}
	return s.answer(w, map[string][]breaker.State{"circuit_breakers": out})
}

// reset closes the breaker of a tool, or all of a server.
func (s *server) reset(w http.ResponseWriter, r *http.Request) error {
	if s.Actions.Reset == nil {
		return errAbsent
	}
	body, err := readBody(r, maxBody)
	if err != nil {
		return err
	}
	var t Target
	if err := json.Unmarshal(body, &t); err != nil || t.Server == "" {
		return problem(http.StatusBadRequest, `the body must be {"server": "...", "tool": "..."}; without a tool all breakers of the server are reset`)
	}
	if !s.Actions.Reset(t.Server, t.Tool) {
		return problem(http.StatusNotFound, "there is no circuit breaker of this name; tools that have not been called have none")
	}
	s.Log.Info("asked for over the admin side", "action", "reset breaker", "server", t.Server, "tool", t.Tool, "peer", r.RemoteAddr)
	return s.answer(w, map[string]bool{"reset": true})
}

func (s *server) queues(w http.ResponseWriter, _ *http.Request) error {
	if s.Actions.Queues == nil {
		return errAbsent
	}
	out := s.Actions.Queues()
	if out == nil {
		out = []limit.QueueState{}
	}
	return s.answer(w, map[string][]limit.QueueState{"queues": out})
}

func (s *server) warnings(w http.ResponseWriter, _ *http.Request) error {
	out := []telemetry.Warning{}
	if s.Warnings != nil {
		out = s.Warnings.List()
	}
	return s.answer(w, map[string][]telemetry.Warning{"warnings": out})
}
