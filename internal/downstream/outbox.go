package downstream

import (
	"context"
	"errors"
	"sync"
)

// errOutboxClosed is returned by put when the client's stream is gone.
var errOutboxClosed = errors.New("the client's stream is closed")

// An outbox is the queue of messages on their way to one client. Anybody puts
// messages in, one writer takes them out. Messages lie framed, back to back, in one
// buffer, so that a burst costs one write and no allocation per message.
type outbox struct {
	frame              func(dst, msg []byte) []byte
	maxCount, maxBytes int
	drop               func()        // counts a dropped message; nil allowed
	wake               chan struct{} // buffer 1: there is something to take, or nothing will come any more
	done               chan struct{} // closed with the outbox

	mu     sync.Mutex
	buf    []byte
	count  int
	room   chan struct{} // closed when buf is taken; nil while nobody waits
	closed bool
}

func newOutbox(maxCount, maxBytes int, frame func(dst, msg []byte) []byte, drop func()) *outbox {
	return &outbox{frame: frame, maxCount: maxCount, maxBytes: maxBytes, drop: drop, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// offer queues a message if there is room. It never waits and does not keep msg.
func (o *outbox) offer(msg []byte) bool {
	o.mu.Lock()
	ok := !o.closed && o.count < o.maxCount && len(o.buf)+len(msg) <= o.maxBytes
	full := !ok && !o.closed
	if ok {
		o.addLocked(msg)
	}
	o.mu.Unlock()
	if full && o.drop != nil {
		o.drop()
	}
	return ok
}

// add queues a message whether or not there is room. It is for what is small, and of
// which there cannot be much.
func (o *outbox) add(msg []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.addLocked(msg)
	}
}

// put queues a message that must not be lost, waiting for room. A message larger
// than the whole queue gets in when the queue is empty.
func (o *outbox) put(ctx context.Context, msg []byte) error {
	for {
		o.mu.Lock()
		if o.closed {
			o.mu.Unlock()
			return errOutboxClosed
		}
		if o.count == 0 || o.count < o.maxCount && len(o.buf)+len(msg) <= o.maxBytes {
			o.addLocked(msg)
			o.mu.Unlock()
			return nil
		}
		if o.room == nil {
			o.room = make(chan struct{})
		}
		room := o.room
		o.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (o *outbox) addLocked(msg []byte) {
	o.buf = o.frame(o.buf, msg)
	o.count++
	o.wakeWriter()
}

// take hands over everything that is queued and keeps spare for what comes next.
// Nothing queued and open false: nothing will come any more.
func (o *outbox) take(spare []byte) (taken []byte, open bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken, o.buf, o.count = o.buf, spare[:0], 0
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
	return taken, !o.closed
}

// close lets nothing more in. What is queued can still be taken.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.closed = true
		close(o.done)
	}
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
	o.wakeWriter()
}

func (o *outbox) wakeWriter() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// keptBuffer is the largest buffer that an idle stream holds on to.
const keptBuffer = 1 << 10

// drain hands what is queued to write, in order, until the outbox is closed and
// empty, a write fails, or ctx ends; when nothing came for a while, it writes what
// tick wants written then. It is the writer of the outbox and closes it in the end,
// so that nobody waits for room in vain.
func (o *outbox) drain(ctx context.Context, write func([]byte) error, tick *keepAlive) error {
	defer o.close()
	var spare []byte
	for {
		taken, open := o.take(spare)
		if spare = nil; cap(taken) <= keptBuffer {
			spare = taken
		}
		switch {
		case len(taken) > 0:
			if err := write(taken); err != nil {
				return err
			}
			tick.reset()
			continue
		case !open:
			return nil
		}
		select {
		case <-o.wake:
		case <-tick.c():
			if err := write(keepAliveComment); err != nil {
				return err
			}
			tick.reset()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
