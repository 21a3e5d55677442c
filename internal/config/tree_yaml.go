package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxAliased bounds the values that aliases may stand for together, so that a small file
// of aliases of aliases cannot become a huge one.
const maxAliased = 100_000

// parseYAML reads the only document of a YAML file. It returns nil after reporting a
// syntax error, and for a file without content.
func (l *loader) parseYAML(src []byte) *node {
	dec := yaml.NewDecoder(bytes.NewReader(src))
	var doc, more yaml.Node
	if err := decodeYAML(dec, &doc); err == io.EOF {
		return nil
	} else if err != nil {
		l.yamlSyntax(src, err)
		return nil
	}
	if err := decodeYAML(dec, &more); err == nil {
		l.fail(place(more.Line, more.Column), "", "a second YAML document begins here; the configuration is one document, so remove the --- line or the rest")
	} else if err != io.EOF {
		l.yamlSyntax(src, err)
	}
	t := yamlTree{loader: l, open: map[*yaml.Node]bool{}}
	return t.node(doc.Content[0], 0)
}

// decodeYAML turns a panic of the library into an error: it reads what a person typed.
func decodeYAML(dec *yaml.Decoder, into *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: cannot be read: %v", r)
		}
	}()
	return dec.Decode(into)
}

// yamlTree converts the library's nodes, resolving aliases and merge keys.
type yamlTree struct {
	*loader
	open    map[*yaml.Node]bool // anchors being converted, to see cycles
	inAlias int
	aliased int // nodes converted on behalf of an alias
	tooMany bool
}

func (t *yamlTree) node(n *yaml.Node, depth int) *node {
	out := place(n.Line, n.Column)
	if t.inAlias > 0 {
		t.aliased++
	}
	if t.aliased > maxAliased {
		if !t.tooMany {
			t.tooMany = true
			t.fail(out, "", "aliases stand for more than %d values; write fewer of them", maxAliased)
		}
		return out
	}
	if depth > maxDepth {
		t.fail(out, "", "nested deeper than %d levels", maxDepth)
		return out
	}
	t.checkTag(n, out)
	switch n.Kind {
	case yaml.AliasNode:
		return t.alias(n, depth)
	case yaml.SequenceNode:
		out.shape = isList
		for _, item := range n.Content {
			out.items = append(out.items, t.node(item, depth+1))
		}
	case yaml.MappingNode:
		out.shape = isMapping
		t.mapping(n, out, depth)
	default:
		out.shape, out.text = yamlShape(n), n.Value
	}
	return out
}

func (t *yamlTree) alias(n *yaml.Node, depth int) *node {
	if t.open[n.Alias] {
		out := place(n.Line, n.Column)
		t.fail(out, "", "alias *%s stands inside its own anchor", n.Value)
		return out
	}
	t.open[n.Alias] = true
	t.inAlias++
	out := t.node(n.Alias, depth+1)
	t.inAlias--
	delete(t.open, n.Alias)
	return out
}

// mapping fills in the pairs: those written here first, then those of merge keys that are not yet there.
func (t *yamlTree) mapping(n *yaml.Node, out *node, depth int) {
	seen := map[string]int{} // key → line
	var merged []pair
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		if k.Kind != yaml.ScalarNode {
			t.fail(place(k.Line, k.Column), "", `a key must be plain text; a value that begins with { such as {{.VAR}} needs quotes: "{{.VAR}}"`)
			continue
		}
		if k.Tag == "!!merge" {
			merged = append(merged, t.merge(t.node(v, depth+1))...)
			continue
		}
		key := place(k.Line, k.Column)
		key.shape, key.text = isText, k.Value
		if line, twice := seen[k.Value]; twice {
			t.fail(key, "", "key %q is given twice, first in line %d", short(k.Value), line)
			continue
		}
		seen[k.Value] = k.Line
		out.pairs = append(out.pairs, pair{key, t.node(v, depth+1)})
	}
	for _, p := range merged {
		if _, there := seen[p.key.text]; !there {
			seen[p.key.text] = p.key.line
			out.pairs = append(out.pairs, p)
		}
	}
}

// merge returns the pairs a merge key brings, the earlier mapping of a list first because it wins.
func (t *yamlTree) merge(v *node) []pair {
	switch v.shape {
	case isMapping:
		return v.pairs
	case isList:
		var all []pair
		for _, item := range v.items {
			if item.shape != isMapping {
				t.fail(item, "", "<< takes a mapping or a list of mappings, not %s", item.shape)
				continue
			}
			all = append(all, item.pairs...)
		}
		return all
	}
	t.fail(v, "", "<< takes a mapping or a list of mappings, not %s", v.shape)
	return nil
}

