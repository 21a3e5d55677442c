package mask

import (
	"bytes"
	"sort"
	"unicode/utf16"
	"unicode/utf8"
)

// A view is a text with one level of escapes taken away, and where each of its bytes
// came from. Patterns are looked for in views, so they need not know that a text can
// be JSON inside of JSON.
type view struct {
	text  []byte
	swaps []swap // in order; between them text and source run in step
}

// A swap is one escape of the source and the bytes of the text it stands for.
type swap struct {
	at, from       uint32 // in the text, in the source
	decoded, width uint8
}

// source maps a span of the view's text to its source. An escape goes whole.
func (v *view) source(lo, hi int) (int, int) {
	return v.place(lo, false), v.place(hi-1, true)
}

// place maps one byte to its beginning in the source, or to its end.
func (v *view) place(at int, end bool) int {
	i := sort.Search(len(v.swaps), func(i int) bool { return int(v.swaps[i].at) > at }) - 1
	beyond := at
	if i >= 0 {
		s := v.swaps[i]
		if beyond = at - int(s.at) - int(s.decoded); beyond < 0 {
			if end {
				return int(s.from) + int(s.width)
			}
			return int(s.from)
		}
		beyond += int(s.from) + int(s.width)
	}
	if end {
		beyond++
	}
	return beyond
}

// swap notes that the escape of width bytes at from stands for decoded.
func (v *view) swap(from, width int, decoded ...byte) {
	v.swaps = append(v.swaps, swap{uint32(len(v.text)), uint32(from), uint8(len(decoded)), uint8(width)})
	v.text = append(v.text, decoded...)
}

// unescape makes the view of a text in which the escapes of JSON strings are taken
// away. What is no escape stays. It returns nil if there are none.
func unescape(src []byte) *view {
	var v *view
	last := 0
	for i := 0; ; {
		next := bytes.IndexByte(src[i:], '\\')
		if i += next; next < 0 || i+1 >= len(src) {
			break
		}
		r, width := escape(src[i:])
		if width == 0 {
			i++
			continue
		}
		if v == nil {
			v = &view{text: make([]byte, 0, len(src))}
		}
		v.text = append(v.text, src[last:i]...)
		var buf [utf8.UTFMax]byte
		v.swap(i, width, utf8.AppendRune(buf[:0], r)...)
		i += width
		last = i
	}
	if v != nil {
		v.text = append(v.text, src[last:]...)
	}
	return v
}

// escape reads the escape at the beginning of b. The width is 0 if there is none.
func escape(b []byte) (r rune, width int) {
	switch b[1] {
	case '"', '\\', '/', '\'':
		return rune(b[1]), 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'u':
		r, ok := hex4(b)
		if !ok {
			return 0, 0
		}
		if utf16.IsSurrogate(r) {
			if low, ok := hex4(b[6:]); ok {
				if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
					return both, 12
				}
			}
			r = utf8.RuneError
		}
		return r, 6
	}
	return 0, 0
}

// hex4 reads \uXXXX.
func hex4(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		d := unhex(c)
		if d < 0 {
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, true
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// unpercent makes the view of a text in which the escapes of URLs are taken away. It
// returns nil if there are none.
func unpercent(src []byte) *view {
	var v *view
	last := 0
	for i := 0; ; {
		next := bytes.IndexByte(src[i:], '%')
		if i += next; next < 0 || i+2 >= len(src) {
			break
		}
		hi, lo := unhex(src[i+1]), unhex(src[i+2])
		if hi < 0 || lo < 0 {
			i++
			continue
		}
		if v == nil {
			v = &view{text: make([]byte, 0, len(src))}
		}
		v.text = append(v.text, src[last:i]...)
		v.swap(i, 3, byte(hi<<4|lo))
		i += 3
		last = i
	}
	if v != nil {
		v.text = append(v.text, src[last:]...)
	}
	return v
}
