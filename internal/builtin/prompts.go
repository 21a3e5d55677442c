package builtin

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// addDemoPrompts adds a plain prompt, one with arguments and one that embeds a resource.
func addDemoPrompts(s *mcp.Server) {
	s.AddPrompt(&mcp.Prompt{
		Name: "greet", Title: "Greeting", Description: "A prompt without arguments",
	}, greet)
	s.AddPrompt(&mcp.Prompt{
		Name: "review_code", Title: "Code review", Description: "A prompt with arguments, two of them completed",
		Arguments: []*mcp.PromptArgument{
			{Name: "code", Description: "the code to review", Required: true},
			{Name: "language", Description: "its programming language"},
			{Name: "framework", Description: "its framework; completion depends on the language"},
		},
	}, reviewCode)
	s.AddPrompt(&mcp.Prompt{
		Name: "explain_item", Title: "Explain an item", Description: "A prompt with an embedded resource",
		Arguments: []*mcp.PromptArgument{{Name: "id", Description: "id of the item", Required: true}},
	}, explainItem)
}

func said(role mcp.Role, c mcp.Content) *mcp.PromptMessage {
	return &mcp.PromptMessage{Role: role, Content: c}
}

// required returns an argument of a prompt, or the protocol's error if it is missing.
func required(req *mcp.GetPromptRequest, name string) (string, error) {
	if v := req.Params.Arguments[name]; v != "" {
		return v, nil
	}
	return "", &jsonrpc.Error{
		Code:    jsonrpc.CodeInvalidParams,
		Message: fmt.Sprintf("prompt %q needs the argument %q", req.Params.Name, name),
	}
}

func greet(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	return &mcp.GetPromptResult{
		Description: "A greeting",
		Messages:    []*mcp.PromptMessage{said("user", &mcp.TextContent{Text: "Greet me like an old friend."})},
	}, nil
}

func reviewCode(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	code, err := required(req, "code")
	if err != nil {
		return nil, err
	}
	what := or(req.Params.Arguments["language"], "the following")
	if f := req.Params.Arguments["framework"]; f != "" {
		what += " (" + f + ")"
	}
	return &mcp.GetPromptResult{
		Description: "Review of " + what + " code",
		Messages: []*mcp.PromptMessage{
			said("user", &mcp.TextContent{Text: fmt.Sprintf("Please review %s code:\n\n%s", what, code)}),
			said("assistant", &mcp.TextContent{Text: "I shall look for mistakes first and for style second."}),
		},
	}, nil
}

func explainItem(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	id, err := required(req, "id")
	if err != nil {
		return nil, err
	}
	return &mcp.GetPromptResult{
		Description: "Explanation of item " + id,
		Messages: []*mcp.PromptMessage{
			said("user", &mcp.TextContent{Text: "Please explain this item:"}),
			said("user", &mcp.EmbeddedResource{Resource: item(id)}),
		},
	}, nil
}