func (t *yamlTree) checkTag(n *yaml.Node, at *node) {
	switch tag := n.ShortTag(); tag {
	case "", "!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp", "!!map", "!!seq", "!!merge":
	default:
		t.fail(at, "", "the YAML tag %q is not supported", short(tag))
	}
}

func yamlShape(n *yaml.Node) shape {
	switch n.ShortTag() {
	case "!!null":
		return isNull
	case "!!int", "!!float":
		return isNumber
	case "!!bool":
		return isBool
	}
	// The library takes a number beyond float64, such as 1e400, for text.
	if n.Style == 0 && strings.Trim(n.Value, "-+.0123456789eE") == "" && json.Valid([]byte(n.Value)) {
		return isNumber
	}
	return isText
}

var (
	yamlLine      = regexp.MustCompile(`^line (\d+): `)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.+)' referenced$`)
)

// yamlRemedies says more plainly what the library means.
var yamlRemedies = map[string]string{
	"did not find expected key":                              "this line does not fit the indentation of the lines above it",
	"did not find expected '-' indicator":                    "this line does not fit the list above it",
	"mapping values are not allowed in this context":         `": " is not allowed here; quote the value, or begin a new line`,
	"found character that cannot start any token":            "this character cannot begin a value; quote the value, and indent with spaces, not tabs",
	"could not find expected ':'":                            `expected "key: value"`,
	"found a tab character that violates indentation":        "indent with spaces, not tabs",
	"found unexpected end of stream":                         "a quote that was opened is never closed",
	"found unknown escape character":                         `unknown escape in a "..." value; use '...' for text with backslashes`,
	"did not find expected ',' or ']'":                       "a [ that was opened here is not closed, or a comma is missing; inside [ ] quote references: \"${VAR}\"",
	"did not find expected ',' or '}'":                       "a { that was opened here is not closed, or a comma is missing; inside { } quote references: \"${VAR}\"",
	"document contains excessive aliasing":                   "too many aliases",
	"found character '@' that cannot start any token":        "a value that begins with @ needs quotes",
	"found character '`' that cannot start any token":        "a value that begins with ` needs quotes",
	"block sequence entries are not allowed in this context": `a list item "- " is not allowed here; begin it on a line of its own`,
}

// yamlSyntax reports an error of the library, which knows the line at best.
func (l *loader) yamlSyntax(src []byte, err error) {
	message, line := splitYAMLError(err)
	if m := unknownAnchor.FindStringSubmatch(message); m != nil {
		ln, col := position(src, max(bytes.Index(src, []byte("*"+m[1])), 0))
		l.fail(place(ln, col), "", "alias *%s has no anchor &%[1]s before it", short(m[1]))
		return
	}
	switch {
	case len(src) > maxSearched:
	case strings.HasPrefix(message, "did not find expected key") || strings.HasPrefix(message, "did not find expected '-'"):
		line = firstBadLine(src, message)
	case strings.HasPrefix(message, "did not find") && line > 0:
		line++ // the library's parser, unlike its scanner, counts lines from 0
	}
	if plain := yamlRemedies[message]; plain != "" {
		message = plain
	}
	lines := bytes.Split(src, []byte("\n"))
	line = min(max(line, 1), len(lines))
	at := lines[line-1]
	col := len(at) - len(bytes.TrimLeft(at, " \t\r")) + 1
	l.fail(place(line, col), "", "not valid YAML: %s", message)
}

func splitYAMLError(err error) (message string, line int) {
	message = strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlLine.FindStringSubmatch(message); m != nil {
		line, _ = strconv.Atoi(m[1])
		message = message[len(m[0]):]
	}
	return message, line
}

// maxSearched bounds the files that are read again and again to find a line.
const maxSearched = 256 << 10

// firstBadLine finds the line at which block structure breaks. The library names the line where the
// enclosing mapping began, which can be far above; the shortest run of lines that fails in the same way
// ends with the culprit.
func firstBadLine(src []byte, message string) int {
	lines := bytes.SplitAfter(src, []byte("\n"))
	lo, hi := 1, len(lines)
	for lo < hi {
		mid := (lo + hi) / 2
		var n yaml.Node
		err := decodeYAML(yaml.NewDecoder(bytes.NewReader(bytes.Join(lines[:mid], nil))), &n)
		if err != nil && !errors.Is(err, io.EOF) {
			if m, _ := splitYAMLError(err); m == message {
				hi = mid
				continue
			}
		}
		lo = mid + 1
	}
	return lo
}
