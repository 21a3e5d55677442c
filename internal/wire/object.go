package wire

import (
	"bytes"
	"fmt"
	"iter"
	"strings"
)

// A Member is one member of a JSON object: Key includes its quotes.
type Member struct{ Key, Val Span }

// An Object is the text of an object and where its members lie, as far as they
// were noted while scanning.
type Object struct {
	Raw     []byte
	members [8]Member // relative to Raw; the first n
	n       int
	more    bool // there are members beyond the noted ones
}

// scan reads the object at i of s and notes its members.
func (o *Object) scan(s *scanner, i int) int {
	o.n, o.more = 0, false
	return s.object(i, 1, func(m Member) *ScanError {
		if o.n == len(o.members) {
			o.more = true
			return nil
		}
		o.members[o.n] = Member{Span{m.Key.Lo - i, m.Key.Hi - i}, Span{m.Val.Lo - i, m.Val.Hi - i}}
		o.n++
		return nil
	})
}

// Members walks the members in order; spans are relative to Raw.
func (o *Object) Members() iter.Seq[Member] {
	if o.more || o.n == 0 {
		return Members(o.Raw, Span{0, len(o.Raw)})
	}
	return func(yield func(Member) bool) {
		for _, m := range o.members[:o.n] {
			if !yield(m) {
				return
			}
		}
	}
}

// Field finds the first member of that name, relative to Raw.
func (o *Object) Field(name string) Span {
	for i := range o.members[:o.n] {
		if KeyIs(o.members[i].Key.Of(o.Raw), name) {
			return o.members[i].Val
		}
	}
	if o.n > 0 && !o.more {
		return Span{}
	}
	return Field(o.Raw, Span{0, len(o.Raw)}, name)
}

// Fields finds several members in one walk, refusing what [Fields] refuses.
func (o *Object) Fields(names ...string) ([]Span, error) {
	return fields(o.Raw, o.Members(), names)
}

// Members walks the members of the object at raw[s.Lo:s.Hi], which must be part of
// a text that Scan or Valid accepted. It yields nothing when there is no object.
// Spans are in the coordinates of raw.
func Members(raw []byte, s Span) iter.Seq[Member] {
	return func(yield func(Member) bool) {
		i := skipSpace(raw, s.Lo)
		if i >= s.Hi || raw[i] != '{' {
			return
		}
		for i = skipSpace(raw, i+1); i < s.Hi && raw[i] == '"'; i = skipSpace(raw, i) {
			end := skipString(raw, i)
			at := skipSpace(raw, skipSpace(raw, end)+1)
			m := Member{Span{i, end}, Span{at, skip(raw, at)}}
			if !yield(m) {
				return
			}
			if i = skipSpace(raw, m.Val.Hi); i < s.Hi && raw[i] == ',' {
				i++
			}
		}
	}
}

// Elements walks the elements of the array at raw[s.Lo:s.Hi] under the same rules.
func Elements(raw []byte, s Span) iter.Seq[Span] {
	return func(yield func(Span) bool) {
		i := skipSpace(raw, s.Lo)
		if i >= s.Hi || raw[i] != '[' {
			return
		}
		for i = skipSpace(raw, i+1); i < s.Hi && raw[i] != ']'; i = skipSpace(raw, i) {
			e := Span{i, skip(raw, i)}
			if !yield(e) {
				return
			}
			if i = skipSpace(raw, e.Hi); i < s.Hi && raw[i] == ',' {
				i++
			}
		}
	}
}

// Field finds the first member of that name in the object at s.
func Field(raw []byte, s Span, name string) Span {
	for m := range Members(raw, s) {
		if KeyIs(m.Key.Of(raw), name) {
			return m.Val
		}
	}
	return Span{}
}

// Fields finds several members of the object at s in one walk. It refuses objects
// in which one of the names comes twice or in another case: the proxy would decide
// by one of them and the receiver, reading more loosely, by the other.
func Fields(raw []byte, s Span, names ...string) ([]Span, error) {
	return fields(raw, Members(raw, s), names)
}

func fields(raw []byte, members iter.Seq[Member], names []string) ([]Span, error) {
	found := make([]Span, len(names))
	for m := range members {
		key := m.Key.Of(raw)
		for i, name := range names {
			switch {
			case KeyIs(key, name):
				if found[i].OK() {
					return nil, fmt.Errorf("member %q comes twice", name)
				}
				found[i] = m.Val
			case len(key) == len(name)+2 && strings.EqualFold(string(key[1:len(key)-1]), name):
				return nil, fmt.Errorf("member %q is spelled in another case", name)
			}
		}
	}
	return found, nil
}

// KeyIs compares a raw key, quotes included, with a name, escapes decoded.
func KeyIs(key []byte, name string) bool {
	inner := key[1 : len(key)-1]
	if string(inner) == name {
		return true
	}
	if bytes.IndexByte(inner, '\\') < 0 {
		return false
	}
	s, ok := Unquote(key)
	return ok && s == name
}

// Without returns the deletions that take members out of an object so that it stays
// valid, whichever and however many go. Members are those of one object, in order.
func Without(members iter.Seq[Member], drop func(Member) bool) []Edit {
	var edits []Edit
	kept := -1   // where the last kept member ends
	var run Span // the dropped members since then, or since the beginning
	flush := func(nextKey int) {
		switch {
		case !run.OK():
		case kept >= 0:
			edits = append(edits, Edit{Span: Span{kept, run.Hi}})
		case nextKey >= 0:
			edits = append(edits, Edit{Span: Span{run.Lo, nextKey}})
		default:
			edits = append(edits, Edit{Span: run})
		}
		run = Span{}
	}
	for m := range members {
		if !drop(m) {
			flush(m.Key.Lo)
			kept = m.Val.Hi
			continue
		}
		if !run.OK() {
			run.Lo = m.Key.Lo
		}
		run.Hi = m.Val.Hi
	}
	flush(-1)
	return edits
}

// The skip functions walk text that has been validated before; they look at
// nothing but structure.

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		j := bytes.IndexByte(b[i:], '"')
		if j < 0 {
			return len(b)
		}
		i += j
		k := i
		for b[k-1] == '\\' {
			k--
		}
		if (i-k)&1 == 0 {
			return i + 1
		}
	}
	return len(b)
}

func skip(b []byte, i int) int {
	if i >= len(b) {
		return len(b)
	}
	if b[i] == '"' {
		return skipString(b, i)
	}
	if b[i] != '{' && b[i] != '[' {
		for i < len(b) && !strings.ContainsRune(",}] \n\r\t", rune(b[i])) {
			i++
		}
		return i
	}
	for depth := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i = skipString(b, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(b)
}
