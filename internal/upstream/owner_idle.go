package upstream

import (
	"context"
	"time"
)

// rests reports whether the server is left alone until somebody uses it (UP-7).
// Subscriptions of clients are use.
func (o *owner) rests() bool {
	s := o.server()
	return o.resting && (s.Lazy || s.IdleTimeout > 0) && !o.subs.any()
}

// idle waits for somebody to use the server.
func (o *owner) idle(ctx context.Context) {
	o.settle()
	for o.rests() && !o.wanted.Load() && !o.disobeys() {
		select {
		case <-o.wake:
		case <-ctx.Done():
			return
		}
	}
	o.resting = false
	if !o.orders.now().down {
		o.showAgain()
	}
}

// rest retires the connection if nobody uses it at this moment. Callers that come
// now wait for the next one.
func (o *owner) rest(l *liveConn) bool {
	o.resting = true
	if !o.rests() {
		o.resting = false
		return false
	}
	o.showIdle()
	if !l.retireUnused() {
		o.resting = false
		o.enter(Connected, PhaseReady)
		o.front.show(face{live: l})
		o.show()
		return false
	}
	o.gone()
	o.log.Info("server stopped, nobody uses it")
	o.show()
	return true
}

// An idler finds out that a connection is not used. It is owned by run.
type idler struct {
	o        *owner
	l        *liveConn
	timer    *time.Timer
	learning bool // the server was started only to learn its lists
}

func newIdler(o *owner, l *liveConn) *idler {
	i := &idler{o: o, l: l, timer: time.NewTimer(time.Hour), learning: o.server().Lazy && !o.known}
	i.timer.Stop()
	return i
}

func (i *idler) end() { i.timer.Stop() }

// over reports whether the server has not been used for its idle_timeout, or was
// started only for its lists, which are known now. It looks from time to time,
// because uses are noted by a flag and not by the hour.
func (i *idler) over() bool {
	i.o.glance(i.l)
	i.learning = i.learning && !i.l.touched
	if i.learning && i.o.known {
		return true
	}
	limit := i.o.server().IdleTimeout
	if limit <= 0 {
		return false
	}
	left := limit - time.Since(i.l.lastUsed)
	i.timer.Reset(max(min(left, limit/idleLooks), time.Millisecond))
	return left <= 0
}

// idleLooks is how often a connection is looked at during its idle_timeout.
const idleLooks = 8

// glance notes what the users of a connection have left in its flags.
func (o *owner) glance(l *liveConn) {
	now := time.Now()
	if l.worked.Load() {
		l.worked.Store(false)
		l.lastWorked, l.lastUsed, l.touched, l.ill = now, now, true, false
	}
	if used := l.used.Swap(false); used || l.users() > 0 || o.subs.any() {
		l.lastUsed, l.touched = now, true
	}
}
