package limit

import (
	"container/list"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Settings are those of one queue.
type Settings struct {
	Slots   int           // callers that are in at the same time
	Waiting int           // callers that wait; more are refused
	Timeout time.Duration // longest wait; 0 waits for as long as the caller likes
}

// A QueueState is one queue as people see it.
type QueueState struct {
	Name    string `json:"name"`
	Slots   int    `json:"slots"`
	Running int    `json:"running"`
	Waiting int    `json:"waiting"`
}

// Queues are queues by name.
type Queues struct {
	mu     sync.Mutex                        // held while byName is replaced
	byName atomic.Pointer[map[string]*Queue] // replaced whole, never modified
}

// NewQueues returns no queues.
func NewQueues() *Queues {
	q := new(Queues)
	q.byName.Store(new(map[string]*Queue))
	return q
}

// Apply makes the queues these. Who is in a queue or waits in it stays; who waits in
// one that is gone need not wait any more.
func (q *Queues) Apply(settings map[string]Settings) {
	q.mu.Lock()
	defer q.mu.Unlock()
	old := *q.byName.Load()
	next := make(map[string]*Queue, len(settings))
	for name, s := range settings {
		one := old[name]
		if one == nil {
			one = &Queue{name: name, settings: s}
		}
		next[name] = one
	}
	q.byName.Store(&next)
	for name, one := range old {
		if next[name] == nil {
			one.resize(Settings{Slots: maxSlots, Waiting: one.settingsNow().Waiting})
		}
	}
	for name, s := range settings {
		next[name].resize(s)
	}
}

// maxSlots is more than there can be callers.
const maxSlots = 1 << 30

// Named returns a queue, nil if there is none of that name. A nil queue lets everybody
// in.
func (q *Queues) Named(name string) *Queue { return (*q.byName.Load())[name] }

// States returns the queues, by name.
func (q *Queues) States() []QueueState {
	var states []QueueState
	for _, one := range *q.byName.Load() {
		states = append(states, one.state())
	}
	slices.SortFunc(states, func(a, b QueueState) int { return strings.Compare(a.Name, b.Name) })
	return states
}

// A Queue lets a number of callers in and makes the others wait in the order in which
// they came. Nobody who comes later is let in before somebody who waits.
type Queue struct {
	name string

	mu       sync.Mutex // guards all below
	settings Settings
	running  int
	waiting  list.List // of *waiter, who came first in front
}

// A waiter is a caller who waits.
type waiter struct {
	in    chan struct{} // closed when it is let in
	place *list.Element // in the line; nil when it is let in
}

// Refused is the error of a caller that a queue did not let in.
type Refused struct {
	Queue  string
	Reason string // what is full, or how long the wait was
}

func (e *Refused) Error() string { return "queue " + e.Queue + ": " + e.Reason }

// Enter waits for a slot, which Leave gives back. The error is a *Refused, or the
// cause of ctx.
func (q *Queue) Enter(ctx context.Context) error {
	if q == nil {
		return nil
	}
	w, patience, err := q.line()
	if w == nil {
		return err
	}
	var late <-chan time.Time
	if patience > 0 {
		t := time.NewTimer(patience)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-w.in:
		return nil
	case <-late:
		if !q.giveUp(w) {
			return nil // it was let in at the last moment
		}
		return &Refused{q.name, fmt.Sprintf("no slot became free within %v", patience)}
	case <-ctx.Done():
		if !q.giveUp(w) {
			q.Leave()
		}
		return context.Cause(ctx)
	}
}

// line lets the caller in, or makes it a waiter, or refuses it.
func (q *Queue) line() (*waiter, time.Duration, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch s := q.settings; {
	case q.running < s.Slots: // then nobody waits: slots that become free are handed over at once
		q.running++
		return nil, 0, nil
	case q.waiting.Len() >= s.Waiting:
		return nil, 0, &Refused{q.name, fmt.Sprintf("%d calls are running and %d waiting, which is all it takes", q.running, q.waiting.Len())}
	}
	w := &waiter{in: make(chan struct{})}
	w.place = q.waiting.PushBack(w)
	return w, q.settings.Timeout, nil
}

// giveUp takes a waiter out of the line; false if it has been let in.
func (q *Queue) giveUp(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.place == nil {
		return false
	}
	q.waiting.Remove(w.place)
	return true
}

// Leave gives a slot back.
func (q *Queue) Leave() {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running--
	q.admitLocked()
}

// admitLocked lets in who waits, as far as there are slots.
func (q *Queue) admitLocked() {
	for q.running < q.settings.Slots && q.waiting.Len() > 0 {
		w := q.waiting.Remove(q.waiting.Front()).(*waiter)
		w.place = nil
		q.running++
		close(w.in)
	}
}

// resize changes the settings. Who is in stays in; who waits stays, too, even if
// fewer may wait now, and under the time limit it came with.
func (q *Queue) resize(s Settings) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.settings = s
	q.admitLocked()
}

func (q *Queue) settingsNow() Settings {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.settings
}

func (q *Queue) state() QueueState {
	q.mu.Lock()
	defer q.mu.Unlock()
	return QueueState{Name: q.name, Slots: q.settings.Slots, Running: q.running, Waiting: q.waiting.Len()}
}
