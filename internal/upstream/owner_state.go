package upstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
)

// The methods of this file publish the phases of an owner:
//
//	dialing → ready → lost → dialing …     idle → dialing
//	        ↘ failed ↗                     any → disconnected, close
//
// They run on the owner's goroutine.

// show publishes the status.
func (o *owner) show() {
	now := o.now
	o.status.Store(&now)
	o.signal()
}

// enter changes the phase, and the state people see with the time since when.
func (o *owner) enter(state, phase string) {
	if o.now.State != state {
		o.now.State, o.now.Since = state, time.Now()
	}
	o.now.Phase, o.now.Idle = phase, phase == PhaseIdle
}

// begin publishes the state before the first attempt.
func (o *owner) begin() {
	o.now = Status{Server: o.name, Since: time.Now()}
	if k := o.offers.known(); k != nil {
		o.now.Version, o.now.ServerInfo = k.Version, k.ServerInfo
		// Lists of another configuration are shown, but they must be read before the
		// server rests: it could offer something else now.
		o.known = !o.foreign
		o.resting = o.known && o.server().Lazy
	}
	switch {
	case o.orders.now().down:
		o.showDown()
	case o.rests():
		o.showIdle()
	default:
		o.enter(Pending, PhaseDialing)
		o.front.show(face{})
		o.show()
	}
}

// dialing: an attempt begins. Callers wait for the first one after a start or a
// loss; a failure before it keeps turning them away until one succeeds.
func (o *owner) dialing() {
	o.now.Attempt++
	o.now.NextAttempt = time.Time{}
	o.enter(o.now.State, PhaseDialing)
	o.hurry.Store(false)
	o.front.show(face{err: o.absence})
	o.show()
}

// ready: a connection can be used.
func (o *owner) ready(l *liveConn) {
	info := l.conn.Info()
	o.enter(Connected, PhaseReady)
	o.log.Info("server connected", "era", eraOf(info), "version", info.Version, "attempt", o.now.Attempt)
	troubled := o.lost || o.now.Attempt > 1
	if o.lost {
		o.now.Restarts++
	}
	o.lost, o.lostAt, o.absence = false, time.Time{}, nil
	o.wait.connected()
	o.now.Attempt, o.now.NextAttempt = 0, time.Time{}
	o.now.Era, o.now.Version, o.now.ServerInfo = eraOf(info), info.Version, info.ServerInfo
	o.live.Store(l)
	o.front.show(face{live: l})
	o.show()
	if troubled {
		o.recovered()
	}
}

// gone: the connection has ended for a reason that is somebody's wish.
func (o *owner) gone() {
	o.live.Store(nil)
	o.offers.stale()
	o.absence = nil
	o.now.Attempt, o.now.NextAttempt = 0, time.Time{}
}

// dropped: the connection is gone and will be made anew.
func (o *owner) dropped(err error, delay time.Duration) {
	o.gone()
	o.lost, o.lostAt = true, time.Now()
	o.enter(Pending, PhaseWaiting)
	if fault.KindOf(err) == fault.Unauthorized {
		o.enter(NeedsAuth, PhaseWaiting)
	}
	o.log.Warn("server lost", "err", o.plain(err), "next", delay.Round(time.Millisecond))
	o.blame(err, delay)
	f := face{next: o.now.NextAttempt, pull: o.pullFrom(err, true)}
	switch {
	case hopeless(err):
		o.absence = o.absent("is not connected", fault.CodeRestartFailed, err)
		f.err = o.absence
	case delay > patience:
		f.err = o.absent("is being restarted", fault.CodeRestartInProgress, err)
	}
	o.hurry.Store(false)
	o.front.show(f)
	o.show()
}

