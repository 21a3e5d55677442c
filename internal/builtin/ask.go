package builtin

//lint:file-ignore SA1019 sampling is deprecated in 2026-07-28 but in use by every client of the field.

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// firstModern is the revision from which a server may not send requests and input
// requests travel in results instead.
const firstModern = "2026-07-28"

// addAskingTools adds the tools that need something from the client: an answer of its
// user or a completion of its model.
func addAskingTools(s *mcp.Server) {
	mcp.AddTool(s, &mcp.Tool{
		Name: "ask_user", Title: "Ask the user", Annotations: readOnly(),
		Description: "Asks the user for a name and a favourite colour through elicitation",
	}, askUser)
	mcp.AddTool(s, &mcp.Tool{
		Name: "sample", Title: "Ask the client's model", Annotations: readOnly(),
		Description: "Has the client's model answer a prompt through sampling",
		InputSchema: inputOf[sampleInput](func(p map[string]*jsonschema.Schema) {
			between(p["max_tokens"], 1, 100000, "200")
		}),
	}, sample)
}

// ask returns the client's response to one input request. While there is none the
// result is the one to return instead: it holds the request. 2026-07-28 clients get it
// as it is and call again with the response; for older clients the SDK sends the request
// itself and calls the handler again.
func ask[R mcp.InputResponse](req *mcp.CallToolRequest, key string, in mcp.InputRequest) (R, *mcp.CallToolResult) {
	if r, ok := req.Params.InputResponses[key].(R); ok {
		return r, nil
	}
	var none R
	return none, &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{key: in}}
}

// missing is the error for a client that has not declared a capability: modern clients
// get the protocol's own error, older ones (which have none) a tool error.
func missing(req *mcp.CallToolRequest, what string, need *mcp.ClientCapabilities) error {
	message := fmt.Sprintf("this tool needs a client that supports %s", what)
	if req.ProtocolVersion() < firstModern {
		return fmt.Errorf("%s", message)
	}
	data, err := json.Marshal(mcp.MissingRequiredClientCapabilityData{RequiredCapabilities: need})
	if err != nil {
		return fmt.Errorf("describing required capabilities: %w", err)
	}
	return &jsonrpc.Error{Code: mcp.CodeMissingRequiredClientCapabilities, Message: message, Data: data}
}

type askInput struct {
	Question string `json:"question,omitempty" jsonschema:"what to ask, instead of the usual question"`
}

func askUser(_ context.Context, req *mcp.CallToolRequest, in askInput) (*mcp.CallToolResult, any, error) {
	caps := req.ClientCapabilities()
	// An empty elicitation capability means forms, as it did before there were modes.
	if caps == nil || caps.Elicitation == nil || (caps.Elicitation.Form == nil && caps.Elicitation.URL != nil) {
		need := &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}}
		return nil, nil, missing(req, "elicitation with forms", need)
	}
	if in.Question == "" {
		in.Question = "Who are you, and which colour do you like?"
	}
	answer, pending := ask[*mcp.ElicitResult](req, "answer", &mcp.ElicitParams{
		Mode: "form", Message: in.Question, RequestedSchema: askSchema(),
	})
	if pending != nil {
		return pending, nil, nil
	}
	if answer.Action != "accept" {
		return text(fmt.Sprintf("The user did not answer (%s).", answer.Action)), nil, nil
	}
	name, _ := answer.Content["name"].(string)
	colour, _ := answer.Content["colour"].(string)
	return text(fmt.Sprintf("The user is %s and likes %s.", or(name, "nameless"), or(colour, "no colour"))), nil, nil
}

// askSchema is the form of ask_user. The protocol allows only flat objects of simple types.
func askSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "object",
		Properties: map[string]*jsonschema.Schema{
			"name":   {Type: "string", Title: "Name", Description: "how to call you"},
			"colour": {Type: "string", Title: "Colour", Enum: []any{"red", "green", "blue"}},
		},
		PropertyOrder: []string{"name", "colour"},
		Required:      []string{"name"},
	}
}

type sampleInput struct {
	Prompt    string `json:"prompt" jsonschema:"what to ask the model"`
	MaxTokens int64  `json:"max_tokens,omitempty" jsonschema:"most tokens the model may write"`
}

func sample(_ context.Context, req *mcp.CallToolRequest, in sampleInput) (*mcp.CallToolResult, any, error) {
	caps := req.ClientCapabilities()
	if caps == nil || caps.Sampling == nil {
		return nil, nil, missing(req, "sampling", &mcp.ClientCapabilities{Sampling: &mcp.SamplingCapabilities{}})
	}
	answer, pending := ask[*mcp.CreateMessageWithToolsResult](req, "completion", &mcp.CreateMessageParams{
		Messages:     []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: in.Prompt}}},
		SystemPrompt: "You are a helpful test fixture. Answer briefly.",
		MaxTokens:    in.MaxTokens,
		Temperature:  0.7,
	})
	if pending != nil {
		return pending, nil, nil
	}
	var words []string
	for _, c := range answer.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			words = append(words, t.Text)
		}
	}
	return text(fmt.Sprintf("%s answered: %s", or(answer.Model, "The model"), strings.Join(words, "\n"))), nil, nil
}

// or is s, or other where s is empty.
func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
