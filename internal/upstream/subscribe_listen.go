package upstream

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// A listener keeps the one subscriptions/listen stream of a modern connection open
// (specification 2026-07-28, subscriptions). A stream cannot be changed, so another
// set of resources means another stream.
//
// Where each request has a stream of its own (HTTP) the new one is opened before
// the old one is closed, and nothing is missed. On a shared channel the old one is
// ended first, because servers keep what they have promised by connection, and the
// end of one subscription takes the promises of the other along; the lists are read
// again afterwards.
type listener struct {
	o    *owner
	conn transport
	caps capabilities
	cur  *listenStream // nil while there is none

	gap    bool // announcements may have been missed since the last stream
	broken bool // so may have been updates of resources
}

// A listenStream is one subscriptions/listen request.
type listenStream struct {
	id     []byte // JSON-RPC id, raw; nil until it is known
	cancel context.CancelFunc
	done   chan struct{}
	err    error // valid after done; nil if the server ended it in an orderly way
	since  time.Time
}

// An ack is the acknowledgement of a stream.
type ack struct {
	id      []byte   // of the listen request, raw
	granted []string // resources; nil if the server did not say
	nothing bool     // the server will send nothing at all
}

const (
	// ackWait is how long a server may take to acknowledge; one that does not is
	// taken to have agreed.
	ackWait = 5 * time.Second
	// endWait is how long a server may take to end a stream that it was asked to.
	endWait = 100 * time.Millisecond
)

// run is the listener's goroutine.
func (s *listener) run(ctx context.Context) {
	defer s.stop(ctx, &s.cur)
	s.broken = len(s.o.subs.subscribed()) > 0 // on the connection before this one
	for wait := (backoff{step: 1}); ctx.Err() == nil; {
		uris, set := s.o.subs.extentWanted()
		a, err := s.reopen(ctx, s.filter(uris))
		s.o.subs.cover(set, a.granted, err)
		if isRejection(err) && len(uris) > 0 { // then at least the lists
			_, err = s.reopen(ctx, s.filter(nil))
		}
		if s.cur != nil {
			s.missed(uris)
		}
		s.rest(ctx, &wait, err)
	}
}

// rest waits for a reason to open another stream: other resources are wanted, or
// the stream has broken and the server had some time.
func (s *listener) rest(ctx context.Context, wait *backoff, err error) {
	var ended <-chan struct{}
	var retry <-chan time.Time
	switch {
	case s.cur != nil:
		ended = s.cur.done
	case err != nil && !isRejection(err):
		s.gap, s.broken = true, true
		retry = time.After(wait.next(err))
	}
	select {
	case <-ctx.Done():
		return
	case <-s.o.subs.changed:
		return
	case <-retry:
		return
	case <-ended:
	}
	s.gap, s.broken = true, true
	wait.lost(time.Since(s.cur.since))
	delay := max(wait.next(s.cur.err), time.Second)
	why := "the server ended it"
	if err := s.cur.err; err != nil {
		why = s.o.plain(err)
	}
	s.o.log.Debug("listen stream ended", "err", why, "next", delay)
	s.stop(ctx, &s.cur)
	select {
	case <-ctx.Done():
	case <-s.o.subs.changed:
	case <-time.After(delay):
	}
}

// filter is what the stream is to carry: the announcements that the server makes,
// and updates of resources. nil means nothing.
func (s *listener) filter(uris []string) []byte {
	b := []byte{'{'}
	for kind, name := range [...]string{
		catalog.Tools: "toolsListChanged", catalog.Prompts: "promptsListChanged", catalog.Resources: "resourcesListChanged",
	} {
		if s.caps.announces[kind] {
			b = append(b, `"`+name+`":true,`...)
		}
	}
	if len(uris) > 0 && s.caps.subscribe {
		b = append(b, `"resourceSubscriptions":[`...)
		for _, uri := range uris {
			b = append(wire.AppendQuote(b, uri), ',')
		}
		b = append(b[:len(b)-1], `],`...)
	}
	if len(b) == 1 {
		return nil
	}
	b[len(b)-1] = '}'
	return b
}

// reopen replaces the stream by one for the filter. Without an error and without a
// stream there is nothing to listen to.
func (s *listener) reopen(ctx context.Context, filter []byte) (ack, error) {
	_, apart := s.conn.(listenTransport)
	old := s.cur
	s.cur = nil
	if !apart || filter == nil {
		s.gap = s.gap || old != nil
		s.stop(ctx, &old)
	}
	defer func() { s.stop(ctx, &old) }()
	if filter == nil {
		return ack{}, nil
	}
	s.drainAcks()
	s.cur = s.open(ctx, filter)
	a, err := s.acknowledged(ctx, old)
	if err != nil || a.nothing {
		s.stop(ctx, &s.cur)
	}
	return a, err
}

