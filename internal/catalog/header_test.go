package catalog_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/catalog"
)

func TestParamHeadersAreRead(t *testing.T) {
	tests := []struct {
		schema string
		want   []catalog.ParamHeader
	}{
		{`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"x-mcp-header":"N-1","type":"integer"}}}`,
			[]catalog.ParamHeader{{Name: "Region", Path: []string{"region"}}, {Name: "N-1", Path: []string{"n"}}}},
		{`{"type":"object","properties":{"a":{"type":"object","properties":{"b\n":{"type":"boolean","x-mcp-header":"B"}}}}}`,
			[]catalog.ParamHeader{{Name: "B", Path: []string{"a", "b\n"}}}},
		{`{"type":"object","properties":{"x-mcp-header":{"type":"string"}}}`, nil},
		{`{"type":"object","default":{"x-mcp-header":""},"examples":[{"x-mcp-header":1}],"x-other":{"x-mcp-header":1}}`, nil},
	}
	for _, tt := range tests {
		l := catalog.NewListing(catalog.Input{Server: server("s"), Tools: raw(t, `{"name":"a","inputSchema":`+tt.schema+`,"outputSchema":{"items":{"x-mcp-header":1}}}`)})
		if len(l.Tools) != 1 {
			t.Errorf("%s: rejected: %v", tt.schema, l.Problems)
			continue
		}
		s, _ := catalog.Build([]*catalog.Listing{l}, catalog.Rules{})
		e, _ := s.Tool("s__a")
		if diff := cmp.Diff(tt.want, e.Headers); diff != "" {
			t.Errorf("%s: %s", tt.schema, diff)
		}
	}
}

func TestToolsWithWrongParamHeadersAreRejected(t *testing.T) {
	property := func(p string) string { return `{"type":"object","properties":{"p":` + p + `}}` }
	tests := []struct{ name, schema string }{
		{"empty", property(`{"type":"string","x-mcp-header":""}`)},
		{"no string", property(`{"type":"string","x-mcp-header":7}`)},
		{"null", property(`{"type":"string","x-mcp-header":null}`)},
		{"space", property(`{"type":"string","x-mcp-header":"a b"}`)},
		{"colon", property(`{"type":"string","x-mcp-header":"a:"}`)},
		{"line break", property(`{"type":"string","x-mcp-header":"a\r\nb"}`)},
		{"not ASCII", property(`{"type":"string","x-mcp-header":"ä"}`)},
		{"a number", property(`{"type":"number","x-mcp-header":"A"}`)},
		{"an array", property(`{"type":"array","x-mcp-header":"A"}`)},
		{"an object", property(`{"type":"object","x-mcp-header":"A"}`)},
		{"several types", property(`{"type":["string"],"x-mcp-header":"A"}`)},
		{"no type", property(`{"x-mcp-header":"A"}`)},
		{"at the top", `{"type":"object","x-mcp-header":"A"}`},
		{"in items", property(`{"type":"array","items":{"type":"string","x-mcp-header":"A"}}`)},
		{"below items", property(`{"type":"array","items":{"properties":{"q":{"type":"string","x-mcp-header":"A"}}}}`)},
		{"in anyOf", property(`{"anyOf":[{"type":"string","x-mcp-header":"A"}]}`)},
		{"in then", `{"type":"object","if":true,"then":{"properties":{"p":{"type":"string","x-mcp-header":"A"}}}}`},
		{"in $defs", `{"type":"object","$defs":{"d":{"type":"string","x-mcp-header":"A"}}}`},
		{"in patternProperties", `{"type":"object","patternProperties":{"p":{"type":"string","x-mcp-header":"A"}}}`},
		{"twice in another case", `{"type":"object","properties":{"p":{"type":"string","x-mcp-header":"A-b"},"q":{"type":"string","x-mcp-header":"a-B"}}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := catalog.NewListing(catalog.Input{Server: server("s"), Tools: raw(t, `{"name":"a","inputSchema":`+tt.schema+`}`, tool("good"))})
			if len(l.Tools) != 1 || l.Tools[0].Name != "good" || len(l.Problems) != 1 {
				t.Errorf("tools %d, problems %v", len(l.Tools), l.Problems)
			}
		})
	}
}
