package digest

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// Cut keeps the beginning of text: what is before its last newline within max
// bytes, or, where there is none, as many whole characters as fit. A note with
// the original size and the limit follows on a line of its own and is not part
// of the limit; what names the thing that was cut and may be empty. A text that
// fits is returned as it is. The note is at most 64 bytes longer than what.
func Cut(text []byte, max int, what string) (kept []byte, cut bool) {
	max = min(max, len(text))
	if max == len(text) {
		return text, false
	}
	end := bytes.LastIndexByte(text[:boundary(text, max)+1], '\n')
	if end < 0 {
		end = boundary(text, max)
	}
	if what != "" {
		what += " "
	}
	note := fmt.Sprintf("[%struncated: original size %d bytes, limit %d]", what, len(text), max)
	kept = make([]byte, 0, end+1+len(note))
	kept = append(kept, text[:end]...)
	if end > 0 {
		kept = append(kept, '\n')
	}
	return append(kept, note...), true
}

// boundary is the last place at or before max where no character is cut in two.
func boundary(text []byte, max int) int {
	if max <= 0 {
		return 0
	}
	for end := max; end > max-utf8.UTFMax && end >= 0; end-- {
		if utf8.RuneStart(text[end]) {
			return end
		}
	}
	return max // not UTF-8 here
}
