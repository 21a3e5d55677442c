package telemetry

import (
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
)

// Event is something that happened.
type Event struct {
	ID     int64     `json:"id"`
	Time   time.Time `json:"time"`
	Type   string    `json:"type"`
	Server string    `json:"server,omitempty"`
	Data   any       `json:"data,omitempty"` // encodes as JSON, holds no secrets, never modified
}

// maxEvents is how many events are kept for those who come back.
const maxEvents = 1024

// Events keeps the last events. Ids grow by one and go on above those of an earlier
// run, so that a reader who comes back after a restart misses nothing of the new one.
type Events struct {
	mu    sync.Mutex
	first int64         // the id of the first event of this run
	next  int64         // the id of the next one
	ring  []Event       // event id at id % maxEvents, grows up to that
	more  chan struct{} // closed by the next event; nil while nobody can wait
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
	e.mu.Lock()
	defer e.mu.Unlock()
	ev := Event{ID: e.next, Time: time.Now(), Type: typ, Server: server, Data: data}
	if i := int(e.next-e.first) % maxEvents; i < len(e.ring) {
		e.ring[i] = ev
	} else {
		e.ring = append(e.ring, ev)
	}
	e.next++
	if e.more != nil {
		close(e.more)
		e.more = nil
	}
}

// Last returns the id of the newest event; there may be none yet.
func (e *Events) Last() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.next - 1
}

// Since returns the events after id, oldest first; 0 is before all. Missed says that
// there were others between them, which are no longer kept or belong to an earlier
// run. More is closed by the next event, for those who wait for it.
func (e *Events) Since(id int64) (events []Event, missed bool, more <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	oldest := e.next - int64(len(e.ring))
	switch {
	case id == 0:
		missed = oldest > e.first
	case id >= e.next: // of a run whose clock was ahead
		id, missed = 0, true
	default:
		missed = id < oldest-1
	}
	for i := max(id+1, oldest); i < e.next; i++ {
		events = append(events, e.ring[int(i-e.first)%maxEvents])
	}
	if e.more == nil {
		e.more = make(chan struct{})
	}
	return events, missed, e.more
}
