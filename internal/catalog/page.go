package catalog

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"sort"
	"strconv"

	"mcp-aggregator/internal/wire"
)

// ErrBadCursor is returned for a cursor that no list of the kind has handed out.
var ErrBadCursor = errors.New("invalid cursor")

// maxPage bounds a page in bytes, whatever its number of entries: every client takes
// a message of this size. A single definition is smaller.
const maxPage = 4 << 20

// A list is all entries of one kind and the pages they stand on. Entry.Def are parts
// of the pages: every definition is held once.
type list struct {
	entries []Entry
	pages   []page
	size    int               // most entries per page
	servers []stretch         // in configuration order
	find    map[string]*Entry // exposed name or URI → entry
	modern  []wire.Edit       // what modern results have in addition
}

// A page is a complete result, from one entry on.
type page struct {
	raw   []byte
	first int
}

// A stretch is the part of the entries that one server has; it may be empty.
type stretch struct {
	server string
	lo, hi int
}

// fill makes the pages of a list from what it consists of.
func (l *list) fill(kind Kind, claims []claim) {
	l.entries = make([]Entry, len(claims))
	l.find = make(map[string]*Entry, len(claims))
	head := `{"` + kind.Member() + `":[`
	for lo, hi := 0, 0; lo < len(claims); lo = hi {
		size := len(head) + len(`],"nextCursor":""}`) + cursorLength
		for hi = lo; hi < len(claims) && hi-lo < l.size; hi++ {
			n := claims[hi].length()
			if hi > lo && size+n > maxPage {
				break
			}
			size += n
		}
		raw := append(make([]byte, 0, size), head...)
		for i := lo; i < hi; i++ {
			c := &claims[i]
			if i > lo {
				raw = append(raw, ',')
			}
			at := len(raw)
			raw = c.item.appendAs(raw, c.exposed)
			l.entries[i] = Entry{
				Kind: kind, Server: c.listing.Server, Name: c.item.Name, Exposed: c.exposed,
				Def:      raw[at:len(raw):len(raw)],
				ReadOnly: c.item.ReadOnly, Destructive: c.item.Destructive, Idempotent: c.item.Idempotent,
				Headers: c.item.Headers,
			}
			l.find[c.exposed] = &l.entries[i]
		}
		if raw = append(raw, ']'); hi < len(claims) {
			raw = append(raw, `,"nextCursor":"`+l.cursor(kind, hi-1)+`"`...)
		}
		l.pages = append(l.pages, page{append(raw, '}'), lo})
	}
}

// length is how many bytes a claim takes on a page, but for escapes in its name.
func (c *claim) length() int {
	return len(c.item.Def) - (c.item.At.Hi - c.item.At.Lo) + len(c.exposed) + len(`"",`)
}

// appendAs appends the definition under another name. A name that stays is not
// spelled anew.
func (it *Item) appendAs(dst []byte, name string) []byte {
	if name == it.Name {
		return append(dst, it.Def...)
	}
	dst = append(dst, it.Def[:it.At.Lo]...)
	dst = wire.AppendQuote(dst, name)
	return append(dst, it.Def[it.At.Hi:]...)
}

// page returns the page behind a cursor.
func (l *list) page(kind Kind, cursor string) (wire.Value, error) {
	at := 0
	if cursor != "" {
		var err error
		if at, err = l.resume(kind, cursor); err != nil {
			return wire.Value{}, err
		}
	}
	if at == len(l.entries) {
		return wire.Value{Raw: []byte(`{"` + kind.Member() + `":[]}`)}, nil
	}
	i := sort.Search(len(l.pages), func(i int) bool { return l.pages[i].first > at }) - 1
	v := wire.Value{Raw: l.pages[i].raw}
	if first := l.pages[i].first; first < at { // the list has changed since: the rest of the page
		lo := len(`{"":[`) + len(kind.Member())
		hi := lo
		for _, e := range l.entries[first:at] {
			hi += len(e.Def) + len(",")
		}
		v.Edits = []wire.Edit{{Span: wire.Span{Lo: lo, Hi: hi}}}
	}
	return v, nil
}

// A cursor says which entry was the last one shown: its kind, its server, its place
// among the server's entries and its name, the latter two as hashes. When the list
// has changed, the next page begins behind that entry wherever it is now, or where it
// was if it is gone. The sum at the end tells cursors from other text.
const (
	cursorBytes  = 1 + 8 + 4 + 8 + 4
	cursorLength = (cursorBytes*8 + 5) / 6
)

// cursor makes the cursor that says entry i was the last one.
func (l *list) cursor(kind Kind, i int) string {
	for _, s := range l.servers {
		if s.lo <= i && i < s.hi {
			b := append(make([]byte, 0, cursorBytes), byte(kind))
			b = binary.BigEndian.AppendUint64(b, hash(s.server))
			b = binary.BigEndian.AppendUint32(b, uint32(i-s.lo))
			b = binary.BigEndian.AppendUint64(b, hash(l.entries[i].Exposed))
			b = binary.BigEndian.AppendUint32(b, uint32(hash(string(b))))
			return base64.RawURLEncoding.EncodeToString(b)
		}
	}
	return ""
}

// resume returns the entry that comes after a cursor.
func (l *list) resume(kind Kind, cursor string) (int, error) {
	var buf [cursorBytes]byte
	if len(cursor) != cursorLength {
		return 0, ErrBadCursor
	}
	b := buf[:]
	if n, err := base64.RawURLEncoding.Strict().Decode(b, []byte(cursor)); err != nil || n != cursorBytes {
		return 0, ErrBadCursor
	}
	sum := b[cursorBytes-4:]
	if b[0] != byte(kind) || binary.BigEndian.Uint32(sum) != uint32(hash(string(b[:cursorBytes-4]))) {
		return 0, ErrBadCursor
	}
	server, place, name := binary.BigEndian.Uint64(b[1:]), int(binary.BigEndian.Uint32(b[9:])), binary.BigEndian.Uint64(b[13:])
	for _, s := range l.servers {
		if hash(s.server) != server {
			continue
		}
		was := min(s.lo+place, s.hi)
		if was < s.hi && hash(l.entries[was].Exposed) == name {
			return was + 1, nil
		}
		for i := s.lo; i < s.hi; i++ {
			if hash(l.entries[i].Exposed) == name {
				return i + 1, nil
			}
		}
		return was, nil
	}
	return 0, ErrBadCursor
}

func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// modernFields are the members that modern list results have in addition
// (specification 2026-07-28, caching), inserted at the front.
func modernFields(ttlMs int64, public bool) []wire.Edit {
	scope := "private"
	if public {
		scope = "public"
	}
	text := `"resultType":"complete","ttlMs":` + strconv.FormatInt(ttlMs, 10) + `,"cacheScope":"` + scope + `",`
	return []wire.Edit{{Span: wire.Span{Lo: 1, Hi: 1}, With: []byte(text)}}
}
