package catalog_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"mcp-aggregator/internal/catalog"
)

// typical is a tool as servers have them: about 900 bytes, eight properties.
func typical(name string) string {
	return fmt.Sprintf(`{"name":%q,"title":"Search the issues","description":"Finds issues by text, labels and state. The query uses the search syntax of the tracker; results are sorted by relevance unless sort is given. Returns at most limit issues with number, title, state, labels and a link.","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"query":{"type":"string","description":"Text to look for, in the tracker's syntax"},"labels":{"type":"array","items":{"type":"string"},"description":"Only issues with all of these labels"},"state":{"type":"string","enum":["open","closed","all"],"default":"open"},"limit":{"type":"integer","minimum":1,"maximum":100,"default":20},"author":{"anyOf":[{"type":"string"},{"type":"null"}]},"since":{"type":"string","format":"date-time"},"sort":{"type":"string","enum":["created","updated","relevance"]},"archived":{"type":"boolean","default":false}},"required":["query"],"additionalProperties":false},"annotations":{"readOnlyHint":true,"openWorldHint":true}}`, name)
}

// referring is a tool with references, as generators for typed languages write them.
const referring = `{"name":"create","inputSchema":{"type":"object","$defs":{"User":{"type":"object","title":"User","properties":{"name":{"type":"string"},"mail":{"type":"string","format":"email"}},"required":["name"]},"Label":{"type":"object","properties":{"name":{"type":"string"},"color":{"$ref":"#/$defs/Color"}}},"Color":{"enum":["red","green","blue"]}},"properties":{"title":{"type":"string","title":"Title"},"assignee":{"anyOf":[{"$ref":"#/$defs/User"},{"type":"null"}]},"reviewers":{"type":"array","items":{"$ref":"#/$defs/User"}},"labels":{"type":"array","items":{"$ref":"#/$defs/Label"}}},"required":["title"]}}`

// library is the verdict of jsonschema-go about the inputSchema of a definition.
func library(def []byte) error {
	var tool struct{ InputSchema *jsonschema.Schema }
	if err := json.Unmarshal(def, &tool); err != nil {
		return err
	}
	if tool.InputSchema == nil {
		return fmt.Errorf("no schema")
	}
	_, err := tool.InputSchema.Resolve(nil)
	return err
}

// TestAgainstALibrary holds the check against an independent implementation. Where
// they differ the table says why.
func TestAgainstALibrary(t *testing.T) {
	schemas := []struct {
		schema string
		ours   bool // accepted
		why    string
	}{
		{schema: `{"type":"object"}`, ours: true},
		{schema: `{"type":"object","properties":{"a":{"type":["string","null"],"minLength":1,"maxLength":5,"pattern":"^a"}},"required":["a"],"additionalProperties":false}`, ours: true},
		{schema: `{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"},"uniqueItems":true,"minItems":0,"contains":{},"minContains":1}}}`, ours: true},
		{schema: `{"type":"object","allOf":[{"required":["a"]}],"not":{"required":["b"]},"if":true,"then":{"minProperties":1},"else":false}`, ours: true},
		{schema: `{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string"}}}`, ours: true},
		{schema: `{"type":"object","properties":{"a":{"$ref":"#x"}},"$defs":{"x":{"$anchor":"x"}}}`, ours: true},
		{schema: `{"type":"object","properties":{"a":{"$ref":"#"}}}`, ours: true},
		{schema: `{"type":"object","dependentRequired":{"a":["b"]},"dependentSchemas":{"a":{"maxProperties":3}}}`, ours: true},
		{schema: `{"type":"object","properties":{"n":{"multipleOf":0.5,"exclusiveMinimum":0,"maximum":1e3,"minimum":-1}}}`, ours: true},
		{schema: `{"type":"object","propertyNames":{"pattern":"^[a-z]+$"},"patternProperties":{"^x":{"type":"number"}},"unevaluatedProperties":false}`, ours: true},
		{schema: `{"type":"object","prefixItems":[{"type":"string"},true],"unevaluatedItems":{"const":null}}`, ours: true},
		{schema: `{"type":"object","x-vendor":{"type":5},"examples":[1]}`, ours: true},

		{schema: `null`},
		{schema: `[]`},
		{schema: `"object"`},
		{schema: `{"type":7}`},
		{schema: `{"type":["object",7]}`},
		{schema: `{"type":"object","properties":[]}`},
		{schema: `{"type":"object","properties":{"a":7}}`},
		{schema: `{"type":"object","required":"a"}`},
		{schema: `{"type":"object","required":[1]}`},
		{schema: `{"type":"object","enum":7}`},
		{schema: `{"type":"object","minLength":"1"}`},
		{schema: `{"type":"object","minLength":1.5}`},
		{schema: `{"type":"object","maximum":"1"}`},
		{schema: `{"type":"object","pattern":7}`},
		{schema: `{"type":"object","allOf":{}}`},
		{schema: `{"type":"object","not":7}`},
		{schema: `{"type":"object","uniqueItems":"yes"}`},
		{schema: `{"type":"object","$ref":7}`},
		{schema: `{"type":"object","$defs":{"a":7}}`},
		{schema: `{"type":"object","properties":{"a":{"$ref":"#/$defs/gone"}}}`},
		{schema: `{"type":"object","properties":{"a":{"$ref":"#gone"}}}`},

		{schema: `{"type":"object","exclusiveMaximum":true}`, ours: true, why: "draft-04 is no reason to reject"},
		{schema: `{"type":"object","title":7}`, ours: true, why: "only comments"},
		{schema: `{"type":"object","properties":{"a":{"maximum":1e400}}}`, ours: true, why: "JSON has no largest number"},
		{schema: `{"type":"object","properties":{"a":{"maxLength":99999999999999999999}}}`, ours: true, why: "JSON has no largest number"},
		{schema: `{"type":"object","pattern":"(?=a)"}`, ours: true, why: "patterns are ECMAScript's and not ours to compile"},
		{schema: `{"type":"object","properties":{"a":{"$ref":"https://example.com/x"}}}`, ours: true, why: "never fetched"},
		{schema: `true`, why: "arguments are an object"},
		{schema: `{}`, why: "arguments are an object"},
		{schema: `{"type":["object"]}`, why: "arguments are an object"},
		{schema: `{"type":"object","properties":{"a":{"type":"str"}}}`, why: "the library does not look at type names"},
		{schema: `{"type":"object","minLength":-1}`, why: "the library does not look at ranges"},
		{schema: `{"type":"object","multipleOf":0}`, why: "the library does not look at ranges"},
		{schema: `{"type":"object","anyOf":[]}`, why: "the library does not look at lengths"},
		{schema: `{"type":"object","$ref":"#"}`, why: "the library finds loops only while validating"},
	}
	for _, tt := range schemas {
		def := `{"name":"a","inputSchema":` + tt.schema + `}`
		l := catalog.NewListing(catalog.Input{Server: server("s"), Tools: raw(t, def)})
		if ours := len(l.Tools) == 1; ours != tt.ours {
			t.Errorf("%s: accepted %v, want %v: %v", tt.schema, ours, tt.ours, l.Problems)
		}
		theirs := library([]byte(def))
		if agree := (theirs == nil) == tt.ours; agree != (tt.why == "") {
			t.Errorf("%s: accepted %v, the library says %v; noted reason to differ: %q", tt.schema, tt.ours, theirs, tt.why)
		}
	}
}

