package bridge

import (
	"net/http"

	"mcp-aggregator/internal/wire"
)

// ParamHeader makes the Mcp-Param-* header of one annotated parameter: the value at
// path in the arguments, left out when absent or null. It is also left out when a key
// of the path comes twice: a gateway that decides by the header and a server that
// reads the other value would see different calls. The server refuses for want of it.
func ParamHeader(h http.Header, name string, path []string, arguments []byte) {
	at := wire.Span{Lo: 0, Hi: len(arguments)}
	for _, key := range path {
		if at = onlyField(arguments, at, key); !at.OK() {
			return
		}
	}
	raw := at.Of(arguments)
	switch raw[0] {
	case 'n', '{', '[':
		return
	case '"':
		s, ok := wire.Unquote(raw)
		if !ok {
			return
		}
		h.Set("Mcp-Param-"+name, wire.EncodeHeader(s))
	default:
		h.Set("Mcp-Param-"+name, string(raw))
	}
}

// onlyField returns the member of that name if there is exactly one. Arguments that
// differ in case only are different ones.
func onlyField(raw []byte, object wire.Span, name string) (val wire.Span) {
	for m := range wire.Members(raw, object) {
		if !wire.KeyIs(m.Key.Of(raw), name) {
			continue
		}
		if val.OK() {
			return wire.Span{}
		}
		val = m.Val
	}
	return val
}