// open sends the request. Its stream ends with ctx, by stop, or by the server.
func (s *listener) open(ctx context.Context, filter []byte) *listenStream {
	ctx, cancel := context.WithCancel(ctx)
	st := &listenStream{cancel: cancel, done: make(chan struct{}), since: time.Now()}
	params := modernParams(s.o.opts, `"notifications":`+string(filter))
	if lt, ok := s.conn.(listenTransport); ok {
		go st.follow(s.o, func() error { return lt.listen(ctx, params) })
		return st
	}
	r := &Request{ID: NextID(), Method: "subscriptions/listen", Params: params, Events: func(e Event) {
		if e.ID == nil {
			s.o.heard(Notice{Method: e.Method, Params: bytes.Clone(e.Params)})
		}
	}}
	st.id = strconv.AppendInt(nil, r.ID, 10)
	go st.follow(s.o, func() error {
		reply, err := s.conn.Call(ctx, r)
		defer reply.Release()
		if err == nil && reply.Err != nil {
			err = fault.Of(fault.Rejected, s.o.name, "refused subscriptions/listen: %w", reply.Err)
		}
		return err
	})
	return st
}

// follow is the goroutine of a stream; stop waits for it.
func (st *listenStream) follow(o *owner, f func() error) {
	defer close(st.done)
	st.err = o.guard("listening", f)
}

// acknowledged waits until the server has confirmed the stream, or has had its time.
func (s *listener) acknowledged(ctx context.Context, old *listenStream) (ack, error) {
	limit := time.NewTimer(ackWait)
	defer limit.Stop()
	for {
		select {
		case a := <-s.o.subs.acks:
			if s.cur.id == nil && (old == nil || !bytes.Equal(a.id, old.id)) {
				s.cur.id = a.id
			}
			if bytes.Equal(a.id, s.cur.id) {
				return a, nil
			}
		case <-s.cur.done:
			if err := s.cur.err; err != nil {
				return ack{}, err
			}
			return ack{nothing: true}, nil
		case <-limit.C:
			return ack{}, nil
		case <-ctx.Done():
			return ack{}, fault.Of(fault.Lost, s.o.name, "the connection was closed")
		}
	}
}

// stop ends a stream and waits for its goroutine. On a shared channel the server is
// asked first and given time to answer, so that nothing of the old request is left
// when a new one arrives.
func (s *listener) stop(ctx context.Context, at **listenStream) {
	st := *at
	if st == nil {
		return
	}
	*at = nil
	if _, apart := s.conn.(listenTransport); !apart && ctx.Err() == nil && !isClosed(st.done) {
		params := append(append([]byte(`{"requestId":`), st.id...), '}')
		_ = s.conn.Notify(ctx, "notifications/cancelled", wire.Value{Raw: params}) // if it does not arrive the connection is lost anyway
		select {
		case <-st.done:
		case <-ctx.Done():
		case <-time.After(endWait):
		}
	}
	st.cancel()
	<-st.done
}

// missed makes up for what may have happened while there was no stream.
func (s *listener) missed(uris []string) {
	if s.gap {
		s.o.announce(s.caps.announced())
	}
	for _, uri := range uris {
		if s.broken {
			s.o.updated(uri)
		}
	}
	s.gap, s.broken = false, false
}

func (s *listener) drainAcks() {
	for {
		select {
		case <-s.o.subs.acks:
		default:
			return
		}
	}
}

// acknowledged hands the acknowledgement of a stream to the listener. It runs on a
// reader; when nobody takes them, further ones are dropped.
func (s *subscriptions) acknowledged(params []byte) {
	all := wire.Span{Hi: len(params)}
	a := ack{id: wire.Field(params, wire.Field(params, all, "_meta"), wire.MetaSubscriptionID).Of(params)}
	if n := wire.Field(params, all, "notifications"); n.OK() {
		a.nothing = true
		for m := range wire.Members(params, n) {
			switch v := m.Val.Of(params); {
			case string(v) == "true":
				a.nothing = false
			case v[0] == '[':
				a.granted = stringsOf(params, m.Val)
				a.nothing = a.nothing && len(a.granted) == 0
			}
		}
		if a.granted == nil {
			a.granted = []string{}
		}
	}
	select {
	case s.acks <- a:
	default:
	}
}
