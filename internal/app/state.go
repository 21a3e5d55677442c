package app

import (
	"bytes"
	"encoding/json"
	"path/filepath"

	"mcp-aggregator/internal/breaker"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/store"
)

// Kinds of records.
const (
	listsRecord    = "lists"
	breakersRecord = "breakers"
)

// recall returns the lists a server had when they were kept last; nil if none are.
func recall(s *store.Store, server *config.Server) *catalog.Kept {
	data := s.Get(listsRecord, identity(server))
	if data == nil {
		return nil
	}
	kept := new(catalog.Kept)
	if json.Unmarshal(data, kept) != nil {
		return nil // of another version, or damaged: learnt anew
	}
	return kept
}

// keep keeps the lists of a server, unless they are kept already or hold one of its
// secrets, which a server may have put into a description.
func keep(s *store.Store, server *config.Server, kept *catalog.Kept) {
	data, err := json.Marshal(kept)
	if err != nil {
		return
	}
	for _, secret := range server.Secrets() {
		if bytes.Contains(data, []byte(secret)) {
			data = nil
		}
	}
	if old := recall(s, server); old != nil {
		old.Saved = kept.Saved
		if same, err := json.Marshal(old); err == nil && bytes.Equal(same, data) {
			return
		}
	}
	s.Put(listsRecord, identity(server), data)
}

// identity tells servers apart by what decides about their offers. It holds no secrets.
func identity(server *config.Server) string {
	r := server.Redacted()
	id, err := json.Marshal([]any{r.Type, r.Command, r.Args, r.Cwd, r.URL, r.ServerID, r.Builtin, r.Protocol})
	if err != nil {
		panic(err) // strings always encode
	}
	return server.Name + "\n" + string(id)
}

// recallBreakers returns the breakers that were open when the aggregator with this
// configuration file ended.
func recallBreakers(s *store.Store, path string) []breaker.State {
	var states []breaker.State
	if data := s.Get(breakersRecord, breakersKey(path)); data != nil {
		_ = json.Unmarshal(data, &states) // damaged: none were open
	}
	return states
}

// keepBreakers keeps the breakers that are open.
func keepBreakers(s *store.Store, path string, states []breaker.State) {
	var open []breaker.State
	for _, st := range states {
		if st.State == breaker.Open {
			open = append(open, st)
		}
	}
	if open == nil {
		s.Put(breakersRecord, breakersKey(path), nil)
		return
	}
	if data, err := json.Marshal(open); err == nil {
		s.Put(breakersRecord, breakersKey(path), data)
	}
}

func breakersKey(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return filepath.Base(path) + "\n" + path
}
