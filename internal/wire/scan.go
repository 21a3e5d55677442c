package wire

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// MaxDepth is the deepest nesting of objects and arrays that Scan and Valid
// accept. encoding/json allows 10,000; real messages stay below 30.
const MaxDepth = 512

// A Span is a half-open range of bytes. The zero Span means "absent".
type Span struct{ Lo, Hi int }

// Of returns the bytes of b that the span covers.
func (s Span) Of(b []byte) []byte { return b[s.Lo:s.Hi] }

// OK reports whether the span covers anything.
func (s Span) OK() bool { return s.Hi > s.Lo }

// scanner validates JSON text (RFC 8259, UTF-8 only) without building anything.
// Its methods return the index behind what they read, or -1 after setting err.
type scanner struct {
	b         []byte
	multiline bool // a line break was seen; valid JSON has them only between tokens
	err       *ScanError
}

func (s *scanner) fail(i int, reason string) int {
	if s.err == nil {
		s.err = &ScanError{Code: CodeParse, Offset: i, Reason: reason}
	}
	return -1
}

// space skips white space.
func (s *scanner) space(i int) int {
	for i < len(s.b) {
		switch s.b[i] {
		case ' ', '\t':
		case '\n', '\r':
			s.multiline = true
		default:
			return i
		}
		i++
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special marks (with the high bit of each byte) the bytes of w that end a plain
// run inside a string: quote, backslash, control characters, non-ASCII. The
// borrow of the subtractions can add marks above a true one, so a mark means "look
// closer"; no mark means that all eight bytes are plain.
func special(w uint64) uint64 {
	quote := (w ^ ones*'"') - ones
	slash := (w ^ ones*'\\') - ones
	ctrl := w - ones*0x20
	return (quote | slash | ctrl | w) & highs
}

// exactly is special without false marks.
func exactly(w uint64) uint64 {
	const lows = ^uint64(highs)
	quote := w ^ ones*'"'
	slash := w ^ ones*'\\'
	ctrl := w & (ones * 0xe0)
	zero := (((quote & lows) + lows) | quote) & (((slash & lows) + lows) | slash) & (((ctrl & lows) + lows) | ctrl)
	return (^zero | w) & highs
}

// str reads a string whose opening quote is at i-1. It goes by words of eight bytes
// and treats the common escapes inside the word: in text full of them, looking for
// each special byte anew costs twice as much.
func (s *scanner) str(i int) int {
	b := s.b
words:
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		if special(w) == 0 {
			i += 8
			continue
		}
		for m := exactly(w); m != 0; {
			at := bits.TrailingZeros64(m) - 7 // in bits
			switch byte(w >> (at & 63)) {
			case '"':
				return i + at>>3 + 1
			case '\\':
				if at < 56 && shortEscape[byte(w>>((at+8)&63))] {
					m &= ^uint64(0) << (at + 8) << 8
					continue
				}
			}
			if i = s.odd(i + at>>3); i < 0 {
				return -1
			}
			continue words
		}
		i += 8
	}
	for i < len(b) {
		if b[i] == '"' {
			return i + 1
		}
		if i = s.odd(i); i < 0 {
			return -1
		}
	}
	return s.fail(i, "unterminated string")
}

// odd reads one character of a string that is not its end, whatever its form.
func (s *scanner) odd(i int) int {
	b := s.b
	switch c := b[i]; {
	case c == '\\':
		if i+1 < len(b) && shortEscape[b[i+1]] {
			return i + 2
		}
		if !isUnicodeEscape(b[i:]) {
			return s.fail(i, "invalid escape in string")
		}
		return i + 6
	case c < 0x20:
		return s.fail(i, "control character in string")
	case c < utf8.RuneSelf:
		return i + 1
	}
	r, n := utf8.DecodeRune(b[i:])
	if r == utf8.RuneError && n == 1 {
		return s.fail(i, "invalid UTF-8 in string")
	}
	return i + n
}

var shortEscape = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

func isUnicodeEscape(b []byte) bool {
	if len(b) < 6 || b[1] != 'u' {
		return false
	}
	for _, c := range b[2:6] {
		if !isHex(c) {
			return false
		}
	}
	return true
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// digits skips decimal digits.
func (s *scanner) digits(i int) int {
	for i < len(s.b) && '0' <= s.b[i] && s.b[i] <= '9' {
		i++
	}
	return i
}

func (s *scanner) number(i int) int {
	b, start := s.b, i
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if j := s.digits(i); j > i {
		i = j
	} else {
		return s.fail(start, "invalid number")
	}
	if i < len(b) && b[i] == '.' {
		j := s.digits(i + 1)
		if j == i+1 {
			return s.fail(start, "invalid number")
		}
		i = j
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		j := s.digits(i)
		if j == i {
			return s.fail(start, "invalid number")
		}
		i = j
	}
	return i
}

func (s *scanner) literal(i int, word string) int {
	if end := i + len(word); end <= len(s.b) && string(s.b[i:end]) == word {
		return end
	}
	return s.fail(i, "invalid literal")
}

// scalar reads a string, number or literal at i.
func (s *scanner) scalar(i int) int {
	switch c := s.b[i]; c {
	case '"':
		return s.str(i + 1)
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	default:
		if c == '-' || '0' <= c && c <= '9' {
			return s.number(i)
		}
		return s.fail(i, "unexpected character")
	}
}

// key reads an object key at i and the colon behind it; the key's span (with its
// quotes) comes back too.
func (s *scanner) key(i int) (int, Span) {
	if i >= len(s.b) || s.b[i] != '"' {
		return s.fail(i, "object key expected"), Span{}
	}
	end := s.str(i + 1)
	if end < 0 {
		return -1, Span{}
	}
	j := s.space(end)
	if j >= len(s.b) || s.b[j] != ':' {
		return s.fail(j, "colon expected"), Span{}
	}
	return s.space(j + 1), Span{i, end}
}

// value reads any value at i (no leading white space), depth levels below the top.
// It keeps the kinds of the open containers as bits instead of recursing, so that
// nesting costs a peer its message and never our stack.
func (s *scanner) value(i, depth int) int {
	var objects [MaxDepth / 64]uint64 // bit d: the container at depth d is an object
	base := depth
	for {
		if i >= len(s.b) {
			return s.fail(i, "unexpected end")
		}
		c := s.b[i]
		if c == '{' || c == '[' {
			if depth >= MaxDepth {
				return s.fail(i, "nested too deeply")
			}
			at, bit := depth>>6, uint64(1)<<(depth&63)
			depth++
			i = s.space(i + 1)
			if c == '{' {
				objects[at] |= bit
			} else {
				objects[at] &^= bit
			}
			if i < len(s.b) && s.b[i] == c+2 { // '}' and ']' follow their opener by two
				depth--
				i++
			} else if c == '{' {
				if i, _ = s.key(i); i < 0 {
					return -1
				}
				continue
			} else {
				continue
			}
		} else if i = s.scalar(i); i < 0 {
			return -1
		}
		for { // a value ended at i: close what closes
			if depth == base {
				return i
			}
			i = s.space(i)
			if i >= len(s.b) {
				return s.fail(i, "unexpected end")
			}
			d := depth - 1
			isObject := objects[d>>6]>>(d&63)&1 == 1
			if c := s.b[i]; c == ',' {
				i = s.space(i + 1)
				if isObject {
					if i, _ = s.key(i); i < 0 {
						return -1
					}
				}
				break
			} else if c == '}' && isObject || c == ']' && !isObject {
				depth--
				i++
			} else {
				return s.fail(i, "comma or end of container expected")
			}
		}
	}
}

// object reads the object at i and hands each member to f in order. f returns an
// error to stop.
func (s *scanner) object(i, depth int, f func(Member) *ScanError) int {
	i = s.space(i + 1)
	if i < len(s.b) && s.b[i] == '}' {
		return i + 1
	}
	for {
		at, key := s.key(i)
		if at < 0 {
			return -1
		}
		end := s.value(at, depth+1)
		if end < 0 {
			return -1
		}
		if err := f(Member{key, Span{at, end}}); err != nil {
			s.err = err
			return -1
		}
		i = s.space(end)
		if i >= len(s.b) {
			return s.fail(i, "unexpected end")
		}
		switch s.b[i] {
		case '}':
			return i + 1
		case ',':
			i = s.space(i + 1)
		default:
			return s.fail(i, "comma or end of object expected")
		}
	}
}

// Valid checks that raw is exactly one JSON value as Scan would accept it inside a
// message. The error is a *ScanError.
func Valid(raw []byte) error {
	s := scanner{b: raw}
	if i := s.value(s.space(0), 0); i >= 0 {
		if i = s.space(i); i != len(raw) {
			s.fail(i, "text after the value")
		}
	}
	if s.err != nil {
		return s.err
	}
	return nil
}
