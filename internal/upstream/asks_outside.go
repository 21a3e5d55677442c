package upstream

import "math"

// noCall stands for the call of a request that its session's client is asked outside of
// calls; ids of calls are greater than 0.
const noCall = -1

// outsideLocked decides about a request that no call is the cause of, or whose call has
// ended. On the connection of one session it is clear all the same whose it is, unless
// the client has given the call up in whose name it was asked: then it has had enough
// of what that asked, but its roots.
func (a *asks) outsideLocked(k *ask) func() {
	switch {
	case !a.alone.Load(), k.gaveUp && k.method != "roots/list":
		return a.nobodysLocked(k)
	case a.crowdedLocked(k) || a.ofCallLocked(noCall) >= maxAsksOfCall:
		return a.refuseLocked(k, refusal(k.method, manyAsks))
	case a.outside == nil:
		return a.awaitCallLocked(k)
	}
	a.unholdLocked(k)
	q, outside := a.handLocked(k, noCall), a.outside
	return func() {
		if outside(q) {
			a.mu.Lock()
			a.askedLocked(k)
			a.mu.Unlock()
			return
		}
		a.declined(k, q.Done)
	}
}

// declined takes a request back whose client cannot be asked outside of calls now: a
// legacy client over HTTP has no stream open for that.
func (a *asks) declined(k *ask, done <-chan struct{}) {
	a.mu.Lock()
	if k.done == nil || k.done != done { // withdrawn, or the connection is lost
		a.mu.Unlock()
		return
	}
	close(k.done)
	k.call, k.done = 0, nil
	next := a.awaitCallLocked(k)
	a.mu.Unlock()
	next()
}

// awaitCallLocked lets a request for roots wait for the next call of the session, which
// mostly is on its way: servers ask for them right after the handshake. Others are
// answered now.
func (a *asks) awaitCallLocked(k *ask) func() {
	if k.asked || k.method != "roots/list" || a.open[string(k.id)] != k {
		return a.nobodysLocked(k)
	}
	k.order = math.MaxInt64
	if left := a.suspects(); len(left) > 0 { // it has begun meanwhile
		return a.chooseLocked(k, left)
	}
	if k.timer == nil {
		a.early.Add(1)
	}
	a.holdLocked(k)
	return func() {}
}
