package catalog

import (
	"bytes"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"mcp-aggregator/internal/wire"
)

// A $ref is never followed when a tool is used: schemas travel as bytes. But hosts
// follow it, so a tool whose references lead nowhere, for ever or to an explosion is
// rejected (CAT-6). References out of the schema stay and are never fetched.
const (
	maxLookups  = 1 << 20 // steps to find the targets of all references of a schema
	maxExpanded = 1 << 20 // subschemas when every reference is replaced by its target
)

// A node is one value inside a schema. Node 0 is the schema itself.
type node struct {
	key         wire.Span // in an object; zero in an array
	parent      int32
	first, next int32 // child and sibling, 0 for none
	ref         int32 // target of its $ref, -1 for none or one outside
	rule        keyword
	hasID       bool // it is the base of the pointers below it
}

// graph is a schema with its references.
type graph struct {
	raw     []byte
	nodes   []node
	refs    []pointer
	names   map[string]int32 // "#anchor" or "$id" → node
	lookups int
}

// A pointer is one reference: the schema that holds it and what it says.
type pointer struct {
	from int32
	text string
}

// checkRefs follows the references of a schema that check has accepted.
func checkRefs(raw []byte, s wire.Span) (err string, outside bool) {
	g := &graph{raw: raw, names: map[string]int32{}, nodes: make([]node, 0, 2+bytes.Count(s.Of(raw), []byte{':'}))}
	c := wire.NewCursor(raw, s)
	g.add(&c, 0, wire.Span{}, keyword{shape: isSchema})
	for _, p := range g.refs {
		to, known := g.resolve(p)
		switch {
		case g.lookups > maxLookups:
			return "has too many references", false
		case to < 0 && known:
			return fmt.Sprintf("has a $ref to %q, which does not exist", printable(p.text)), false
		case to < 0:
			outside = true
		default:
			g.nodes[p.from].ref = to
		}
	}
	if g.circular() {
		return "has a $ref that leads back to itself", false
	}
	if g.expanded() > maxExpanded {
		return fmt.Sprintf("grows to more than %d schemas when its references are followed", maxExpanded), false
	}
	return "", outside
}

// add notes the value in front of the cursor and everything in it.
func (g *graph) add(c *wire.Cursor, parent int32, key wire.Span, rule keyword) int32 {
	id := int32(len(g.nodes))
	g.nodes = append(g.nodes, node{key: key, parent: parent, ref: -1, rule: rule})
	var last int32
	link := func(child int32) {
		if last == 0 {
			g.nodes[id].first = child
		} else {
			g.nodes[last].next = child
		}
		last = child
	}
	switch c.Kind() {
	case '{':
		if rule.shape == isItems {
			g.nodes[id].rule.shape, rule.shape = isSchema, isSchema
		}
		for k := range c.Object() {
			name := keyText(k.Of(g.raw))
			if rule.shape == isSchema && c.Kind() == '"' {
				value := *c
				g.identify(id, name, value.Skip().Of(g.raw))
			}
			link(g.add(c, id, k, member(rule, name)))
		}
	case '[':
		for range c.Array() {
			link(g.add(c, id, wire.Span{}, element(rule)))
		}
	default:
		c.Skip()
	}
	return id
}

// member returns the rule for a member of an object that is under the given rule.
func member(rule keyword, name []byte) keyword {
	switch rule.shape {
	case isSchema:
		return keywords[string(name)]
	case isSchemaMap, isDepends:
		return keyword{shape: isSchema, inPlace: rule.inPlace}
	}
	return keyword{}
}

// element does the same for an array.
func element(rule keyword) keyword {
	if rule.shape == isSchemas || rule.shape == isItems {
		return keyword{shape: isSchema, inPlace: rule.inPlace}
	}
	return keyword{}
}

