package breaker

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// What gobreaker is told of calls that did not work.
var (
	errFailed  = errors.New("failed")
	errIgnored = errors.New("ignored")
)

// A machine is the state machine of a circuit.
type machine = gobreaker.TwoStepCircuitBreaker[struct{}]

// A circuit is the breaker of one tool that has failed. Everything in it is guarded
// by the mutex of its Set.
type circuit struct {
	cb       *machine // replaced when the circuit opens
	opened   bool     // it is open or half-open
	openedAt time.Time
	retryAt  time.Time // when open becomes half-open
	triedAt  time.Time // when the last call was let through to find out
	failedAt time.Time
	awayAt   time.Time // when the server was found to be away last
	failures int       // in a row
	lasting  bool      // one of the failures may have been the call's doing
	last     int64     // number of the last failure, among all of the Set
	conn     int64     // the connection that was lost with it, 0 if none was
	told     string    // the state that was told last
}

// newCircuit returns a closed circuit without failures.
func newCircuit(settings *atomic.Pointer[Settings]) *circuit {
	return &circuit{told: Closed, cb: newBreaker(gobreaker.Settings{
		ReadyToTrip: func(n gobreaker.Counts) bool { return int(n.ConsecutiveFailures) >= settings.Load().Failures },
	})}
}

func newBreaker(st gobreaker.Settings) *machine {
	st.IsExcluded = func(err error) bool { return errors.Is(err, errIgnored) }
	return gobreaker.NewTwoStepCircuitBreaker[struct{}](st)
}

// open makes the circuit open until the given time, then half-open. A time that has
// come makes it half-open with the next tick of the clock.
func (c *circuit) open(now, since, until time.Time, settings Settings) {
	wait := max(until.Sub(now), 1)
	c.cb = newBreaker(gobreaker.Settings{
		MaxRequests: uint32(max(1, settings.HalfOpen)),
		Timeout:     wait,
		ReadyToTrip: func(gobreaker.Counts) bool { return true },
	})
	if done, err := c.cb.Allow(); err == nil {
		done(errFailed) // trips it
	}
	c.opened, c.openedAt, c.retryAt, c.triedAt = true, since, now.Add(wait), time.Time{}
}

// state is the state at that time.
func (c *circuit) state(now time.Time) string {
	switch {
	case !c.opened:
		return Closed
	case now.After(c.retryAt):
		return HalfOpen
	}
	return Open
}

// failed counts a failure of the closed circuit and reports whether it must open.
func (c *circuit) failed() bool {
	if done, err := c.cb.Allow(); err == nil {
		done(errFailed)
	}
	return c.cb.State() != gobreaker.StateClosed
}

// breaks notes the connection that was lost with a call, and reports whether the calls
// may be what breaks the server: when they are lost on one connection after the other.
// Those that a faulty network resets are lost, too, but on a connection that lives on.
func (c *circuit) breaks(r Result, conn int64) bool {
	before := c.conn
	if conn != 0 {
		c.conn = conn
	}
	return r == Broke && (conn == 0 || before != 0 && before != conn)
}

// closes reports whether enough calls have found out that the tool works.
func (c *circuit) closes() bool { return c.cb.State() == gobreaker.StateClosed }

// turn notes the state that is to be told, and returns the change if it is one.
func (c *circuit) turn(k key, to string) []Change {
	if c.told == to {
		return nil
	}
	change := Change{k.server, k.tool, c.told, to}
	c.told = to
	return []Change{change}
}
