package builtin_test

//lint:file-ignore SA1019 sampling is deprecated in 2026-07-28 but in use by every client of the field.

import (
	"context"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestAskUser(t *testing.T) {
	tests := []struct {
		name   string
		answer mcp.ElicitResult
		want   string
	}{
		{"accepted", mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada", "colour": "blue"}}, "The user is Ada and likes blue."},
		{"accepted in part", mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, "The user is Ada and likes no colour."},
		{"declined", mcp.ElicitResult{Action: "decline"}, "The user did not answer (decline)."},
		{"cancelled", mcp.ElicitResult{Action: "cancel"}, "The user did not answer (cancel)."},
	}
	inEachEra(t, func(t *testing.T, version string) {
		for _, tt := range tests {
			var asked string
			c := dial(t, "everything", version, &mcp.ClientOptions{
				ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					asked = r.Params.Message
					return &tt.answer, nil
				},
			})
			res := call(t, c, "ask_user", map[string]any{"question": "Who goes there?"})
			if textOf(res) != tt.want || asked != "Who goes there?" {
				t.Errorf("%s: asked %q, answered %q, want %q", tt.name, asked, textOf(res), tt.want)
			}
		}
	})
}

func TestSampleAsksTheClientsModel(t *testing.T) {
	inEachEra(t, func(t *testing.T, version string) {
		c := dial(t, "everything", version, &mcp.ClientOptions{
			CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
				prompt := r.Params.Messages[0].Content.(*mcp.TextContent).Text
				return &mcp.CreateMessageResult{
					Role: "assistant", Model: "parrot-1", Content: &mcp.TextContent{Text: strings.ToUpper(prompt)},
				}, nil
			},
		})
		if got := textOf(call(t, c, "sample", map[string]any{"prompt": "polly"})); got != "parrot-1 answered: POLLY" {
			t.Errorf("got %q", got)
		}
	})
}

func TestAskingAClientThatCannotAnswer(t *testing.T) {
	inEachEra(t, func(t *testing.T, version string) {
		c := dial(t, "everything", version, nil)
		for tool, argument := range map[string]string{"ask_user": "question", "sample": "prompt"} {
			res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{argument: "x"}})
			if version == eras["modern"] {
				if codeOf(err) != mcp.CodeMissingRequiredClientCapabilities {
					t.Errorf("%s: want the missing capability error, got %v, %v", tool, res, err)
				}
			} else if err != nil || !res.IsError || !strings.Contains(textOf(res), "needs a client that supports") {
				t.Errorf("%s: want a tool error, got %v, %v", tool, res, err)
			}
		}
	})
}
