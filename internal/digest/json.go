package digest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// linesMost is how many places of JSON may compete for a line.
const linesMost = 1500

func looksLikeJSON(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r\n")
	return len(text) > 1 && (text[0] == '{' || text[0] == '[')
}

func newDecoder(text []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// drawJSON reads text as one or several JSON values. It reports false if text is
// none, or a log whose lines are JSON.
func drawJSON(s *sheet, text []byte) (string, bool) {
	first, _, several := bytes.Cut(bytes.TrimSpace(text), []byte("\n"))
	several = several && jsontext.Value(bytes.TrimSpace(first)).IsValid()
	if several && look(text).log() {
		return "", false
	}
	w := &walk{dec: newDecoder(text), item: -1, several: several, pool: 2000 + len(text)/64, sink: &shape{path: "(other places)"}}
	w.sink.values.pool = &w.pool
	w.sink.element = w.sink
	w.root = w.place("")
	for {
		if several {
			w.enter(w.tops)
		}
		err := w.value(w.root, 0)
		if errors.Is(err, io.EOF) && w.tops > 0 && w.dec.StackDepth() == 0 {
			break
		}
		if err != nil {
			return "", false
		}
		if several {
			w.outer = w.root
			w.leave(w.tops)
		}
		w.tops++
	}
	w.root.n-- // the attempt that met the end
	if k, ok := kubernetes(w, text); ok {
		k.draw(s, w, text)
		return kindKubernetes, true
	}
	kind, name := kindJSON, "JSON"
	if w.tops > 1 {
		kind, name = kindNDJSON, many(w.tops, "JSON value")
	}
	total := lineCount(text)
	s.head(must, fmt.Sprintf("digest of %s: %s, %s, %s", name, w.root.what(), many(total, "line"), size(len(text))))
	s.head(must+2, hint(w, total))
	w.drawTrouble(s, text, 10)
	w.drawShape(s, 20)
	w.drawItems(s, text)
	return kind, true
}

// hint says how the rest is fetched.
func hint(w *walk, total int) string {
	text := "Paths are for jq on the full result"
	if w.tops > 1 {
		text += ", on each value"
	}
	if total > 2 {
		text += "; L numbers are its line numbers"
	}
	return text + "."
}

// what names the kind of value.
func (sh *shape) what() string {
	switch {
	case sh.arrays > 0 && sh.objects == 0:
		return fmt.Sprintf("array of %s", many(sh.elements, "element"))
	case sh.objects > 0 && sh.arrays == 0:
		return fmt.Sprintf("object with %s", many(len(sh.order), "field"))
	case sh.objects > 0:
		return "objects and arrays"
	}
	return sh.values.String()
}

// drawTrouble quotes values that say something is wrong, with where they are.
func (w *walk) drawTrouble(s *sheet, text []byte, rank int) {
	if w.badAll == 0 {
		return
	}
	s.head(rank, fmt.Sprintf("values that say trouble: %d", w.badAll))
	list := s.list(func(left, _ int) string { return "and " + many(left, "more such value") })
	lines := lineFinder{text: text}
	total := lineCount(text)
	for i, b := range w.bad {
		s.entry(list, rank+1+min(i, 8), 1, fmt.Sprintf("  %s: %s = %s", place(b.item, lines.at(b.at), total), b.path, quoted(b.value)))
	}
	s.unlisted(list, w.badAll-len(w.bad), 0)
}

// drawShape lists the places of the JSON, shallow and telling ones first.
func (w *walk) drawShape(s *sheet, rank int) {
	s.title(rank, "fields:")
	d := outliner{s: s, rank: rank, list: s.list(func(left, _ int) string { return "and " + many(left, "more field") })}
	d.draw(w.root, 0, 0)
	if w.sink.n > 0 {
		s.head(might, fmt.Sprintf("  %d values at places too many to tell apart", w.sink.n))
	}
}

type outliner struct {
	s    *sheet
	list int
	rank int
	n    int
}

// telling is how many ranks the name of a field is worth.
func telling(path string) int {
	name := path[strings.LastIndexByte(path, '.')+1:]
	switch strings.ToLower(strings.TrimSuffix(name, "[]")) {
	case "status", "state", "phase", "error", "errors", "reason", "message", "severity", "level", "result", "outcome":
		return 12
	case "name", "id", "kind", "type", "title", "namespace", "key":
		return 8
	}
	return 0
}

// draw lists sh and what is below it; of is how many values could have been here.
func (d *outliner) draw(sh *shape, of, depth int) {
	if sh.path != "" || sh.values.n > 0 {
		d.line(sh, of, depth)
	}
	if sh.element != nil && sh.element != sh && sh.elements > 0 {
		d.draw(sh.element, sh.elements, depth+1)
	}
	below := sh.order
	// Keys that are names of things, not of fields: the first ones speak for all.
	if len(below) > 40 && sh.objects == 1 {
		below = below[:2]
	}
	for _, name := range below {
		d.draw(sh.fields[name], sh.objects, depth+1)
	}
	if sh.wild != nil && sh.wild.path != "" {
		d.draw(sh.wild, 0, depth+1)
	}
}

func (d *outliner) line(sh *shape, of, depth int) {
	var text string
	switch {
	case sh.values.n > 0:
		text = sh.values.String()
	case sh.arrays > 0:
		text = many(sh.elements, "element")
		if sh.arrays > 1 {
			text += fmt.Sprintf(" in %d arrays, up to %d each", sh.arrays, sh.longest)
		}
	case sh.objects > 0 && len(sh.order) > 40:
		text = fmt.Sprintf("%d keys: %s, …", len(sh.order), clip(strings.Join(sh.order[:min(len(sh.order), 8)], ", "), d.s.width))
		if sh.wild != nil {
			text = "more than " + text
		}
	case sh.objects > 0:
		return // its fields are listed
	default:
		text = "empty"
	}
	if of > 0 && sh.n < of {
		text += fmt.Sprintf(" (in %d of %d)", sh.n, of)
	}
	if d.n++; d.n > linesMost {
		d.s.unlisted(d.list, 1, 0)
		return
	}
	path := sh.path
	if path == "" {
		path = "."
	}
	rank := d.rank + 12 + 6*depth - telling(path)
	if sh.values.bad() > 0 {
		rank -= 6
	}
	if strings.Contains(path, "managedFields") {
		rank += might
	}
	d.s.entry(d.list, rank, 1, fmt.Sprintf("  %s: %s", path, text))
}

// drawItems quotes the first and the last element of the outer array.
func (w *walk) drawItems(s *sheet, text []byte) {
	if w.outer == nil || w.last[1] == 0 {
		return
	}
	width := s.width
	s.width = max(width, min(s.max, 1200))
	s.add(could, "first element: "+flat(text[w.first[0]:w.first[1]]))
	if w.first != w.last {
		s.add(could+20, "last element: "+flat(text[w.last[0]:w.last[1]]))
	}
	s.width = width
}

// flat is the beginning of a JSON value on one line.
func flat(raw []byte) string {
	raw = bytes.TrimLeft(raw, ", \t\r\n")
	return strings.Join(strings.Fields(string(raw[:min(len(raw), 3000)])), " ")
}

// lineFinder turns offsets, asked for in order, into line numbers.
type lineFinder struct {
	text []byte
	from int64
	line int
}

func (f *lineFinder) at(offset int64) int {
	if offset < f.from {
		f.from, f.line = 0, 0
	}
	// The value begins behind a comma and white space that belong to what is before.
	for offset < int64(len(f.text)) && bytes.IndexByte([]byte(", \t\r\n:"), f.text[offset]) >= 0 {
		offset++
	}
	f.line += bytes.Count(f.text[f.from:offset], []byte("\n"))
	f.from = offset
	return f.line + 1
}
