package downstream

import (
	"bytes"
	"slices"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/wire"
)

// requestMeta is what the _meta of a message says about the protocol
// (specification 2026-07-28, basic: Per-request protocol fields).
type requestMeta struct {
	version string // "" if absent
	level   string // "" if absent
	caps    []byte // raw, nil if absent
}

// readMeta reads the protocol fields of a message's _meta. They decide how the
// message is understood: twice the same one is refused.
func readMeta(body *wire.Object) (requestMeta, *wire.RPCError) {
	var m requestMeta
	at := body.Field("_meta")
	if !at.OK() {
		return m, nil
	}
	raw, seen := body.Raw, 0
	for mem := range wire.Members(raw, at) {
		bit, ok := 0, true
		switch val := mem.Val.Of(raw); string(plainKey(mem.Key.Of(raw))) {
		case wire.MetaVersion:
			bit = 1
			m.version, ok = versionString(val)
		case wire.MetaClientCaps:
			bit, ok = 2, val[0] == '{'
			m.caps = val
		case wire.MetaLogLevel:
			bit = 4
			m.level, ok = wire.Unquote(val)
			ok = ok && slices.Contains(bridge.Levels, m.level)
		case wire.MetaClientInfo:
			bit, ok = 8, val[0] == '{'
		}
		if !ok || seen&bit != 0 {
			return m, invalidParams("Invalid params: a protocol field of _meta is malformed or comes twice")
		}
		seen |= bit
	}
	return m, nil
}

// versionString reads a version; the usual ones cost no allocation.
func versionString(raw []byte) (string, bool) {
	if string(raw) == `"`+wire.V20260728+`"` {
		return wire.V20260728, true
	}
	v, ok := wire.Unquote(raw)
	return v, ok && v != ""
}

// plainKey returns the text of a key.
func plainKey(key []byte) []byte {
	inner := key[1 : len(key)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	s, _ := wire.Unquote(key)
	return []byte(s)
}

// check says what a modern request lacks.
func (m *requestMeta) check() *wire.RPCError {
	switch {
	case m.version == "":
		return invalidParams("Invalid params: _meta lacks " + wire.MetaVersion)
	case m.caps == nil:
		return invalidParams("Invalid params: _meta lacks " + wire.MetaClientCaps)
	}
	return nil
}
