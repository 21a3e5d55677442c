package builtin_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/builtin"
)

func TestNotesComeAndGo(t *testing.T) {
	inEachEra(t, func(t *testing.T, version string) {
		c := dial(t, "notes", version, nil)
		added := call(t, c, "add_note", map[string]any{"title": "milk", "text": "two bottles"})
		if got := encoded(t, added.StructuredContent); got != `{"id":"1","text":"two bottles","title":"milk"}` {
			t.Errorf("add_note answered %s", got)
		}
		call(t, c, "add_note", map[string]any{"title": "bread"})
		if got := textOf(call(t, c, "list_notes", nil)); got != "1: milk\n2: bread" {
			t.Errorf("list_notes: %q", got)
		}
		if got := textOf(call(t, c, "get_note", map[string]any{"id": "1"})); got != "milk\n\ntwo bottles" {
			t.Errorf("get_note: %q", got)
		}
		if diff := cmp.Diff([]string{"notes://index", "notes://note/1", "notes://note/2"}, uris(t, c)); diff != "" {
			t.Error("resources:", diff)
		}
		call(t, c, "delete_note", map[string]any{"id": "1"})
		if diff := cmp.Diff([]string{"notes://index", "notes://note/2"}, uris(t, c)); diff != "" {
			t.Error("resources after delete_note:", diff)
		}
		again := call(t, c, "add_note", map[string]any{"title": "eggs"})
		if got := encoded(t, again.StructuredContent); !strings.Contains(got, `"id":"3"`) {
			t.Errorf("an id was used twice: %s", got)
		}
	})
}

// uris lists the resources of a session in order.
func uris(t *testing.T, c *mcp.ClientSession) []string {
	t.Helper()
	var all []string
	for r, err := range c.Resources(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r.URI)
	}
	slices.Sort(all)
	return all
}

func TestUnknownNotesAreToolErrors(t *testing.T) {
	inEachEra(t, func(t *testing.T, version string) {
		c := dial(t, "notes", version, nil)
		for _, tool := range []string{"get_note", "delete_note"} {
			res := call(t, c, tool, map[string]any{"id": "9"})
			if !res.IsError || !strings.Contains(textOf(res), "list_notes") {
				t.Errorf("%s: isError %v, %q", tool, res.IsError, textOf(res))
			}
		}
	})
}

func TestNotesHaveABound(t *testing.T) {
	inEachEra(t, func(t *testing.T, version string) {
		c := dial(t, "notes", version, nil)
		for i := range 1000 {
			if res := call(t, c, "add_note", map[string]any{"title": fmt.Sprint(i)}); res.IsError {
				t.Fatalf("note %d: %s", i, textOf(res))
			}
		}
		if res := call(t, c, "add_note", map[string]any{"title": "one too many"}); !res.IsError {
			t.Error("the notebook took more notes than it says")
		}
		if res := call(t, c, "add_note", map[string]any{"title": strings.Repeat("x", 201)}); !res.IsError {
			t.Error("a title over the bound was accepted")
		}
		call(t, c, "delete_note", map[string]any{"id": "1"})
		if res := call(t, c, "add_note", map[string]any{"title": "fits again"}); res.IsError {
			t.Error(textOf(res))
		}
	})
}

// heard counts the notifications of a session.
type heard struct{ lists, updates int }

func (h *heard) options() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { h.lists++ },
		ResourceUpdatedHandler:     func(context.Context, *mcp.ResourceUpdatedNotificationRequest) { h.updates++ },
	}
}

func TestNotesAnnounceChanges(t *testing.T) {
	inEachEra(t, func(t *testing.T, version string) {
		server := builtin.Servers()["notes"]()
		var h heard
		watching := join(t, server, version, h.options())
		if err := watching.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "notes://index"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // a modern subscription is a stream, and opens in its own time
		writing := join(t, server, version, nil)
		call(t, writing, "add_note", map[string]any{"title": "milk"})
		time.Sleep(time.Second) // the SDK collects list changes for a moment
		synctest.Wait()
		if h != (heard{lists: 1, updates: 1}) {
			t.Errorf("after add_note: %+v", h)
		}
		call(t, writing, "delete_note", map[string]any{"id": "1"})
		time.Sleep(time.Second)
		synctest.Wait()
		if h != (heard{lists: 2, updates: 2}) {
			t.Errorf("after delete_note: %+v", h)
		}
	})
}

func TestNotesDeclareWhatToolsDo(t *testing.T) {
	want := map[string]string{
		"add_note":    "adds",
		"list_notes":  "reads",
		"get_note":    "reads",
		"delete_note": "destroys",
	}
	inEachEra(t, func(t *testing.T, version string) {
		got := map[string]string{}
		for tool, err := range dial(t, "notes", version, nil).Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			switch a := tool.Annotations; {
			case a.ReadOnlyHint:
				got[tool.Name] = "reads"
			case *a.DestructiveHint:
				got[tool.Name] = "destroys"
			default:
				got[tool.Name] = "adds"
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSummarizeNotesEmbedsEachNote(t *testing.T) {
	inEachEra(t, func(t *testing.T, version string) {
		c := dial(t, "notes", version, nil)
		call(t, c, "add_note", map[string]any{"title": "milk", "text": "two bottles"})
		res, err := c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "summarize_notes", Arguments: map[string]string{"style": "a haiku"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Messages[0].Content.(*mcp.TextContent).Text; got != "Summarize these notes as a haiku:" {
			t.Errorf("asked: %q", got)
		}
		if got := res.Messages[1].Content.(*mcp.EmbeddedResource).Resource; got.URI != "notes://note/1" || got.Text != "milk\n\ntwo bottles" {
			t.Errorf("embedded: %+v", got)
		}
		read, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "notes://note/1"})
		if err != nil || read.Contents[0].Text != "two bottles" {
			t.Errorf("reading the note: %v, %v", read, err)
		}
	})
}
