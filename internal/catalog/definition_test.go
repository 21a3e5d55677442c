package catalog_test

import (
	"strings"
	"testing"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
)

// odd are definitions that are awkward but right: they must pass as they are. Some
// of them no typed client decodes.
var odd = []string{
	`{"name":"plain","inputSchema":{"type":"object"}}`,
	`{"inputSchema":{"type":"object"},"name":"name-last"}`,
	`{ "name" : "spaces" , "inputSchema" : { "type" : "object" } }`,
	`{"name":"unknown","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"},"x-vendor":1}`,
	`{"name":"empty","title":"","description":"","inputSchema":{"type":"object"},"annotations":{},"_meta":{},"icons":[]}`,
	`{"name":"nulls","title":null,"description":null,"inputSchema":{"type":"object"},"annotations":null,"icons":null,"_meta":null}`,
	`{"name":"types","title":1,"description":["a"],"inputSchema":{"type":"object"},"annotations":"none","icons":"x","_meta":3}`,
	`{"name":"hints","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":"yes","destructiveHint":0,"x":1}}`,
	`{"name":"icons","inputSchema":{"type":"object"},"icons":[{"src":"x","sizes":"48x48","theme":"odd","extra":1}]}`,
	`{"name":"numbers","inputSchema":{"type":"object","properties":{"p":{"type":"integer","maximum":9223372036854775807,"minimum":-9007199254740993,"multipleOf":1.0,"exclusiveMaximum":1e400,"default":1.0}}}}`,
	`{"name":"counts","inputSchema":{"type":"object","minProperties":1.0,"maxProperties":1e2,"properties":{"a":{"maxLength":99999999999999999999}}}}`,
	`{"name":"draft07","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","definitions":{"x":{"type":"string"}},"properties":{"p":{"$ref":"#/definitions/x"},"n":{"const":null,"default":null}},"dependencies":{"a":["b"],"c":{"type":"object"}},"additionalItems":false,"x-foo":{"bar":[1,2]}}}`,
	`{"name":"draft04","inputSchema":{"$schema":"http://json-schema.org/draft-04/schema#","id":"#root","type":"object","properties":{"n":{"type":"number","minimum":0,"exclusiveMinimum":true,"$ref":"#root"}}}}`,
	`{"name":"booleans","inputSchema":{"type":"object","properties":{"any":true,"none":false},"additionalProperties":false,"unevaluatedProperties":{}}}`,
	`{"name":"keywords as names","inputSchema":{"type":"object","properties":{"type":{"type":"string"},"$ref":{"type":"string"},"required":{"type":"boolean"},"x-mcp-header":{"type":"string"},"properties":{"type":"object"}},"required":["type","$ref"]}}`,
	`{"name":"data","inputSchema":{"type":"object","default":{"$ref":"#/nowhere","type":7},"examples":[{"$ref":1}],"enum":[{"type":[]}],"const":{"properties":[]}}}`,
	`{"name":"tree","inputSchema":{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#"}},"next":{"items":{"$ref":"#/properties/next"}}},"$defs":{"self":{"properties":{"again":{"$ref":"#/$defs/self"}}}}}}`,
	`{"name":"anchors","inputSchema":{"type":"object","$defs":{"a":{"$anchor":"here","type":"string"},"b":{"$id":"https://example.com/b","$defs":{"c":{}},"items":{"$ref":"#/$defs/c"}}},"properties":{"x":{"$ref":"#here"},"y":{"$ref":"https://example.com/b"},"z":{"$ref":"https://example.com/b#/$defs/c"}}}}`,
	`{"name":"pointers","inputSchema":{"type":"object","$defs":{"a/b":{"~":{}},"c d":{},"e":{"type":"array","prefixItems":[{},{}]}},"properties":{"x":{"$ref":"#/$defs/a~1b"},"y":{"$ref":"#/$defs/a~1b/~0"},"z":{"$ref":"#/$defs/c%20d"},"w":{"$ref":"#/$defs/e/prefixItems/1"}}}}`,
	`{"name":"escaped keys","inputSchema":{"ty\u0070e":"object","properties":{"a\"b":{"type":"string"}}}}`,
	`{"name":"twice inside","inputSchema":{"type":"object","title":"a","title":"b"}}`,
	`{"name":"output","inputSchema":{"type":"object"},"outputSchema":{"type":"array","items":{"type":["string","null"]}}}`,
	`{"name":"text","description":"<b> & </b> \u00e9 \ud83d\ude00 😀 \"q\" \\ \/ \n\t 👨‍👩‍👧 ❤️ می` + "\u200c" + `خواهم","inputSchema":{"type":"object","description":"first line\nsecond"}}`,
	`{"name":"lone surrogate","description":"\ud800 stays","inputSchema":{"type":"object"}}`,
	`{"name":"patterns","inputSchema":{"type":"object","patternProperties":{"^(a+)+$":{"pattern":"(a+)+$|(?<n>x)"}},"propertyNames":{"maxLength":3},"format":"whatever"}}`,
	`{"name":"meta","inputSchema":{"type":"object"},"_meta":{"k":{"n":12345678901234567890,"f":1.10},"name":"no"}}`,
	`{"name":"required empty","inputSchema":{"type":"object","required":[],"enum":[],"properties":{},"$defs":{}}}`,
}