func TestHostileSchemasCostLittle(t *testing.T) {
	wide := func(n int, each string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, each+",", i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	tests := []struct{ name, schema, reason string }{
		{"20,000 properties", `{"type":"object","properties":{` + wide(20000, `"p%d":{}`) + `}}`, ""},
		{"20,000 properties beyond the limit", `{"type":"object","properties":{` + wide(20000, `"property%d":{}`) + `}}`, "limit 262144"},
		{"deep and wide", strings.Repeat(`{"type":"object","properties":{"a":`, 60) + `{"enum":[` + wide(30000, "%d") + `]}` + strings.Repeat("}}", 60), ""},
		{"a reference from everywhere to the last of many", `{"type":"object","properties":{` + wide(6000, `"p%d":{"$ref":"#/$defs/d4999"}`) + `},"$defs":{` + wide(5000, `"d%d":{}`) + `}}`, "has too many references"},
		{"a long chain", `{"type":"object","$ref":"#/$defs/d0","$defs":{` + strings.TrimSuffix(chain(1000), ",") + `,"d1000":{}}}`, ""},
		{"headers on everything", `{"type":"object","properties":{` + wide(5000, `"p%[1]d":{"type":"string","x-mcp-header":"H%[1]d"}`) + `}}`, "limit 32"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := catalog.NewListing(catalog.Input{Server: server("s"), Tools: raw(t, `{"name":"a","inputSchema":`+tt.schema+`}`)})
			if tt.reason == "" && len(l.Tools) != 1 {
				t.Errorf("rejected: %v", l.Problems)
			}
			if tt.reason != "" && !strings.Contains(problems(l.Problems), tt.reason) {
				t.Errorf("problems %v, want %q", l.Problems, tt.reason)
			}
		})
	}
}

func chain(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"d%d":{"$ref":"#/$defs/d%d"},`, i, i+1)
	}
	return b.String()
}

// BenchmarkCheck compares what one tool costs with the library and without.
func BenchmarkCheck(b *testing.B) {
	for _, bb := range []struct{ name, def string }{{"typical", typical("search")}, {"referring", referring}} {
		b.Run(bb.name+"/ours", func(b *testing.B) {
			in := catalog.Input{Server: server("s")}
			for range 100 {
				in.Tools = append(in.Tools, []byte(bb.def))
			}
			for i := range in.Tools { // their names must differ
				in.Tools[i] = []byte(strings.Replace(bb.def, `{"name":"`, fmt.Sprintf(`{"name":"%d`, i), 1))
			}
			b.ReportAllocs()
			for b.Loop() {
				if l := catalog.NewListing(in); len(l.Tools) != 100 {
					b.Fatal(l.Problems)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/tool")
		})
		b.Run(bb.name+"/library", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := library([]byte(bb.def)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
