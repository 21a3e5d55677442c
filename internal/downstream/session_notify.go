package downstream

import (
	"maps"
	"slices"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/wire"
)

// changed tells the client that lists have changed, now or when it can hear it.
func (sess *Session) changed(c catalog.Changes) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	sess.changedLocked(c)
}

func (sess *Session) changedLocked(c catalog.Changes) {
	for _, l := range listChanges {
		if *l.of(&c) && !sess.sendLocked(l.message) {
			*l.of(&sess.missed) = true
		}
	}
}

// updated tells the client that a resource it subscribed to has changed.
func (sess *Session) updated(uri string, params []byte) {
	msg := wire.AppendNotification(nil, methodUpdated, stamp(params, nil))
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if _, wanted := sess.subs[uri]; wanted && !sess.sendLocked(msg) {
		sess.subs[uri] = true
	}
}

// sendLocked queues a message on the newest stream. A message goes to one stream
// only (specification 2025-11-25, transports: Multiple Connections).
func (sess *Session) sendLocked(msg []byte) bool {
	if !sess.begun || len(sess.streams) == 0 {
		return false
	}
	return sess.streams[len(sess.streams)-1].offer(msg)
}

// catchUpLocked sends what could not be sent before.
func (sess *Session) catchUpLocked() {
	missed := sess.missed
	sess.missed = catalog.Changes{}
	sess.changedLocked(missed)
	for uri, missed := range sess.subs {
		if !missed {
			continue
		}
		params := append(wire.AppendQuote([]byte(`{"uri":`), uri), '}')
		sess.subs[uri] = !sess.sendLocked(wire.AppendNotification(nil, methodUpdated, wire.Value{Raw: params}))
	}
}

// listed notes that the client has asked for a list: changes before that are no
// news to it.
func (sess *Session) listed(k catalog.Kind) {
	if k == catalog.Templates {
		k = catalog.Resources
	}
	sess.mu.Lock()
	defer sess.mu.Unlock()
	for _, l := range listChanges {
		if l.kind == k {
			*l.of(&sess.missed) = false
		}
	}
}

// subscribe notes that the client wants to hear of a resource; false if that would
// be too many.
func (sess *Session) subscribe(uri string) bool {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if _, ok := sess.subs[uri]; !ok && len(sess.subs) >= maxSubscriptions {
		return false
	}
	if sess.subs == nil {
		sess.subs = map[string]bool{}
	}
	sess.subs[uri] = false
	return true
}

func (sess *Session) unsubscribe(uri string) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	delete(sess.subs, uri)
}

// subscribed returns the resources the client wants to hear of.
func (sess *Session) subscribed() []string {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	return slices.Collect(maps.Keys(sess.subs))
}
