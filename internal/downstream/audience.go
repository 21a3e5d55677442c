package downstream

import (
	"maps"
	"slices"
	"sync"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/wire"
)

const methodUpdated = "notifications/resources/updated"

// A hearer is told of changes that belong to no call: a legacy session or a modern
// subscription. Its methods do not block.
type hearer interface {
	changed(catalog.Changes)
	updated(uri string, params []byte)
}

// audience is everybody who wants to hear of changes. The zero value is empty.
type audience struct {
	mu    sync.Mutex
	all   map[hearer]struct{}
	byURI map[string]map[hearer]struct{} // resource → who wants its updates
}

func (a *audience) join(h hearer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[hearer]struct{}{}
	}
	a.all[h] = struct{}{}
}

// leave forgets a hearer and the resources it follows.
func (a *audience) leave(h hearer, uris []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all, h)
	for _, uri := range uris {
		a.unfollowLocked(h, uri)
	}
}

// follow asks for the updates of a resource.
func (a *audience) follow(h hearer, uri string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byURI == nil {
		a.byURI = map[string]map[hearer]struct{}{}
	}
	if a.byURI[uri] == nil {
		a.byURI[uri] = map[hearer]struct{}{}
	}
	a.byURI[uri][h] = struct{}{}
}

func (a *audience) unfollow(h hearer, uri string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unfollowLocked(h, uri)
}

func (a *audience) unfollowLocked(h hearer, uri string) {
	delete(a.byURI[uri], h)
	if len(a.byURI[uri]) == 0 {
		delete(a.byURI, uri)
	}
}

func (a *audience) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.all)
}

func (a *audience) everybody() []hearer {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.all))
}

func (a *audience) followers(uri string) []hearer {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.byURI[uri]))
}

// Publish tells all clients which lists have changed. The generation with the new
// lists must have been published before.
func (s *Server) Publish(c catalog.Changes) {
	if !c.Any() {
		return
	}
	for _, h := range s.audience.everybody() {
		h.changed(c)
	}
}

// Updated tells the clients that subscribed to a resource that it has changed;
// params are those of the notification, with the URI as clients know it.
func (s *Server) Updated(uri string, params []byte) {
	for _, h := range s.audience.followers(uri) {
		h.updated(uri, params)
	}
}

// stamp puts the id of a subscription, raw, into the _meta of a notification's
// params; a nil id takes out whatever an upstream has put there.
func stamp(params, id []byte) wire.Value {
	v := wire.Value{Raw: params}
	whole := wire.Span{Lo: 0, Hi: len(params)}
	meta := wire.Field(params, whole, "_meta")
	at := wire.Field(params, meta, wire.MetaSubscriptionID)
	switch {
	case id == nil && !at.OK():
		return v
	case id == nil:
		return v.With(wire.Without(wire.Members(params, meta), func(m wire.Member) bool { return m.Val == at })...)
	case at.OK():
		return v.With(wire.Edit{Span: at, With: id})
	case len(params) == 0:
		return wire.Value{Raw: append(append([]byte(`{"_meta":{"`+wire.MetaSubscriptionID+`":`), id...), `}}`...)}
	case meta.OK():
		return v.With(insertFirst(params, meta, `"`+wire.MetaSubscriptionID+`":`, id, ""))
	}
	return v.With(insertFirst(params, whole, `"_meta":{"`+wire.MetaSubscriptionID+`":`, id, "}"))
}

// insertFirst is the edit that puts a member, given in three parts, at the head of
// the object at span.
func insertFirst(raw []byte, object wire.Span, head string, value []byte, tail string) wire.Edit {
	b := append(append([]byte(head), value...), tail...)
	for range wire.Members(raw, object) {
		b = append(b, ',')
		break
	}
	at := object.Lo + 1
	return wire.Edit{Span: wire.Span{Lo: at, Hi: at}, With: b}
}
