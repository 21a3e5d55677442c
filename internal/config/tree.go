package config

// node is a value of the file with its place: what both syntaxes, YAML and JSON, are read into.
// Anchors, aliases and merge keys are already resolved.
type node struct {
	shape     shape
	line, col int
	text      string  // of a scalar: as written, without quotes and before ${VAR} is expanded
	literal   bool    // of a scalar: comes from a dotenv file, so it is a secret and holds no references
	items     []*node // of a list
	pairs     []pair  // of a mapping, in file order, keys unique
}

type pair struct{ key, val *node }

// shape is what a value looks like. A scalar's own type is kept for messages and
// for the few places where a number and a string mean different things.
type shape uint8

const (
	isNull shape = iota
	isText
	isNumber
	isBool
	isList
	isMapping
)

func (s shape) String() string {
	return [...]string{"nothing", "text", "a number", "true or false", "a list", "a mapping"}[s]
}

func (s shape) scalar() bool { return s == isText || s == isNumber || s == isBool }

// maxDepth bounds the nesting of a file in either syntax. The deepest setting lies at six.
const maxDepth = 100

// get returns the value of a key of a mapping, or nil.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	for _, p := range n.pairs {
		if p.key.text == key {
			return p.val
		}
	}
	return nil
}

// key returns the key node itself, or nil: the place to point at when the key is the problem.
func (n *node) key(name string) *node {
	for _, p := range n.pairs {
		if p.key.text == name {
			return p.key
		}
	}
	return nil
}

// filled reports whether a key is there with something in it; foreign files write empty strings for unused keys.
func (n *node) filled(key string) bool {
	v := n.get(key)
	return v != nil && v.shape != isNull && (v.shape != isText || v.text != "")
}

// place is a position in the file that no node stands for.
func place(line, col int) *node { return &node{line: max(line, 1), col: max(col, 1)} }
