package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// An Edit replaces the bytes of a span: Lo == Hi inserts, an empty With deletes.
type Edit struct {
	Span
	With []byte
}

// A Value is JSON text with pending edits. Edits are sorted, do not overlap and
// are given in the coordinates of Raw. Raw is never modified: a Value can be
// shared, and another set of edits makes another value of the same bytes.
type Value struct {
	Raw   []byte
	Edits []Edit
}

// IsZero reports whether there is no text at all.
func (v Value) IsZero() bool { return len(v.Raw) == 0 && len(v.Edits) == 0 }

// Len returns the length of the text with the edits applied.
func (v Value) Len() int {
	n := len(v.Raw)
	for _, e := range v.Edits {
		n += len(e.With) - (e.Hi - e.Lo)
	}
	return n
}

// Append appends the text with the edits applied.
func (v Value) Append(dst []byte) []byte {
	at := 0
	for _, e := range v.Edits {
		dst = append(dst, v.Raw[at:e.Lo]...)
		dst = append(dst, e.With...)
		at = e.Hi
	}
	return append(dst, v.Raw[at:]...)
}

// Bytes returns the text with the edits applied; without edits that is Raw itself.
func (v Value) Bytes() []byte {
	if len(v.Edits) == 0 {
		return v.Raw
	}
	return v.Append(make([]byte, 0, v.Len()))
}

// With returns the value with more edits, put where they belong. The receiver's
// edits are not changed.
func (v Value) With(edits ...Edit) Value {
	all := slices.Concat(v.Edits, edits)
	slices.SortStableFunc(all, func(a, b Edit) int { return a.Lo - b.Lo })
	return Value{v.Raw, all}
}

// Unquote decodes a JSON string literal.
func Unquote(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", false
	}
	inner := raw[1 : len(raw)-1]
	plain := true
	for _, c := range inner {
		if c == '\\' || c == '"' || c < 0x20 || c >= utf8.RuneSelf {
			plain = false
			break
		}
	}
	if plain {
		return string(inner), true
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

// AppendText appends what a JSON string literal means. The literal must have been
// validated. It is Unquote for long texts: nothing is copied twice.
func AppendText(dst, literal []byte) []byte {
	if len(literal) < 2 || !utf8.Valid(literal) {
		s, _ := Unquote(literal)
		return append(dst, s...)
	}
	for rest := literal[1 : len(literal)-1]; ; {
		i := bytes.IndexByte(rest, '\\')
		if i < 0 || i+1 >= len(rest) {
			return append(dst, rest...)
		}
		dst = append(dst, rest[:i]...)
		var n int
		dst, n = appendEscape(dst, rest[i:])
		rest = rest[i+n:]
	}
}

// simple says what escapes of one letter stand for.
var simple = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// appendEscape appends what the escape at the beginning of b stands for, and returns its
// length. A lone half of a surrogate pair stands for U+FFFD, as in encoding/json.
func appendEscape(dst, b []byte) ([]byte, int) {
	if b[1] != 'u' {
		return append(dst, simple[b[1]]), 2
	}
	r := unicodeEscape(b)
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(dst, r), 6
	}
	if len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
		if both := utf16.DecodeRune(r, unicodeEscape(b[6:])); both != utf8.RuneError {
			return utf8.AppendRune(dst, both), 12
		}
	}
	return utf8.AppendRune(dst, utf8.RuneError), 6
}

// unicodeEscape reads the four digits of \uXXXX.
func unicodeEscape(b []byte) (r rune) {
	if len(b) < 6 {
		return utf8.RuneError
	}
	for _, c := range b[2:6] {
		switch {
		case c >= 'a':
			c -= 'a' - 10
		case c >= 'A':
			c -= 'A' - 10
		default:
			c -= '0'
		}
		r = r<<4 | rune(c&15)
	}
	return r
}

const hexDigits = "0123456789abcdef"

// AppendQuote appends s as a JSON string literal. Only what JSON demands is
// escaped; invalid UTF-8 becomes U+FFFD.
func AppendQuote(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
