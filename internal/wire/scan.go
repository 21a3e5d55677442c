package wire

import (
	"encoding/binary"
	"io"
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

	// While src is not nil, more of the text comes from it: b then grows inside whole.
	src     io.Reader
	whole   []byte
	readErr error
}

// need reports whether byte i is there, after reading up to it if it can be read.
func (s *scanner) need(i int) bool {
	for i >= len(s.b) {
		if s.src == nil || !s.fill() {
			return false
		}
	}
	return true
}

// fill reads more of the text, and false says that there is none.
func (s *scanner) fill() bool {
	at := len(s.b)
	n, err := s.src.Read(s.whole[at:])
	if s.b = s.whole[:at+n]; len(s.b) == len(s.whole) {
		s.src = nil
		return n > 0
	}
	if err == nil {
		return true
	}
	if s.src = nil; err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	s.readErr = err
	return n > 0
}

func (s *scanner) fail(i int, reason string) int {
	if s.err == nil {
		s.err = &ScanError{Code: CodeParse, Offset: i, Reason: reason}
	}
	return -1
}

// space skips white space.
func (s *scanner) space(i int) int {
	for i < len(s.b) || s.need(i) {
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
	for {
		at, ended := s.words(i)
		if ended || at < 0 {
			return at
		}
		if i = at; i+8 > len(s.b) && s.src != nil && s.fill() {
			continue
		}
		switch { // at the end of the text, or at a character that words leaves to odd
		case !s.need(i):
			return s.fail(i, "unterminated string")
		case s.b[i] == '"':
			return i + 1
		}
		if i = s.odd(i); i < 0 {
			return -1
		}
	}
}

// plainWords is how many ordinary words in a row make it worth looking for a longer
// ordinary stretch.
const plainWords = 2

// words goes on with a string as long as there are whole words, up to its end or to
// something out of the ordinary. Long ordinary stretches are left to plainRun;
// where there are many escapes, calling it for each stretch would cost more.
func (s *scanner) words(i int) (at int, ended bool) {
	b := s.b
	for plain := 0; i+8 <= len(b); {
		if plain == plainWords {
			if i, plain = plainLines(b, i), 0; i+8 > len(b) {
				break
			}
		}
		w := binary.LittleEndian.Uint64(b[i:])
		if special(w) == 0 {
			i += 8
			plain++
			continue
		}
		plain = 0
		for m := exactly(w); m != 0; {
			at := bits.TrailingZeros64(m) - 7 // in bits
			switch byte(w >> (at & 63)) {
			case '"':
				return i + at>>3 + 1, true
			case '\\':
				if at < 56 && shortEscape[byte(w>>((at+8)&63))] {
					m &= ^uint64(0) << (at + 8) << 8
					continue
				}
			}
			return i + at>>3, false
		}
		i += 8
	}
	return i, false
}

// plainLines goes on over long ordinary stretches with single escapes between them,
// as the line ends of a log are.
func plainLines(b []byte, i int) int {
	for {
		n := plainRun(b[i:])
		if i += n; n < 4*8 || i+1 >= len(b) || b[i] != '\\' || !shortEscape[b[i+1]] {
			return i
		}
		i += 2
	}
}

// odd reads one character of a string that is not its end, whatever its form.
func (s *scanner) odd(i int) int {
	switch c := s.b[i]; {
	case c == '\\':
		if s.need(i+1) && shortEscape[s.b[i+1]] {
			return i + 2
		}
		s.need(i + 5)
		if !isUnicodeEscape(s.b[i:]) {
			return s.fail(i, "invalid escape in string")
		}
		return i + 6
	case c < 0x20:
		return s.fail(i, "control character in string")
	case c < utf8.RuneSelf:
		return i + 1
	}
	s.need(i + utf8.UTFMax - 1)
	r, n := utf8.DecodeRune(s.b[i:])
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
	for s.need(i) && '0' <= s.b[i] && s.b[i] <= '9' {
		i++
	}
	return i
}

func (s *scanner) number(i int) int {
	start := i
	if s.b[i] == '-' {
		i++
	}
	if s.need(i) && s.b[i] == '0' {
		i++
	} else if j := s.digits(i); j > i {
		i = j
	} else {
		return s.fail(start, "invalid number")
	}
	if s.need(i) && s.b[i] == '.' {
		j := s.digits(i + 1)
		if j == i+1 {
			return s.fail(start, "invalid number")
		}
		i = j
	}
	if s.need(i) && s.b[i]|0x20 == 'e' {
		i++
		if s.need(i) && (s.b[i] == '+' || s.b[i] == '-') {
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
	if end := i + len(word); s.need(end-1) && string(s.b[i:end]) == word {
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
	if !s.need(i) || s.b[i] != '"' {
		return s.fail(i, "object key expected"), Span{}
	}
	end := s.str(i + 1)
	if end < 0 {
		return -1, Span{}
	}
	j := s.space(end)
	if !s.need(j) || s.b[j] != ':' {
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
		if !s.need(i) {
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
			if s.need(i) && s.b[i] == c+2 { // '}' and ']' follow their opener by two
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
			if !s.need(i) {
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
	if s.need(i) && s.b[i] == '}' {
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
		if !s.need(i) {
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
