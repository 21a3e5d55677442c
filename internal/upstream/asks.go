package upstream

import (
	"bytes"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"mcp-aggregator/internal/wire"
)

// asks are the requests of a server on one connection from their arrival until each
// has had its one response: from the client whose call is the cause, from that of the
// session whose connection it is, or from us. A response from us comes at once, or where a
// session is just beginning soon, because a server that waits for one holds the call that
// caused it until the deadline.
//
// Concurrency: mu guards the fields below it. It may be held while the connection's own
// lock is taken, never the other way round, and not while calling anybody.
type asks struct {
	about    *asking          // of the server; replaced before the handshake only
	alone    atomic.Bool      // all calls on this connection are those of one session
	outside  func(Ask) bool   // asks the client of that session outside of calls; nil: it cannot be. Written with about
	suspects func() []suspect // the calls in flight that can be the cause of a request
	respond  responder
	tell     teller // nil: progress of clients cannot be passed on in order

	// What the path of every call looks at, to find nothing.
	busy  atomic.Int32 // something must be done when a call is over
	early atomic.Int32 // and when one begins

	mu     sync.Mutex
	open   map[string]*ask // raw id → request without a response
	given  map[int64]int   // call in flight → how many it was given
	ghosts []ghost
	closed bool
}

// A responder sends a response, which it takes over, and does not wait. Clients says
// that it is one of a client; it must not be sent before after is closed, unless that is
// nil.
type responder func(response []byte, clients bool, after <-chan struct{})

// An ask is one request of a server. Whoever removes it from the table responds.
type ask struct {
	id      []byte
	method  string
	params  []byte
	task    string  // id of the task that it says it is asked for, "" if it does not
	of      *asking // the server, which counts its params
	arrived time.Time
	order   int64 // calls that were registered later cannot be the cause

	call   int64         // whose it is, 0 while that is not clear
	asked  bool          // a client has been asked
	gaveUp bool          // its call was given up by the client
	bound  bool          // it came on the stream of that call, so it cannot be another's
	done   chan struct{} // closed when the present call need not answer any more
	timer  *time.Timer   // ends the holding; nil unless it is held

	sent <-chan struct{} // closed when the last progress of the client has been sent; nil: there was none
	told atomic.Int32    // how much of that is on the way
}

// A suspect is a call in flight that can be the cause of a request.
type suspect struct {
	id, order int64
	session   string
	task      string         // that it is about, "" if none
	takes     bool           // its client can be asked
	deliver   func(Ask) bool // false: the call is over
}

// A ghost is a call that was given up. The server may have asked for it before it
// learnt that, so requests that come right afterwards may be meant for it.
type ghost struct {
	id, order int64
	session   string
	gone      time.Time
}

const (
	maxOpenAsks   = 64       // of a connection
	maxAsksOfCall = 16       // open at the same time
	maxAskBytes   = 32 << 20 // of all connections to a server; one alone may have more
	smallAsk      = 64 << 10 // bytes of one that is let in nevertheless
	maxGhosts     = 64

	// holdAsk is how long a request waits until it is clear whose it is.
	holdAsk = 5 * time.Second
	// ghostLife is how long after it was given up a call is still suspected: it covers
	// the way of the cancellation to the server.
	ghostLife = time.Second
)

func newAsks(suspects func() []suspect, respond responder) *asks {
	return &asks{about: &asking{}, suspects: suspects, respond: respond}
}

// adopt says which server the connection belongs to, whether to one session alone, and
// how the client of that is asked when no call is the cause.
func (a *asks) adopt(about *asking, alone bool, outside func(Ask) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if about != nil {
		a.about = about
	}
	a.outside = outside
	a.alone.Store(alone)
}

// server returns what is known about the requests of the server.
func (a *asks) server() *asking {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.about
}

// arrive takes a request that came on a channel which all calls share.
func (a *asks) arrive(id []byte, method string, params []byte) {
	k := &ask{id: bytes.Clone(id), method: method, params: params, task: taskOf(params)}
	a.mu.Lock()
	if !a.admitLocked(k) {
		a.mu.Unlock()
		return
	}
	all := a.suspects()
	if marksServer(method) && len(all) > 0 && !a.alone.Load() && len(aboutTask(all, k.task)) == 0 {
		defer a.about.mark()
	}
	for _, s := range all {
		k.order = max(k.order, s.order)
	}
	next := a.settleLocked(k)
	a.mu.Unlock()
	next()
}

// give takes a request that came on the stream of a call.
func (a *asks) give(s suspect, id []byte, method string, params []byte) {
	k := &ask{id: bytes.Clone(id), method: method, params: params, bound: true}
	a.mu.Lock()
	next := func() {}
	if a.admitLocked(k) {
		next = a.chooseLocked(k, []suspect{s})
	}
	a.mu.Unlock()
	next()
}

