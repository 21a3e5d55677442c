package builtin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxText bounds big_text, in bytes. It stays under the frame limits of common clients
// so that the tool shows large results rather than broken connections.
const maxText = 8 << 20

// addContentTools adds the tools that answer at once, one for each kind of content.
func addContentTools(s *mcp.Server) {
	mcp.AddTool(s, &mcp.Tool{
		Name: "echo", Title: "Echo", Annotations: readOnly(),
		Description: "Returns the message it was given",
	}, echo)
	mcp.AddTool(s, &mcp.Tool{
		Name: "add", Title: "Add two numbers", Annotations: readOnly(),
		Description: "Adds two numbers; the result is structured and has an output schema",
	}, add)
	mcp.AddTool(s, &mcp.Tool{
		Name: "get_image", Title: "Image", Annotations: readOnly(),
		Description: "Returns a small PNG image with a caption",
	}, getImage)
	mcp.AddTool(s, &mcp.Tool{
		Name: "annotated_content", Title: "Annotated content", Annotations: readOnly(),
		Description: "Returns content with audience and priority annotations",
		InputSchema: inputOf[annotatedInput](func(p map[string]*jsonschema.Schema) {
			oneOf(p["kind"], "success", "error", "debug")
		}),
	}, annotatedContent)
	mcp.AddTool(s, &mcp.Tool{
		Name: "get_resource_links", Title: "Resource links", Annotations: readOnly(),
		Description: "Returns links to resources of this server, and one resource embedded",
		InputSchema: inputOf[linksInput](func(p map[string]*jsonschema.Schema) {
			between(p["count"], 1, 10, "3")
		}),
	}, getResourceLinks)
	mcp.AddTool(s, &mcp.Tool{
		Name: "big_text", Title: "Large text", Annotations: readOnly(),
		Description: "Returns numbered lines of text, exactly the given number of bytes",
		InputSchema: inputOf[bigTextInput](func(p map[string]*jsonschema.Schema) {
			between(p["size"], 0, maxText, "10000")
		}),
	}, bigText)
	mcp.AddTool(s, &mcp.Tool{
		Name: "fail", Title: "Fail", Annotations: readOnly(),
		Description: "Always fails: the result has isError set",
	}, fail)
}

type echoInput struct {
	Message string `json:"message" jsonschema:"the text to return"`
}

func echo(_ context.Context, _ *mcp.CallToolRequest, in echoInput) (*mcp.CallToolResult, any, error) {
	return text(in.Message), nil, nil
}

type addInput struct {
	A float64 `json:"a" jsonschema:"the first number"`
	B float64 `json:"b" jsonschema:"the second number"`
}

type addOutput struct {
	Sum float64 `json:"sum" jsonschema:"a + b"`
}

func add(_ context.Context, _ *mcp.CallToolRequest, in addInput) (*mcp.CallToolResult, addOutput, error) {
	return nil, addOutput{Sum: in.A + in.B}, nil
}

func getImage(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{
		&mcp.TextContent{Text: "Two rings, 64 by 64 pixels:"},
		&mcp.ImageContent{MIMEType: "image/png", Data: logo()},
	}}, nil, nil
}

type annotatedInput struct {
	Kind  string `json:"kind,omitempty" jsonschema:"which message to return"`
	Image bool   `json:"include_image,omitempty" jsonschema:"add an image meant for the user only"`
}

func annotatedContent(_ context.Context, _ *mcp.CallToolRequest, in annotatedInput) (*mcp.CallToolResult, any, error) {
	block := &mcp.TextContent{}
	switch in.Kind {
	case "error":
		block.Text = "Error: the demonstration failed, as asked"
		block.Annotations = &mcp.Annotations{Audience: []mcp.Role{"user", "assistant"}, Priority: 1}
	case "debug":
		block.Text = "Debug: cache hit ratio 0.95, latency 150 ms"
		block.Annotations = &mcp.Annotations{Audience: []mcp.Role{"assistant"}, Priority: 0.3}
	default:
		block.Text = "The operation completed"
		block.Annotations = &mcp.Annotations{Audience: []mcp.Role{"user"}, Priority: 0.7}
	}
	res := &mcp.CallToolResult{Content: []mcp.Content{block}}
	if in.Image {
		res.Content = append(res.Content, &mcp.ImageContent{
			MIMEType: "image/png", Data: logo(),
			Annotations: &mcp.Annotations{Audience: []mcp.Role{"user"}, Priority: 0.5},
		})
	}
	return res, nil, nil
}

type linksInput struct {
	Count int `json:"count,omitempty" jsonschema:"how many links"`
}

func getResourceLinks(_ context.Context, _ *mcp.CallToolRequest, in linksInput) (*mcp.CallToolResult, any, error) {
	res := text(fmt.Sprintf("%d resources, the first one embedded:", in.Count))
	for i := range in.Count {
		id := fmt.Sprint(i + 1)
		res.Content = append(res.Content, &mcp.ResourceLink{
			URI: itemURI(id), Name: "item " + id, Title: "Item " + id, MIMEType: "text/plain",
			Description: "A resource made from the template " + itemTemplate,
		})
	}
	res.Content = append(res.Content, &mcp.EmbeddedResource{Resource: item("1")})
	return res, nil, nil
}

type bigTextInput struct {
	Size int `json:"size,omitempty" jsonschema:"size of the text in bytes"`
}

func bigText(_ context.Context, _ *mcp.CallToolRequest, in bigTextInput) (*mcp.CallToolResult, any, error) {
	var b strings.Builder
	b.Grow(in.Size + 64)
	for n := 1; b.Len() < in.Size; n++ {
		fmt.Fprintf(&b, "%07d the quick brown fox jumps over the lazy dog\n", n)
	}
	return text(b.String()[:in.Size]), nil, nil
}

type failInput struct {
	Message string `json:"message,omitempty" jsonschema:"the text of the failure"`
}

func fail(_ context.Context, _ *mcp.CallToolRequest, in failInput) (*mcp.CallToolResult, any, error) {
	if in.Message == "" {
		in.Message = "this tool always fails"
	}
	return nil, nil, errors.New(in.Message)
}
