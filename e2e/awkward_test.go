//go:build e2e && linux

package e2e_test

import (
	"fmt"
	"strings"

	"mcp-aggregator/internal/mcptest"
)

// A sample is JSON that typed software changes, loses or refuses.
type sample struct {
	name string
	json string // the token %s stands for the name of the tool, prompt or resource
}

// awkwardTools are definitions that must be listed as they stand, the name aside.
var awkwardTools = []sample{
	{"plain", `{"name":"%s","inputSchema":{"type":"object"}}`},
	{"name in the middle", `{"description":"d","name":"%s","inputSchema":{"type":"object"}}`},
	{"name last", `{"inputSchema":{"type":"object"},"description":"d","name":"%s"}`},
	{"white space everywhere", "{ \"name\" :\t\"%s\" , \"inputSchema\" : { \"type\" : \"object\" } }"},
	{"a name inside the schema", `{"inputSchema":{"type":"object","properties":{"name":{"type":"string"}}},"name":"%s"}`},
	{"unknown fields", `{"name":"%s","inputSchema":{"type":"object"},"x-vendor":1,"execution":{"taskSupport":"optional"},"zz":{"a":[]}}`},
	{"empty strings", `{"name":"%s","title":"","description":"","inputSchema":{"type":"object"}}`},
	{"keys out of order", `{"title":"t","outputSchema":{"type":"object","z":1,"a":2},"name":"%s","inputSchema":{"z":0,"type":"object","a":0}}`},
	{"integers over 2^53", `{"name":"%s","inputSchema":{"type":"object","properties":{"p":{"type":"integer","maximum":9223372036854775807,"minimum":-9007199254740993}}}}`},
	{"decimals", `{"name":"%s","inputSchema":{"type":"object","properties":{"p":{"multipleOf":1.0,"default":1.10,"minimum":-0.0,"maximum":1E5}}}}`},
	{"a number beyond any float", `{"name":"%s","inputSchema":{"type":"object","properties":{"p":{"default":1e400,"examples":[123456789012345678901234567890]}}}}`},
	{"explicit null and false", `{"name":"%s","inputSchema":{"type":"object","additionalProperties":false,"properties":{"n":{"const":null,"default":null}}},"x":null}`},
	{"false hints", `{"name":"%s","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false}}`},
	{"empty annotations", `{"name":"%s","inputSchema":{"type":"object"},"annotations":{}}`},
	{"unknown annotations", `{"name":"%s","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"x":{"y":[1,2]}}}`},
	{"draft-07 with definitions", `{"name":"%s","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","definitions":{"x":{"type":"string"}},"properties":{"p":{"$ref":"#/definitions/x"}},"dependencies":{"a":["b"]},"additionalItems":false}}`},
	{"$defs and a recursive $ref", `{"name":"%s","inputSchema":{"type":"object","$defs":{"node":{"type":"object","properties":{"next":{"$ref":"#/$defs/node"}}}},"properties":{"n":{"$ref":"#/$defs/node"}}}}`},
	{"$anchor, $comment, unknown keywords", `{"name":"%s","inputSchema":{"$comment":"c","$anchor":"a","type":"object","x-foo":{"bar":[1,2]},"unevaluatedProperties":false}}`},
	{"composition below the top", `{"name":"%s","inputSchema":{"type":"object","properties":{"p":{"oneOf":[{"type":"string"},{"type":"null"}],"not":{"const":1},"if":true,"then":{},"else":false}}}}`},
	{"array form of type below the top", `{"name":"%s","inputSchema":{"type":"object","properties":{"p":{"type":["string","null"]},"q":true,"r":{}}}}`},
	{"an escaped schema key", `{"name":"%s","inputSchema":{"type":"object","properties":{"a\u0062c":{"type":"string","pattern":"^\\d+\\/\\S*$"}}}}`},
	{"output schema with $ref", `{"name":"%s","inputSchema":{"type":"object"},"outputSchema":{"type":"object","$defs":{"i":{"type":"integer"}},"properties":{"n":{"$ref":"#/$defs/i"}},"required":[]}}`},
	{"icons of the next revision", `{"name":"%s","inputSchema":{"type":"object"},"icons":[{"src":"data:image/png;base64,AA==","sizes":["any"],"theme":"dark","extra":1}]}`},
	{"icons the SDK cannot decode", `{"name":"%s","inputSchema":{"type":"object"},"icons":[{"src":"x","sizes":"48x48"}]}`},
	{"metadata of others", `{"name":"%s","inputSchema":{"type":"object"},"_meta":{"com.example/k":{"n":12345678901234567890,"f":1.10},"ui":{"resourceUri":"ui://x"}}}`},
	{"empty metadata", `{"name":"%s","inputSchema":{"type":"object"},"_meta":{}}`},
	{"characters HTML escapes", `{"name":"%s","description":"<b> & </b> \u003c\u2028","inputSchema":{"type":"object"}}`},
	{"escapes and raw unicode", `{"name":"%s","description":"caf\u00e9 café \ud83d\ude00 😀 \/ \t\n","inputSchema":{"type":"object"}}`},
	{"duplicate keys deep inside", `{"name":"%s","inputSchema":{"type":"object","properties":{"p":{"x":{"a":1,"a":2}}}}}`},
	{"examples of every kind", `{"name":"%s","inputSchema":{"type":"object","examples":[null,true,false,0,-1,"",[],{},[[]],{"":""}]}}`},
}

