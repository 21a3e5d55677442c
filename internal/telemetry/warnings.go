package telemetry

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Categories of warnings.
const (
	Health        = "mcp_health"    // a server does not work, or only in part
	Circuits      = "mcp_circuit"   // a tool failed repeatedly and rests
	Definitions   = "mcp_tools"     // a definition was rejected or changed
	Configuration = "configuration" // the file cannot be used, or wants a restart
)

// Warning is something a person should know that lasts until it is cleared.
type Warning struct {
	ID       string    `json:"id"` // set by Set
	Category string    `json:"category"`
	Message  string    `json:"message"`
	Details  string    `json:"details,omitempty"`
	Server   string    `json:"server,omitempty"`
	Time     time.Time `json:"time"` // when it was raised, now if zero
}

// maxWarnings bounds the list; further warnings are only counted.
const maxWarnings = 1000

// Warnings is the list of the moment.
type Warnings struct {
	events *Events

	mu      sync.Mutex
	last    int64
	raised  map[string]Warning // what the warning is about → warning
	skipped int64
}

// NewWarnings makes an empty list that reports its changes as events; nil reports none.
func NewWarnings(events *Events) *Warnings {
	return &Warnings{events: events, raised: make(map[string]Warning)}
}

// Set raises a warning, or replaces the one with the same key, which keeps its id and
// time. Setting what is set already changes nothing. The key names the condition, such
// as "state/github".
func (w *Warnings) Set(key string, v Warning) {
	w.mu.Lock()
	old, known := w.raised[key]
	switch {
	case known:
		v.ID, v.Time = old.ID, old.Time
	case len(w.raised) >= maxWarnings:
		w.skipped++
		w.mu.Unlock()
		return
	default:
		w.last++
		v.ID = "w" + strconv.FormatInt(w.last, 10)
		if v.Time.IsZero() {
			v.Time = time.Now()
		}
	}
	w.raised[key] = v
	w.mu.Unlock()
	if w.events != nil && v != old {
		w.events.Append(WarningRaised, v.Server, v)
	}
}

// Clear takes a warning back; it is fine if there is none.
func (w *Warnings) Clear(key string) {
	w.mu.Lock()
	old, known := w.raised[key]
	delete(w.raised, key)
	w.mu.Unlock()
	if known && w.events != nil {
		w.events.Append(WarningCleared, old.Server, old)
	}
}

// List returns the warnings, oldest first.
func (w *Warnings) List() []Warning {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]Warning, 0, len(w.raised))
	for _, v := range w.raised {
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b Warning) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// Len is how many there are.
func (w *Warnings) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.raised)
}

// Skipped counts warnings that the full list refused.
func (w *Warnings) Skipped() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.skipped
}
