package builtin_test

import (
	"bytes"
	"context"
	"image/png"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/builtin"
)

func TestContentTools(t *testing.T) {
	inEachEra(t, func(t *testing.T, version string) {
		c := dial(t, "everything", version, nil)

		if got := textOf(call(t, c, "echo", map[string]any{"message": "hé\u2028llo"})); got != "hé\u2028llo" {
			t.Errorf("echo changed the message to %q", got)
		}
		sum := call(t, c, "add", map[string]any{"a": 1.5, "b": 2})
		if got := encoded(t, sum.StructuredContent); got != `{"sum":3.5}` {
			t.Errorf("add answered %s", got)
		}
		img := call(t, c, "get_image", nil).Content[1].(*mcp.ImageContent)
		if _, err := png.Decode(bytes.NewReader(img.Data)); err != nil || img.MIMEType != "image/png" {
			t.Errorf("get_image: %s: %v", img.MIMEType, err)
		}
		noted := call(t, c, "annotated_content", map[string]any{"kind": "error", "include_image": true})
		if got := noted.Content[0].(*mcp.TextContent).Annotations; got.Priority != 1 || len(got.Audience) != 2 {
			t.Errorf("an error should matter most, to both: %+v", got)
		}
		if got := noted.Content[1].(*mcp.ImageContent).Annotations; !cmp.Equal(got.Audience, []mcp.Role{"user"}) {
			t.Errorf("the image should be for the user: %+v", got)
		}
		res := call(t, c, "fail", map[string]any{"message": "out of paper"})
		if !res.IsError || textOf(res) != "out of paper" {
			t.Errorf("fail: isError %v, %q", res.IsError, textOf(res))
		}
	})
}

func TestResourceLinksCanBeRead(t *testing.T) {
	inEachEra(t, func(t *testing.T, version string) {
		c := dial(t, "everything", version, nil)
		links := 0
		for _, block := range call(t, c, "get_resource_links", map[string]any{"count": 2}).Content {
			switch b := block.(type) {
			case *mcp.ResourceLink:
				links++
				if _, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: b.URI}); err != nil {
					t.Errorf("reading %s: %v", b.URI, err)
				}
			case *mcp.EmbeddedResource:
				if b.Resource.Text != "This is item 1." {
					t.Errorf("embedded: %q", b.Resource.Text)
				}
			}
		}
		if links != 2 {
			t.Errorf("%d links, want 2", links)
		}
	})
}

func TestBigTextHasTheSizeAsked(t *testing.T) {
	inEachEra(t, func(t *testing.T, version string) {
		c := dial(t, "everything", version, nil)
		for _, size := range []int{0, 1, 99, 1 << 20} {
			if got := len(textOf(call(t, c, "big_text", map[string]any{"size": size}))); got != size {
				t.Errorf("%d bytes, want %d", got, size)
			}
		}
		if got := len(textOf(call(t, c, "big_text", nil))); got != 10000 {
			t.Errorf("%d bytes by default, want 10000", got)
		}
		if res := call(t, c, "big_text", map[string]any{"size": 1 << 30}); !res.IsError {
			t.Error("a size over the bound was accepted")
		}
	})
}

func TestResources(t *testing.T) {
	tests := []struct{ uri, mime, text string }{
		{"demo://about", "text/markdown", "# Everything"},
		{"demo://logo.png", "image/png", ""},
		{"demo://counter", "text/plain", "0"},
		{"demo://item/a%20b", "text/plain", "This is item a b."},
		{"demo://city/japan/kyoto", "application/json", `{"city":"kyoto","country":"japan"}`},
		{"demo://swatch/red", "image/png", ""},
	}
	inEachEra(t, func(t *testing.T, version string) {
		c := dial(t, "everything", version, nil)
		for _, tt := range tests {
			res, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: tt.uri})
			if err != nil {
				t.Errorf("%s: %v", tt.uri, err)
				continue
			}
			got := res.Contents[0]
			if got.URI != tt.uri || got.MIMEType != tt.mime || !strings.HasPrefix(got.Text, tt.text) {
				t.Errorf("%s: %s %s %q", tt.uri, got.URI, got.MIMEType, got.Text)
			}
			if tt.text == "" {
				if _, err := png.Decode(bytes.NewReader(got.Blob)); err != nil {
					t.Errorf("%s: %v", tt.uri, err)
				}
			}
		}
	})
}

func TestUnknownResourceHasTheCodeOfItsEra(t *testing.T) {
	codes := map[string]int64{eras["legacy"]: -32002, eras["modern"]: -32602}
	inEachEra(t, func(t *testing.T, version string) {
		c := dial(t, "everything", version, nil)
		for _, uri := range []string{"demo://city/japan/paris", "demo://swatch/pink"} {
			_, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
			if codeOf(err) != codes[version] {
				t.Errorf("%s: %v, want code %d", uri, err, codes[version])
			}
		}
	})
}

