package router_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/wire"
)

// library is a server with resources, one of which is large, and a template.
func library() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "up", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "big", InputSchema: map[string]any{"type": "object"}}, mcp.ToolHandler(answers(lines(1000))))
	read := func(contents ...*mcp.ResourceContents) mcp.ResourceHandler {
		return func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: contents}, nil
		}
	}
	s.AddResource(&mcp.Resource{Name: "small", URI: "doc://small"}, read(&mcp.ResourceContents{URI: "doc://small", Text: "a \"small\" one"}))
	s.AddResource(&mcp.Resource{Name: "big", URI: "doc://big"}, read(&mcp.ResourceContents{URI: "doc://big", MIMEType: "text/plain", Text: lines(1000)}))
	s.AddResource(&mcp.Resource{Name: "mixed", URI: "doc://mixed"}, read(
		&mcp.ResourceContents{URI: "doc://mixed", MIMEType: "image/png", Blob: []byte("png")}, &mcp.ResourceContents{URI: "doc://mixed", Text: "text"}))
	s.AddResourceTemplate(&mcp.ResourceTemplate{Name: "any", URITemplate: "any://{id}"}, read(&mcp.ResourceContents{URI: "any://1", Text: "any"}))
	return s
}

func TestResourcesAreThereForClientsThatKnowToolsOnly(t *testing.T) {
	for _, client := range eras {
		for _, server := range eras {
			r := newPress(t, pressing(server, "digest"), map[string]func() *mcp.Server{"up": library}, nil)
			p := newPerson(t, r.Router, client)
			p.name = "ann"
			var page struct {
				Resources         []struct{ URI string }
				ResourceTemplates []struct{ URITemplate string }
			}
			listed := fittedIn(t, p.call("tools/call", `{"name":"list_resources"}`))
			if err := json.Unmarshal([]byte(listed.Content[0].Text), &page); err != nil || len(page.Resources) != 3 || len(page.ResourceTemplates) != 1 {
				t.Errorf("%v, %+v", err, listed)
			}
			read := func(uri string) (string, fitted) {
				got := p.call("tools/call", `{"name":"read_resource","arguments":{"uri":"`+uri+`"}}`)
				f := fittedIn(t, got)
				if (f.ResultType == "complete") != (client == wire.Modern) {
					t.Errorf("resultType of %s is %q", uri, f.ResultType)
				}
				return got, f
			}
			if _, f := read("doc://small"); f.Content[0].Text != `a "small" one` || f.IsError {
				t.Errorf("small: %+v", f)
			}
			if got, _ := read("doc://mixed"); !strings.Contains(got, `{"type":"resource","resource":{`) || !strings.Contains(got, `"blob":"cG5n"`) || !strings.Contains(got, `{"type":"text","text":"text"}`) {
				t.Errorf("mixed: %s", got)
			}
			if _, f := read("any://1"); f.Content[0].Text != "any" {
				t.Errorf("by its template: %+v", f)
			}
			got, f := read("doc://big")
			if f.Meta.Result.Policy != "digest" || r.done[0].Server != "up" || p.readBack(f.Meta.Result.Handle, 1000) != lines(1000) {
				t.Fatalf("big: %.400s", got)
			}
			if got, f := read(f.Meta.Result.URI); !strings.HasPrefix(f.Content[0].Text, "line 1 of") || len(got) > 40_000 || strings.Contains(got, "line 1000 of") {
				t.Errorf("the original, as a tool: %.400s", got)
			}
			for uri, want := range map[string]string{
				"doc://none": "not found", "": "uri is missing", "mcp-aggregator:result:XXXX": "not found", "none": "not found",
			} {
				if got, f := read(uri); !f.IsError || !strings.Contains(strings.ToLower(f.Content[0].Text), want) {
					t.Errorf("%q: %s", uri, got)
				}
			}
		}
	}
}

func TestRulesOfItsServerAreForAResourceReadByATool(t *testing.T) {
	c := pressing(wire.Legacy, "digest")
	c.Servers[0].Results.Policy = "pass"
	c.Servers = append(c.Servers, builtinServer("other"))
	r := newPress(t, c, map[string]func() *mcp.Server{"up": library, "other": serverOf(nil)}, nil)
	if got := newPerson(t, r.Router, wire.Legacy).call("tools/call", `{"name":"read_resource","arguments":{"uri":"doc://big"}}`); !strings.Contains(got, "line 1000 of") {
		t.Errorf("%.300s", got)
	}
}

func TestAResourceWhoseServerAsksFirstIsAnErrorOfTheTool(t *testing.T) {
	for _, client := range eras {
		for _, server := range eras {
			r := newPress(t, pressing(server, "digest"), map[string]func() *mcp.Server{"up": asking("up", "form")}, nil)
			p := newPerson(t, r.Router, client)
			got := p.call("tools/call", `{"name":"read_resource","arguments":{"uri":"ask://x"}}`)
			if f := fittedIn(t, got); !f.IsError || len(p.asked) != 0 {
				t.Errorf("%v client, %v server: %s, asked %q", client, server, got, p.asked)
			}
		}
	}
}