// admitLocked puts a request into the table. What cannot be put there is a repetition,
// which has its response coming; or too much, which is refused once it is settled.
func (a *asks) admitLocked(k *ask) bool {
	if a.closed || a.open[string(k.id)] != nil {
		return false
	}
	if a.open == nil {
		a.open, a.given = map[string]*ask{}, map[int64]int{}
	}
	k.params, k.arrived, k.of = bytes.Clone(k.params), time.Now(), a.about
	k.of.open.Add(int64(len(k.params)))
	a.open[string(k.id)] = k
	a.countLocked()
	return true
}

func (a *asks) countLocked() { a.busy.Store(int32(len(a.open) + len(a.given) + len(a.ghosts))) }

// over is told of every call that is over, after it cannot be found any more. Mostly it
// costs one look.
func (a *asks) over(id int64) {
	if a.busy.Load() != 0 {
		a.settle(id, false)
	}
}

// abandoned is over for a call that was given up after it had been sent.
func (a *asks) abandoned(id, order int64, session string) {
	if a.alone.Load() {
		if a.busy.Load() != 0 {
			a.settle(id, true)
		}
		return
	}
	now := time.Now()
	a.mu.Lock()
	a.pruneLocked(now)
	if n := len(a.ghosts); n == maxGhosts { // one of nobody's stands for the oldest two
		a.ghosts[1].session, a.ghosts[1].id = "", 0
		a.ghosts[1].order = max(a.ghosts[0].order, a.ghosts[1].order)
		a.ghosts = append(a.ghosts[:0], a.ghosts[1:]...)
	}
	a.ghosts = append(a.ghosts, ghost{id: id, order: order, session: session, gone: now})
	a.countLocked()
	a.mu.Unlock()
	a.settle(id, false)
}

// pruneLocked forgets the ghosts that are of no importance to anything any more.
func (a *asks) pruneLocked(now time.Time) {
	for len(a.ghosts) > 0 && now.Sub(a.ghosts[0].gone) > ghostLife+holdAsk {
		a.ghosts = a.ghosts[1:]
	}
}

// late is told of a response that came after its call had been given up: the server
// has done with it.
func (a *asks) late(id int64) {
	if a.busy.Load() == 0 {
		return
	}
	a.mu.Lock()
	for i, g := range a.ghosts {
		if g.id == id {
			a.ghosts = append(a.ghosts[:i:i], a.ghosts[i+1:]...)
			break
		}
	}
	a.countLocked()
	a.mu.Unlock()
	a.settle(0, false)
}

// began is told of every call that begins, once it can be found.
func (a *asks) began() {
	if a.early.Load() != 0 {
		a.settle(0, false)
	}
}

// settle finds out anew whose the requests are that belong to a call which is over, or
// to no call yet. With gaveUp its client has given that call up.
func (a *asks) settle(over int64, gaveUp bool) {
	a.mu.Lock()
	delete(a.given, over)
	var next []func()
	for _, k := range a.open {
		switch {
		case k.call != 0 && k.call != over:
			continue
		case k.call != 0:
			close(k.done)
			k.done, k.gaveUp = nil, gaveUp
			if k.call = 0; k.bound {
				next = append(next, a.refuseLocked(k, errCallEnded))
				continue
			}
		case k.order == math.MaxInt64 && len(a.suspects()) == 0:
			continue
		}
		next = append(next, a.settleLocked(k))
	}
	a.countLocked()
	a.mu.Unlock()
	for _, f := range next {
		f()
	}
}

// withdraw ends a request that the server has cancelled; false if there is none with
// that id. It has no response (specification 2025-11-25, utilities: Cancellation).
func (a *asks) withdraw(id []byte) bool {
	if a.busy.Load() == 0 {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.open[string(id)]
	if k != nil {
		a.removeLocked(k)
	}
	return k != nil
}

// removeLocked takes a request out of the table.
func (a *asks) removeLocked(k *ask) {
	delete(a.open, string(k.id))
	k.of.open.Add(-int64(len(k.params)))
	a.unholdLocked(k)
	if k.done != nil {
		close(k.done)
		k.done = nil
	}
	a.countLocked()
}

// close ends everything: the connection is lost.
func (a *asks) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, k := range a.open {
		a.removeLocked(k)
	}
	a.ghosts, a.given = nil, nil
	a.countLocked()
}

// answer responds with what the client says, if the request is still this call's.
func (a *asks) answer(k *ask, done chan struct{}, result []byte, e *wire.RPCError) {
	a.mu.Lock()
	if k.done != done || done == nil {
		a.mu.Unlock()
		return
	}
	a.removeLocked(k)
	after := k.sent
	a.mu.Unlock()
	switch {
	case e != nil:
		a.respond(wire.AppendError(nil, k.id, e), true, after)
	case len(result) == 0:
		a.respond(wire.AppendError(nil, k.id, errNoAnswer), true, after)
	default:
		a.respond(wire.AppendResult(make([]byte, 0, len(result)+len(k.id)+48), k.id, wire.Value{Raw: result}), true, after)
	}
}
