package breaker

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The states of a circuit.
const (
	Closed   = "closed"    // calls go through
	Open     = "open"      // calls are refused until the cool-down is over
	HalfOpen = "half-open" // some calls go through to find out
)

// maxCircuits bounds the circuits of a Set; the one that failed least recently goes.
const maxCircuits = 4096

// Settings are how circuits work.
type Settings struct {
	Failures int           // in a row, to open a circuit
	Cooldown time.Duration // how long it stays open
	HalfOpen int           // calls let through afterwards; as many successes close it
}

// A State is one circuit as people see it and as it is kept over a restart.
type State struct {
	Server   string    `json:"server"`
	Tool     string    `json:"tool"`
	State    string    `json:"state"`
	Failures int       `json:"failures"`           // in a row
	OpenedAt time.Time `json:"opened_at,omitzero"` // zero if it is closed
	RetryAt  time.Time `json:"retry_at,omitzero"`  // when it lets calls through again to find out
	Lasting  bool      `json:"lasting,omitempty"`  // the return of the server does not shorten the cool-down
}

// A Change is one circuit going from one state to another.
type Change struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
	From   string `json:"from"`
	To     string `json:"to"`
}

type key struct{ server, tool string }

// A Set holds the circuits of all tools.
type Set struct {
	onChange func(Change)
	settings atomic.Pointer[Settings]
	failing  atomic.Int64 // number of circuits
	failures atomic.Int64 // counted so far; the number of each in their order

	mu       sync.RWMutex // guards circuits and, held for writing, what is in them
	circuits map[key]*circuit
}

// New returns a set with the default settings in which every circuit is closed.
// OnChange may be nil; it must not block.
func New(onChange func(Change)) *Set {
	s := &Set{onChange: onChange, circuits: make(map[key]*circuit)}
	s.settings.Store(&Settings{Failures: 5, Cooldown: time.Minute, HalfOpen: 3})
	return s
}

// Configure changes the settings. Circuits that are open stay open, for as long as
// the new cool-down says; those that are half-open find out under the old settings.
func (s *Set) Configure(settings Settings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.settings.Swap(&settings); *old == settings {
		return
	}
	now := time.Now()
	for _, c := range s.circuits {
		if c.state(now) == Open {
			c.open(now, c.openedAt, c.openedAt.Add(settings.Cooldown), settings)
		}
	}
}

// Keep forgets the circuits of all servers but these.
func (s *Set) Keep(server func(name string) bool) {
	s.drop(func(k key) bool { return !server(k.server) })
}

// Reset closes the circuit of a tool, or all of a server if tool is empty. It reports
// whether there was one.
func (s *Set) Reset(server, tool string) bool {
	return s.drop(func(k key) bool { return k.server == server && (tool == "" || k.tool == tool) })
}

// drop closes circuits and reports whether there were any.
func (s *Set) drop(which func(key) bool) (found bool) {
	var changes []Change
	s.mu.Lock()
	for k, c := range s.circuits {
		if !which(k) {
			continue
		}
		found = true
		if c.opened {
			changes = append(changes, Change{k.server, k.tool, c.told, Closed})
		}
		s.removeLocked(k)
	}
	s.mu.Unlock()
	s.tell(changes...)
	return found
}

// Recovered says that a server works again that did not. Circuits that have opened
// because it could not be used become half-open at once. Those that were opened by
// calls that may be what breaks the server keep their cool-down.
func (s *Set) Recovered(server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for k, c := range s.circuits {
		if k.server == server && !c.lasting && c.state(now) == Open {
			c.open(now, c.openedAt, now, *s.settings.Load())
		}
	}
}

// Restore opens circuits that were open before a restart; others are ignored. None
// stays open for longer than the cool-down.
func (s *Set) Restore(states []State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	settings := *s.settings.Load()
	now := time.Now()
	for _, st := range states {
		if st.State != Open || st.Server == "" {
			continue
		}
		c := s.circuitLocked(key{st.Server, st.Tool}, now)
		c.failures, c.lasting, c.told = max(1, st.Failures), st.Lasting, Open
		until := st.RetryAt
		if latest := now.Add(settings.Cooldown); until.After(latest) {
			until = latest
		}
		c.open(now, st.OpenedAt, until, settings)
	}
}

// States returns the circuits there are, by server and tool. A tool that works has
// none.
func (s *Set) States() []State {
	s.mu.RLock()
	defer s.mu.RUnlock()
	now := time.Now()
	states := make([]State, 0, len(s.circuits))
	for k, c := range s.circuits {
		st := State{Server: k.server, Tool: k.tool, State: c.state(now), Failures: c.failures, Lasting: c.lasting}
		if st.State != Closed {
			st.OpenedAt, st.RetryAt = c.openedAt, c.retryAt
		}
		states = append(states, st)
	}
	slices.SortFunc(states, func(a, b State) int {
		return strings.Compare(a.Server+"\x00"+a.Tool, b.Server+"\x00"+b.Tool)
	})
	return states
}

// circuitLocked finds a circuit or makes it, closed.
func (s *Set) circuitLocked(k key, now time.Time) *circuit {
	c := s.circuits[k]
	if c == nil {
		if len(s.circuits) >= maxCircuits {
			s.evictLocked()
		}
		// The names may be cut from a larger text, which must not live as long.
		c = newCircuit(&s.settings)
		s.circuits[key{strings.Clone(k.server), strings.Clone(k.tool)}] = c
		s.failing.Store(int64(len(s.circuits)))
	}
	c.failedAt = now
	return c
}

// evictLocked makes room for another circuit.
func (s *Set) evictLocked() {
	oldest := slices.MinFunc(slices.Collect(maps.Keys(s.circuits)), func(a, b key) int {
		return s.circuits[a].failedAt.Compare(s.circuits[b].failedAt)
	})
	s.removeLocked(oldest)
}

func (s *Set) removeLocked(k key) {
	delete(s.circuits, k)
	s.failing.Store(int64(len(s.circuits)))
}

func (s *Set) tell(changes ...Change) {
	if s.onChange == nil {
		return
	}
	for _, c := range changes {
		s.onChange(c)
	}
}
