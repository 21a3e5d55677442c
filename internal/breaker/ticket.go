package breaker

import (
	"time"
)

// A Result is what the end of a call says about its tool.
type Result uint8

// The results.
const (
	Ignored Result = iota // nothing: the server was not asked, or the caller went away
	Worked                // the server answered, if only with an error of the tool
	Away                  // the server could not be reached; found out several times within a second it counts once
	Failed                // the server could not be used
	Broke                 // the same, and the return of the server is no reason to believe in it
)

// A Refusal says why a call was not let through.
type Refusal struct {
	RetryAfter time.Duration // when a call makes sense again
	Failures   int           // how often the tool has failed in a row
}

// A Ticket is the permission for one call. Done must be called once.
type Ticket struct {
	set   *Set
	key   key
	since int64       // number of the last failure when the call was let through
	trial *circuit    // the half-open circuit that lets the call through, nil if it is closed
	cb    *machine    // of trial then: the circuit has another one if it has opened since
	done  func(error) // tells gobreaker how the trial ended
}

// Allow lets a call through, or returns why not. The path of a tool that never failed
// takes no lock while none fails, and allocates nothing.
func (s *Set) Allow(server, tool string) (Ticket, *Refusal) {
	t := Ticket{set: s, key: key{server, tool}, since: s.failures.Load()}
	if s.failing.Load() == 0 || !s.opened(t.key) {
		return t, nil
	}
	return s.try(t)
}

// opened reports whether the circuit is open or half-open.
func (s *Set) opened(k key) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c := s.circuits[k]
	return c != nil && c.opened
}

// try asks a circuit that has opened.
func (s *Set) try(t Ticket) (Ticket, *Refusal) {
	var changes []Change
	defer func() { s.tell(changes...) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.circuits[t.key]
	if c == nil || !c.opened {
		return t, nil
	}
	now := time.Now()
	settings := *s.settings.Load()
	if !c.triedAt.IsZero() && now.Sub(c.triedAt) > settings.Cooldown {
		// Those who were to find out hang. Others may try in the meantime.
		c.open(now, c.openedAt, now, settings)
	}
	done, err := c.cb.Allow()
	if err != nil {
		return t, c.refusal(now)
	}
	changes = c.turn(t.key, HalfOpen)
	c.triedAt = now
	t.trial, t.cb, t.done = c, c.cb, done
	return t, nil
}

func (c *circuit) refusal(now time.Time) *Refusal {
	r := &Refusal{RetryAfter: c.retryAt.Sub(now), Failures: c.failures}
	if r.RetryAfter <= 0 {
		r.RetryAfter = trialRetry
	}
	return r
}

// trialRetry is when a call makes sense again that came while others were finding out
// whether the tool works.
const trialRetry = time.Second

// Stands returns why the call would not be let through any more, for those who made it
// wait after it was; nil if it would.
func (t *Ticket) Stands() *Refusal {
	if t.set == nil || t.trial != nil || t.set.failing.Load() == 0 {
		return nil
	}
	t.set.mu.RLock()
	defer t.set.mu.RUnlock()
	if c := t.set.circuits[t.key]; c != nil && c.opened {
		return c.refusal(time.Now())
	}
	return nil
}

// Done says how the call ended. Conn is the number of the connection that it was lost
// with, 0 if it was not: calls that were in flight together on one connection and are
// lost count as one failure.
func (t *Ticket) Done(r Result, conn int64) {
	switch s := t.set; {
	case t.trial != nil:
		s.tell(s.tried(t, r, conn)...)
	case r == Worked && s.failing.Load() > 0:
		s.worked(t.key)
	case r == Away || r == Failed || r == Broke:
		s.tell(s.failed(t, r, conn)...)
	}
}

// worked ends the row of failures of a closed circuit. One that has opened meanwhile
// does not care about calls from before.
func (s *Set) worked(k key) {
	s.mu.RLock()
	c := s.circuits[k]
	s.mu.RUnlock()
	if c == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.circuits[k]; c != nil && !c.opened {
		s.removeLocked(k)
	}
}

// failed counts a failure of a closed circuit.
func (s *Set) failed(t *Ticket, r Result, conn int64) []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	c := s.circuitLocked(t.key, now)
	switch {
	case c.opened:
		return nil
	case conn != 0 && conn == c.conn && t.since < c.last:
		return nil
	case r == Away && now.Sub(c.awayAt) < sameOutage:
		return nil
	case r == Away:
		c.awayAt = now
	}
	c.failures++
	c.lasting = c.breaks(r, conn) || c.lasting
	c.last = s.failures.Add(1)
	if !c.failed() {
		return nil
	}
	settings := *s.settings.Load()
	c.open(now, now, now.Add(settings.Cooldown), settings)
	return c.turn(t.key, Open)
}

// sameOutage is for how long calls that do not reach the server say nothing new. They
// fail within microseconds, so that a few clients that try together, or one that tries
// again, would open the circuit while the server is just being restarted.
const sameOutage = time.Second

// tried takes what a call has found out.
func (s *Set) tried(t *Ticket, r Result, conn int64) []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.circuits[t.key]
	if c != t.trial || c.cb != t.cb {
		return nil // the circuit was reset or has opened since
	}
	switch r {
	case Ignored:
		t.done(errIgnored)
		return nil
	case Worked:
		t.done(nil)
		if !c.closes() {
			return nil
		}
		s.removeLocked(t.key)
		return c.turn(t.key, Closed)
	}
	t.done(errFailed)
	now := time.Now()
	settings := *s.settings.Load()
	c.failures++
	c.lasting = c.breaks(r, conn)
	c.failedAt = now
	c.open(now, now, now.Add(settings.Cooldown), settings)
	return c.turn(t.key, Open)
}
