package catalog

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"mcp-aggregator/internal/wire"
)

// A schemaCheck reads one schema of a definition from front to back.
type schemaCheck struct {
	raw   []byte
	c     wire.Cursor
	input bool // it is the inputSchema: x-mcp-header counts

	path     []wire.Span // keys down to where the cursor is, for messages and headers
	err      string      // why the tool is rejected
	refs     bool        // there are $refs
	doubts   []string    // warnings
	edits    []wire.Edit // hidden characters in titles and descriptions
	headers  []ParamHeader
	composed bool // allOf, anyOf or oneOf at the top
	tuple    bool // an array of schemas as items
}

// check reads the schema at s. It finds out everything but where $refs lead.
func (k *schemaCheck) check(s wire.Span, size, depth int) {
	switch text := s.Of(k.raw); {
	case text[0] != '{':
		k.fail("must be an object")
		return
	case len(text) > size:
		k.fail("has %d bytes, limit %d", len(text), size)
		return
	case tooDeep(text, depth):
		k.fail("is nested deeper than %d levels", depth)
		return
	}
	k.c = wire.NewCursor(k.raw, s)
	k.object(true, k.input)
	if k.composed {
		k.doubt("has allOf, anyOf or oneOf at the top level; some hosts drop such tools")
	}
	if k.tuple {
		k.doubt("has an array of schemas in items, which JSON Schema 2020-12 calls prefixItems; some hosts refuse it")
	}
}

func (k *schemaCheck) fail(format string, args ...any) {
	if k.err == "" {
		k.err = k.where() + fmt.Sprintf(format, args...)
	}
}

func (k *schemaCheck) doubt(format string, args ...any) {
	if len(k.doubts) < 4 {
		k.doubts = append(k.doubts, k.where()+fmt.Sprintf(format, args...))
	}
}

// where names the place of the cursor for messages.
func (k *schemaCheck) where() string {
	if len(k.path) == 0 {
		return ""
	}
	var b strings.Builder
	for _, key := range k.path {
		name, _ := wire.Unquote(key.Of(k.raw))
		b.WriteByte('/')
		b.WriteString(name)
	}
	return printable(b.String()) + " "
}

// schema reads the schema in front of the cursor. Reachable says that only
// properties keywords lead here.
func (k *schemaCheck) schema(reachable bool) {
	switch k.c.Kind() {
	case '{':
		k.object(false, reachable)
	case 't', 'f':
		k.c.Skip()
	default:
		k.fail("must be a schema: an object or a boolean")
	}
}

func (k *schemaCheck) object(top, reachable bool) {
	var typ, header wire.Span
	for key := range k.c.Object() {
		name := keyText(key.Of(k.raw))
		rule, ok := keywords[string(name)]
		if !ok {
			continue
		}
		k.path = append(k.path, key)
		switch rule.shape {
		case isType:
			typ = k.typeOf(top)
		case isHeader:
			header = k.c.Skip()
		default:
			k.composed = k.composed || top && rule.inPlace && rule.shape == isSchemas
			k.value(rule.shape, reachable && rule.shape == isSchemaMap && string(name) == "properties")
		}
		if k.err != "" {
			return
		}
		k.path = k.path[:len(k.path)-1]
	}
	if top && k.input && !typ.OK() {
		k.fail(`must have type "object"`)
	}
	if header.OK() && k.input {
		k.header(header, typ, reachable)
	}
}

// keyText returns a key without quotes and escapes. It allocates only for escapes.
func keyText(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	s, _ := wire.Unquote(raw)
	return []byte(s)
}

// value checks the value of a keyword.
func (k *schemaCheck) value(want shape, reachable bool) {
	kind := k.c.Kind()
	switch want {
	case isSchema:
		k.schema(false)
	case isItems:
		if k.tuple = k.tuple || kind == '['; kind == '[' {
			k.schemas(0)
		} else {
			k.schema(false)
		}
	case isSchemas:
		k.schemas(1)
	case isSchemaMap, isDepends, isRequired:
		k.schemaMap(want, reachable)
	case isStrings:
		k.strings()
	case isNumber, isPositive, isCount, isLimit:
		k.number(want)
	case isBool:
		if k.c.Skip(); kind != 't' && kind != 'f' {
			k.fail("must be a boolean")
		}
	case isString, isRef:
		k.refs = k.refs || want == isRef
		if k.c.Skip(); kind != '"' {
			k.fail("must be a string")
		}
	case isArray:
		if k.c.Skip(); kind != '[' {
			k.fail("must be an array")
		}
	case isText:
		k.text()
	}
}

