package summarize

import (
	"sync"
	"time"
)

// A budget bounds the tokens spent in a minute. It is a bucket that fills evenly: an
// estimate is taken out before a model is asked, and corrected when its cost is known.
// (rate.Limiter cannot take tokens back once they have been used.)
type budget struct {
	perMinute float64 // 0: no bound

	mu    sync.Mutex
	level float64 // may be negative: what was spent was not known before
	at    time.Time
}

func newBudget(perMinute int) *budget {
	return &budget{perMinute: float64(max(0, perMinute)), level: float64(perMinute), at: time.Now()}
}

// take takes n tokens out if they are there. A summary that costs more than all of a
// minute's waits until the bucket is full, or there would never be one.
func (b *budget) take(n int) bool {
	if b.perMinute == 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fillLocked()
	if b.level < min(float64(n), b.perMinute) {
		return false
	}
	b.level -= float64(n)
	return true
}

// settle corrects what was taken to what was spent.
func (b *budget) settle(taken, spent int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fillLocked()
	b.level = min(b.perMinute, b.level+float64(taken-spent))
}

// left is how many tokens there are, at least 0.
func (b *budget) left() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fillLocked()
	return int(max(0, b.level))
}

func (b *budget) fillLocked() {
	now := time.Now()
	b.level = min(b.perMinute, b.level+now.Sub(b.at).Minutes()*b.perMinute)
	b.at = now
}
