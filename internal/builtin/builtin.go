// Package builtin holds the MCP servers that live inside this binary. They make the
// example configuration work offline, and they are the peers that show what every part
// of the protocol looks like behind the aggregator.
//
// Each server is written once against the SDK and speaks every protocol revision the
// SDK speaks. Where the revisions differ (asking the client's user or model), handlers
// return input requests: the SDK passes them on to 2026-07-28 clients and pushes them to
// older ones, see [ask].
//
// # Concurrency
//
// Every call of a constructor makes a server with state of its own; instances share
// nothing. Handlers run on the SDK's goroutines and end with their request's context.
// No server owns a goroutine; the one thing that happens by itself, the counter that
// changes while someone is subscribed to it, is a timer that stops with the last subscriber.
package builtin

import (
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// version is what the built-in servers report about themselves. It changes when their
// tools change, not when the program does.
const version = "1.0.0"

// Servers returns a constructor for each built-in server, by the name that a
// configuration uses for it. The map is the caller's.
func Servers() map[string]func() *mcp.Server {
	return map[string]func() *mcp.Server{
		"everything": newEverything,
		"notes":      newNotes,
	}
}

// readOnly marks a tool that changes nothing and reaches nothing outside this process.
func readOnly() *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: new(false)}
}

// text is a result of one text block.
func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// inputOf derives the input schema of T and lets edit add what Go types cannot say:
// bounds, defaults, enumerations. It panics on a type that has no schema, which is a
// mistake in this package.
func inputOf[T any](edit func(properties map[string]*jsonschema.Schema)) *jsonschema.Schema {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		panic(err)
	}
	edit(s.Properties)
	return s
}

// between bounds a number from both sides and gives it a default.
func between(s *jsonschema.Schema, least, most float64, byDefault string) {
	s.Minimum, s.Maximum, s.Default = &least, &most, []byte(byDefault)
}

// oneOf restricts a string to the given choices; the first is the default.
func oneOf(s *jsonschema.Schema, choices ...string) {
	for _, c := range choices {
		s.Enum = append(s.Enum, c)
	}
	s.Default = []byte(`"` + choices[0] + `"`)
}