func (k *schemaCheck) schemas(least int) {
	if k.c.Kind() != '[' {
		k.fail("must be an array of schemas")
		return
	}
	n := 0
	for range k.c.Array() {
		n++
		if k.schema(false); k.err != "" {
			return
		}
	}
	if n < least {
		k.fail("must not be empty")
	}
}

func (k *schemaCheck) schemaMap(want shape, reachable bool) {
	if k.c.Kind() != '{' {
		k.fail("must be an object")
		return
	}
	for key := range k.c.Object() {
		k.path = append(k.path, key)
		if want == isRequired || want == isDepends && k.c.Kind() == '[' {
			k.strings()
		} else {
			k.schema(reachable)
		}
		if k.err != "" {
			return
		}
		k.path = k.path[:len(k.path)-1]
	}
}

func (k *schemaCheck) strings() {
	if k.c.Kind() != '[' {
		k.fail("must be an array of strings")
		return
	}
	for range k.c.Array() {
		if k.c.Kind() != '"' {
			k.fail("must be an array of strings")
			return
		}
	}
}

func (k *schemaCheck) number(want shape) {
	kind := k.c.Kind()
	text := string(k.c.Skip().Of(k.raw))
	if kind != '0' {
		if want != isLimit || kind != 't' && kind != 'f' {
			k.fail("must be a number")
		}
		return
	}
	switch want {
	case isPositive:
		if text[0] == '-' || !strings.ContainsAny(mantissa(text), "123456789") {
			k.fail("must be greater than 0")
		}
	case isCount:
		if n, err := strconv.ParseUint(text, 10, 64); err == nil || n > 0 {
			return
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil && (f < 0 || f != float64(int64(f)) && f < 1<<53) {
			k.fail("must be a whole number from 0")
		}
	}
}

// mantissa returns a number without its exponent.
func mantissa(text string) string {
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		return text[:i]
	}
	return text
}

// typeOf checks the type keyword and returns where its value is. At the top of an
// inputSchema it must say "object" and nothing else: the arguments of a call are an
// object.
func (k *schemaCheck) typeOf(top bool) wire.Span {
	if k.c.Kind() == '[' && !(top && k.input) {
		c := k.c
		n := 0
		for range k.c.Array() {
			n++
			if !isTypeName(k.c.Skip().Of(k.raw)) {
				k.fail("must name JSON types")
				return wire.Span{}
			}
		}
		if n == 0 {
			k.fail("must not be empty")
		}
		return c.Skip()
	}
	s := k.c.Skip()
	switch {
	case top && k.input && string(s.Of(k.raw)) != `"object"`:
		k.fail(`must be "object"`)
	case !isTypeName(s.Of(k.raw)):
		k.fail("must be one of array, boolean, integer, null, number, object, string")
	}
	return s
}

func isTypeName(raw []byte) bool {
	switch string(raw) {
	case `"array"`, `"boolean"`, `"integer"`, `"null"`, `"number"`, `"object"`, `"string"`:
		return true
	}
	return false
}

// text looks for hidden characters in a title or description. One of another type
// is odd but changes nothing.
func (k *schemaCheck) text() {
	kind, s := k.c.Kind(), k.c.Skip()
	if kind != '"' {
		k.doubt("should be a string")
		return
	}
	edits, done := clean(k.raw, s, max(s.Hi-s.Lo, 128))
	if done != "" {
		k.edits = append(k.edits, edits...)
		k.doubt("%s", done)
	}
}

// tooDeep reports whether objects and arrays are nested deeper than limit.
func tooDeep(text []byte, limit int) bool {
	if bytes.Count(text, []byte{'{'})+bytes.Count(text, []byte{'['}) <= limit {
		return false
	}
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			if depth++; depth > limit {
				return true
			}
		case '}', ']':
			depth--
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		}
	}
	return false
}
