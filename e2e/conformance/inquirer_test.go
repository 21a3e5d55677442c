//go:build e2e && linux

package conformance_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// children are the programs this test binary can become.
var children = mcptest.Children{
	"inquirer":      mcptest.Stdio(inquirer),
	"client behind": clientBehind,
}

func TestMain(m *testing.M) { children.Main(m) }

// questions are the tools of the suite whose calls ask the client in the middle, and what
// they ask. The Go SDK's server for the suite asks by requests, which it refuses to make
// where it is spoken to in revision 2026-07-28.
var questions = map[string]func(arguments json.RawMessage) string{
	"test_sampling": func(args json.RawMessage) string {
		return `{"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":` +
			string(mcptest.Field(args, "prompt")) + `}}],"maxTokens":100}}`
	},
	"test_elicitation": func(args json.RawMessage) string {
		return form(string(mcptest.Field(args, "message")), `"username":{"type":"string","description":"Your preferred username"}},"required":["username"`)
	},
	"test_elicitation_sep1034_defaults": func(json.RawMessage) string {
		return form(`"Defaults"`, `"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},"score":{"type":"number","default":95.5},`+
			`"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},"verified":{"type":"boolean","default":true}},"required":[`)
	},
	"test_elicitation_sep1330_enums": func(json.RawMessage) string {
		titled := `[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]`
		return form(`"Enums"`, `"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},"titledSingle":{"type":"string","oneOf":`+titled+`},`+
			`"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},`+
			`"untitledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"type":"string","enum":["option1","option2","option3"]}},`+
			`"titledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"anyOf":`+titled+`}}},"required":[`)
	},
}

func form(message, properties string) string {
	return `{"method":"elicitation/create","params":{"mode":"form","message":` + message +
		`,"requestedSchema":{"type":"object","properties":{` + properties + `]}}}`
}

// inquirer is a modern server with those tools, which asks by results.
func inquirer() *mcptest.Raw {
	raw := &mcptest.Raw{Era: mcptest.Modern}
	for name := range questions {
		raw.Tools = append(raw.Tools, `{"name":"`+name+`","description":"Asks the client","inputSchema":{"type":"object"}}`)
	}
	raw.Answer = func(q *mcptest.Request) *mcptest.Answer {
		ask := questions[q.Name]
		if q.Method != "tools/call" || ask == nil {
			return nil
		}
		got := mcptest.Field(mcptest.Field(q.Params, "inputResponses"), "it")
		if got == nil {
			return &mcptest.Answer{Result: `{"resultType":"input_required","inputRequests":{"it":` + ask(mcptest.Field(q.Params, "arguments")) + `}}`}
		}
		var text struct{ Content struct{ Text string } }
		_ = json.Unmarshal(got, &text)
		said := "LLM response: " + text.Content.Text
		if action := mcptest.Field(got, "action"); action != nil {
			said = fmt.Sprintf("Elicitation result: action=%s, content=%s", action, mcptest.Field(got, "content"))
		}
		return &mcptest.Answer{Result: `{"resultType":"complete","content":[{"type":"text","text":` + mcptest.Quote(said) + `}]}`}
	}
	return raw
}

// inquiring are servers that together offer all tools of the suite in the modern era:
// the one given, without those that it cannot carry out, and the inquirer.
func inquiring(t *testing.T, everything harness.Config) map[string]harness.Config {
	var deny []string
	for name := range questions {
		deny = append(deny, name)
	}
	return map[string]harness.Config{
		"everything": everything.With("protocol", "modern").With("tools", map[string]any{"deny": deny}),
		"inquirer":   harness.Child(t, "inquirer").With("protocol", "modern").With("prefix", ""),
	}
}
