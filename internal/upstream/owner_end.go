package upstream

import (
	"context"
	"errors"
	"io"
	"time"

	"mcp-aggregator/internal/fault"
)

// lossOf says why a connection was lost.
func lossOf(server string, conn Conn) error {
	err := conn.Err()
	var known *fault.Error
	switch {
	case errors.As(err, &known):
		return err
	case err == nil, errors.Is(err, io.EOF):
		return fault.Of(fault.Lost, server, "the server closed the connection")
	}
	return fault.Of(fault.Lost, server, "the connection was lost: %w", err)
}

// lostDrain is how long the calls on a lost connection get to notice it, and those of
// a process that hangs to be answered after all.
const lostDrain = time.Second

// ended does what follows the end of a connection. Callers see the new face before
// the connection is closed.
func (o *owner) ended(ctx, life context.Context, l *liveConn, why error) {
	drain := longest(o.server())
	switch {
	case ctx.Err() != nil:
		o.close(context.Cause(ctx))
		o.hangUp(life, l, drain)
	case errors.Is(why, errUnused): // and it has been retired
		o.wait = newStart()
		o.hangUp(life, l, 0)
	case errors.Is(why, errOrdered):
		o.gone()
		o.afresh()
		if o.lost = !o.orders.now().down; !o.lost {
			o.showDown()
		}
		o.part(life, l, min(drain, o.opts.Limits.Drain))
	default:
		o.wait.lost(time.Since(l.since))
		delay := o.wait.next(why)
		o.dropped(why, delay)
		o.settle()
		if _, local := l.conn.(processTransport); local || isClosed(l.conn.Done()) {
			drain = lostDrain
		}
		o.part(life, l, drain)
		o.pause(ctx, delay)
	}
}

// part closes a connection before another one is made. Of a process there is never
// more than one, which could hold what the next needs, so its end is waited for. A
// remote server does not mind, and what can be said to one that is not reachable
// takes its time, so its connection is closed beside the next one; calls in flight
// on it, which may well be answered, keep their time.
func (o *owner) part(life context.Context, l *liveConn, drain time.Duration) {
	if _, local := l.conn.(processTransport); local {
		o.hangUp(life, l, drain)
		return
	}
	o.parting.Go(func() { o.hangUp(life, l, drain) })
}

// hangUp closes a connection after its users have left or drain has passed; when the
// set is being closed, limits.drain at most.
func (o *owner) hangUp(life context.Context, l *liveConn, drain time.Duration) {
	patience, cancel := context.WithTimeout(life, drain)
	hurried := context.AfterFunc(o.closing, func() {
		t := time.NewTimer(o.opts.Limits.Drain)
		defer t.Stop()
		select {
		case <-t.C:
			cancel()
		case <-patience.Done():
		}
	})
	l.retire(patience)
	cancel()
	hurried()
	if p, ok := l.conn.(processTransport); ok {
		last := o.maskedLines(p.stderrTail())
		o.before.Store(&last)
	}
	limits := &o.opts.Limits
	ctx, cancel := context.WithTimeout(life, limits.StopInput+limits.StopTerm+farewell)
	defer cancel()
	if err := o.guard("closing", func() error { return l.conn.Close(ctx) }); err != nil {
		o.log.Debug("closing the connection", "err", err)
	}
}

// farewell is added to the configured steps of stopping a process: a kill and a
// farewell over the network must fit in.
const farewell = 3 * time.Second
