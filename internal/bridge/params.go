package bridge

import (
	"strconv"

	"mcp-aggregator/internal/wire"
)

// A Hop describes one call as the bridge must see it.
type Hop struct {
	Client, Upstream wire.Era
	ID               int64  // the call's id at the upstream, also its progress token there
	LogLevel         string // what the client wants to hear; sent on to modern upstreams
	Caps             []byte // raw capabilities of a legacy client that can be asked; nil: it cannot
}

// Identity is how we introduce ourselves to peers. Make it with NewIdentity.
type Identity struct {
	info []byte // raw Implementation object
}

// NewIdentity prepares the Implementation object {"name", "version"} that modern
// requests and results carry.
func NewIdentity(name, version string) Identity {
	b := wire.AppendQuote([]byte(`{"name":`), name)
	b = wire.AppendQuote(append(b, `,"version":`...), version)
	return Identity{append(b, '}')}
}

// Info returns the raw Implementation object.
func (id Identity) Info() []byte { return id.info }

// Meta is what the _meta of a client's params said to this hop.
type Meta struct {
	Span          wire.Span // the _meta object in the params, zero if absent
	ProgressToken []byte    // raw, nil if absent
	Capabilities  []byte    // raw, modern clients only
}

// ReadMeta looks at the _meta member of params.
func ReadMeta(params *wire.Object) Meta {
	m := Meta{Span: params.Field("_meta")}
	if !m.Span.OK() {
		return m
	}
	for mem := range wire.Members(params.Raw, m.Span) {
		switch key := mem.Key.Of(params.Raw); {
		case wire.KeyIs(key, "progressToken"):
			m.ProgressToken = mem.Val.Of(params.Raw)
		case wire.KeyIs(key, wire.MetaClientCaps):
			m.Capabilities = mem.Val.Of(params.Raw)
		}
	}
	return m
}

// reserved reports whether a raw _meta key belongs to one hop only.
func reserved(key []byte) bool {
	for _, name := range [...]string{wire.MetaVersion, wire.MetaClientInfo, wire.MetaClientCaps, wire.MetaLogLevel, wire.MetaServerInfo, wire.MetaSubscriptionID} {
		if wire.KeyIs(key, name) {
			return true
		}
	}
	return false
}

// ParamEdits returns the edits that make the client's params fit for the upstream:
// its reserved _meta keys go, ours come where the upstream is modern, and the
// progress token becomes the call's id. Empty params (Raw nil) become an object
// when something must be said; then the returned value is the whole text.
func (id Identity) ParamEdits(hop Hop, params *wire.Object, meta Meta) wire.Value {
	v := wire.Value{Raw: params.Raw}
	if !meta.Span.OK() {
		if hop.Upstream == wire.Legacy {
			return v
		}
		return id.insertMeta(hop, v, meta)
	}
	if hop.Upstream == wire.Legacy && hop.Client == wire.Legacy && !hasReserved(params.Raw, meta.Span) {
		if meta.ProgressToken == nil {
			return v
		}
		return v.With(tokenEdits(hop, params.Raw, meta.Span)...)
	}
	fresh := id.meta(hop, params.Raw, meta)
	if string(fresh) == "{}" {
		return v.With(wire.Without(params.Members(), func(m wire.Member) bool { return m.Val == meta.Span })...)
	}
	return v.With(wire.Edit{Span: meta.Span, With: fresh})
}

func hasReserved(raw []byte, meta wire.Span) bool {
	for m := range wire.Members(raw, meta) {
		if reserved(m.Key.Of(raw)) {
			return true
		}
	}
	return false
}

// tokenEdits replaces the value of every progressToken: with one left as it was, a
// client could name another client's call and have progress delivered to it.
func tokenEdits(hop Hop, raw []byte, meta wire.Span) []wire.Edit {
	var edits []wire.Edit
	for m := range wire.Members(raw, meta) {
		if wire.KeyIs(m.Key.Of(raw), "progressToken") {
			edits = append(edits, wire.Edit{Span: m.Val, With: strconv.AppendInt(nil, hop.ID, 10)})
		}
	}
	return edits
}

// meta composes the _meta object for the upstream.
func (id Identity) meta(hop Hop, raw []byte, meta Meta) []byte {
	b := append(make([]byte, 0, 256+meta.Span.Hi-meta.Span.Lo), '{')
	if hop.Upstream == wire.Modern {
		b = id.appendOurs(b, hop, meta)
	}
	for m := range wire.Members(raw, meta.Span) {
		key := m.Key.Of(raw)
		if reserved(key) {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(b, key...), ':')
		if wire.KeyIs(key, "progressToken") {
			b = strconv.AppendInt(b, hop.ID, 10)
		} else {
			b = append(b, m.Val.Of(raw)...)
		}
	}
	return append(b, '}')
}

// appendOurs appends the members that every modern request must have
// (specification 2026-07-28, basic: Per-request protocol fields). Client
// capabilities are the client's own where it can be asked, which is always so when it
// is modern too, and none otherwise.
func (id Identity) appendOurs(b []byte, hop Hop, meta Meta) []byte {
	b = append(b, `"`+wire.MetaVersion+`":"`+wire.V20260728+`","`+wire.MetaClientInfo+`":`...)
	b = append(b, id.info...)
	b = append(b, `,"`+wire.MetaClientCaps+`":`...)
	switch {
	case hop.Client == wire.Modern && meta.Capabilities != nil:
		b = append(b, meta.Capabilities...)
	case hop.Client == wire.Legacy && hop.Caps != nil:
		b = append(b, hop.Caps...)
	default:
		b = append(b, `{}`...)
	}
	level := hop.LogLevel
	if level == "" && hop.Client == wire.Legacy {
		level = "info" // a legacy client that never set a level leaves it to the server; here we are that
	}
	if level != "" {
		b = append(b, `,"`+wire.MetaLogLevel+`":`...)
		b = wire.AppendQuote(b, level)
	}
	return b
}

// insertMeta adds a _meta member to params that have none.
func (id Identity) insertMeta(hop Hop, v wire.Value, meta Meta) wire.Value {
	b := id.appendOurs([]byte(`"_meta":{`), hop, meta)
	b = append(b, '}')
	return insertFirst(v, b)
}

// insertFirst puts a member at the head of an object; absent text becomes one.
func insertFirst(v wire.Value, member []byte) wire.Value {
	if len(v.Raw) == 0 {
		return wire.Value{Raw: append(append([]byte{'{'}, member...), '}')}
	}
	for range wire.Members(v.Raw, wire.Span{Lo: 0, Hi: len(v.Raw)}) {
		member = append(member, ',')
		break
	}
	return v.With(wire.Edit{Span: wire.Span{Lo: 1, Hi: 1}, With: member})
}
