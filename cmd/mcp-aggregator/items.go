package main

import (
	"encoding/json"

	"mcp-aggregator/internal/catalog"
)

// kind is one of the lists of the catalogue, as the commands speak of it.
type kind struct {
	catalog.Kind
	word    string // on the command line
	heading string // of a table
}

var kinds = []kind{
	{catalog.Tools, "tools", "TOOL"},
	{catalog.Prompts, "prompts", "PROMPT"},
	{catalog.Resources, "resources", "RESOURCE"},
	{catalog.Templates, "templates", "RESOURCE TEMPLATE"},
}

// description is what a definition says about itself, its title if that is all.
func description(def []byte) string {
	var d struct{ Title, Description string }
	if json.Unmarshal(def, &d) != nil { // of another type than the protocol has
		return ""
	}
	if d.Description == "" {
		return d.Title
	}
	return d.Description
}
