package upstream

import (
	"context"
	"sync"
	"time"

	"mcp-aggregator/internal/wire"
)

// attend starts what goes on beside the lists for as long as a connection lives:
// the stream on which the server speaks first, and what it must be told again.
func (o *owner) attend(ctx context.Context, work *sync.WaitGroup, l *liveConn) {
	if l.conn.Info().Era == wire.Modern {
		o.spawn(work, "listening", func() error {
			(&listener{o: o, conn: l.conn, caps: l.caps}).run(ctx)
			return nil
		})
		return
	}
	if st, ok := l.conn.(streamTransport); ok {
		caps := l.caps
		o.spawn(work, "streaming", func() error {
			return st.openStream(ctx, func() {}, func() { o.announce(caps.announced()) })
		})
	}
	o.resumeAll(ctx, work, l, o.subs.missing(l.conn))
}

// resumeAll subscribes on this connection to what clients are subscribed to.
func (o *owner) resumeAll(ctx context.Context, work *sync.WaitGroup, l *liveConn, uris []string) {
	if len(uris) > 0 && l.caps.subscribe {
		o.spawn(work, "resuming subscriptions", func() error {
			o.resume(ctx, l.conn, uris)
			return nil
		})
	}
}

// spawn runs f in a goroutine that serve waits for.
func (o *owner) spawn(work *sync.WaitGroup, doing string, f func() error) {
	work.Go(func() {
		if err := o.guard(doing, f); err != nil {
			o.log.Debug("ended "+doing, "err", o.plain(err))
		}
	})
}

// tellLevel passes the log level that clients want to a legacy server; modern
// servers get it with each request. One request is under way at a time, so that the
// last level wins.
func (o *owner) tellLevel(ctx context.Context, work *sync.WaitGroup, l *liveConn) {
	level := o.level.Load()
	if level == nil || *level == l.level || !l.caps.logging || l.conn.Info().Era == wire.Modern || l.telling.Load() {
		return
	}
	l.level = *level
	l.telling.Store(true)
	o.spawn(work, "setting the log level", func() error {
		defer o.nudge()
		defer l.telling.Store(false)
		ctx, cancel := context.WithTimeout(ctx, tellTimeout)
		defer cancel()
		return setLevel(ctx, l.conn, *level)
	})
}

// setLevel tells a legacy server the least level of the log messages it is to send.
func setLevel(ctx context.Context, conn Conn, level string) error {
	params := append(wire.AppendQuote([]byte(`{"level":`), level), '}')
	reply, err := conn.Call(ctx, &Request{ID: NextID(), Method: "logging/setLevel", Params: wire.Value{Raw: params}})
	defer reply.Release()
	if err == nil && reply.Err != nil {
		err = reply.Err
	}
	return err
}

// tellTimeout bounds small requests of our own.
const tellTimeout = 30 * time.Second

// reinitialize opens a new session on a connection whose server has forgotten the
// old one. It runs on a goroutine of the connection, while calls wait.
func (o *owner) reinitialize(ctx context.Context, l *liveConn) error {
	h := &handshake{t: l.conn, server: o.name, opts: o.opts}
	if err := h.initialize(ctx, l.conn.Info().Version); err != nil {
		return err
	}
	o.renewed.Store(true)
	o.nudge()
	return nil
}

// renew tells a server that has a new session what it has forgotten. It may have
// been another program that forgot, so the lists are read again; not each time,
// since servers exist that forget all the time and reading is what they forget at.
func (o *owner) renew(ctx context.Context, work *sync.WaitGroup, l *liveConn) {
	l.level = ""
	l.caps = parseCapabilities(l.conn.Info())
	o.resumeAll(ctx, work, l, o.subs.subscribed())
	if time.Since(l.relisted) >= slowProbe {
		l.relisted = time.Now()
		o.lists.again(l.caps)
	}
}
