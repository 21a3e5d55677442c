package limit

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rates are token buckets, one for each server.
type Rates struct {
	mu      sync.Mutex
	buckets map[string]*rate.Limiter // server name → its bucket
}

// NewRates returns no buckets.
func NewRates() *Rates { return &Rates{buckets: make(map[string]*rate.Limiter)} }

// Take takes a token from the bucket of a server, which is filled with perSecond
// tokens a second and holds burst of them; a burst of 0 is what comes in a second, at
// least 1. The bucket adapts to other settings than it had. If there is no token Take
// returns the time until there is one; otherwise 0.
func (r *Rates) Take(server string, perSecond float64, burst int) time.Duration {
	if burst <= 0 {
		burst = max(1, int(math.Ceil(perSecond)))
	}
	now := time.Now()
	bucket := r.bucket(server, rate.Limit(perSecond), burst, now)
	reservation := bucket.ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

func (r *Rates) bucket(server string, limit rate.Limit, burst int, now time.Time) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.buckets[server]
	if b == nil {
		b = rate.NewLimiter(limit, burst)
		r.buckets[server] = b
	}
	if b.Limit() != limit {
		b.SetLimitAt(now, limit)
	}
	if b.Burst() != burst {
		b.SetBurstAt(now, burst)
	}
	return b
}

// Keep forgets the buckets of all servers but these.
func (r *Rates) Keep(server func(name string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.buckets {
		if !server(name) {
			delete(r.buckets, name)
		}
	}
}
