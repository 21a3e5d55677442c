package downstream

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/wire"
)

// How long the acknowledgement of a subscription waits for the servers whose
// resources it is about, and how many of them are asked at the same time.
const (
	subscribeWait   = 5 * time.Second
	subscribeAtOnce = 8
)

// A subscription is one subscriptions/listen request of a modern client
// (specification 2026-07-28, basic/patterns/subscriptions).
type subscription struct {
	id     []byte // of the request, raw; in the _meta of every message
	filter catalog.Changes
	uris   []string
	notify func(msg []byte)

	mu sync.Mutex // held until the acknowledgement is out: nothing may come before it
}

var lastListen atomic.Int64

// listen serves one subscription until its client cancels it or we stop.
func (s *Server) listen(ctx context.Context, q *request) router.Reply {
	s.router.Ready(ctx)
	sub := &subscription{id: q.id(), notify: q.notify}
	wanted, rpc := sub.read(q, s.router.Generation().Catalog)
	if rpc != nil {
		return router.Reply{Err: rpc}
	}
	if most := 2 * s.cfg.HTTP.MaxSessions; s.audience.count() >= most {
		return router.Reply{Err: rpcError(fault.Of(fault.Overloaded, "", "%d clients are listening", most))}
	}
	key := "listen-" + strconv.FormatInt(lastListen.Add(1), 10)
	defer s.router.Unsubscribe(key, "")
	sub.uris = s.subscribeAll(ctx, key, wanted)
	s.acknowledge(sub)
	defer s.audience.leave(sub, sub.uris)

	select {
	case <-ctx.Done():
		return failed(ctx)
	case <-s.closing:
	}
	b := append([]byte(`{"resultType":"complete","_meta":{"`+wire.MetaSubscriptionID+`":`), sub.id...)
	return router.Reply{Result: wire.Value{Raw: append(b, `}}`...)}}
}

// acknowledge tells the client what it will hear of, and lets it hear from then on.
func (s *Server) acknowledge(sub *subscription) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	s.audience.join(sub)
	for _, uri := range sub.uris {
		s.audience.follow(sub, uri)
	}
	sub.notify(wire.AppendNotification(nil, "notifications/subscriptions/acknowledged", sub.acknowledgement()))
}

// read takes the filter from the params and returns the resources it names. Changes
// of lists that we do not have are left out.
func (sub *subscription) read(q *request, snapshot *catalog.Snapshot) ([]string, *wire.RPCError) {
	raw := q.msg.Body.Raw
	at := q.msg.Body.Field("notifications")
	if !at.OK() || raw[at.Lo] != '{' {
		return nil, invalidParams("invalid params: notifications must be an object")
	}
	for _, l := range listChanges {
		spans, err := wire.Fields(raw, at, l.filter)
		if err != nil {
			return nil, invalidParams("invalid params: " + err.Error())
		}
		switch string(spans[0].Of(raw)) {
		case "true":
			*l.of(&sub.filter) = declared(snapshot, l.kind)
		case "", "false", "null":
		default:
			return nil, invalidParams("invalid params: " + l.filter + " must be a boolean")
		}
	}
	// No news of tasks is promised: clients poll (ext-tasks: Task Status Notifications).
	if wire.Field(raw, at, "taskIds").OK() && !bridge.KnowsTasks(q.caps) {
		return nil, bridge.NoTasks()
	}
	var uris []string
	for e := range wire.Elements(raw, wire.Field(raw, at, "resourceSubscriptions")) {
		uri, ok := wire.Unquote(e.Of(raw))
		if !ok || len(uri) > maxURI {
			return nil, invalidParams("invalid params: resourceSubscriptions must be strings of reasonable length")
		}
		if uris = append(uris, uri); len(uris) > maxSubscriptions {
			return nil, invalidParams("invalid params: too many resourceSubscriptions")
		}
	}
	return uris, nil
}

// subscribeAll asks the upstreams for updates and returns the resources that will
// have them, in the order asked for. Those of a server that does not answer in time
// are left out.
func (s *Server) subscribeAll(ctx context.Context, key string, uris []string) []string {
	ctx, cancel := context.WithTimeout(ctx, subscribeWait)
	defer cancel()
	got := make([]bool, len(uris))
	slots := make(chan struct{}, subscribeAtOnce)
	var asking sync.WaitGroup
	for i, uri := range uris {
		slots <- struct{}{}
		asking.Go(func() {
			got[i] = s.router.Subscribe(ctx, key, uri) == nil
			<-slots
		})
	}
	asking.Wait()
	var honoured []string
	for i, uri := range uris {
		if got[i] {
			honoured = append(honoured, uri)
		}
	}
	return honoured
}

// acknowledgement is the params of the first notification: what will be sent.
func (sub *subscription) acknowledgement() wire.Value {
	b := append([]byte(`{"_meta":{"`+wire.MetaSubscriptionID+`":`), sub.id...)
	b = append(b, `},"notifications":{`...)
	sep := ""
	for _, l := range listChanges {
		if *l.of(&sub.filter) {
			b = append(b, sep+`"`+l.filter+`":true`...)
			sep = ","
		}
	}
	if len(sub.uris) > 0 {
		b = append(b, sep+`"resourceSubscriptions":`...)
		for i, uri := range sub.uris {
			b = append(b, "[,"[min(i, 1)])
			b = wire.AppendQuote(b, uri)
		}
		b = append(b, ']')
	}
	return wire.Value{Raw: append(b, `}}`...)}
}

func (sub *subscription) changed(c catalog.Changes) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	for _, l := range listChanges {
		if *l.of(&c) && *l.of(&sub.filter) {
			sub.notify(wire.AppendNotification(nil, l.method, stamp(nil, sub.id)))
		}
	}
}

func (sub *subscription) updated(_ string, params []byte) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.notify(wire.AppendNotification(nil, methodUpdated, stamp(params, sub.id)))
}
