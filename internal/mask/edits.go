package mask

import (
	"bytes"
	"cmp"
	"slices"

	"mcp-aggregator/internal/wire"
)

// Edits masks inside of every string of the JSON value at raw[at.Lo:at.Hi], keys
// included, and the strings whose key says that they are secret. Everything else stays
// byte for byte. The text must have been accepted by wire.Scan or wire.Valid. Edits
// are sorted and in the coordinates of raw; there are none if nothing was found.
func (m *Masker) Edits(raw []byte, at wire.Span, count Count) []wire.Edit {
	if m.IsZero() || !at.OK() {
		return nil
	}
	hits := m.hits(at.Of(raw))
	if len(hits) == 0 && len(m.always) == 0 {
		return nil
	}
	for i := range hits {
		hits[i].lo += at.Lo
	}
	slices.SortFunc(hits, func(a, b hit) int { return a.lo - b.lo })
	w := walk{m: m, raw: raw, cursor: wire.NewCursor(raw, at), hits: hits}
	if w.kubernetes() {
		w.secrets(at)
	}
	w.value(nil)
	if len(w.edits) > 0 {
		m.tell(w.spans, count)
	}
	slices.SortStableFunc(w.edits, func(a, b wire.Edit) int { return cmp.Compare(a.Lo, b.Lo) })
	return w.edits
}

// A walk goes through the strings of a JSON value in order.
type walk struct {
	m      *Masker
	raw    []byte
	cursor wire.Cursor
	hits   []hit  // those still ahead
	data   []span // of Kubernetes Secrets, those still ahead
	edits  []wire.Edit
	spans  []span // what was masked, for counting
}

// kubernetes tells whether there may be Kubernetes Secrets.
func (w *walk) kubernetes() bool {
	return slices.ContainsFunc(w.hits, func(h hit) bool { return w.m.rules[h.rule].kube })
}

// secrets finds the data of Kubernetes Secrets that are JSON values.
func (w *walk) secrets(at wire.Span) {
	s := secrets{m: w.m, b: at.Of(w.raw), depth: maxViews} // what strings hold is looked at later
	s.json()
	for _, f := range s.found {
		w.data = append(w.data, span{f.lo + at.Lo, f.hi + at.Lo, f.kind})
	}
	slices.SortFunc(w.data, func(a, b span) int { return a.lo - b.lo })
}

// value walks a value whose key told n, nil if nothing.
func (w *walk) value(n *named) {
	switch w.cursor.Kind() {
	case '"':
		w.str(w.cursor.Skip(), n)
	case '[':
		w.array(n)
	case '{':
		w.object(n)
	}
}

// array walks an array. What its key has promised holds for the strings in it, and what
// a flag promises for the string behind: ["--password", "x"].
func (w *walk) array(promised *named) {
	var flag *named
	for range w.cursor.Array() {
		n := promised
		if flag != nil {
			n, flag = flag, nil
		}
		switch at := w.cursor; at.Kind() {
		case '{':
			n = nil
		case '"':
			if s := at.Skip(); w.hit(s) && bytes.HasPrefix(w.raw[s.Lo:], []byte(`"--`)) {
				flag = w.m.promise(s.Of(w.raw))
			}
		}
		w.value(n)
	}
}

// object walks an object. What a member named name promises holds for the member
// named value, as does what the object's own key has promised.
func (w *walk) object(promised *named) {
	for key := range w.cursor.Object() {
		var n *named
		switch word := key.Of(w.raw); {
		case isWord(word, "value"):
			n = promised
		case isWord(word, "name"), isWord(word, "key"):
			at := w.cursor // a copy: the walk itself goes on below
			if at.Kind() == '"' {
				if s := at.Skip(); w.hit(s) {
					promised = w.m.promise(s.Of(w.raw))
				}
			}
		case w.hit(key):
			n = w.m.promise(word)
		}
		w.str(key, nil)
		w.value(n)
	}
}

func isWord(key []byte, word string) bool {
	return len(key) == len(word)+2 && bytes.EqualFold(key[1:len(key)-1], []byte(word))
}

// hit tells whether there is an anchor in a span ahead.
func (w *walk) hit(s wire.Span) bool {
	for len(w.hits) > 0 && w.hits[0].lo < s.Lo {
		w.hits = w.hits[1:]
	}
	return len(w.hits) > 0 && w.hits[0].lo < s.Hi
}

// promise returns the kind of secret that a string promises as a name.
func (m *Masker) promise(quoted []byte) *named {
	name, ok := wire.Unquote(quoted)
	if !ok || len(m.names) == 0 {
		return nil
	}
	b := []byte(`"` + name + `"`)
	var n *named
	m.net.scan(b, func(rule, lo, hi int) {
		if rule != m.assign {
			return
		}
		if from, to := nameAround(b, lo, hi); to == len(b)-1 && n == nil {
			n = m.telling(b[from:to], lo-from, min(hi, to)-from)
		}
	})
	return n
}

// str masks inside of one string.
func (w *walk) str(s wire.Span, n *named) {
	for len(w.data) > 0 && w.data[0].lo < s.Lo {
		w.data = w.data[1:]
	}
	if len(w.data) > 0 && w.data[0].lo == s.Lo+1 && w.data[0].hi == s.Hi-1 {
		if m := w.m.marker(w.raw[s.Lo+1:]); m != s.Hi-s.Lo-2 || m == 0 {
			w.edit(s.Lo+1, s.Hi-1, w.data[0].kind)
		}
		return
	}
	if !w.hit(s) && n == nil && len(w.m.always) == 0 {
		return
	}
	inner := w.raw[s.Lo+1 : s.Hi-1]
	v := unescape(inner)
	if v == nil {
		v = &view{text: inner}
	}
	spans := w.m.find(v.text, 0, nil)
	if n != nil {
		spans = append(spans, w.m.promised(n, v.text)...)
	}
	if spans = w.m.settle(v.text, spans); len(spans) == 0 {
		return
	}
	if once := w.m.replace(v.text, spans); len(w.m.spans(once)) > 0 {
		// Another secret came in sight, which is rare: the string is written anew.
		final := w.m.Text(once, nil)
		w.edits = append(w.edits, wire.Edit{Span: s, With: wire.AppendQuote(nil, string(final))})
		w.spans = append(w.spans, spans...)
		return
	}
	for _, p := range spans {
		lo, hi := v.source(p.lo, p.hi)
		w.edit(s.Lo+1+lo, s.Lo+1+hi, p.kind)
	}
}

// promised returns what is secret in a text whose key has told so.
func (m *Masker) promised(n *named, text []byte) []span {
	var spans []span
	switch kind := m.kindOf[n.kind]; {
	case len(text) == 0:
	case n.form == asHeader || n.form == asCookie:
		for _, s := range inside(n.form, text) {
			spans = append(spans, span{s[0], s[1], kind})
		}
	case (value{quoted: true}).secret(text, n.form):
		spans = append(spans, span{0, len(text), kind})
	}
	return spans
}

func (w *walk) edit(lo, hi, kind int) {
	w.edits = append(w.edits, wire.Edit{Span: wire.Span{Lo: lo, Hi: hi}, With: w.m.markers[kind]})
	w.spans = append(w.spans, span{lo, hi, kind})
}
