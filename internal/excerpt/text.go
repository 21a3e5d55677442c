package excerpt

import (
	"bytes"
	"sort"
	"unicode/utf8"
)

// stride is how many lines lie between two marks of the index: looking up a line reads
// that many lines at most, and the index takes 8 bytes for them.
const stride = 256

// Text is a text with an index of its lines. A line ends behind its newline; what
// follows the last newline is a line if it is not empty.
type Text struct {
	data  []byte
	marks []int // where lines 1, 1+stride, 1+2*stride, … begin
	lines int
}

// NewText indexes a text, which nobody may modify from then on.
func NewText(data []byte) *Text {
	t := &Text{data: data}
	for at := 0; at < len(data); {
		if t.lines%stride == 0 {
			t.marks = append(t.marks, at)
		}
		t.lines++
		at = lineEnd(data, at)
	}
	return t
}

// Lines returns the number of lines.
func (t *Text) Lines() int { return t.lines }

// lineEnd returns where the line that holds the byte at ends, behind its newline.
func lineEnd(data []byte, at int) int {
	if n := bytes.IndexByte(data[at:], '\n'); n >= 0 {
		return at + n + 1
	}
	return len(data)
}

// begin returns where a line begins; behind the last line that is the end.
func (t *Text) begin(line int) int {
	if line > t.lines {
		return len(t.data)
	}
	at := t.marks[(line-1)/stride]
	for range (line - 1) % stride {
		at = lineEnd(t.data, at)
	}
	return at
}

// lineAt returns the number of the line that holds the byte at an offset.
func (t *Text) lineAt(offset int) int {
	if offset >= len(t.data) {
		return t.lines
	}
	mark := sort.SearchInts(t.marks, offset+1) - 1
	return mark*stride + 1 + bytes.Count(t.data[t.marks[mark]:offset], []byte{'\n'})
}

// atLineStart reports whether a line begins at an offset.
func (t *Text) atLineStart(offset int) bool { return offset == 0 || t.data[offset-1] == '\n' }

// border moves an offset back to the beginning of its character. Bytes that are no
// UTF-8 are characters of their own.
func border(data []byte, offset int) int {
	if offset >= len(data) {
		return len(data)
	}
	for back := offset; back >= 0 && offset-back < utf8.UTFMax; back-- {
		if utf8.RuneStart(data[back]) {
			if _, size := utf8.DecodeRune(data[back:]); back+size > offset {
				return back
			}
			return offset
		}
	}
	return offset
}

// fit returns how many bytes at the beginning of data hold at most chars characters,
// none of which is cut, and how many characters these are.
func fit(data []byte, chars int) (size, count int) {
	for size < len(data) && count < chars {
		n := 1
		if data[size] >= utf8.RuneSelf {
			_, n = utf8.DecodeRune(data[size:])
		}
		size += n
		count++
	}
	return size, count
}

// fitLines is fit, but ends behind a newline if there is one: then what is left begins
// with a whole line.
func fitLines(data []byte, chars int) int {
	if len(data) <= chars {
		return len(data)
	}
	size, _ := fit(data, chars)
	if size < len(data) {
		if newline := bytes.LastIndexByte(data[:size], '\n'); newline >= 0 {
			return newline + 1
		}
	}
	return size
}
