package wire_test

import (
	"testing"

	"mcp-aggregator/internal/wire"
)

// The examples of the specification 2026-07-28, streamable-http: Value Encoding.
func TestEncodeHeader(t *testing.T) {
	for _, c := range []struct{ value, want string }{
		{"us-west1", "us-west1"},
		{"", ""},
		{"file:///a b\tc", "file:///a b\tc"},
		{"Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="},
		{" padded ", "=?base64?IHBhZGRlZCA=?="},
		{"\tx", "=?base64?CXg=?="},
		{"line1\nline2", "=?base64?bGluZTEKbGluZTI=?="},
		{"=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="},
		{"=?base64?open", "=?base64?open"},
		{"del\x7f", "=?base64?ZGVsfw==?="},
	} {
		if got := wire.EncodeHeader(c.value); got != c.want {
			t.Errorf("%q: got %q, want %q", c.value, got, c.want)
		}
	}
}
