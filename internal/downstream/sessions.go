package downstream

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"mcp-aggregator/internal/fault"
)

// sessions are the legacy sessions by their ids.
type sessions struct {
	max int

	mu    sync.RWMutex
	byID  map[string]*Session // over HTTP
	stdio map[string]*Session // which no id in a request can name
}

func newSessions(limit int) sessions {
	return sessions{max: limit, byID: map[string]*Session{}, stdio: map[string]*Session{}}
}

// newSessionID returns an id of 130 random bits.
func newSessionID() string { return rand.Text() }

// add makes a session findable, unless there are too many.
func (t *sessions) add(sess *Session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byID) >= t.max {
		return false
	}
	t.byID[sess.id] = sess
	return true
}

func (t *sessions) find(id string) *Session {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byID[id]
}

// addStdio makes the session of a pair of streams known to of.
func (t *sessions) addStdio(sess *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stdio[sess.id] = sess
}

// of finds a session for those who have its id from us.
func (t *sessions) of(id string) *Session {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if sess := t.byID[id]; sess != nil {
		return sess
	}
	return t.stdio[id]
}

func (t *sessions) remove(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byID, id)
	delete(t.stdio, id)
}

func (t *sessions) all() []*Session {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all := make([]*Session, 0, len(t.byID))
	for _, sess := range t.byID {
		all = append(all, sess)
	}
	return all
}

func (t *sessions) count() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.byID)
}

// endSession ends a session of any transport and whatever it holds elsewhere.
func (s *Server) endSession(sess *Session, cause *fault.Error) {
	if !sess.end(cause) {
		return
	}
	s.sessions.remove(sess.id)
	s.router.SetLevel(sess.id, "")
	s.router.EndSession(sess.id)
	subscribed := sess.subscribed()
	s.audience.leave(sess, subscribed)
	if len(subscribed) > 0 {
		// Upstreams are told, which may take a while: nobody has to wait for it.
		tell := func() { s.router.Unsubscribe(sess.id, "") }
		if !s.own.start(tell) {
			tell()
		}
	}
	s.log.Debug("session ended", "session", shown(sess.id), "err", cause)
}

// shown is as much of a session id as may stand in a log: it names the session
// without letting anybody use it.
func shown(id string) string { return id[:min(6, len(id))] }

var errExpired = fault.Of(fault.Cancelled, "", "the session was idle for too long")

// janitor ends sessions that have been idle for too long and takes back log levels,
// until ctx ends. Open streams and requests in flight keep a session alive.
func (s *Server) janitor(ctx context.Context) {
	idle := s.cfg.HTTP.SessionIdle
	every := time.NewTicker(min(max(idle/4, time.Second), time.Minute))
	defer every.Stop()
	for {
		select {
		case now := <-every.C:
			s.forgetLevels(now)
			for _, sess := range s.sessions.all() {
				if since, quiet := sess.idleSince(); quiet && now.Sub(since) >= idle {
					s.endSession(sess, errExpired)
				}
			}
		case <-ctx.Done():
			return
		}
	}
}