func TestOddDefinitionsPassAsTheyAre(t *testing.T) {
	for _, def := range odd {
		l := catalog.NewListing(catalog.Input{Server: server("s", prefix("")), Tools: raw(t, def)})
		if len(l.Tools) != 1 {
			t.Errorf("%s\nwas not accepted: %v", def, l.Problems)
			continue
		}
		if got := string(l.Tools[0].Def); got != def {
			t.Errorf("%s\nbecame\n%s", def, got)
		}
		if got := string(l.Tools[0].At.Of(l.Tools[0].Def)); !strings.HasPrefix(got, `"`) {
			t.Errorf("%s: the name is at %s", def, got)
		}
	}
}

func TestOnlyTheNameIsReplaced(t *testing.T) {
	for _, def := range odd {
		l := catalog.NewListing(catalog.Input{Server: server("srv"), Tools: raw(t, def)})
		s, _ := catalog.Build([]*catalog.Listing{l}, catalog.Rules{})
		e := s.Entries(catalog.Tools)[0]
		at := l.Tools[0].At
		want := def[:at.Lo] + `"` + e.Exposed + `"` + def[at.Hi:]
		if got := string(e.Def); got != want {
			t.Errorf("%s\nbecame\n%s", def, got)
		}
	}
}

func TestBadDefinitionsCostOnlyThemselves(t *testing.T) {
	deep := `{"type":"object","properties":{"a":` + strings.Repeat(`{"not":`, 130) + "true" + strings.Repeat("}", 130) + "}}"
	bomb := `{"type":"object","properties":{"p":{"$ref":"#/$defs/a0"}},"$defs":{`
	for i := range 25 {
		next := string(rune('a'+i+1)) + "0"
		bomb += `"` + string(rune('a'+i)) + `0":{"properties":{"x":{"$ref":"#/$defs/` + next + `"},"y":{"$ref":"#/$defs/` + next + `"}}},`
	}
	bomb += `"z0":{}}}`
	tests := []struct{ def, reason string }{
		{`[]`, "is no object"},
		{`"x"`, "is no object"},
		{`null`, "is no object"},
		{`{}`, "name is missing or no string"},
		{`{"name":null,"inputSchema":{"type":"object"}}`, "name is missing or no string"},
		{`{"name":7,"inputSchema":{"type":"object"}}`, "name is missing or no string"},
		{`{"name":"","inputSchema":{"type":"object"}}`, "name is empty"},
		{`{"name":"a","name":"b","inputSchema":{"type":"object"}}`, "has name twice"},
		{`{"name":"a","inputSchema":{"type":"object"},"input\u0053chema":{"type":"object"}}`, "has inputSchema twice"},
		{`{"name":"a\u202eb","inputSchema":{"type":"object"}}`, "hidden or unreadable character (U+202E)"},
		{`{"name":"a\u200bb","inputSchema":{"type":"object"}}`, "U+200B"},
		{`{"name":"a\udb40\udc41","inputSchema":{"type":"object"}}`, "U+E0041"},
		{`{"name":"a\u0000","inputSchema":{"type":"object"}}`, "U+0000"},
		{`{"name":"a\nb","inputSchema":{"type":"object"}}`, "U+000A"},
		{`{"name":"a\u0085","inputSchema":{"type":"object"}}`, "U+0085"},
		{`{"name":"\ud800","inputSchema":{"type":"object"}}`, "U+FFFD"},
		{`{"name":"` + strings.Repeat("x", 1<<20) + `","inputSchema":{"type":"object"}}`, "limit 1048576"},
		{`{"name":"` + strings.Repeat("x", 1025) + `","inputSchema":{"type":"object"}}`, "is longer than 1024 bytes"},
		{`{"name":"a"}`, "inputSchema is missing"},
		{`{"name":"a","inputSchema":null}`, "inputSchema must be an object"},
		{`{"name":"a","inputSchema":true}`, "inputSchema must be an object"},
		{`{"name":"a","inputSchema":[]}`, "inputSchema must be an object"},
		{`{"name":"a","inputSchema":"{}"}`, "inputSchema must be an object"},
		{`{"name":"a","inputSchema":{}}`, `must have type "object"`},
		{`{"name":"a","inputSchema":{"type":"string"}}`, `/type must be "object"`},
		{`{"name":"a","inputSchema":{"type":["object"]}}`, `/type must be "object"`},
		{`{"name":"a","inputSchema":{"type":"Object"}}`, `/type must be "object"`},
		{`{"name":"a","inputSchema":{"type":"object","properties":[]}}`, "/properties must be an object"},
		{`{"name":"a","inputSchema":{"type":"object","properties":{"p":"string"}}}`, "/properties/p must be a schema"},
		{`{"name":"a","inputSchema":{"type":"object","properties":{"p":{"type":"str"}}}}`, "/properties/p/type must be one of array, boolean"},
		{`{"name":"a","inputSchema":{"type":"object","properties":{"p":{"type":["string","x"]}}}}`, "/properties/p/type must name JSON types"},
		{`{"name":"a","inputSchema":{"type":"object","properties":{"p":{"type":[]}}}}`, "/properties/p/type must not be empty"},
		{`{"name":"a","inputSchema":{"type":"object","properties":{"p":{"type":null}}}}`, "/properties/p/type must be one of"},
		{`{"name":"a","inputSchema":{"type":"object","required":"p"}}`, "/required must be an array of strings"},
		{`{"name":"a","inputSchema":{"type":"object","required":[1]}}`, "/required must be an array of strings"},
		{`{"name":"a","inputSchema":{"type":"object","properties":{"p":{"required":true}}}}`, "/properties/p/required must be an array of strings"},
		{`{"name":"a","inputSchema":{"type":"object","enum":{}}}`, "/enum must be an array"},
		{`{"name":"a","inputSchema":{"type":"object","items":[1]}}`, "/items must be a schema"},
		{`{"name":"a","inputSchema":{"type":"object","items":7}}`, "/items must be a schema"},
		{`{"name":"a","inputSchema":{"type":"object","anyOf":{}}}`, "/anyOf must be an array of schemas"},
		{`{"name":"a","inputSchema":{"type":"object","anyOf":[]}}`, "/anyOf must not be empty"},
		{`{"name":"a","inputSchema":{"type":"object","not":[]}}`, "/not must be a schema"},
		{`{"name":"a","inputSchema":{"type":"object","minProperties":-1}}`, "/minProperties must be a whole number"},
		{`{"name":"a","inputSchema":{"type":"object","minProperties":1.5}}`, "/minProperties must be a whole number"},
		{`{"name":"a","inputSchema":{"type":"object","minProperties":"1"}}`, "/minProperties must be a number"},
		{`{"name":"a","inputSchema":{"type":"object","maximum":true}}`, "/maximum must be a number"},
		{`{"name":"a","inputSchema":{"type":"object","exclusiveMaximum":"1"}}`, "/exclusiveMaximum must be a number"},
		{`{"name":"a","inputSchema":{"type":"object","multipleOf":0}}`, "/multipleOf must be greater than 0"},
		{`{"name":"a","inputSchema":{"type":"object","multipleOf":-0e5}}`, "/multipleOf must be greater than 0"},
		{`{"name":"a","inputSchema":{"type":"object","uniqueItems":1}}`, "/uniqueItems must be a boolean"},
		{`{"name":"a","inputSchema":{"type":"object","pattern":1}}`, "/pattern must be a string"},
		{`{"name":"a","inputSchema":{"type":"object","dependentRequired":{"a":"b"}}}`, "/dependentRequired/a must be an array of strings"},
		{`{"name":"a","inputSchema":{"type":"object","dependencies":{"a":"b"}}}`, "/dependencies/a must be a schema"},
		{`{"name":"a","inputSchema":{"type":"object","$ref":{}}}`, "/$ref must be a string"},
		{`{"name":"a","inputSchema":{"type":"object","properties":{"p":{"$ref":"#/$defs/gone"}}}}`, `has a $ref to "#/$defs/gone", which does not exist`},
		{`{"name":"a","inputSchema":{"type":"object","properties":{"p":{"$ref":"#gone"}}}}`, `has a $ref to "#gone"`},
		{`{"name":"a","inputSchema":{"type":"object","properties":{"p":{"$ref":"#/%zz"}}}}`, `has a $ref to "#/%zz"`},
		{`{"name":"a","inputSchema":{"type":"object","$ref":"#"}}`, "has a $ref that leads back to itself"},
		{`{"name":"a","inputSchema":{"type":"object","allOf":[{"$ref":"#"}]}}`, "leads back to itself"},
		{`{"name":"a","inputSchema":{"type":"object","properties":{"p":{"$ref":"#/$defs/a"}},"$defs":{"a":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/b"}]},"b":{"if":{"$ref":"#/$defs/a"}}}}}`, "leads back to itself"},
		{`{"name":"a","inputSchema":` + bomb + `}`, "grows to more than 1048576 schemas"},
		{`{"name":"a","inputSchema":` + deep + `}`, "is nested deeper than 128 levels"},
		{`{"name":"a","inputSchema":{"type":"object","description":"` + strings.Repeat("x", 256<<10) + `"}}`, "limit 262144"},
		{`{"name":"a","inputSchema":{"type":"object"},"outputSchema":"x"}`, "outputSchema must be an object"},
		{`{"name":"a","inputSchema":{"type":"object"},"outputSchema":null}`, "outputSchema must be an object"},
		{`{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"type":"blob"}}`, "outputSchema /type must be one of"},
		{`{"name":"good1","inputSchema":{"type":"object"}}`, "has the name of an earlier tool"},
	}
	good1, good2 := tool("good1"), tool("good2")
	for _, tt := range tests {
		l := catalog.NewListing(catalog.Input{Server: server("s"), Tools: raw(t, good1, tt.def, good2)})
		if len(l.Tools) != 2 || string(l.Tools[0].Def) != good1 || string(l.Tools[1].Def) != good2 {
			t.Errorf("%.200s: the list has %d tools, want only the two good ones", tt.def, len(l.Tools))
		}
		if len(l.Problems) != 1 || l.Problems[0].Severity != catalog.Rejected || !strings.Contains(l.Problems[0].Reason, tt.reason) {
			t.Errorf("%.200s\nproblems %q, want one rejection for %q", tt.def, l.Problems, tt.reason)
		}
	}
}

