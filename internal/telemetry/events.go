package telemetry

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"
)

// Types of events.
const (
	ServerState    = "server.state"    // a server changed its state
	BreakerState   = "breaker.state"   // a circuit breaker changed its state
	Reloaded       = "reload"          // the configuration was read anew, or could not be
	ToolChanged    = "tool.changed"    // the tools of a server changed
	ToolRejected   = "tool.rejected"   // a definition was rejected
	WarningRaised  = "warning.raised"  // Data is the Warning
	WarningCleared = "warning.cleared" // Data is the Warning
	CallStarted    = "call.started"    // a call of a tool is on its way
	CallCompleted  = "call.completed"  // it has ended, well or not

	SummaryStarted   = "summary.started" // a model is asked for a summary
	SummaryChunk     = "summary.chunk"   // it has written some of it
	SummaryCompleted = "summary.completed"
	SummaryFailed    = "summary.failed" // no model could; the client got something else
)

var eventTypes = []string{
	ServerState, BreakerState, Reloaded, ToolChanged, ToolRejected, WarningRaised, WarningCleared,
	CallStarted, CallCompleted, SummaryStarted, SummaryChunk, SummaryCompleted, SummaryFailed,
}

// EventTypes are what Since can be asked for: types, and what they begin with.
func EventTypes() (names []string) {
	for _, typ := range eventTypes {
		if group, _, _ := strings.Cut(typ, "."); !slices.Contains(names, group) {
			names = append(names, group)
		}
	}
	for _, typ := range eventTypes {
		if !slices.Contains(names, typ) {
			names = append(names, typ)
		}
	}
	return names
}

// isOf reports whether an event is of one of some types, all if there are none.
func (ev *Event) isOf(types []string) bool {
	return len(types) == 0 || slices.ContainsFunc(types, func(t string) bool {
		rest, ok := strings.CutPrefix(ev.Type, t)
		return ok && (rest == "" || rest[0] == '.')
	})
}

// Event is something that happened.
type Event struct {
	ID     int64     `json:"id"`
	Time   time.Time `json:"time"`
	Type   string    `json:"type"`
	Server string    `json:"server,omitempty"`
	Data   any       `json:"data,omitempty"` // encodes as JSON, holds no secrets, never modified
}

// How many events are kept for those who come back: those of calls and summaries, which
// are many, apart from all others.
const (
	maxEvents     = 1024
	maxCallEvents = 4096
)

// Events keeps the last events. Ids grow by one and go on above those of an earlier
// run, so that a reader who comes back after a restart misses nothing of the new one.
type Events struct {
	mu     sync.Mutex
	first  int64 // the id of the first event of this run
	next   int64 // the id of the next one
	things ring
	calls  ring
	more   chan struct{} // closed by the next event; nil while nobody can wait
}

// A ring is the last events of some types.
type ring struct {
	events []Event
	oldest int   // place of the oldest, once events is full
	lost   int64 // the id of the last one that is no longer kept, 0 if all are
}

func (r *ring) add(ev Event, most int) {
	if len(r.events) < most {
		r.events = append(r.events, ev)
		return
	}
	r.lost = r.events[r.oldest].ID
	r.events[r.oldest] = ev
	if r.oldest++; r.oldest == most {
		r.oldest = 0
	}
}

// after returns the events of some types with higher ids, oldest first.
func (r *ring) after(id int64, types []string) (out []Event) {
	n := len(r.events)
	at := func(i int) *Event { return &r.events[(r.oldest+i)%n] }
	for i := sort.Search(n, func(i int) bool { return at(i).ID > id }); i < n; i++ {
		if ev := at(i); ev.isOf(types) {
			out = append(out, *ev)
		}
	}
	return out
}

// NewEvents makes an empty list. Ids begin with the time in microseconds: an earlier
// run cannot have come this far, having begun earlier and had less than one event per
// microsecond.
func NewEvents() *Events {
	now := time.Now().UnixMicro()
	return &Events{first: now, next: now}
}

// Append adds an event; it never waits for readers.
func (e *Events) Append(typ, server string, data any) {
	now, call := time.Now(), ofCalls(typ) // every call comes here twice: as little as can be under the lock
	e.mu.Lock()
	defer e.mu.Unlock()
	ev := Event{ID: e.next, Time: now, Type: typ, Server: server, Data: data}
	e.next++
	if call {
		e.calls.add(ev, maxCallEvents)
	} else {
		e.things.add(ev, maxEvents)
	}
	if e.more != nil {
		close(e.more)
		e.more = nil
	}
}

// ofCalls reports whether events of a type are about single calls.
func ofCalls(typ string) bool {
	return strings.HasPrefix(typ, "call.") || strings.HasPrefix(typ, "summary.")
}

// Last returns the id of the newest event; there may be none yet.
func (e *Events) Last() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.next - 1
}

// Since returns the events after id, oldest first; 0 is before all. With types, which are
// some of EventTypes, it returns those only. Missed says that there were others between
// them, which are no longer kept or belong to an earlier run. More is closed by the next
// event of any type, for those who wait for it.
func (e *Events) Since(id int64, types ...string) (events []Event, missed bool, more <-chan struct{}) {
	ofSome := func(calls bool) bool {
		return len(types) == 0 || slices.ContainsFunc(types, func(t string) bool { return ofCalls(t+".") == calls })
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case id == 0:
		id = e.first - 1
	case id >= e.next: // of a run whose clock was ahead
		id, missed = 0, true
	case id < e.first-1: // of an earlier run
		missed = true
	}
	if ofSome(false) {
		missed = missed || id < e.things.lost
		events = e.things.after(id, types)
	}
	if ofSome(true) {
		missed = missed || id < e.calls.lost
		events = merge(events, e.calls.after(id, types))
	}
	if e.more == nil {
		e.more = make(chan struct{})
	}
	return events, missed, e.more
}

// merge puts two lists in the order of ids into one.
func merge(a, b []Event) []Event {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	out := append(a, b...)
	slices.SortFunc(out, func(x, y Event) int { return cmp.Compare(x.ID, y.ID) })
	return out
}