func TestWhatReadersOfResultsGetWrong(t *testing.T) {
	r := newPress(t, pressing(wire.Legacy, "page"), map[string]func() *mcp.Server{"up": library}, nil)
	for _, era := range eras {
		ann, bob := newPerson(t, r.Router, era), newPerson(t, r.Router, era)
		ann.name, bob.name = "ann", "bob"
		f := fittedIn(t, ann.call("tools/call", `{"name":"up__big","arguments":{}}`))
		handle := f.Meta.Result.Handle
		for _, tt := range []struct {
			name string
			p    *person
			args string // with a comma before it
			want string
		}{
			{"another principal", bob, `,"arguments":{"handle":"` + handle + `"}`, "not found: there is no result with this handle"},
			{"an unknown handle", ann, `,"arguments":{"handle":"` + handle + `x"}`, "not found: there is no result with this handle"},
			{"no handle", ann, `,"arguments":{}`, "not found"},
			{"no arguments", ann, ``, "handle"},
			{"null", ann, `,"arguments":null`, "not found"},
			{"an unknown argument", ann, `,"arguments":{"handle":"` + handle + `","rows":1}`, "rows"},
			{"of another type", ann, `,"arguments":{"handle":"` + handle + `","from":"1"}`, "from"},
			{"that do not go together", ann, `,"arguments":{"handle":"` + handle + `","head":1,"tail":1}`, "tail does not go with head"},
		} {
			got := tt.p.call("tools/call", `{"name":"result_read"`+tt.args+`}`)
			if f := fittedIn(t, got); !f.IsError || !strings.Contains(f.Content[0].Text, tt.want) || (f.ResultType == "complete") != (era == wire.Modern) {
				t.Errorf("%s: %s", tt.name, got)
			}
		}
		// Arguments in a string are refused as for any other tool.
		for _, name := range []string{"result_read", "up__big"} {
			if got := ann.call("tools/call", `{"name":"`+name+`","arguments":"{\"handle\":\"`+handle+`\"}"}`); !strings.HasPrefix(got, "error -32602 invalid params: arguments must be an object") {
				t.Errorf("%s: %s", name, got)
			}
		}
		if got := fittedIn(t, ann.call("tools/call", `{"name":"list_resources","arguments":{"cursor":"nonsense"}}`)); !got.IsError || !strings.Contains(got.Content[0].Text, "cursor") {
			t.Errorf("%+v", got)
		}
		if got := fittedIn(t, ann.call("tools/call", `{"name":"result_read","arguments":{"handle":"`+handle+`","grep":"line 7[0-9]{2} ","max_matches":2}}`)); got.IsError || !strings.Contains(got.Content[0].Text, "line 700 of") {
			t.Errorf("%+v", got)
		}
	}
}

// What is read is as small as it was asked for.
func TestWhatIsReadOfAResultIsNotMadeSmallerAgain(t *testing.T) {
	c := pressing(wire.Legacy, "page")
	c.Results.ThresholdTokens = 50
	r := newPress(t, c, map[string]func() *mcp.Server{"up": library}, nil)
	p := newPerson(t, r.Router, wire.Legacy)
	f := fittedIn(t, p.call("tools/call", `{"name":"up__big","arguments":{}}`))
	got := fittedIn(t, p.call("tools/call", `{"name":"result_read","arguments":{"handle":"`+f.Meta.Result.Handle+`","from":1,"to":200}}`))
	if !strings.HasPrefix(got.Content[0].Text, lines(200)) || got.Meta.Result.Policy != "" {
		t.Errorf("%.300s", got.Content[0].Text)
	}
}

// Names of our tools are found before those of servers.
func TestAServersToolOfTheSameNameIsCalledByAnother(t *testing.T) {
	c := pressing(wire.Legacy, "page")
	c.Servers[0].Prefix = new("")
	r := newPress(t, c, upWith(map[string]tool{"result_read": answers("theirs")}), nil)
	var theirs string
	for _, def := range r.Generation().Catalog.Entries(0) {
		if def.Server == "up" {
			theirs = def.Exposed
		}
	}
	p := newPerson(t, r.Router, wire.Legacy)
	if got := p.call("tools/call", `{"name":"`+theirs+`","arguments":{}}`); !strings.Contains(got, "theirs") || theirs == "result_read" {
		t.Errorf("%s: %s", theirs, got)
	}
	if got := p.call("tools/call", `{"name":"result_read","arguments":{"handle":"x"}}`); !strings.Contains(got, "no result with this handle") {
		t.Error(got)
	}
}
