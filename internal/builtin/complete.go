package builtin

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// frameworks maps programming language to its frameworks. It is read only.
var frameworks = map[string][]string{
	"go":         {"chi", "echo", "gin"},
	"python":     {"django", "fastapi", "flask"},
	"rust":       {"actix", "axum"},
	"typescript": {"express", "next", "svelte"},
}

// complete answers completion/complete for the arguments of prompts and the variables
// of templates. What is not known completes to nothing, which is no error.
func complete(_ context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	p := req.Params
	var earlier map[string]string
	if p.Context != nil {
		earlier = p.Context.Arguments
	}
	return startingWith(p.Argument.Value, candidates(p.Ref, p.Argument.Name, earlier)), nil
}

// candidates are all values of an argument, given the arguments filled in earlier.
func candidates(ref *mcp.CompleteReference, argument string, earlier map[string]string) []string {
	switch ref.Name + ref.URI + " " + argument {
	case "review_code language":
		return sortedKeys(frameworks)
	case "review_code framework":
		return frameworks[earlier["language"]]
	case "explain_item id", itemTemplate + " id":
		return []string{"1", "2", "3", "10", "20", "30"}
	case cityTemplate + " country":
		return sortedKeys(cities)
	case cityTemplate + " city":
		return cities[earlier["country"]]
	case swatchTemplate + " colour":
		return sortedKeys(colours)
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func startingWith(prefix string, all []string) *mcp.CompleteResult {
	values := []string{}
	for _, v := range all {
		if strings.HasPrefix(v, strings.ToLower(prefix)) {
			values = append(values, v)
		}
	}
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: values, Total: len(values)}}
}
