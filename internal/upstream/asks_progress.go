package upstream

import "mcp-aggregator/internal/wire"

// A teller sends a notification about a request of the server, which it takes over, and
// does not wait. It is not sent before after is closed, unless that is nil. Sent is
// called when that has been done, or has failed; it does not block. False: the message
// is dropped.
type teller func(msg []byte, after <-chan struct{}, sent func()) bool

// maxTold bounds the progress of a client about one request that is on its way to a
// server which does not take it. More is dropped: the next one says as much.
const maxTold = 16

// progressOf returns what passes progress of the client about a request on to the
// server, nil if the server has not asked for it. The server gets its own token back
// (specification 2025-11-25, basic/utilities/progress).
func (a *asks) progressOf(k *ask, done chan struct{}) func(params []byte) {
	meta := wire.Field(k.params, wire.Span{Hi: len(k.params)}, "_meta")
	token := wire.Field(k.params, meta, "progressToken")
	if !token.OK() || a.tell == nil {
		return nil
	}
	return func(params []byte) {
		at := wire.Field(params, wire.Span{Hi: len(params)}, "progressToken")
		if !at.OK() {
			return
		}
		v := wire.Value{Raw: params}.With(wire.Edit{Span: at, With: token.Of(k.params)})
		a.progress(k, done, wire.AppendNotification(nil, "notifications/progress", v))
	}
}

// progress sends progress, if the request is still this call's.
func (a *asks) progress(k *ask, done chan struct{}, msg []byte) {
	a.mu.Lock()
	if k.done != done || k.told.Load() >= maxTold {
		a.mu.Unlock()
		return
	}
	k.told.Add(1)
	after, sent := k.sent, make(chan struct{})
	k.sent = sent
	a.mu.Unlock()
	over := func() {
		k.told.Add(-1)
		close(sent)
	}
	if a.tell(msg, after, over) {
		return
	}
	a.mu.Lock()
	if k.sent == sent {
		k.sent = after
	}
	a.mu.Unlock()
	over()
}
