package catalog_test

import (
	"testing"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/wire"
)

// Tasks do not cross from one era to the other, so each era is told of those it can use.
func TestTasksAreDeclaredToTheEraThatHasThem(t *testing.T) {
	const extension = `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	const experimental = `{"tools":{},"tasks":{"list":{},"requests":{"tools":{"call":{}}}}}`
	for _, tt := range []struct {
		name           string
		in             catalog.Input
		legacy, modern string
	}{
		{"a legacy server", catalog.Input{Capabilities: []byte(experimental)},
			`{"tasks":{"list":{},"requests":{"tools":{"call":{}}}},"tools":{"listChanged":true}}`, `{"tools":{"listChanged":true}}`},
		{"a modern server", catalog.Input{Modern: true, Capabilities: []byte(extension)},
			`{"tools":{"listChanged":true}}`, `{"extensions":{"io.modelcontextprotocol/tasks":{}},"tools":{"listChanged":true}}`},
		{"a legacy server that speaks of the extension", catalog.Input{Capabilities: []byte(extension)},
			`{"tools":{"listChanged":true}}`, `{"tools":{"listChanged":true}}`},
		{"a modern server that speaks of the old form", catalog.Input{Modern: true, Capabilities: []byte(experimental)},
			`{"tools":{"listChanged":true}}`, `{"tools":{"listChanged":true}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Server = server("s")
			s, _ := catalog.Build([]*catalog.Listing{catalog.NewListing(tt.in)}, catalog.Rules{})
			if got := string(s.Capabilities()); got != tt.legacy {
				t.Errorf("legacy clients are told %s, want %s", got, tt.legacy)
			}
			if got := string(s.ModernCapabilities()); got != tt.modern {
				t.Errorf("modern clients are told %s, want %s", got, tt.modern)
			}
			if got, want := s.Declares(wire.Legacy, "tasks", "list"), tt.name == "a legacy server"; got != want {
				t.Errorf("tasks.list is declared: %v", got)
			}
		})
	}
}