// identify notes what makes a schema a target, and its references.
func (g *graph) identify(id int32, name, raw []byte) {
	switch string(name) {
	case "$id", "id", "$anchor", "$dynamicAnchor", "$ref", "$dynamicRef":
	default:
		return
	}
	value, _ := wire.Unquote(raw)
	switch string(name) {
	case "$id", "id":
		if strings.HasPrefix(value, "#") {
			g.names[value] = id
		} else if string(name) == "$id" {
			g.nodes[id].hasID = true
			g.names[strings.TrimSuffix(value, "#")] = id // an absolute or relative URI
		}
	case "$anchor", "$dynamicAnchor":
		g.names["#"+value] = id
	default:
		g.refs = append(g.refs, pointer{id, value})
	}
}

// resolve finds the target of a reference; -1 if there is none. Known says that it
// should be in this schema.
func (g *graph) resolve(p pointer) (to int32, known bool) {
	address, fragment, _ := strings.Cut(p.text, "#")
	base, named := g.names[address]
	if address != "" && !named {
		return -1, false
	}
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return -1, true
	}
	if fragment != "" && fragment[0] != '/' {
		if to, named = g.names["#"+fragment]; !named {
			return -1, true
		}
		return to, true
	}
	if address == "" {
		for base = p.from; base != 0 && !g.nodes[base].hasID; {
			base = g.nodes[base].parent
		}
	}
	if to = g.walk(base, fragment); to < 0 && base != 0 {
		to = g.walk(0, fragment)
	}
	return to, true
}

var pointerEscapes = strings.NewReplacer("~1", "/", "~0", "~")

// walk follows a JSON pointer (RFC 6901).
func (g *graph) walk(at int32, path string) int32 {
	for path != "" {
		token, rest, more := strings.Cut(path[1:], "/")
		if path = ""; more {
			path = "/" + rest
		}
		token = pointerEscapes.Replace(token)
		if at = g.child(at, token); at < 0 {
			return -1
		}
	}
	return at
}

func (g *graph) child(of int32, token string) int32 {
	n := 0
	for at := g.nodes[of].first; at != 0; at = g.nodes[at].next {
		if g.lookups++; g.lookups > maxLookups {
			return -1
		}
		key := g.nodes[at].key
		if key.OK() && string(keyText(key.Of(g.raw))) == token || !key.OK() && strconv.Itoa(n) == token {
			return at
		}
		n++
	}
	return -1
}

// circular reports whether some schema applies itself to the same value again,
// which no validator and no host gets to the end of. Recursion through properties or
// items is fine: it ends with the value.
func (g *graph) circular() bool {
	const open, closed = 1, 2
	state := make([]byte, len(g.nodes))
	var visit func(at int32) bool
	visit = func(at int32) bool {
		switch state[at] {
		case open:
			return true
		case closed:
			return false
		}
		state[at] = open
		n := &g.nodes[at]
		if n.ref >= 0 && visit(n.ref) {
			return true
		}
		for c := n.first; c != 0; c = g.nodes[c].next {
			if g.nodes[c].rule.inPlace && visit(c) {
				return true
			}
		}
		state[at] = closed
		return false
	}
	for at := range g.nodes {
		if g.nodes[at].rule.shape == isSchema && visit(int32(at)) {
			return true
		}
	}
	return false
}

// expanded counts the schemas when every reference is replaced by its target, each
// recursion followed once.
func (g *graph) expanded() int {
	const open = -1
	memo := make([]int, len(g.nodes)) // 1 more than the count; 0: not counted yet
	var count func(at int32) int
	count = func(at int32) int {
		switch memo[at] {
		case 0:
		case open:
			return 1
		default:
			return memo[at] - 1
		}
		memo[at] = open
		n := &g.nodes[at]
		sum := 0
		if n.rule.shape == isSchema {
			sum = 1
		}
		if n.ref >= 0 {
			sum += count(n.ref)
		}
		for c := n.first; c != 0 && sum <= maxExpanded; c = g.nodes[c].next {
			if !g.nodes[c].rule.defines {
				sum += count(c)
			}
		}
		memo[at] = sum + 1
		return sum
	}
	return count(0)
}