// awkwardResults are results of tools that must arrive as they stand.
var awkwardResults = []sample{
	{"text", `{"content":[{"type":"text","text":"x"}]}`},
	{"explicit isError", `{"content":[],"isError":false}`},
	{"an error result with an image", `{"content":[{"type":"image","mimeType":"image/png","data":"AA=="}],"isError":true}`},
	{"unknown fields", `{"content":[],"task":{"taskId":"1"},"x":1}`},
	{"structured content only", `{"structuredContent":{"a":1}}`},
	{"numbers", `{"content":[],"structuredContent":{"id":9007199254740993,"u":18446744073709551615,"f":1.0,"e":1E5,"neg0":-0.0,"p":3.14159265358979323846,"inf":1e400}}`},
	{"structured null", `{"content":[],"structuredContent":null}`},
	{"structured array", `{"content":[],"structuredContent":[1,2]}`},
	{"an unknown content type", `{"content":[{"type":"text","text":"a"},{"type":"hologram","data":"AA==","depth":{"z":1.0}}]}`},
	{"unknown content fields", `{"content":[{"type":"text","text":"a","x":1,"annotations":{"audience":["user"],"priority":0,"x":1}}]}`},
	{"empty text", `{"content":[{"type":"text","text":""}]}`},
	{"priority 0.0", `{"content":[{"type":"text","text":"a","annotations":{"priority":0.0}}]}`},
	{"base64 without padding", `{"content":[{"type":"image","mimeType":"image/png","data":"-_8"}]}`},
	{"base64 with line breaks", `{"content":[{"type":"image","mimeType":"image/png","data":"AAAA\nAAAA"}]}`},
	{"an embedded resource", `{"content":[{"type":"resource","resource":{"text":"","uri":"awk://x","x":1,"annotations":{"priority":1}}}]}`},
	{"a resource link", `{"content":[{"type":"resource_link","uri":"awk://r","name":"","size":0,"x":1}]}`},
	{"tool use", `{"content":[{"type":"tool_use","id":"1","name":"n","input":{"big":9007199254740993}}]}`},
	{"content null", `{"content":null}`},
	{"null among content", `{"content":[null]}`},
	{"duplicate keys", `{"content":[],"structuredContent":{"a":1,"a":2}}`},
	{"a lone surrogate", `{"content":[{"type":"text","text":"\ud800 \udc00x"}]}`},
	{"white space", "{\"content\" : [ ] ,\t\"z\":1 }"},
	{"metadata of others", `{"content":[],"_meta":{"com.example/x":{"n":1.0},"progressToken":"mine"}}`},
	{"empty metadata", `{"content":[],"_meta":{}}`},
	{"nesting", `{"content":[],"structuredContent":` + strings.Repeat("[", 90) + strings.Repeat("]", 90) + `}`},
	{"keys out of order", `{"z":1,"content":[{"text":"t","type":"text"}],"a":2}`},
	{"1 MB of text", `{"content":[{"type":"text","text":"` + strings.Repeat("0123456789abcdef", 1<<16) + `"}]}`},
	{"an empty object", `{}`},
}

