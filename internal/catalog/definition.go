package catalog

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/wire"
)

// Bounds that no server reaches by itself.
const (
	maxName       = 1 << 10 // bytes of a name
	maxURI        = 8 << 10 // bytes of a URI or URI template
	maxDefinition = 1 << 20 // bytes of a whole definition
)

// member numbers of a definition.
const (
	inName  = iota // what it is addressed by: name, uri or uriTemplate
	inLabel        // the name of a resource, for readers
	inTitle
	inDescription
	inInput
	inOutput
	inAnnotations
	inMeta
	inVersion
	inArguments
	members
)

var memberOf = map[string]int{
	"title": inTitle, "description": inDescription, "inputSchema": inInput, "outputSchema": inOutput,
	"annotations": inAnnotations, "_meta": inMeta, "version": inVersion, "arguments": inArguments,
}

// A definition is one entry of a list while it is checked.
type definition struct {
	kind  Kind
	raw   []byte
	at    [members]wire.Span // where its members are; zero for those it has not
	item  Item
	edits []wire.Edit
	notes []string // what to warn about
}

// open finds the members of a definition and reads its name. It says why the
// definition cannot be used, or "".
func (d *definition) open() string {
	if d.raw = bytes.Trim(d.raw, " \t\r\n"); len(d.raw) == 0 || d.raw[0] != '{' {
		return "is no object"
	}
	if len(d.raw) > maxDefinition {
		return fmt.Sprintf("has %d bytes, limit %d", len(d.raw), maxDefinition)
	}
	key, longest := lists[d.kind].key, maxName
	if d.kind >= Resources {
		longest = maxURI
	}
	for m := range wire.Members(d.raw, wire.Span{Lo: 0, Hi: len(d.raw)}) {
		plain := string(keyText(m.Key.Of(d.raw)))
		i, ok := memberOf[plain]
		switch {
		case plain == key:
			i = inName
		case plain == "name":
			i = inLabel
		case !ok:
			continue
		}
		if d.at[i].OK() {
			return fmt.Sprintf("has %s twice", plain)
		}
		d.at[i] = m.Val
	}
	name, bad := badName(d.at[inName].Of(d.raw), longest)
	d.item.Name = name
	if bad != "" {
		return key + " " + bad
	}
	return ""
}

// nameOr returns the name for messages: without one, the number in the list.
func (d *definition) nameOr(n int) string {
	if d.item.Name != "" {
		return d.item.Name
	}
	return fmt.Sprintf("#%d", n)
}

// hides reports whether a filter hides the tool because of its annotations.
func (d *definition) hides(rules config.Filter) bool {
	d.readHints()
	return rules.ReadOnlyOnly && !d.item.ReadOnly || rules.HideDestructive && d.item.Destructive
}

// readHints reads the annotations of a tool. Those of a wrong type say nothing.
func (d *definition) readHints() {
	known, destructive := false, false
	for m := range wire.Members(d.raw, d.at[inAnnotations]) {
		v := string(m.Val.Of(d.raw))
		if v != "true" && v != "false" {
			continue
		}
		switch string(m.Key.Of(d.raw)) {
		case `"readOnlyHint"`:
			d.item.ReadOnly = v == "true"
			known = true
		case `"destructiveHint"`:
			d.item.Destructive = v == "true"
			destructive = true
		case `"idempotentHint"`:
			d.item.Idempotent = v == "true"
		}
	}
	if known && !destructive && !d.item.ReadOnly {
		d.item.Destructive = true // the default of the specification, for tools that say they change something
	}
}

// version returns the version a tool names.
func (d *definition) version() string {
	s := d.at[inVersion]
	if !s.OK() && d.at[inMeta].OK() {
		s = wire.Field(d.raw, d.at[inMeta], "version")
	}
	version, _ := wire.Unquote(s.Of(d.raw))
	return version
}

// checkSchemas checks the schemas of a tool.
func (d *definition) checkSchemas(size, depth int) string {
	if !d.at[inInput].OK() {
		return "inputSchema is missing"
	}
	for _, i := range []int{inInput, inOutput} {
		s := d.at[i]
		if !s.OK() {
			continue
		}
		name := "inputSchema"
		if i == inOutput {
			name = "outputSchema"
		}
		k := schemaCheck{raw: d.raw, input: i == inInput}
		outside := false
		if k.check(s, size, depth); k.err == "" && k.refs {
			k.err, outside = checkRefs(d.raw, s)
		}
		if k.err != "" {
			return name + " " + k.err
		}
		if outside {
			k.doubts = append(k.doubts, "refers to schemas elsewhere, which are never fetched")
		}
		for _, doubt := range k.doubts {
			d.notes = append(d.notes, name+" "+doubt)
		}
		d.edits = append(d.edits, k.edits...)
		if i == inInput {
			d.item.Headers = k.headers
		}
	}
	return ""
}

// dropOutput takes the outputSchema off a tool whose results may lose what it promises
// (specification 2025-11-25, server/tools: Output Schema).
func (d *definition) dropOutput() {
	out := d.at[inOutput]
	if !out.OK() {
		return
	}
	d.edits = slices.DeleteFunc(d.edits, func(e wire.Edit) bool { return out.Lo <= e.Lo && e.Hi <= out.Hi })
	d.edits = append(d.edits, wire.Without(wire.Members(d.raw, wire.Span{Lo: 0, Hi: len(d.raw)}), func(m wire.Member) bool { return m.Val == out })...)
}

// checkTexts looks through what people and models read.
func (d *definition) checkTexts(limit int) {
	d.text("name", d.at[inLabel], limit)
	d.text("title", d.at[inTitle], limit)
	d.text("description", d.at[inDescription], limit)
	if d.kind == Tools {
		d.text("annotations.title", wire.Field(d.raw, d.at[inAnnotations], "title"), limit)
	}
	if d.kind != Prompts {
		return
	}
	for e := range wire.Elements(d.raw, d.at[inArguments]) {
		for m := range wire.Members(d.raw, e) {
			if key := string(m.Key.Of(d.raw)); key == `"title"` || key == `"description"` {
				d.text("arguments", m.Val, limit)
			}
		}
	}
}

func (d *definition) text(what string, s wire.Span, limit int) {
	if !s.OK() || d.raw[s.Lo] != '"' {
		return
	}
	edits, done := clean(d.raw, s, limit)
	if done != "" {
		d.edits = append(d.edits, edits...)
		d.notes = append(d.notes, what+": "+done)
	}
}

// finish makes the item: the definition with the edits applied, on one line.
func (d *definition) finish() Item {
	d.item.Def, d.item.At = d.raw, d.at[inName]
	if len(d.edits) > 0 {
		slices.SortFunc(d.edits, func(a, b wire.Edit) int { return cmp.Compare(a.Lo, b.Lo) })
		shift := 0
		for _, e := range d.edits {
			if e.Lo < d.item.At.Lo {
				shift += len(e.With) - (e.Hi - e.Lo)
			}
		}
		d.item.Def = wire.Value{Raw: d.raw, Edits: d.edits}.Bytes()
		d.item.At = wire.Span{Lo: d.item.At.Lo + shift, Hi: d.item.At.Hi + shift}
	}
	if bytes.IndexByte(d.item.Def, '\n') >= 0 || bytes.IndexByte(d.item.Def, '\r') >= 0 {
		d.item.Def = wire.Compact(make([]byte, 0, len(d.item.Def)), d.item.Def)
	}
	return d.item
}
