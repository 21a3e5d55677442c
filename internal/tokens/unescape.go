package tokens

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// unescaper turns the inside of JSON strings into the text it stands for, a
// piece at a time in a buffer of fixed size, so that estimating allocates
// nothing however large the value is.
type unescaper struct {
	buf     [8 << 10]byte
	filled  int
	carried int // bytes at the start of buf that belong to the next piece
}

// seam is how far back from the end of a full buffer a good place to cut is looked for.
const seam = 512

// next unescapes as much of raw as fits and returns it with what is left of raw.
// The piece is cut where the estimate does not notice, mostly behind a newline.
// It is good until carry is called, which must be called before the next next.
func (u *unescaper) next(raw []byte) (piece, rest []byte) {
	u.filled = u.carried
	for len(raw) > 0 && len(u.buf)-u.filled >= utf8.UTFMax {
		if raw[0] == '\\' {
			if len(raw) > 1 && short[raw[1]] != 0 {
				u.buf[u.filled] = short[raw[1]]
				u.filled++
				raw = raw[2:]
				continue
			}
			r, n := unescape(raw)
			u.filled += utf8.EncodeRune(u.buf[u.filled:], r)
			raw = raw[n:]
			continue
		}
		n := min(len(raw), len(u.buf)-u.filled)
		if i := bytes.IndexByte(raw[:n], '\\'); i >= 0 {
			n = i
		}
		copy(u.buf[u.filled:], raw[:n])
		u.filled += n
		raw = raw[n:]
	}
	if len(raw) == 0 {
		return u.buf[:u.filled], nil
	}
	return u.buf[:cut(u.buf[:u.filled])], raw
}

// carry keeps what next left out of its piece for the piece after it.
func (u *unescaper) carry(piece []byte) {
	u.carried = copy(u.buf[:], u.buf[len(piece):u.filled])
}

// cut is where a full buffer is cut: behind its last newline, else before its
// last space, else between two characters.
func cut(full []byte) int {
	tail := len(full) - seam
	if i := bytes.LastIndexByte(full[tail:], '\n'); i >= 0 {
		return tail + i + 1
	}
	if i := bytes.LastIndexByte(full[tail:], ' '); i >= 0 {
		return tail + i
	}
	end := len(full)
	for range utf8.UTFMax - 1 {
		if utf8.RuneStart(full[end-1]) {
			break
		}
		end--
	}
	return end - 1
}

// short is what the escapes of one letter stand for.
var short = [256]byte{'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f', '"': '"', '\\': '\\', '/': '/'}

// unescape reads a Unicode escape at the start of s: what it stands for and its
// length. What is no escape stands for its backslash.
func unescape(s []byte) (rune, int) {
	r, ok := hex4(s)
	if !ok {
		return '\\', 1
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if low, ok := hex4(s[6:]); ok {
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

// hex4 reads \uXXXX at the start of s.
func hex4(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range s[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