func TestDoubtfulDefinitionsStayWithAWarning(t *testing.T) {
	tests := []struct{ def, reason string }{
		{`{"name":"a","inputSchema":{"type":"object","anyOf":[{"required":["x"]}]}}`, "inputSchema has allOf, anyOf or oneOf at the top level"},
		{`{"name":"a","inputSchema":{"type":"object","oneOf":[{"required":["x"]}]}}`, "top level"},
		{`{"name":"a","inputSchema":{"type":"object","properties":{"p":{"items":[{},{}]}}}}`, "prefixItems"},
		{`{"name":"a","inputSchema":{"type":"object","properties":{"p":{"title":5}}}}`, "/properties/p/title should be a string"},
		{`{"name":"a","inputSchema":{"type":"object","properties":{"p":{"$ref":"https://example.com/s.json"}}}}`, "refers to schemas elsewhere, which are never fetched"},
	}
	for _, tt := range tests {
		l := catalog.NewListing(catalog.Input{Server: server("s"), Tools: raw(t, tt.def)})
		if len(l.Tools) != 1 || string(l.Tools[0].Def) != tt.def {
			t.Errorf("%s: not passed as it is", tt.def)
		}
		if len(l.Problems) != 1 || l.Problems[0].Severity != catalog.Warning || !strings.Contains(l.Problems[0].Reason, tt.reason) {
			t.Errorf("%s\nproblems %q, want one warning about %q", tt.def, l.Problems, tt.reason)
		}
	}
}

