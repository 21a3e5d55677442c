package upstream

import (
	"bytes"
	"math"
	"time"

	"mcp-aggregator/internal/wire"
)

// What servers are told whose requests reach no client.
const (
	noClient   = "no client is available for this request"
	notAskable = "the client whose call is running cannot be asked"
	ambiguous  = "calls of several clients are running, or were given up a moment ago, and it is not clear which of them this request belongs to"
	noTaskCall = "no client waits for the task that this request belongs to; it can be asked during tasks/result"
	manyAsks   = "too many requests are waiting for an answer already"
)

var (
	errCallEnded = &wire.RPCError{Code: wire.CodeInternal, Message: "the call that this request belongs to has ended"}
	errNoAnswer  = &wire.RPCError{Code: wire.CodeInternal, Message: "the client gave no answer"}
)

// refusal is the error for a request that reaches no client. A server that passes a
// "method not found" on to its own caller would have that believe that the tool is not
// there, so what servers ask in the middle of tools is refused otherwise.
func refusal(method, why string) *wire.RPCError {
	code := wire.CodeMethodNotFound
	if method == "sampling/createMessage" || method == "elicitation/create" {
		code = wire.CodeInvalidRequest
	}
	return &wire.RPCError{Code: code, Message: why}
}

// marksServer reports whether a request shows that the server asks clients.
func marksServer(method string) bool {
	switch method {
	case "sampling/createMessage", "elicitation/create", "roots/list":
		return true
	}
	return false
}

// settleLocked decides whose a request on a shared channel is. The returned function
// does what follows and must be called without the lock.
//
// The calls that were in flight when it came are suspected, and those just given up.
// It is clear whose it is when all of them are of one session, and else it is refused:
// waiting until the others have ended would prove nothing, since a server may ask and
// answer the call without waiting for the client.
func (a *asks) settleLocked(k *ask) func() {
	var left []suspect
	for _, s := range a.suspects() {
		if s.order <= k.order {
			left = append(left, s)
		}
	}
	ghosts := a.ghostsOfLocked(k)
	if k.task != "" {
		if its := aboutTask(left, k.task); len(its) > 0 {
			left, ghosts = its, nil
		} else if !a.alone.Load() {
			return a.refuseLocked(k, refusal(k.method, noTaskCall))
		}
	}
	switch {
	case len(left) == 0:
		return a.outsideLocked(k)
	case a.alone.Load() || agree(left, ghosts):
		return a.chooseLocked(k, left)
	case !anyTakes(left):
		return a.unaskableLocked(k)
	case a.crowdedLocked(k):
		return a.refuseLocked(k, refusal(k.method, manyAsks))
	}
	if k.order == math.MaxInt64 { // it came before the first call of its session
		a.holdLocked(k)
		return func() {}
	}
	return a.refuseLocked(k, refusal(k.method, ambiguous))
}

// ghostsOfLocked returns the calls given up that can be the cause of a request.
func (a *asks) ghostsOfLocked(k *ask) (all []ghost) {
	for _, g := range a.ghosts {
		if g.order <= k.order && k.arrived.Sub(g.gone) <= ghostLife {
			all = append(all, g)
		}
	}
	return all
}

// taskOf returns the id of the task that a request says it belongs to, "" if it does not
// (specification 2025-11-25, basic/utilities/tasks: Associating Task-Related Messages).
func taskOf(params []byte) string {
	id, _ := wire.Unquote(wire.RelatedTask(params).Of(params))
	return id
}

// aboutTask returns the suspects that are about a task. Nothing says better whose a
// request is; and on a channel of several sessions nothing else will do, because the
// server may ask for a task while only others have calls in flight.
func aboutTask(all []suspect, task string) (its []suspect) {
	for _, s := range all {
		if task != "" && s.task == task {
			its = append(its, s)
		}
	}
	return its
}

// agree reports whether all suspects are one call, or of one session.
func agree(left []suspect, ghosts []ghost) bool {
	if len(left) == 1 && len(ghosts) == 0 {
		return true
	}
	session := left[0].session
	for _, s := range left {
		if s.session != session {
			return false
		}
	}
	for _, g := range ghosts {
		if g.session != session {
			return false
		}
	}
	return session != ""
}

func anyTakes(left []suspect) bool {
	for _, s := range left {
		if s.takes {
			return true
		}
	}
	return false
}

