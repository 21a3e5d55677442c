package results

import (
	"mcp-aggregator/internal/tokens"
	"mcp-aggregator/internal/wire"
)

// A body is the result of a tool as raw JSON, and where in it the texts stand.
type body struct {
	raw        []byte
	content    wire.Span // the array
	structured wire.Span // structuredContent, if there is one
	kind       wire.Span // resultType, which the modern era demands
	texts      []text
	others     []wire.Span // blocks of content that are no text
}

// A text is one block of content that consists of text: one of the type text, or an
// embedded resource with text.
type text struct {
	at   wire.Span // the JSON string
	mime string    // "" if the block names none
}

// open finds the texts of a result. It is false for what is no plain result of a tool:
// one without content, one that asks for something instead, or one that two readers
// could understand differently.
func open(raw []byte) (b body, ok bool) {
	whole := wire.Span{Lo: 0, Hi: len(raw)}
	spans, err := wire.Fields(raw, whole, "content", "structuredContent", "isError", "resultType")
	if err != nil || !spans[0].OK() || raw[spans[0].Lo] != '[' || string(spans[2].Of(raw)) == "true" {
		return b, false
	}
	b = body{raw: raw, content: spans[0], structured: spans[1], kind: spans[3]}
	if b.kind.OK() && string(b.kind.Of(raw)) != `"complete"` {
		return b, false
	}
	if string(b.structured.Of(raw)) == "null" {
		b.structured = wire.Span{}
	}
	for at := range wire.Elements(raw, b.content) {
		if !b.add(at) {
			return b, false
		}
	}
	return b, true
}

// add takes one block of content; false if it could be understood differently.
func (b *body) add(block wire.Span) bool {
	spans, err := wire.Fields(b.raw, block, "type", "text", "resource", "mimeType")
	if err != nil {
		return false
	}
	switch kind, _ := wire.Unquote(spans[0].Of(b.raw)); {
	case kind == "text" && isString(b.raw, spans[1]):
		b.texts = append(b.texts, text{at: spans[1]})
		return true
	case kind == "resource" && spans[2].OK():
		inner, err := wire.Fields(b.raw, spans[2], "text", "mimeType")
		if err != nil {
			return false
		}
		if isString(b.raw, inner[0]) {
			mime, _ := wire.Unquote(inner[1].Of(b.raw))
			b.texts = append(b.texts, text{at: inner[0], mime: mime})
			return true
		}
	}
	b.others = append(b.others, block)
	return true
}

func isString(raw []byte, s wire.Span) bool { return s.OK() && raw[s.Lo] == '"' }

// tokens estimates the texts together.
func (b *body) tokens(rule tokens.Rule) (n int) {
	for _, t := range b.texts {
		n += rule.JSON(b.raw[t.at.Lo+1 : t.at.Hi-1])
	}
	return n
}

// size is how many bytes of JSON the texts take.
func (b *body) size() (n int) {
	for _, t := range b.texts {
		n += t.at.Hi - t.at.Lo - len(`""`)
	}
	return n
}

// with returns the result with other content. Structured says whether structuredContent
// stays; note is the value of a member of _meta. Everything else is as it was.
func (b *body) with(content []byte, structured bool, note []byte) []byte {
	out := make([]byte, 0, len(b.raw)-(b.content.Hi-b.content.Lo)+len(content)+len(note)+64)
	out = append(out, '{')
	noted := false
	for m := range wire.Members(b.raw, wire.Span{Lo: 0, Hi: len(b.raw)}) {
		if m.Val == b.structured && !structured {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, m.Key.Of(b.raw)...), ':')
		switch val := m.Val.Of(b.raw); {
		case m.Val == b.content:
			out = append(out, content...)
		case wire.KeyIs(m.Key.Of(b.raw), "_meta") && val[0] == '{':
			out = appendMeta(out, b.raw, m.Val, note)
			noted = true
		default:
			out = append(out, val...)
		}
	}
	if !noted {
		out = append(out, `,"_meta":{`+noteKey+`:`...)
		out = append(append(out, note...), '}')
	}
	return append(out, '}')
}

// noteKey is the member of _meta that says what was done to a result.
const noteKey = `"mcp-aggregator/result"`

// appendMeta appends the _meta at s with the note as its first member.
func appendMeta(dst, raw []byte, s wire.Span, note []byte) []byte {
	dst = append(append(dst, `{`+noteKey+`:`...), note...)
	for m := range wire.Members(raw, s) {
		if wire.KeyIs(m.Key.Of(raw), "mcp-aggregator/result") {
			continue
		}
		dst = append(append(dst, ','), raw[m.Key.Lo:m.Val.Hi]...)
	}
	return append(dst, '}')
}
