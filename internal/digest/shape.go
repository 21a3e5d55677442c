package digest

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// The caps of a shape: how many places it tells apart, how many fields of one
// object, how deep it looks, how long a path is spelled out.
const (
	placesMost = 5000
	fieldsMost = 150
	deepest    = 40
	pathMost   = 240
)

// shape is what occurs at one place of JSON, all elements of an array merged.
type shape struct {
	path     string // as jq has it
	n        int    // values here
	values   values // those that are neither object nor array
	objects  int
	fields   map[string]*shape
	order    []string
	wild     *shape // fields beyond fieldsMost
	arrays   int
	elements int
	element  *shape
	longest  int // of the arrays
}

// walk is one pass over JSON.
type walk struct {
	dec     *jsontext.Decoder
	places  int
	pool    int    // how many more values may be counted apart
	sink    *shape // for places beyond placesMost
	root    *shape
	tops    int   // values at the top, one behind another
	item    int   // index of the element of the outer array being read, -1 for none
	itemAt  int64 // where that element begins
	bad     []badValue
	badAll  int
	first   [2]int64 // where the first element begins and ends
	last    [2]int64
	outer   *shape // elements of the outer array
	several bool   // the values at the top are the elements
}

// badValue is a value that says trouble.
type badValue struct {
	path, value string
	item        int
	at          int64
}

func (w *walk) place(path string) *shape {
	if w.places++; w.places > placesMost {
		return w.sink
	}
	return &shape{path: path[:min(len(path), pathMost)], values: values{pool: &w.pool}}
}

// child is the place of a field of objects at sh.
func (w *walk) child(sh *shape, name string) *shape {
	if sh == w.sink {
		return sh
	}
	if c := sh.fields[name]; c != nil {
		return c
	}
	if len(sh.order) >= fieldsMost {
		if sh.wild == nil {
			sh.wild = w.place(sh.path + "[]")
		}
		return sh.wild
	}
	if sh.fields == nil {
		sh.fields = map[string]*shape{}
	}
	c := w.place(sh.path + step(name))
	sh.fields[name] = c
	sh.order = append(sh.order, name)
	return c
}

// step is how jq writes the way to a field.
func step(name string) string {
	plain := name != "" && !digit(name[0])
	for i := range len(name) {
		plain = plain && (letter(name[i]) || digit(name[i]) || name[i] == '_')
	}
	if plain {
		return "." + name
	}
	return "[" + strconv.Quote(clip(name, short)) + "]"
}

// value reads the next value into sh.
func (w *walk) value(sh *shape, depth int) error {
	sh.n++
	switch w.dec.PeekKind() {
	case '{':
		return w.object(sh, depth)
	case '[':
		return w.array(sh, depth)
	}
	at := w.dec.InputOffset()
	tok, err := w.dec.ReadToken()
	if err != nil {
		return err
	}
	switch tok.Kind() {
	case 'n':
		sh.values.empty++
	case 't', 'f':
		sh.values.bools++
		sh.values.tally(tok.String())
	case '0':
		text := tok.String()
		f, _ := strconv.ParseFloat(text, 64)
		sh.values.number(text, f)
	default:
		text := tok.String()
		sh.values.add(text)
		if trouble(text) {
			w.trouble(sh, text, at)
		}
	}
	return nil
}

func (w *walk) trouble(sh *shape, value string, at int64) {
	w.badAll++
	if len(w.bad) < troubles {
		w.bad = append(w.bad, badValue{sh.path, value, w.item, max(at, w.itemAt)})
	}
}

func (w *walk) object(sh *shape, depth int) error {
	sh.objects++
	if depth > deepest {
		return w.dec.SkipValue()
	}
	if _, err := w.dec.ReadToken(); err != nil {
		return err
	}
	for w.dec.PeekKind() != '}' {
		name, err := w.dec.ReadToken()
		if err != nil {
			return err
		}
		if err := w.value(w.child(sh, name.String()), depth+1); err != nil {
			return err
		}
	}
	_, err := w.dec.ReadToken()
	return err
}

func (w *walk) array(sh *shape, depth int) error {
	sh.arrays++
	if depth > deepest {
		return w.dec.SkipValue()
	}
	if _, err := w.dec.ReadToken(); err != nil {
		return err
	}
	if sh.element == nil {
		sh.element = sh
		if sh != w.sink {
			sh.element = w.place(sh.path + "[]")
		}
	}
	// The outer array is the first one that is not deeper than the fields of the top.
	outer := !w.several && w.outer == nil && depth <= 1 || !w.several && w.outer == sh.element && sh != w.sink
	if outer {
		w.outer = sh.element
	}
	n := 0
	for ; w.dec.PeekKind() != ']'; n++ {
		if outer {
			w.enter(n)
		}
		if err := w.value(sh.element, depth+1); err != nil {
			return err
		}
		if outer {
			w.leave(n)
		}
	}
	if outer {
		w.item = -1
	}
	sh.elements += n
	sh.longest = max(sh.longest, n)
	_, err := w.dec.ReadToken()
	return err
}

func (w *walk) enter(n int) { w.item, w.itemAt = n, w.dec.InputOffset() }

func (w *walk) leave(n int) {
	w.last = [2]int64{w.itemAt, w.dec.InputOffset()}
	if n == 0 {
		w.first = w.last
	}
}
