package downstream

import (
	"bytes"
	"encoding/base64"
	"math"
	"net/http"
	"strconv"
	"strings"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/wire"
)

// named says which member of params a method's Mcp-Name header repeats.
func named(method string) string {
	switch method {
	case "tools/call", "prompts/get":
		return "name"
	case "resources/read":
		return "uri"
	case "tasks/get", "tasks/update", "tasks/cancel":
		return "taskId"
	}
	return ""
}

// checkHeaders checks that the headers of a modern request say what its body says,
// so that nobody on the way, deciding by headers, sees another request than we do
// (specification 2026-07-28, streamable-http: Server Validation).
func checkHeaders(h http.Header, m *wire.Message, snapshot *catalog.Snapshot) *wire.RPCError {
	switch method := one(h, headerMethod); method {
	case "":
		return mismatch("the Mcp-Method header is missing")
	case m.Method:
	default:
		return mismatch("the Mcp-Method header does not match the method")
	}
	member := named(m.Method)
	if member == "" {
		return nil
	}
	header := one(h, headerName)
	if header == "" {
		return mismatch("the Mcp-Name header is missing")
	}
	// Should the member come twice, the call is refused later on.
	raw := m.Body.Field(member).Of(m.Body.Raw)
	if len(raw) == 0 || raw[0] != '"' {
		return invalidParams("Invalid params: " + member + " must be a string")
	}
	// A name that should have been encoded but equals the body's to the byte is
	// accepted: clients of the official Go library send such.
	name, ok := decodeHeader(header)
	if !ok || !spells(raw, name) {
		return mismatch("the Mcp-Name header does not match params." + member)
	}
	if m.Method == "tools/call" {
		if entry, ok := snapshot.Tool(name); ok && len(entry.Headers) > 0 {
			return checkParamHeaders(h, &m.Body, entry.Headers)
		}
	}
	return nil
}

// spells reports whether a JSON string, raw, means s.
func spells(raw []byte, s string) bool {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1:len(raw)-1]) == s
	}
	text, ok := wire.Unquote(raw)
	return ok && text == s
}

const (
	sentinelOpen  = "=?base64?"
	sentinelClose = "?="
)

// decodeHeader undoes the encoding of a header value; false for Base64 that is none.
func decodeHeader(v string) (string, bool) {
	inner, ok := strings.CutPrefix(v, sentinelOpen)
	if !ok {
		return v, true
	}
	if inner, ok = strings.CutSuffix(inner, sentinelClose); !ok {
		return v, true
	}
	b, err := base64.StdEncoding.Strict().DecodeString(inner)
	return string(b), err == nil
}

// checkParamHeaders checks the Mcp-Param headers that the schema of a tool asks for.
func checkParamHeaders(h http.Header, body *wire.Object, wanted []catalog.ParamHeader) *wire.RPCError {
	arguments := body.Field("arguments")
	for _, p := range wanted {
		at := arguments
		for _, key := range p.Path {
			spans, err := wire.Fields(body.Raw, at, key)
			if err != nil {
				return mismatch("an argument that a header repeats is ambiguous")
			}
			at = spans[0]
		}
		key := http.CanonicalHeaderKey(headerParam + p.Name)
		if reason := compareParam(one(h, key), len(h[key]) > 0, at.Of(body.Raw)); reason != "" {
			return mismatch("the Mcp-Param-" + p.Name + " header " + reason)
		}
	}
	return nil
}

// compareParam says how a header contradicts the argument it repeats, "" if it does
// not. The argument is raw, empty if absent.
func compareParam(header string, present bool, raw []byte) string {
	if len(raw) == 0 || raw[0] == 'n' {
		if header != "" {
			return "stands for an argument that is not there"
		}
		return ""
	}
	if !present {
		return "is missing"
	}
	for i := range len(header) {
		if c := header[i]; (c < ' ' && c != '\t') || c > '~' {
			return "has invalid characters"
		}
	}
	value, ok := decodeHeader(header)
	if !ok {
		return "is not valid Base64"
	}
	switch raw[0] {
	case '"':
		ok = spells(raw, value)
	case 't', 'f':
		ok = string(raw) == value
	case '{', '[':
		ok = false
	default:
		ok = sameNumber(string(raw), value)
	}
	if !ok {
		return "does not match the argument"
	}
	return ""
}

// sameNumber compares as numbers what both sides can represent exactly, and as text
// what is beyond that.
func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	if strings.Trim(b, "0123456789+-.eE") != "" {
		return false // strconv knows more notations than JSON
	}
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && x == y && math.Abs(x) < 1<<53
}
