package results

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
)

// recent remembers the last calls of sessions, so that a summary can be written for
// what the session is about.
type recent struct {
	mu       sync.Mutex
	sessions *lru.Cache[string, []string] // session → its calls, the last one last
}

// Bounds of what is remembered.
const (
	recentSessions = 1000
	recentCalls    = 5
	recentBytes    = 300 // of one call
)

func (r *recent) init() { r.sessions, _ = lru.New[string, []string](recentSessions) } // fails for sizes below 1 only

// Note remembers a call of a session: a tool and its arguments, masked.
func (r *Reducer) Note(session, tool string, arguments []byte) {
	if session == "" {
		return
	}
	call := append(append([]byte(tool), ' '), arguments[:min(len(arguments), recentBytes)]...)
	m := &r.recent
	m.mu.Lock()
	defer m.mu.Unlock()
	calls, _ := m.sessions.Get(session)
	what, n := string(call[:min(len(call), recentBytes)]), len(calls)
	if n > 0 && calls[n-1] == what {
		return // says nothing new, and would keep the summary of the same result from being found again
	}
	if n >= recentCalls {
		calls = calls[n-recentCalls+1:]
	}
	m.sessions.Add(session, append(calls[:len(calls):len(calls)], what))
}

// of returns the calls before the last one, which is the one that asks.
func (r *recent) of(session string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls, _ := r.sessions.Get(session)
	if n := len(calls); n > 0 {
		return calls[:n-1]
	}
	return nil
}
