package wire

import "iter"

// A Cursor walks a JSON value once, from front to back. [Members] looks at the text
// of a value again for every level it is nested in; a Cursor takes time linear in
// the text however deep it goes, which matters for text that a peer has nested on
// purpose. The text must have been accepted by Scan or Valid.
type Cursor struct {
	raw []byte
	at  int
}

// NewCursor returns a cursor in front of the value at raw[s.Lo:s.Hi].
func NewCursor(raw []byte, s Span) Cursor { return Cursor{raw, skipSpace(raw, s.Lo)} }

// Kind returns the first byte of the value the cursor is in front of: one of
// { [ " t f n, or 0 for any number.
func (c *Cursor) Kind() byte {
	if c.at >= len(c.raw) {
		return 'n'
	}
	if b := c.raw[c.at]; b != '-' && (b < '0' || b > '9') {
		return b
	}
	return '0'
}

// Skip steps over the value and returns where it was.
func (c *Cursor) Skip() Span {
	s := Span{c.at, skip(c.raw, c.at)}
	c.at = s.Hi
	return s
}

// Object steps into the object the cursor is in front of and yields its keys, with
// their quotes. In the body the cursor is in front of the member's value; a body
// that does not read the value skips it. After the last member the cursor is behind
// the object; a loop that is left early leaves it somewhere inside.
func (c *Cursor) Object() iter.Seq[Span] {
	return func(yield func(Span) bool) {
		i := skipSpace(c.raw, c.at+1)
		for i < len(c.raw) && c.raw[i] == '"' {
			key := Span{i, skipString(c.raw, i)}
			c.at = skipSpace(c.raw, skipSpace(c.raw, key.Hi)+1)
			value := c.at
			if !yield(key) {
				return
			}
			i = c.next(value)
		}
		c.at = min(i+1, len(c.raw))
	}
}

// Array steps into the array the cursor is in front of and yields the index of each
// element, under the rules of Object.
func (c *Cursor) Array() iter.Seq[int] {
	return func(yield func(int) bool) {
		i := skipSpace(c.raw, c.at+1)
		for n := 0; i < len(c.raw) && c.raw[i] != ']'; n++ {
			c.at = i
			if !yield(n) {
				return
			}
			i = c.next(i)
		}
		c.at = min(i+1, len(c.raw))
	}
}

// next returns where the next key, element or closing bracket is, behind the value
// that began at the given place.
func (c *Cursor) next(value int) int {
	if c.at == value {
		c.Skip()
	}
	i := skipSpace(c.raw, c.at)
	if i < len(c.raw) && c.raw[i] == ',' {
		i = skipSpace(c.raw, i+1)
	}
	return i
}