// awkwardErrors are JSON-RPC errors of tools that keep code, message and data.
var awkwardErrors = []sample{
	{"with data", `{"code":-32000,"message":"no <b>luck</b>","data":{"n":9007199254740993,"f":1.0}}`},
	{"of the application", `{"code":42,"message":"","data":null}`},
	{"with unknown fields", `{"message":"m","x":[1.0],"code":-32603}`},
}

// awkwardOthers are prompts, resources and templates.
var (
	awkwardPrompts = []sample{
		{"unknown fields", `{"name":"%s","arguments":[{"name":"a","required":false,"x":1}],"x":1.0}`},
		{"empty arguments", `{"arguments":[],"name":"%s","title":""}`},
	}
	awkwardResources = []sample{
		{"size 0 and unknown fields", `{"uri":"awk://%s","name":"n","size":0,"x":1,"annotations":{"priority":0}}`},
		{"a size with a point", `{"name":"n","uri":"awk://%s","size":1.0,"_meta":{"a/b":[]}}`},
	}
	awkwardTemplates = []sample{
		{"unknown fields", `{"uriTemplate":"awkt://%s/{b}","name":"n","x":1e400}`},
	}
	awkwardReads = []sample{
		{"empty text", `{"contents":[{"uri":"awk://%s","text":"","mimeType":""}],"x":1.0}`},
		{"blob without padding", `{"contents":[{"uri":"awk://%s","blob":"AA","n":9007199254740993}]}`},
	}
	awkwardMessages = []sample{
		{"unknown fields", `{"description":"","messages":[{"role":"user","content":{"type":"text","text":"a","x":1},"x":1.0}],"x":null}`},
		{"unknown content", `{"messages":[{"role":"narrator","content":[{"type":"hologram"}]}]}`},
	}
)

// named fills in the i-th name of a kind.
func (s sample) named(kind string, i int) string {
	return strings.ReplaceAll(s.json, "%s", fmt.Sprintf("%s%d", kind, i))
}

// awkwardServer offers all samples. Tools of kind t are definitions, r answer
// with a result, e with an error; mirror answers with the parameters it got.
// Resources keep their URIs behind the aggregator, so the tag makes them unique.
func awkwardServer(tag string, era mcptest.Era) *mcptest.Raw {
	raw := &mcptest.Raw{Era: era, Results: map[string]string{}, Errors: map[string]string{}, Answer: mirror}
	for i, s := range awkwardTools {
		raw.Tools = append(raw.Tools, s.named("t", i))
	}
	for i, s := range awkwardResults {
		raw.Tools = append(raw.Tools, fmt.Sprintf(`{"name":"r%d","inputSchema":{"type":"object"}}`, i))
		raw.Results[fmt.Sprintf("tools/call r%d", i)] = s.json
	}
	for i, s := range awkwardErrors {
		raw.Tools = append(raw.Tools, fmt.Sprintf(`{"name":"e%d","inputSchema":{"type":"object"}}`, i))
		raw.Errors[fmt.Sprintf("tools/call e%d", i)] = s.json
	}
	raw.Tools = append(raw.Tools, `{"name":"mirror","inputSchema":{"type":"object"}}`)
	for i, s := range awkwardPrompts {
		raw.Prompts = append(raw.Prompts, s.named("p", i))
		raw.Results[fmt.Sprintf("prompts/get p%d", i)] = awkwardMessages[i].json
	}
	for i, s := range awkwardResources {
		raw.Resources = append(raw.Resources, s.named(tag+"u", i))
		raw.Results[fmt.Sprintf("resources/read awk://%su%d", tag, i)] = awkwardReads[i].named(tag+"u", i)
	}
	for i, s := range awkwardTemplates {
		raw.Templates = append(raw.Templates, s.named(tag+"v", i))
	}
	return raw
}

// mirror answers calls of the tool mirror with the parameters as text, after
// one progress notification if the caller asked for progress.
func mirror(q *mcptest.Request) *mcptest.Answer {
	if q.Method != "tools/call" || q.Name != "mirror" {
		return nil
	}
	a := &mcptest.Answer{Result: `{"content":[{"type":"text","text":` + mcptest.Quote(string(q.Params)) + `}]}`}
	if q.Token != nil {
		a.Before = []string{`{"jsonrpc":"2.0","method":"notifications/progress","params":{"x":1.0,"progressToken":` +
			string(q.Token) + `,"progress":0.50,"total":1.0}}`}
	}
	return a
}