func TestOtherKinds(t *testing.T) {
	in := catalog.Input{
		Server:    server("s"),
		Prompts:   raw(t, `{"name":"p","arguments":[{"name":"a","required":false,"x":1}],"x":1}`, `{"title":"nameless"}`, `{"name":"odd","arguments":7}`),
		Resources: raw(t, `{"uri":"a:b","name":"n","size":1.0,"x":1}`, `{"name":"n"}`, `{"uri":"a:b","name":"again"}`, `{"uri":"a:\u202e","name":"n"}`, `{"uri":"a:"}`),
		Templates: raw(t, `{"uriTemplate":"a:{b}","name":"n","x":1}`, `{"uriTemplate":"a:{b","name":"n"}`, `{"uriTemplate":3}`),
	}
	l := catalog.NewListing(in)
	got := []int{len(l.Prompts), len(l.Resources), len(l.Templates)}
	if want := []int{2, 2, 2}; got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("prompts, resources, templates = %v, want %v", got, want)
	}
	want := `rejected #2: name is missing or no string
rejected #2: uri is missing or no string
rejected a:b: has the name of an earlier resource of this server
rejected a:` + "\uFFFD" + `: uri has a hidden or unreadable character (U+202E)
warning a:{b: cannot be matched against URIs: its braces do not match or hold no variable
rejected #3: uriTemplate is missing or no string
`
	if got := problems(l.Problems); got != want {
		t.Errorf("problems:\n%swant:\n%s", got, want)
	}
	if string(l.Prompts[0].Def) != string(in.Prompts[0]) || string(l.Templates[1].Def) != string(in.Templates[1]) {
		t.Error("definitions changed")
	}
}

