package bridge

import (
	"mcp-aggregator/internal/wire"
)

// ResultEdits makes an upstream's result fit for the client. The fields that the
// modern era demands of every result are added for a modern client where they are
// missing, and taken off for a legacy one; the upstream's serverInfo is replaced by
// ours or goes.
func (id Identity) ResultEdits(method string, client, upstream wire.Era, result *wire.Object) wire.Value {
	v := wire.Value{Raw: result.Raw}
	switch {
	case len(result.Raw) == 0 || result.Raw[0] != '{':
		return v
	case client == wire.Modern:
		return id.modernResult(method, v, result)
	case upstream == wire.Modern:
		return legacyResult(v, result)
	}
	return v
}

// StillAsks reports whether a legacy result asks for input as a modern one does. Servers
// of libraries that know both eras give such where they have no request left to send. It
// holds nothing of what a legacy result is for.
func StillAsks(result *wire.Object) bool {
	at := result.Field("inputRequests")
	if !at.OK() || result.Raw[at.Lo] != '{' {
		return false
	}
	for _, member := range [...]string{"resultType", "content", "messages", "contents"} {
		switch string(result.Field(member).Of(result.Raw)) {
		case "", "[]", "null":
		default:
			return false
		}
	}
	return true
}

// modernResult adds what is missing (specification 2026-07-28, basic: ResultType;
// server/utilities/caching).
func (id Identity) modernResult(method string, v wire.Value, result *wire.Object) wire.Value {
	var kind, ttl, scope bool
	for m := range result.Members() {
		switch string(m.Key.Of(result.Raw)) {
		case `"resultType"`:
			kind = true
		case `"ttlMs"`:
			ttl = true
		case `"cacheScope"`:
			scope = true
		case `"_meta"`:
			if info := serverInfo(result.Raw, m.Val); info.OK() {
				v = v.With(wire.Edit{Span: info, With: id.info})
			}
		}
	}
	var head []byte
	if !kind && StillAsks(result) {
		head = append(head, `"resultType":"input_required"`...)
	} else if !kind {
		head = append(head, `"resultType":"complete"`...)
	}
	if method == "resources/read" && !InputRequired(result) {
		if !ttl {
			head = append(comma(head), `"ttlMs":0`...)
		}
		if !scope {
			head = append(comma(head), `"cacheScope":"private"`...)
		}
	}
	if len(head) == 0 {
		return v
	}
	return insertFirst(v, head)
}

func comma(b []byte) []byte {
	if len(b) > 0 {
		b = append(b, ',')
	}
	return b
}

// legacyResult takes off what only the modern era knows.
func legacyResult(v wire.Value, result *wire.Object) wire.Value {
	var inner []wire.Edit
	cuts := wire.Without(result.Members(), func(m wire.Member) bool {
		switch string(m.Key.Of(result.Raw)) {
		case `"resultType"`, `"ttlMs"`, `"cacheScope"`:
			return true
		case `"_meta"`:
			info := serverInfo(result.Raw, m.Val)
			if !info.OK() {
				return false
			}
			others := 0
			inner = wire.Without(wire.Members(result.Raw, m.Val), func(mm wire.Member) bool {
				if mm.Val != info {
					others++
				}
				return mm.Val == info
			})
			if others == 0 {
				inner = nil
			}
			return others == 0
		}
		return false
	})
	return v.With(cuts...).With(inner...)
}

// serverInfo finds the identity a modern server puts into the _meta of its results.
func serverInfo(raw []byte, meta wire.Span) wire.Span {
	return wire.Field(raw, meta, wire.MetaServerInfo)
}

// InputRequired reports whether a modern result asks the client for input instead
// of answering (specification 2026-07-28, basic/patterns/mrtr).
func InputRequired(result *wire.Object) bool {
	t := result.Field("resultType")
	return t.OK() && string(t.Of(result.Raw)) == `"input_required"`
}
