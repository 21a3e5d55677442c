package results

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"mcp-aggregator/internal/excerpt"
	"mcp-aggregator/internal/keep"
	"mcp-aggregator/internal/wire"
)

// ReadTool is the tool that reads originals.
const ReadTool = "result_read"

// Tools are the definitions of what a Reducer offers as tools.
func Tools() [][]byte {
	return [][]byte{[]byte(`{"name":"` + ReadTool + `","title":"Read a large result",` +
		`"description":"Reads the original of a result that was too large and came shortened, by the handle named there. ` +
		`Without further arguments it reads from the beginning; otherwise use one of: from/to (lines), page, head, tail, offset/bytes, grep, jq. ` +
		`Every answer is bounded and says how to go on.",` +
		`"inputSchema":{"type":"object","required":["handle"],"additionalProperties":false,"properties":{` +
		`"handle":{"type":"string","description":"from the shortened result"},` +
		`"from":{"type":"integer","minimum":1,"description":"first line"},` +
		`"to":{"type":"integer","minimum":1,"description":"last line"},` +
		`"page":{"type":"integer","minimum":1,"description":"number of a page"},` +
		`"page_size":{"type":"integer","minimum":1,"description":"lines of a page"},` +
		`"head":{"type":"integer","minimum":1,"description":"so many lines from the beginning"},` +
		`"tail":{"type":"integer","minimum":1,"description":"so many lines at the end"},` +
		`"offset":{"type":"integer","minimum":0,"description":"first byte, for very long lines"},` +
		`"bytes":{"type":"integer","minimum":1,"description":"so many bytes"},` +
		`"grep":{"type":"string","description":"lines that match this regular expression (RE2)"},` +
		`"literal":{"type":"boolean","description":"grep is plain text"},` +
		`"ignore_case":{"type":"boolean"},` +
		`"before":{"type":"integer","minimum":1,"description":"lines before each match"},` +
		`"after":{"type":"integer","minimum":1,"description":"lines after each match"},` +
		`"context":{"type":"integer","minimum":1,"description":"lines before and after each match"},` +
		`"max_matches":{"type":"integer","minimum":1},` +
		`"jq":{"type":"string","description":"jq program, if the result is JSON"},` +
		`"raw":{"type":"boolean","description":"jq writes strings without quotes"},` +
		`"structured":{"type":"boolean","description":"read the structuredContent of the result instead of its text"}}},` +
		`"annotations":{"readOnlyHint":true,"idempotentHint":true,"openWorldHint":false}}`)}
}

// errUnknown is what everybody but the owner hears, too.
var errUnknown = errors.New("not found: there is no result with this handle; it may have expired. Make the call again")

// Read answers a call of ReadTool with what was asked for and a last line, in brackets,
// that says what it is. The errors are sentences for whoever made the call.
func (r *Reducer) Read(ctx context.Context, owner string, arguments []byte) ([]byte, error) {
	var args struct {
		excerpt.Query
		Handle     string `json:"handle"`
		Structured bool   `json:"structured"`
	}
	dec := json.NewDecoder(bytes.NewReader(arguments))
	dec.DisallowUnknownFields()
	if len(arguments) == 0 {
		return nil, errors.New("handle is missing")
	}
	if err := dec.Decode(&args); err != nil {
		return nil, fmt.Errorf("the arguments cannot be used: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	kept, err := r.store.Get(owner, strings.TrimPrefix(args.Handle, Scheme))
	if err != nil {
		return nil, errUnknown
	}
	part := 0
	if args.Structured {
		if part = 1; len(kept.Parts) < 2 {
			return nil, errors.New("this result has no structuredContent")
		}
	}
	text := kept.Memo(part, func(text []byte) any { return excerpt.NewText(text) }).(*excerpt.Text)
	e, err := r.reader.Read(ctx, text, args.Query)
	if err != nil {
		return nil, err
	}
	out := bytes.Clone(e.Text)
	if n := len(out); n > 0 && out[n-1] != '\n' {
		out = append(out, '\n')
	}
	return fmt.Appendf(out, "[%s]", e.Note), nil
}

// Resource is the result of a resources/read of an original: its texts as they are.
// It is false if the owner has none with this URI.
func (r *Reducer) Resource(owner, uri string) ([]byte, bool) {
	kept, err := r.store.Get(owner, strings.TrimPrefix(uri, Scheme))
	if err != nil {
		return nil, false
	}
	out := []byte(`{"contents":[`)
	for i, p := range kept.Parts {
		if i > 0 {
			out = append(out, ',')
		}
		out = wire.AppendQuote(append(out, `{"uri":`...), uri)
		out = wire.AppendQuote(append(out, `,"mimeType":`...), p.MIME)
		out = append(wire.AppendQuote(append(out, `,"text":`...), string(p.Text)), '}')
	}
	return append(out, "]}"...), true
}

// Kept tells what is kept.
func (r *Reducer) Kept() keep.Stats { return r.store.Stats() }