// chooseLocked gives a request to one of the calls of a session. Calls that run side by
// side mostly ask in the order they were made, so it is the first of those that were
// given least; should it be the wrong one, the request goes on to another when that ends.
func (a *asks) chooseLocked(k *ask, left []suspect) func() {
	var best *suspect
	for i := range left {
		s := &left[i]
		if !s.takes {
			continue
		}
		if best == nil || a.given[s.id] < a.given[best.id] || a.given[s.id] == a.given[best.id] && s.order < best.order {
			best = s
		}
	}
	switch {
	case best == nil:
		return a.unaskableLocked(k)
	case a.crowdedLocked(k) || a.ofCallLocked(best.id) >= maxAsksOfCall:
		return a.refuseLocked(k, refusal(k.method, manyAsks))
	}
	a.unholdLocked(k)
	if k.order == math.MaxInt64 {
		k.order = best.order
	}
	a.askedLocked(k)
	a.given[best.id]++
	if !a.alone.Load() {
		a.about.shown.noteAsk(k, best.session)
	}
	q := a.handLocked(k, best.id)
	// If the call is over by now, it has been settled anew.
	return func() { best.deliver(q) }
}

// askedLocked counts a request that a client is asked.
func (a *asks) askedLocked(k *ask) {
	if !k.asked {
		k.asked = true
		a.about.asked.Add(1)
	}
}

// handLocked makes a request that of a call, and returns what the call is given.
func (a *asks) handLocked(k *ask, call int64) Ask {
	done := make(chan struct{})
	k.call, k.done = call, done
	a.countLocked()
	return Ask{
		Method: k.method, Params: bytes.Clone(k.params), Done: done,
		Answer:   func(result []byte, e *wire.RPCError) { a.answer(k, done, result, e) },
		Progress: a.progressOf(k, done),
	}
}

// crowdedLocked reports whether a request, which is in the table already, is one too many.
// Large ones, which may be those of one client that does not answer, are no reason to
// refuse small ones.
func (a *asks) crowdedLocked(k *ask) bool {
	size, all := int64(len(k.params)), k.of.open.Load()
	return len(a.open) > maxOpenAsks || size > smallAsk && size < all && all > maxAskBytes
}

// ofCallLocked returns how many open requests a call has.
func (a *asks) ofCallLocked(call int64) (n int) {
	for _, k := range a.open {
		if k.call == call {
			n++
		}
	}
	return n
}

// holdLocked lets a request wait until it is clear whose it is.
func (a *asks) holdLocked(k *ask) {
	if k.timer == nil {
		k.timer = time.AfterFunc(holdAsk-time.Since(k.arrived), func() { a.expire(k) })
	}
}

func (a *asks) unholdLocked(k *ask) {
	if k.timer == nil {
		return
	}
	k.timer.Stop()
	if k.timer = nil; k.order == math.MaxInt64 {
		a.early.Add(-1)
	}
}

// expire ends the holding.
func (a *asks) expire(k *ask) {
	a.mu.Lock()
	if k.timer == nil { // settled at this moment
		a.mu.Unlock()
		return
	}
	var next func()
	if k.order == math.MaxInt64 {
		next = a.nobodysLocked(k)
	} else {
		next = a.refuseLocked(k, refusal(k.method, ambiguous))
	}
	a.mu.Unlock()
	next()
}

// nobodysLocked answers a request that no call is the cause of and no client can be
// asked.
func (a *asks) nobodysLocked(k *ask) func() {
	switch {
	case k.asked:
		return a.refuseLocked(k, errCallEnded)
	case k.method == "roots/list":
		return a.endLocked(k, answerRequest(nil, k.id, k.method))
	}
	return a.refuseLocked(k, refusal(k.method, noClient))
}

// unaskableLocked answers a request for a client that cannot be asked. It has no roots.
func (a *asks) unaskableLocked(k *ask) func() {
	if k.method != "roots/list" {
		return a.refuseLocked(k, refusal(k.method, notAskable))
	}
	return a.endLocked(k, answerRequest(nil, k.id, k.method))
}

func (a *asks) refuseLocked(k *ask, why *wire.RPCError) func() {
	a.about.refused.Add(1)
	return a.endLocked(k, wire.AppendError(nil, k.id, why))
}

// endLocked ends a request with a response of ours.
func (a *asks) endLocked(k *ask, response []byte) func() {
	if a.open[string(k.id)] != k {
		return func() {}
	}
	a.removeLocked(k)
	return func() { a.respond(response, false, nil) }
}
