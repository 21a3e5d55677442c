package upstream

import (
	"context"
	"sync/atomic"
	"time"
)

// A liveConn is one connection together with the number of those who are using it.
// Taking and giving back are one atomic addition each, so that calls on one server
// do not wait for each other.
type liveConn struct {
	conn    transport
	number  int64 // unique in this process
	since   time.Time
	refs    atomic.Int64  // users, plus retired once no new ones are accepted
	drained chan struct{} // buffered 1: the last user of a retired connection has left

	// Left by calls that have ended, for the owner to find. The flag that every good
	// call looks at lies beside refs, which it has touched anyway.
	worked  atomic.Bool // the server has answered
	used    atomic.Bool // there was a call
	suspect atomic.Bool // a call failed in a way that makes one doubt the connection
	away    atomic.Bool // a call found nobody there

	// Owned by the owner's goroutine.
	lastWorked, lastUsed time.Time // when the flags were seen
	touched              bool      // it was used at all
	ill                  bool      // suspected since a call worked
	caps                 capabilities
	level                string      // the log level the server was told last
	telling              atomic.Bool // and one is on its way; cleared by the goroutine that tells
	relisted             time.Time   // when the lists were read again because of a new session
}

// retired is what refs starts from when a connection accepts no new users: far enough
// below zero that no number of users brings it back.
const retired = -1 << 40

var lastConn atomic.Int64

func newLiveConn(conn transport) *liveConn {
	now := time.Now()
	return &liveConn{
		conn: conn, number: lastConn.Add(1), since: now, lastUsed: now, drained: make(chan struct{}, 1),
		caps: parseCapabilities(conn.Info()),
	}
}

// acquire takes a reference; false if the connection is retired.
func (l *liveConn) acquire() bool {
	if l.refs.Add(1) > 0 {
		return true
	}
	l.release()
	return false
}

// release gives a reference back.
func (l *liveConn) release() {
	if l.refs.Add(-1) == retired {
		l.signal()
	}
}

func (l *liveConn) signal() {
	select {
	case l.drained <- struct{}{}:
	default:
	}
}

// users returns how many hold a reference now.
func (l *liveConn) users() int {
	n := l.refs.Load()
	if n < 0 {
		n -= retired
	}
	return int(max(n, 0))
}

// retire accepts no more users and waits for the present ones until ctx ends.
func (l *liveConn) retire(ctx context.Context) {
	if l.refs.Add(retired) == retired {
		l.signal()
	}
	select {
	case <-l.drained:
	case <-ctx.Done():
	}
}

// retireUnused is retire for a connection that nobody uses; false if somebody does.
func (l *liveConn) retireUnused() bool {
	if !l.refs.CompareAndSwap(0, retired) {
		return false
	}
	l.signal()
	return true
}
