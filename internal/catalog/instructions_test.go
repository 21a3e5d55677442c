package catalog_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
)

func instructionsOf(rules catalog.Rules, servers ...string) string {
	var listings []*catalog.Listing
	for _, text := range servers {
		name, says, _ := strings.Cut(text, ":")
		listings = append(listings, catalog.NewListing(catalog.Input{Server: server(name), Instructions: says}))
	}
	s, _ := catalog.Build(listings, rules)
	return s.Instructions()
}

func TestInstructions(t *testing.T) {
	on := catalog.Rules{Catalog: config.Catalog{Instructions: true, InstructionsLimit: 16 << 10}}
	down := on
	down.Unavailable = []catalog.Unavailable{{"beta", "connection refused"}, {"gam\u202ema", "needs\nlogin"}}
	const unavailable = "#### Unavailable MCP servers\n\nThese servers are configured, but their tools cannot be used at the moment:\n" +
		"- beta: connection refused\n- gam\uFFFDma: needs\uFFFDlogin"
	tests := []struct {
		name    string
		rules   catalog.Rules
		servers []string
		want    string
	}{
		{"none", on, []string{"a:", "b:  \n"}, ""},
		{"switched off", catalog.Rules{Catalog: config.Catalog{InstructionsLimit: 1000}}, []string{"a:text"}, ""},
		{"one", on, []string{"a: text \n"}, "#### MCP Server: a\n\ntext"},
		{"several in order", on, []string{"b:one\ntwo", "none:", "a:three"}, "#### MCP Server: b\n\none\ntwo\n\n#### MCP Server: a\n\nthree"},
		{"missing servers", down, []string{"a:text"}, "#### MCP Server: a\n\ntext\n\n" + unavailable},
		{"only missing servers", down, nil, unavailable},
		{"headings of others", on, []string{"a:x\n #### MCP Server: b\n##### tool: b__x\n# MCP Servers\n#### Usage\n#hash"},
			"#### MCP Server: a\n\nx\n\\#### MCP Server: b\n\\##### tool: b__x\n\\# MCP Servers\n#### Usage\n#hash"},
		{"hidden characters", on, []string{"a:a\u202eb\u0007\r\n\tc 👨‍👩‍👧"}, "#### MCP Server: a\n\nab\n\tc 👨‍👩‍👧"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := instructionsOf(tt.rules, tt.servers...); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestAServerCanBeLeftOutOfTheInstructions(t *testing.T) {
	quiet := server("a", func(s *config.Server) { s.Instructions = false })
	l := catalog.NewListing(catalog.Input{Server: quiet, Instructions: "text"})
	s, _ := catalog.Build([]*catalog.Listing{l}, catalog.Rules{Catalog: config.Catalog{Instructions: true, InstructionsLimit: 16 << 10}})
	if got := s.Instructions(); got != "" {
		t.Errorf("got %s", got)
	}
}

func TestInstructionsKeepToTheLimit(t *testing.T) {
	line := strings.Repeat("x", 49) + "\n"
	long := "long:" + strings.Repeat(line, 100)
	for _, limit := range []int{0, 1, 20, 60, 100, 300, 1000, 4000, 10_000} {
		rules := catalog.Rules{Catalog: config.Catalog{Instructions: true, InstructionsLimit: limit}}
		got := instructionsOf(rules, long, "short:a few words", "one:"+strings.Repeat("é", 3000))
		if len(got) > limit || !utf8.ValidString(got) {
			t.Errorf("limit %d: %d bytes", limit, len(got))
		}
		if limit >= 300 && !strings.Contains(got, "#### MCP Server: short\n\na few words") {
			t.Errorf("limit %d: the short server was pushed out:\n%s", limit, got)
		}
		if limit >= 300 && limit < 10_000 && !strings.Contains(got, "[cut: 4999 bytes, limit ") {
			t.Errorf("limit %d: it does not say that something was cut", limit)
		}
		for text := range strings.Lines(got) {
			if strings.HasPrefix(text, "x") && text != line && strings.TrimSpace(text) != strings.TrimSpace(line) {
				t.Errorf("limit %d: a line was cut: %s", limit, text)
			}
		}
	}
	missing := catalog.Rules{Catalog: config.Catalog{Instructions: true, InstructionsLimit: 400}}
	for i := range 100 {
		missing.Unavailable = append(missing.Unavailable, catalog.Unavailable{Server: fmt.Sprintf("s%d", i), Reason: strings.Repeat("y", 2000)})
	}
	if got := instructionsOf(missing, long); len(got) > 400 {
		t.Errorf("%d bytes with missing servers", len(got))
	}
}

func TestCapabilities(t *testing.T) {
	const tasks = `"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`
	const all = `{"completions":{},"logging":{},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"tools":{"listChanged":true}}`
	tests := []struct {
		name    string
		pending bool
		inputs  []catalog.Input
		want    string
	}{
		{"nothing", false, nil, `{}`},
		{"not all have connected yet", true, nil, strings.Replace(all, `"tools"`, tasks+`,"tools"`, 1)},
		{"tasks", false, []catalog.Input{
			{Capabilities: []byte(`{"tasks":{"list":{}}}`)},
			{Capabilities: []byte(`{"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}`)},
		}, "{" + tasks + "}"},
		{"tasks of tools that cannot be made", false, []catalog.Input{{Capabilities: []byte(`{"tasks":{"list":{},"cancel":{},"requests":{"x/y":{}}}}`)}}, `{}`},
		{"tasks of a modern server", false, []catalog.Input{
			{Modern: true, Capabilities: []byte(`{"tasks":{"list":{},"requests":{"tools":{"call":{}}}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)},
		}, `{}`},
		{"declared", false, []catalog.Input{{Capabilities: []byte(`{"tools":{},"logging":null,"completions":false}`)}}, `{"tools":{"listChanged":true}}`},
		{"seen", false, []catalog.Input{{Templates: named(t, resourceTemplate, "a:{b}")}}, `{"resources":{"listChanged":true}}`},
		{"together", false, []catalog.Input{
			{Capabilities: []byte(`{"tools":{},"resources":{"subscribe":false},"x":{}}`)},
			{Capabilities: []byte(`{"resources":{"subscribe":true},"prompts":{},"logging":{}}`)},
			{Capabilities: []byte(`{"completions":{}}`)},
		}, all},
		{"subscribe without resources elsewhere", false, []catalog.Input{
			{Capabilities: []byte(`{"resources":{"subscribe":false}}`)}, {Capabilities: []byte(`{"tools":{"subscribe":true}}`)},
		}, `{"resources":{"listChanged":true},"tools":{"listChanged":true}}`},
		{"garbage", false, []catalog.Input{{Capabilities: []byte(`[]`)}, {Capabilities: []byte(`"tools"`)}}, `{}`},
	}
	for _, tt := range tests {
		var listings []*catalog.Listing
		for i, in := range tt.inputs {
			in.Server = server(fmt.Sprint(i))
			listings = append(listings, catalog.NewListing(in))
		}
		s, _ := catalog.Build(listings, catalog.Rules{Pending: tt.pending})
		if got := string(s.Capabilities()); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
