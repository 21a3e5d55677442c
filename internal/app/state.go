package app

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"slices"

	"mcp-aggregator/internal/breaker"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/store"
)

// Kinds of records.
const (
	listsRecord    = "lists"
	breakersRecord = "breakers"
	saltRecord     = "salt"
)

// A memory is what the aggregator knows from its last run.
type memory struct {
	*store.Store        // nil keeps nothing
	salt         []byte // makes fingerprints useless to whoever knows no more than them
}

// newMemory returns the memory in a store, which may be nil.
func newMemory(s *store.Store) *memory {
	m := &memory{s, s.Get(saltRecord, "")}
	if len(m.salt) != sha256.Size {
		m.salt = make([]byte, sha256.Size)
		_, _ = rand.Read(m.salt) // never fails
		s.Put(saltRecord, "", m.salt)
	}
	return m
}

// recall returns the lists a server had when they were kept last; nil if none are.
func (m *memory) recall(server *config.Server) *catalog.Kept {
	data := m.Get(listsRecord, m.identity(server))
	if data == nil {
		return nil
	}
	kept := new(catalog.Kept)
	if json.Unmarshal(data, kept) != nil {
		return nil // of another version, or damaged: learnt anew
	}
	return kept
}

// keep keeps the lists of a server, unless they are kept already. Lists that hold one of
// its secrets, which a server may have put into a description, are not kept, and no
// older ones stand for them.
func (m *memory) keep(server *config.Server, kept *catalog.Kept) {
	if old := m.recall(server); old != nil && old.Same(kept) {
		return
	}
	data, err := json.Marshal(kept)
	if err != nil || holdsSecret(kept, server.Secrets()) {
		data = nil
	}
	m.Put(listsRecord, m.identity(server), data)
}

// identity tells servers apart by what decides about their offers, the account with
// which they are used included. It holds no secrets.
func (m *memory) identity(server *config.Server) string {
	r := server.Redacted()
	id, err := json.Marshal([]any{r.Type, r.Command, r.Args, r.Cwd, r.URL, r.ServerID, r.Builtin, r.Protocol, m.fingerprint(server)})
	if err != nil {
		panic(err) // strings always encode
	}
	return server.Name + "\n" + string(id)
}

// fingerprint stands for the values that identity must not show.
func (m *memory) fingerprint(s *config.Server) string {
	values, err := json.Marshal([]any{s.Env, s.Headers, s.BearerToken, s.Args, s.Command, s.Cwd, s.URL, s.ServerID})
	if err != nil {
		panic(err) // strings always encode
	}
	sum := sha256.Sum256(append(slices.Clone(m.salt), values...))
	return hex.EncodeToString(sum[:])
}

// recallBreakers returns the breakers that were open when the aggregator with this
// configuration file ended.
func (m *memory) recallBreakers(path string) []breaker.State {
	var states []breaker.State
	if data := m.Get(breakersRecord, breakersKey(path)); data != nil {
		_ = json.Unmarshal(data, &states) // damaged: none were open
	}
	return states
}

// keepBreakers keeps the breakers that are open.
func (m *memory) keepBreakers(path string, states []breaker.State) {
	var open []breaker.State
	for _, st := range states {
		if st.State == breaker.Open {
			open = append(open, st)
		}
	}
	if open == nil {
		m.Put(breakersRecord, breakersKey(path), nil)
		return
	}
	if data, err := json.Marshal(open); err == nil {
		m.Put(breakersRecord, breakersKey(path), data)
	}
}

func breakersKey(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return filepath.Base(path) + "\n" + path
}
