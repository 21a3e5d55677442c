package catalog

import (
	"errors"
	"fmt"
	"strings"
)

// A template matches URIs against a URI template (RFC 6570). The server behind it
// has the last word about a URI, so the matcher is a little wider than the
// expansion: it looks at the characters of a value, not at how many values there
// are, and a query may come in any order. It works through the URI once per part,
// in time proportional to both and without going back.
type template struct {
	parts    []templatePart
	literals int // bytes that are not variable
}

// A templatePart is either literal text or stands for a run of characters.
type templatePart struct {
	literal string
	lead    byte // for a variable: what the run begins with, 0 for nothing
	stops   string
	empty   bool // it may stand for nothing
}

// maxParts bounds what one read of an unknown URI can cost.
const maxParts = 64

var errTemplate = errors.New("its braces do not match or hold no variable")

// operators say what an expression can expand to: the character it begins with, the
// characters that end it, and whether it may be left out altogether.
var operators = map[byte]templatePart{
	'+': {empty: true},
	'#': {lead: '#', empty: true},
	'.': {lead: '.', stops: "/?#", empty: true},
	'/': {lead: '/', stops: "?#", empty: true},
	';': {lead: ';', stops: "/?#", empty: true},
	'?': {lead: '?', stops: "#", empty: true},
	'&': {lead: '&', stops: "#", empty: true},
}

// newTemplate compiles a URI template.
func newTemplate(text string) (*template, error) {
	t := &template{}
	for text != "" {
		literal, rest, found := strings.Cut(text, "{")
		if strings.Contains(literal, "}") {
			return nil, errTemplate
		}
		if literal != "" {
			t.parts = append(t.parts, templatePart{literal: literal})
			t.literals += len(literal)
		}
		if !found {
			break
		}
		var expression string
		expression, text, found = strings.Cut(rest, "}")
		if !found || expression == "" || strings.Contains(expression, "{") {
			return nil, errTemplate
		}
		part, ok := operators[expression[0]]
		if !ok {
			part.stops = "/?#"
		}
		if ok && expression[1:] == "" {
			return nil, errTemplate
		}
		if t.parts = append(t.parts, part); len(t.parts) > maxParts {
			return nil, fmt.Errorf("it has more than %d parts", maxParts)
		}
	}
	return t, nil
}

// match reports whether the template can expand to the URI. It keeps the set of
// places in the URI where the parts so far can end.
func (t *template) match(uri string) bool {
	if len(t.parts) > 0 && !strings.HasPrefix(uri, t.parts[0].literal) {
		return false
	}
	if n := len(t.parts) - 1; n >= 0 && !strings.HasSuffix(uri, t.parts[n].literal) {
		return false
	}
	var buf [2][256]bool
	now, next := buf[0][:], buf[1][:]
	if len(uri) >= len(now) {
		now, next = make([]bool, len(uri)+1), make([]bool, len(uri)+1)
	}
	now, next = now[:len(uri)+1], next[:len(uri)+1]
	now[0] = true
	for i := range t.parts {
		clear(next)
		if t.parts[i].step(uri, now, next) == 0 {
			return false
		}
		now, next = next, now
	}
	return now[len(uri)]
}

// step moves every place over one part and returns how many there are then.
func (p *templatePart) step(uri string, now, next []bool) (places int) {
	inside := false // in a run of the variable that began further left
	for i, here := range now {
		switch {
		case p.literal != "":
			if here && strings.HasPrefix(uri[i:], p.literal) {
				next[i+len(p.literal)] = true
				places++
			}
			continue
		case here && p.lead == 0:
			inside = true
			next[i] = next[i] || p.empty
		case here && p.empty:
			next[i] = true
		}
		if next[i] {
			places++
		}
		if i == len(uri) {
			break
		}
		begins := here && p.lead != 0 && uri[i] == p.lead
		if inside = begins || inside && strings.IndexByte(p.stops, uri[i]) < 0; inside {
			next[i+1] = true
		}
	}
	return places
}
