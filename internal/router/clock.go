package router

import (
	"slices"
	"sync"
	"time"
)

// A clock is the time of one call. It stands still while the call waits for its client,
// whose time is not charged to the server. The methods of a nil clock are those of one
// that never does.
type clock struct {
	mu      sync.Mutex
	holders int           // how many want it to stand still
	since   time.Time     // with holders: since when it does
	stood   time.Duration // how long it did before
	timers  []*countdown  // those that have neither fired nor been stopped
}

// A timer is what a limit of a call needs of a time.Timer.
type timer interface {
	Stop() bool
	Reset(time.Duration) bool
}

// hold lets the clock stand still until release has been called as often.
func (k *clock) hold() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.holders++; k.holders > 1 {
		return
	}
	k.since = time.Now()
	for _, t := range k.timers {
		t.left = t.due.Sub(k.since)
		t.t.Stop()
	}
}

func (k *clock) release() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.holders--; k.holders > 0 {
		return
	}
	now := time.Now()
	k.stood += now.Sub(k.since)
	for _, t := range k.timers {
		t.due = now.Add(t.left)
		t.t.Reset(t.left)
	}
}

// idle is how long the clock has stood still so far.
func (k *clock) idle() time.Duration {
	if k == nil {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.holders > 0 {
		return k.stood + time.Since(k.since)
	}
	return k.stood
}

// afterFunc runs f in a goroutine of its own when d of the call's time is over.
func (k *clock) afterFunc(d time.Duration, f func()) timer {
	if k == nil {
		return time.AfterFunc(d, f)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	t := &countdown{k: k, left: d, due: time.Now().Add(d)}
	t.t = time.AfterFunc(d, func() {
		if t.Stop() {
			f()
		}
	})
	if k.holders > 0 {
		t.t.Stop()
	}
	k.timers = append(k.timers, t)
	return t
}

// A countdown is a timer of a clock. The clock's mu guards it.
type countdown struct {
	k    *clock
	t    *time.Timer
	due  time.Time     // when it fires, while the clock runs
	left time.Duration // what is left, while the clock stands still
}

// Stop reports whether the timer was still counting.
func (t *countdown) Stop() bool {
	t.k.mu.Lock()
	defer t.k.mu.Unlock()
	i := slices.Index(t.k.timers, t)
	if i < 0 {
		return false
	}
	t.k.timers = slices.Delete(t.k.timers, i, i+1)
	t.t.Stop()
	return true
}

// Reset begins anew, unless the timer has fired or been stopped.
func (t *countdown) Reset(d time.Duration) bool {
	t.k.mu.Lock()
	defer t.k.mu.Unlock()
	if !slices.Contains(t.k.timers, t) {
		return false
	}
	t.left, t.due = d, time.Now().Add(d)
	if t.k.holders == 0 {
		t.t.Reset(d)
	}
	return true
}
