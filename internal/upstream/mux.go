package upstream

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// A link carries whole messages between a mux and one server.
type link interface {
	// read returns the next message. Only the reader of the mux calls it. An
	// *oversizeError costs one message; any other error ends the connection and
	// says why.
	read() (*frame, error)

	// send takes f over and returns once f is certain to be written, or why it will
	// never be; ctx bounds the waiting. r is the call that f belongs to, nil for a
	// notification. A link that learns later that f did not get through fails the
	// call itself.
	send(ctx context.Context, r *Request, f *frame) error

	// offer is send for what may be dropped; it never blocks.
	offer(f *frame) bool

	// retract takes the message of a call back if nothing of it has left yet.
	retract(id int64) bool

	// abort begins to end the connection and returns the calls whose messages had
	// not left. It does not wait; read goes on until it fails.
	abort() (unsent []int64)

	// close waits for the end that abort began. When ctx ends it is hurried along.
	close(ctx context.Context) error
}

// A mux runs many calls over one link. It is the transport of everything that is
// one stream of messages in each direction.
//
// Concurrency: one goroutine reads the link and hands out what it reads in the
// order it was read, so that a response never overtakes an event before it. The
// callers write. mu guards the table of calls and is held for moments only, never
// while calling out.
type mux struct {
	server string
	log    *slog.Logger
	link   link
	notice func(Notice)
	info   atomic.Pointer[Info]
	count  muxCounts
	asks   *asks
	msg    wire.Message // the one being received; owned by the reader, too large to allocate each time

	answered bool // the server has answered more than the handshake; owned by the reader

	spare sync.Pool // of *waiter; not shared with others, because channels belong to one synctest bubble

	done    chan struct{} // closed when the connection is lost or closed
	drained chan struct{} // closed when the reader has ended

	mu     sync.Mutex        // guards the fields below
	calls  map[int64]*waiter // id → call in flight
	owners int               // of calls: those that may be the cause of a message
	order  int64             // of the call registered last
	newest int64             // highest id used
	err    error             // why the connection ended
}

// muxCounts are what a misbehaving server is recognized by.
type muxCounts struct {
	junk    atomic.Int64 // messages that are none, too large ones included
	late    atomic.Int64 // responses and progress of no call in flight
	dropped atomic.Int64 // log messages and other notifications of which it is not known whose they are
	refused atomic.Int64 // answers to the server that found no room
}

// newMux returns a mux; start must follow once its link is set.
func newMux(server string, log *slog.Logger, notice func(Notice)) *mux {
	m := &mux{
		server:  server,
		log:     log,
		notice:  notice,
		done:    make(chan struct{}),
		drained: make(chan struct{}),
		calls:   make(map[int64]*waiter),
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	if m.notice == nil {
		m.notice = func(Notice) {}
	}
	m.info.Store(&Info{})
	m.asks = newAsks(m.suspects, func(response []byte, _ bool, _ <-chan struct{}) { m.offer(&frame{b: response, put: func() {}}) })
	return m
}

// questions implements askingTransport.
func (m *mux) questions() *asks { return m.asks }

func (m *mux) start(l link) {
	m.link = l
	if _, apart := l.(*sseLink); !apart { // whose messages take different ways
		m.asks.tell = func(msg []byte, _ <-chan struct{}, sent func()) bool {
			m.offer(&frame{b: msg, put: sync.OnceFunc(sent)})
			return true
		}
	}
	go m.read()
}

// Call implements Conn.
func (m *mux) Call(ctx context.Context, r *Request) (Reply, error) {
	w, err := m.register(r)
	if err != nil {
		return Reply{}, err
	}
	f := newFrame(r.Params.Len() + len(r.Method) + 96)
	f.b = wire.AppendRequest(f.b, r.ID, r.Method, r.Params)
	if err := m.link.send(ctx, r, f); err != nil {
		if m.take(r.ID) != nil {
			m.asks.over(r.ID)
			m.recycle(w)
		}
		if ctx.Err() != nil {
			return Reply{}, m.ended(ctx, "waiting to be sent; nothing was sent")
		}
		return Reply{}, m.sendFault(ctx, err)
	}
	select {
	case <-w.ready:
	case <-ctx.Done():
		if m.take(r.ID) != nil {
			order := w.order
			m.recycle(w)
			return Reply{}, m.abandon(ctx, r, order)
		}
		<-w.ready // the outcome is being delivered
	}
	reply, err := w.reply, w.err
	m.recycle(w)
	return reply, err
}

// abandon tells the server that a call is over whose context has ended.
func (m *mux) abandon(ctx context.Context, r *Request, order int64) error {
	if m.link.retract(r.ID) {
		m.asks.over(r.ID)
		return m.ended(ctx, "waiting to be sent; nothing was sent")
	}
	// initialize must not be cancelled (specification, basic: Cancellation). The
	// probe is like it: an older server may take any notification before its
	// handshake for a reason to leave.
	if r.Method != "initialize" && r.Method != "server/discover" {
		reason := "cancelled"
		kind := fault.KindOf(context.Cause(ctx))
		if kind == fault.Timeout || kind == fault.Internal && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			reason = "timeout"
		}
		m.offer(cancellation(r.ID, reason))
	}
	if isHousekeeping(r.Method) {
		m.asks.over(r.ID)
	} else {
		m.asks.abandoned(r.ID, order, r.Session)
	}
	return m.ended(ctx, "waiting for the answer")
}

