package builtin

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// newNotes makes a notebook that lives in memory. Its lists change as notes come and go.
func newNotes() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{
		Name:        "notes",
		Title:       "Notes",
		Description: "A small notebook in memory",
		Version:     version,
	}, &mcp.ServerOptions{
		Instructions: "A notebook in memory: it is empty at start and forgotten at the end. " +
			"Every note is also a resource; " + indexURI + " lists them all.",
		// The SDK keeps the subscriptions and sends the updates to them.
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	n := &notes{server: s, book: &notebook{}}
	n.addTools()
	n.addIndex()
	n.addPrompt()
	return s
}

// notes joins the notebook to its server: what changes in the one is shown by the other.
type notes struct {
	server *mcp.Server
	book   *notebook

	// change is held over a change of the book and of the resource list, so that the
	// two agree whatever order calls arrive in. Reading needs only the book's own lock.
	change sync.Mutex
}

func (n *notes) addTools() {
	mcp.AddTool(n.server, &mcp.Tool{
		Name: "add_note", Title: "Add a note", Description: "Writes a note and returns it with its id",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: new(false), OpenWorldHint: new(false)},
		InputSchema: inputOf[addNoteInput](func(p map[string]*jsonschema.Schema) {
			p["title"].MinLength, p["title"].MaxLength = new(1), new(maxTitle)
			p["text"].MaxLength = new(maxNote)
		}),
	}, n.add)
	mcp.AddTool(n.server, &mcp.Tool{
		Name: "list_notes", Title: "List notes", Description: "Lists all notes, without their text",
		Annotations: readOnly(),
	}, n.list)
	mcp.AddTool(n.server, &mcp.Tool{
		Name: "get_note", Title: "Read a note", Description: "Returns one note",
		Annotations: readOnly(),
	}, n.get)
	mcp.AddTool(n.server, &mcp.Tool{
		Name: "delete_note", Title: "Delete a note", Description: "Deletes a note for ever",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: new(true), IdempotentHint: true, OpenWorldHint: new(false)},
	}, n.delete)
}

type addNoteInput struct {
	Title string `json:"title" jsonschema:"a short title"`
	Text  string `json:"text,omitempty" jsonschema:"the note itself"`
}

func (n *notes) add(ctx context.Context, _ *mcp.CallToolRequest, in addNoteInput) (*mcp.CallToolResult, note, error) {
	added, err := n.put(in.Title, in.Text)
	if err != nil {
		return nil, note{}, err
	}
	n.indexChanged(ctx)
	return text(fmt.Sprintf("Added note %s.", added.ID)), added, nil
}

// put adds a note to the book and to the resources.
func (n *notes) put(title, body string) (note, error) {
	n.change.Lock()
	defer n.change.Unlock()
	added, err := n.book.add(title, body)
	if err != nil {
		return note{}, err
	}
	n.server.AddResource(&mcp.Resource{
		URI: added.uri(), Name: "note-" + added.ID, Title: added.Title,
		MIMEType: "text/plain", Size: int64(len(added.Text)),
	}, n.readNote)
	return added, nil
}

type noteList struct {
	Notes []noteTitle `json:"notes"`
}

type noteTitle struct {
	ID    string `json:"id"`
	Title string `json:"title"`
}

func (n *notes) list(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, noteList, error) {
	out := noteList{Notes: []noteTitle{}} // an empty list, not null
	for _, one := range n.book.all() {
		out.Notes = append(out.Notes, noteTitle{ID: one.ID, Title: one.Title})
	}
	return text(n.book.index()), out, nil
}

type noteInput struct {
	ID string `json:"id" jsonschema:"id of the note, as add_note and list_notes show it"`
}

func (n *notes) get(_ context.Context, _ *mcp.CallToolRequest, in noteInput) (*mcp.CallToolResult, note, error) {
	found, ok := n.book.find(in.ID)
	if !ok {
		return nil, note{}, unknownNote(in.ID)
	}
	return text(found.Title + "\n\n" + found.Text), found, nil
}

func (n *notes) delete(ctx context.Context, _ *mcp.CallToolRequest, in noteInput) (*mcp.CallToolResult, any, error) {
	gone, ok := n.drop(in.ID)
	if !ok {
		return nil, nil, unknownNote(in.ID)
	}
	n.indexChanged(ctx)
	return text(fmt.Sprintf("Deleted note %s (%s).", gone.ID, gone.Title)), nil, nil
}

// drop removes a note from the book and from the resources.
func (n *notes) drop(id string) (note, bool) {
	n.change.Lock()
	defer n.change.Unlock()
	gone, ok := n.book.remove(id)
	if ok {
		n.server.RemoveResources(gone.uri())
	}
	return gone, ok
}

func unknownNote(id string) error {
	return fmt.Errorf("there is no note %q; list_notes shows the notes there are", id)
}

func (n *notes) addIndex() {
	n.server.AddResource(&mcp.Resource{
		URI: indexURI, Name: "index", Title: "All notes", MIMEType: "text/plain",
		Description: "Ids and titles of all notes; subscribers hear of each change",
	}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return contents(&mcp.ResourceContents{URI: indexURI, MIMEType: "text/plain", Text: n.book.index()}), nil
	})
}

// indexChanged tells subscribers of the index. What they miss they find when they read.
func (n *notes) indexChanged(ctx context.Context) {
	_ = n.server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: indexURI})
}

func (n *notes) readNote(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	found, ok := n.book.find(strings.TrimPrefix(req.Params.URI, notePrefix))
	if !ok {
		return nil, noSuchResource(req)
	}
	return contents(&mcp.ResourceContents{URI: found.uri(), MIMEType: "text/plain", Text: found.Text}), nil
}

func (n *notes) addPrompt() {
	n.server.AddPrompt(&mcp.Prompt{
		Name: "summarize_notes", Title: "Summarize notes", Description: "Asks for a summary of all notes",
		Arguments: []*mcp.PromptArgument{{Name: "style", Description: "for example: one sentence, a table"}},
	}, n.summarize)
}

func (n *notes) summarize(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	ask := fmt.Sprintf("Summarize these notes as %s:", or(req.Params.Arguments["style"], "a short list"))
	messages := []*mcp.PromptMessage{said("user", &mcp.TextContent{Text: ask})}
	for _, one := range n.book.all() {
		messages = append(messages, said("user", &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{
			URI: one.uri(), MIMEType: "text/plain", Text: one.Title + "\n\n" + one.Text,
		}}))
	}
	return &mcp.GetPromptResult{Description: "Summary of all notes", Messages: messages}, nil
}