// failed: an attempt did not bring a connection.
func (o *owner) failed(err error, delay time.Duration) {
	known := o.now.LastError == o.plain(err) && (o.now.State == Failed || o.now.State == NeedsAuth)
	o.enter(Failed, PhaseWaiting)
	if fault.KindOf(err) == fault.Unauthorized {
		o.enter(NeedsAuth, PhaseWaiting)
	}
	level := o.log.Warn
	if known {
		level = o.log.Debug // the same as the last time
	}
	level("server not connected", "err", o.plain(err), "attempt", o.now.Attempt, "next", delay.Round(time.Millisecond))
	o.blame(err, delay)
	o.now.Stderr = o.maskedLines(o.dialer.tail)
	o.absence = o.absent("is not connected", fault.CodeRestartFailed, err)
	o.hurry.Store(false)
	o.front.show(face{err: o.absence, next: o.now.NextAttempt, pull: o.pullFrom(err, false)})
	o.show()
}

// blame notes what went wrong and when the next attempt is due.
func (o *owner) blame(err error, delay time.Duration) {
	o.now.LastError = o.plain(err)
	o.now.NextAttempt = time.Now().Add(delay)
}

// absent makes the error for callers. Whatever the cause, their request has not
// been sent.
func (o *owner) absent(what, code string, cause error) *fault.Error {
	kind := fault.Unreachable
	if fault.KindOf(cause) == fault.Unauthorized {
		kind = fault.Unauthorized
	}
	return &fault.Error{Kind: kind, Server: o.name, Reason: what + ": " + o.plain(cause), Code: code, Err: cause}
}

// showIdle: nobody uses the server, so it is not connected before somebody does.
func (o *owner) showIdle() {
	o.wanted.Store(false)
	o.enter(Pending, PhaseIdle)
	o.front.show(face{idle: true})
	o.show()
}

// showDown: there is no connection because people do not want one.
func (o *owner) showDown() {
	o.enter(Pending, PhaseDisconnected)
	o.front.show(face{err: &fault.Error{Kind: fault.Unreachable, Server: o.name, Code: fault.CodeShuttingDown,
		Reason: "is disconnected by request; connect it to use it"}})
	o.show()
}

// showAgain: the connection is replaced by request.
func (o *owner) showAgain() {
	o.enter(Pending, PhaseDialing)
	o.front.show(face{})
	o.show()
}

// close: no connection will come any more.
func (o *owner) close(why error) {
	err := fault.Of(fault.Unreachable, o.name, "was %w", errRemoved)
	if errors.Is(why, errShutdown) || errors.Is(why, context.Canceled) {
		err = fault.Of(fault.ShuttingDown, o.name, "%w", errShutdown)
	}
	err.Code = fault.CodeShuttingDown
	o.live.Store(nil)
	o.now.NextAttempt = time.Time{}
	o.front.cover(nil)
	o.front.show(face{err: err})
	o.show()
}

// counted: there is a new listing.
func (o *owner) counted(work *sync.WaitGroup) {
	bad := o.lists.problems()
	if !slices.Equal(bad, o.now.Degraded) {
		for _, problem := range bad {
			o.log.Warn("list not complete", "err", problem)
		}
	}
	o.now.Degraded = bad
	o.show()
	o.keepLater(work)
}

// keepLater stores what the server offers in the background.
func (o *owner) keepLater(work *sync.WaitGroup) {
	if o.opts.Keep != nil && o.lists.whole() {
		o.spawn(work, "keeping the lists", o.keep)
	}
}

// keep stores what the server offers. Whoever comes last stores the newest.
func (o *owner) keep() error {
	o.saving.Lock()
	defer o.saving.Unlock()
	if k := o.offers.unsaved(); k != nil {
		o.opts.Keep(o.server(), k)
	}
	return nil
}

// longest is how long a call of this server may take.
func longest(s *config.Server) time.Duration {
	most := s.CallTimeout
	for _, tool := range s.ToolOverrides {
		most = max(most, tool.CallTimeout)
	}
	if most <= 0 {
		most = 90 * time.Second
	}
	return most
}