func TestCounterGrowsOnlyWhileSomebodyIsSubscribed(t *testing.T) {
	inEachEra(t, func(t *testing.T, version string) {
		updates := 0
		c := dial(t, "everything", version, &mcp.ClientOptions{
			ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
				if r.Params.URI == "demo://counter" {
					updates++
				}
			},
		})
		value := func() string {
			res, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "demo://counter"})
			if err != nil {
				t.Fatal(err)
			}
			return res.Contents[0].Text
		}
		if err := c.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "demo://counter"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3500 * time.Millisecond)
		synctest.Wait()
		if value() != "3" || updates != 3 {
			t.Errorf("subscribed for 3.5 s: value %s, %d updates, want 3 of each", value(), updates)
		}
		if err := c.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: "demo://counter"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if value() != "3" || updates != 3 {
			t.Errorf("a minute after unsubscribing: value %s, %d updates, want 3 of each", value(), updates)
		}
	})
}

func TestCounterStopsWhenItsSubscriberIsGone(t *testing.T) {
	inEachEra(t, func(t *testing.T, version string) {
		server := builtin.Servers()["everything"]()
		gone, other := join(t, server, version, nil), join(t, server, version, nil)
		if err := gone.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "demo://counter"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond)
		gone.Close()
		time.Sleep(time.Minute)
		res, err := other.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "demo://counter"})
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Contents[0].Text; got != "1" {
			t.Errorf("a minute after its subscriber left the counter shows %s, want 1", got)
		}
	})
}

func TestPrompts(t *testing.T) {
	inEachEra(t, func(t *testing.T, version string) {
		c := dial(t, "everything", version, nil)
		get := func(name string, arguments map[string]string) (*mcp.GetPromptResult, error) {
			return c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: name, Arguments: arguments})
		}
		if res, err := get("greet", nil); err != nil || len(res.Messages) != 1 {
			t.Errorf("greet: %v, %v", res, err)
		}
		res, err := get("review_code", map[string]string{"code": "x := 1", "language": "go", "framework": "chi"})
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Messages[0].Content.(*mcp.TextContent).Text; got != "Please review go (chi) code:\n\nx := 1" {
			t.Errorf("review_code: %q", got)
		}
		if _, err := get("review_code", nil); codeOf(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("review_code without code: %v", err)
		}
		res, err = get("explain_item", map[string]string{"id": "7"})
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Messages[1].Content.(*mcp.EmbeddedResource).Resource.Text; got != "This is item 7." {
			t.Errorf("explain_item: %q", got)
		}
	})
}

func TestCompletion(t *testing.T) {
	prompt := func(name string) *mcp.CompleteReference {
		return &mcp.CompleteReference{Type: "ref/prompt", Name: name}
	}
	template := func(uri string) *mcp.CompleteReference { return &mcp.CompleteReference{Type: "ref/resource", URI: uri} }
	tests := []struct {
		name            string
		ref             *mcp.CompleteReference
		argument, value string
		earlier         map[string]string
		want            []string
	}{
		{"a prompt argument by its beginning", prompt("review_code"), "language", "P", nil, []string{"python"}},
		{"an argument that depends on another", prompt("review_code"), "framework", "", map[string]string{"language": "rust"}, []string{"actix", "axum"}},
		{"a dependent argument too early", prompt("review_code"), "framework", "", nil, []string{}},
		{"a template variable", template("demo://city/{country}/{city}"), "country", "", nil, []string{"france", "germany", "japan"}},
		{"a variable that depends on another", template("demo://city/{country}/{city}"), "city", "k", map[string]string{"country": "japan"}, []string{"kyoto"}},
		{"an id", template("demo://item/{id}"), "id", "1", nil, []string{"1", "10"}},
		{"a prompt that is not there", prompt("nothing"), "x", "", nil, []string{}},
	}
	inEachEra(t, func(t *testing.T, version string) {
		c := dial(t, "everything", version, nil)
		for _, tt := range tests {
			p := &mcp.CompleteParams{Ref: tt.ref, Argument: mcp.CompleteParamsArgument{Name: tt.argument, Value: tt.value}}
			if tt.earlier != nil {
				p.Context = &mcp.CompleteContext{Arguments: tt.earlier}
			}
			res, err := c.Complete(t.Context(), p)
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
				continue
			}
			if diff := cmp.Diff(tt.want, res.Completion.Values); diff != "" || res.Completion.Total != len(tt.want) {
				t.Errorf("%s: total %d, %s", tt.name, res.Completion.Total, diff)
			}
		}
	})
}