func TestLineBreaksBetweenTokensBecomeSpaces(t *testing.T) {
	l := catalog.NewListing(catalog.Input{Server: server("s"), Tools: raw(t, "{\n  \"name\": \"a\",\r\n  \"inputSchema\": {\"type\":\n\"object\", \"description\": \"x\\ny\"}}")})
	want := `{   "name": "a",    "inputSchema": {"type": "object", "description": "x\ny"}}`
	if got := string(l.Tools[0].Def); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestHints(t *testing.T) {
	tests := []struct {
		annotations                       string
		readOnly, destructive, idempotent bool
	}{
		{`{}`, false, false, false},
		{`null`, false, false, false},
		{`{"readOnlyHint":true}`, true, false, false},
		{`{"readOnlyHint":"true","destructiveHint":"true"}`, false, false, false},
		{`{"destructiveHint":true}`, false, true, false},
		{`{"readOnlyHint":false}`, false, true, false}, // the default of the specification
		{`{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":true}`, false, false, true},
		{`{"readOnlyHint":true,"destructiveHint":true}`, true, true, false},
	}
	for _, tt := range tests {
		def := `{"name":"a","inputSchema":{"type":"object"},"annotations":` + tt.annotations + `}`
		l := catalog.NewListing(catalog.Input{Server: server("s"), Tools: raw(t, def)})
		it := l.Tools[0]
		if it.ReadOnly != tt.readOnly || it.Destructive != tt.destructive || it.Idempotent != tt.idempotent {
			t.Errorf("%s: read-only %v, destructive %v, idempotent %v", tt.annotations, it.ReadOnly, it.Destructive, it.Idempotent)
		}
	}
}

func TestToolVersions(t *testing.T) {
	s := server("s", func(s *config.Server) {
		s.ToolVersions = map[string][]string{"a": {"1.0", "1.1"}, "b": {"2"}, "c": {"9"}}
	})
	l := catalog.NewListing(catalog.Input{
		Server:     s,
		ServerInfo: []byte(`{"name":"n","version":"2"}`),
		Tools: raw(t,
			`{"name":"a","inputSchema":{"type":"object"},"_meta":{"version":"1.1"}}`,
			tool("b"), tool("c"), tool("free")),
	})
	snapshot, _ := catalog.Build([]*catalog.Listing{l}, catalog.Rules{})
	if got := exposed(snapshot, catalog.Tools); got != "s__a=s/a s__b=s/b s__free=s/free" {
		t.Errorf("exposed: %s", got)
	}
	if got := problems(l.Problems); got != "disabled c: version \"2\" is not among those of tool_versions: 9\n" {
		t.Errorf("problems: %s", got)
	}
}

func TestProblemsAreBounded(t *testing.T) {
	var defs []string
	for range 3000 {
		defs = append(defs, `{"name":"`+strings.Repeat("é\u202e", 500)+`"}`)
	}
	l := catalog.NewListing(catalog.Input{Server: server("s"), Tools: raw(t, defs...)})
	if n := len(l.Problems); n != 500 {
		t.Errorf("%d problems are kept", n)
	}
	if n := len(l.Problems[0].String()); n > 400 {
		t.Errorf("a problem has %d bytes: %s", n, l.Problems[0])
	}
	if strings.Contains(l.Problems[0].String(), "\u202e") {
		t.Error("a problem shows hidden characters")
	}
}
