package bridge

import (
	"net/http"

	"mcp-aggregator/internal/wire"
)

// ParamHeader makes the Mcp-Param-* header of one annotated parameter: the value at
// path in the arguments, left out when absent or null.
func ParamHeader(h http.Header, name string, path []string, arguments []byte) {
	at := wire.Span{Lo: 0, Hi: len(arguments)}
	for _, key := range path {
		if at = wire.Field(arguments, at, key); !at.OK() {
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