// ended classifies the end of a context: what its cause says if that is classified
// already, else a time-out or a cancellation.
func (m *mux) ended(ctx context.Context, during string) error {
	cause := context.Cause(ctx)
	var known *fault.Error
	switch {
	case errors.As(cause, &known):
		return known
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(cause, context.DeadlineExceeded):
		return &fault.Error{Kind: fault.Timeout, Server: m.server, Reason: "timed out " + during, Err: cause}
	}
	return &fault.Error{Kind: fault.Cancelled, Server: m.server, Reason: "cancelled " + during, Err: cause}
}

// sendFault classifies why a message was not sent. If the connection is breaking
// down at this moment, the reason is waited for: it is what the reader needs to know.
func (m *mux) sendFault(ctx context.Context, err error) error {
	var known *fault.Error
	if errors.As(err, &known) {
		return known
	}
	select {
	case <-m.done:
		return fault.Of(fault.Unreachable, m.server, "not connected: %w", m.Err())
	case <-ctx.Done():
	case <-time.After(exitGrace):
	}
	return fault.Of(fault.Unreachable, m.server, "the connection is breaking down")
}

// Notify implements Conn.
func (m *mux) Notify(ctx context.Context, method string, params wire.Value) error {
	f := newFrame(params.Len() + len(method) + 96)
	f.b = wire.AppendNotification(f.b, method, params)
	err := m.link.send(ctx, nil, f)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return m.ended(ctx, "sending "+method)
	}
	return m.sendFault(ctx, err)
}

// offer sends something that may be dropped when the server does not read.
func (m *mux) offer(f *frame) {
	if !m.link.offer(f) {
		m.count.refused.Add(1)
	}
}

// Info implements Conn.
func (m *mux) Info() *Info { return m.info.Load() }

func (m *mux) setInfo(i *Info) { m.info.Store(i) }

// Done implements Conn.
func (m *mux) Done() <-chan struct{} { return m.done }

// Err implements Conn.
func (m *mux) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// skippedLines implements processTransport for the links that have a process.
func (m *mux) skippedLines() int64 { return m.count.junk.Load() }

// strayMessages counts what belonged to nobody.
func (m *mux) strayMessages() int64 { return m.count.dropped.Load() }

var (
	errClosed = errors.New("the connection was closed")

	// errNotSent is what a link's send returns when it knows no more than the end of
	// the context or of the connection says.
	errNotSent = errors.New("not sent")
)

// Close implements Conn.
func (m *mux) Close(ctx context.Context) error {
	m.end(errClosed)
	<-m.done
	err := m.link.close(ctx)
	<-m.drained
	return err
}

// end ends the connection once; every call in flight learns whether it was sent.
func (m *mux) end(err error) {
	m.mu.Lock()
	if m.err != nil {
		m.mu.Unlock()
		return
	}
	m.err = err
	m.mu.Unlock()
	m.asks.close()

	for _, id := range m.link.abort() {
		m.fail(id, fault.Of(fault.Unreachable, m.server, "the connection was lost before the call was sent: %w", err))
	}
	m.mu.Lock()
	ids := make([]int64, 0, len(m.calls))
	for id := range m.calls {
		ids = append(ids, id)
	}
	m.mu.Unlock()
	for _, id := range ids {
		m.fail(id, fault.Of(fault.Lost, m.server, "the connection was lost before the answer came: %w", err))
	}
	close(m.done)
}

// read is the reader goroutine. After the connection has ended it goes on, so that
// a process that still writes can finish, and drops what it reads.
func (m *mux) read() {
	defer close(m.drained)
	for {
		f, err := m.link.read()
		if err == nil {
			m.receive(f)
			if len(m.msg.Raw) > fullReadBuffer {
				m.msg = wire.Message{} // let go of a large message
			}
			continue
		}
		var large *oversizeError
		if !errors.As(err, &large) {
			m.end(err)
			return
		}
		m.oversized(large)
	}
}

// graceOfTheLost is how long a call waits for its answer after the server has sent
// one that belongs to no call.
const graceOfTheLost = 2 * time.Second

// cancellation composes notifications/cancelled.
func cancellation(id int64, reason string) *frame {
	f := newFrame(128)
	f.b = append(f.b, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`...)
	f.b = appendID(f.b, id)
	f.b = append(f.b, `,"reason":`...)
	f.b = wire.AppendQuote(f.b, reason)
	f.b = append(f.b, "}}"...)
	return f
}
