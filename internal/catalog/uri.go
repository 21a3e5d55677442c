package catalog

import (
	"net/url"
	"strings"
)

// A resource keeps its URI when no other server has the same one. The others are
// exposed under a server-qualified URI, which is accepted for every resource of every
// server, listed or not:
//
//	mcp+server:<server>:<the URI as the server knows it>
//
// The server's name is percent-encoded where it has a character that is not
// unreserved (RFC 3986, section 2.3). The rest is the original byte for byte, so that
// a qualified URI template expands to the qualified URIs of its resources. Scheme and
// name are not put together as mcp+<server>:, because software that normalises URIs
// writes schemes in lower case.
const qualifiedScheme = "mcp+server:"

// Qualify returns the server-qualified form of a URI or URI template.
func Qualify(server, uri string) string {
	return qualifiedScheme + escapeServer(server) + ":" + uri
}

// Restore takes a qualified URI apart. It is the inverse of Qualify and false for
// everything that Qualify cannot have made.
func Restore(qualified string) (server, uri string, ok bool) {
	rest, ok := strings.CutPrefix(qualified, qualifiedScheme)
	if !ok {
		return "", "", false
	}
	escaped, uri, ok := strings.Cut(rest, ":")
	if !ok {
		return "", "", false
	}
	server, err := url.PathUnescape(escaped)
	if err != nil || escapeServer(server) != escaped {
		return "", "", false
	}
	return server, uri, true
}

func escapeServer(name string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~", c) >= 0:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}
