package upstream

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"
)

// A sink is the writing end of a connection. An outbox never uses it from two
// goroutines at a time, except for close.
type sink interface {
	// write blocks until all of b is written or the sink fails or is closed. n says
	// how much left.
	write(b []byte) (n int, err error)

	// tryWrite writes what fits without blocking; n < len(b) with a nil error means
	// that write has to do the rest. A sink that cannot tell always takes nothing.
	tryWrite(b []byte) (n int, err error)

	// joins reports whether several messages may be written as one piece.
	joins() bool
}

// Bounds of what may wait in an outbox.
const (
	outboxBytes   = 4 << 20  // of calls and notifications; more of them wait outside, with their contexts
	outboxOffers  = 4096     // messages that are dropped when there are more
	outboxOffered = 64 << 20 // bytes of these; one alone may have more
	outboxAtATime = 64 << 10 // written in one piece
)

// An outbox writes messages to a sink, whole and in order. A message is written by
// the goroutine that brings it when the sink takes it at once, which is the rule;
// a goroutine that drains the queue exists only while something waits. So a peer
// that stops reading blocks nobody beyond their context, and a peer that reads
// costs no goroutine switch.
type outbox struct {
	sink sink
	lost func(error) // the sink failed; called once, not under the lock

	room *semaphore.Weighted
	wg   sync.WaitGroup // of drain

	mu     sync.Mutex // guards the fields below
	queue  []outgoing
	offers int  // of queue
	size   int  // of these, in bytes
	busy   bool // somebody is writing
	closed bool
}

// An outgoing is a message in the queue. It counts as not sent while it is there.
type outgoing struct {
	id    int64 // of the call, or 0
	f     *frame
	from  int   // bytes of f that are written already
	room  int64 // what it holds of outbox.room
	offer bool  // counted in outbox.offers
}

func newOutbox(s sink, lost func(error)) *outbox {
	return &outbox{sink: s, lost: lost, room: semaphore.NewWeighted(outboxBytes)}
}

// send takes f over, the message of call r or a notification if that is nil. It
// returns nil once f is written or queued, and errNotSent when it will never be:
// ctx ended while there was no room, or the outbox is closed or failed before the
// first byte.
func (o *outbox) send(ctx context.Context, r *Request, f *frame) error {
	m := outgoing{f: f}
	if r != nil {
		m.id = r.ID
	}
	done, ok := o.direct(m.id, f)
	if !done {
		ok = o.enqueue(ctx, m)
	}
	if !ok {
		return errNotSent
	}
	return nil
}

func (o *outbox) enqueue(ctx context.Context, m outgoing) bool {
	m.room = int64(min(len(m.f.b), outboxBytes))
	if o.room.Acquire(ctx, m.room) != nil {
		m.f.put()
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		o.dropLocked(m)
		return false
	}
	o.pushLocked(m)
	return true
}

// offer takes f over and never blocks: it drops f if too much waits.
func (o *outbox) offer(f *frame) bool {
	if done, ok := o.direct(0, f); done {
		return ok
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.offers >= outboxOffers || o.size > 0 && o.size+len(f.b) > outboxOffered {
		f.put()
		return false
	}
	o.offers++
	o.size += len(f.b)
	o.pushLocked(outgoing{f: f, offer: true})
	return true
}

// retract takes the message of a call back. It returns false if some of it has
// been written already.
func (o *outbox) retract(id int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.IndexFunc(o.queue, func(m outgoing) bool { return m.id == id && m.from == 0 })
	if i < 0 {
		return false
	}
	o.dropLocked(o.queue[i])
	o.queue = slices.Delete(o.queue, i, i+1)
	return true
}

// close refuses everything from now on and returns the calls whose messages were
// still waiting. The sink must be closed too, to end a write that blocks; wait
// then waits for it.
func (o *outbox) close() (unsent []int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	for _, m := range o.queue {
		if m.id != 0 && m.from == 0 {
			unsent = append(unsent, m.id)
		}
		o.dropLocked(m)
	}
	o.queue = nil
	return unsent
}

func (o *outbox) wait() { o.wg.Wait() }

// direct tries to write f at once. It is not done if somebody else is writing.
func (o *outbox) direct(id int64, f *frame) (done, ok bool) {
	o.mu.Lock()
	if o.closed || o.busy {
		closed := o.closed
		o.mu.Unlock()
		if closed {
			f.put()
		}
		return closed, false
	}
	o.busy = true
	o.mu.Unlock()

	n, err := o.sink.tryWrite(f.b)

	o.mu.Lock()
	if o.busy = false; err != nil {
		o.closed = true
	}
	switch whole := n == len(f.b); {
	case whole || err != nil || o.closed:
		f.put()
	default:
		o.queue = slices.Insert(o.queue, 0, outgoing{id: id, f: f, from: n})
	}
	ok = n > 0 || !o.closed
	o.startLocked()
	o.mu.Unlock()
	if err != nil {
		o.lost(err)
	}
	return true, ok
}

func (o *outbox) pushLocked(m outgoing) {
	o.queue = append(o.queue, m)
	o.startLocked()
}

// startLocked starts draining if there is something to drain and nobody does.
func (o *outbox) startLocked() {
	if len(o.queue) > 0 && !o.busy && !o.closed {
		o.busy = true
		o.wg.Go(o.drain)
	}
}

func (o *outbox) dropLocked(m outgoing) {
	m.f.put()
	o.room.Release(m.room)
}

// drain writes until nothing waits or the sink fails.
func (o *outbox) drain() {
	for {
		piece, room := o.next()
		if piece == nil {
			return
		}
		_, err := o.sink.write(piece.b)
		piece.put()
		o.room.Release(room)
		if err != nil {
			o.mu.Lock()
			failed := !o.closed
			o.closed = true
			o.mu.Unlock()
			if failed {
				o.lost(err)
			}
			return
		}
	}
}

// next takes what is to be written next: one message, or several small ones joined.
// It returns nil and ends the draining if there is nothing.
func (o *outbox) next() (piece *frame, room int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, size := 0, 0
	for _, m := range o.queue {
		if n > 0 && (!o.sink.joins() || size+len(m.f.b) > outboxAtATime) {
			break
		}
		n, size = n+1, size+len(m.f.b)-m.from
	}
	if n == 0 || o.closed {
		o.busy = false
		return nil, 0
	}
	piece = o.queue[0].f
	if n > 1 || o.queue[0].from > 0 {
		piece = newFrame(size)
	}
	for _, m := range o.queue[:n] {
		if m.offer {
			o.offers--
			o.size -= len(m.f.b)
		}
		room += m.room
		if piece != m.f {
			piece.b = append(piece.b, m.f.b[m.from:]...)
			m.f.put()
		}
	}
	o.queue = slices.Delete(o.queue, 0, n)
	return piece, room
}
