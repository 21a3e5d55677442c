package catalog

import (
	"strings"

	"mcp-aggregator/internal/wire"
)

// maxHeaders bounds the headers one tool can add to its calls.
const maxHeaders = 32

// header checks one x-mcp-header annotation (specification 2026-07-28, tools:
// x-mcp-header). Clients must not use a tool that breaks these rules, so neither do
// we offer it to them.
func (k *schemaCheck) header(value, typ wire.Span, reachable bool) {
	name, ok := wire.Unquote(value.Of(k.raw))
	switch {
	case !reachable || len(k.path) == 0:
		k.fail("has an x-mcp-header, but not only properties lead to it")
	case !ok || !isToken(name):
		k.fail("has an x-mcp-header that is no header name")
	case !typ.OK():
		k.fail("has an x-mcp-header but no type")
	default:
		switch string(typ.Of(k.raw)) {
		case `"string"`, `"integer"`, `"boolean"`:
		default:
			k.fail("has an x-mcp-header, but its type is not string, integer or boolean")
		}
	}
	if len(k.headers) == maxHeaders {
		k.fail("is one x-mcp-header too many, limit %d", maxHeaders)
	}
	for _, h := range k.headers {
		if strings.EqualFold(h.Name, name) {
			k.fail("has the x-mcp-header of another property")
		}
	}
	if k.err != "" {
		return
	}
	h := ParamHeader{Name: name}
	for i := 1; i < len(k.path); i += 2 { // "properties", key, "properties", key, ...
		key, _ := wire.Unquote(k.path[i].Of(k.raw))
		h.Path = append(h.Path, key)
	}
	k.headers = append(k.headers, h)
}

// isToken reports a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}
