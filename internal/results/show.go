package results

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// Scheme is what the URIs of kept originals begin with. The rest is the handle.
const Scheme = "mcp-aggregator:result:"

// uri is where the original is read.
func (l *large) uri() string { return Scheme + l.handle }

// result is what the client gets: a text of ours, the way to the original, and every
// block that is no text.
func (l *large) result(policy string, shown []byte, how string) []byte {
	head := l.head(policy, how)
	content := append([]byte(`[{"type":"text","text":`), quote(head, shown)...)
	content = append(content, '}')
	if l.Links {
		content = append(append(content, ','), l.link()...)
	}
	for _, at := range l.body.others {
		content = append(append(content, ','), at.Of(l.body.raw)...)
	}
	return l.body.with(append(content, ']'), false, l.note(policy))
}

// head says what the text below it is, and how to get the rest (RES-2).
func (l *large) head(policy, how string) []byte {
	out := fmt.Appendf(nil, "[%s: the result is large, about %s tokens in %s lines. This is %s. ", l.Exposed, thousands(l.tokens), thousands(l.lines), how)
	out = fmt.Appendf(out, "%s: tool %s with handle %q reads lines, pages, and searches it (grep, jq)", l.extent(), ReadTool, l.handle)
	if policy == config.PolicyPage {
		out = append(append(out, "; go on with "...), l.next()...)
	}
	if l.Links {
		out = fmt.Appendf(out, "; it is also the resource %s", l.uri())
	}
	return append(out, ".]\n\n"...)
}

// extent says how much of the original is kept.
func (l *large) extent() string {
	switch {
	case l.short:
		return fmt.Sprintf("Of its %s bytes the first %s are kept, up to a line", thousands(len(l.text)), thousands(l.Rules.Keep.Each))
	case l.cut:
		return fmt.Sprintf("Its text is kept, of its structuredContent the first %s bytes", thousands(l.Rules.Keep.Each))
	}
	return "The whole is kept"
}

// next is where a page ends, as an argument of ReadTool: before a line or, in a text
// whose lines are too long for pages, at a byte.
func (l *large) next() string {
	page := l.page()
	if n := len(page); n > 0 && page[n-1] != '\n' {
		return "offset: " + strconv.Itoa(n)
	}
	return "from: " + strconv.Itoa(bytes.Count(page, []byte{'\n'})+1)
}

// link is a resource_link to the original (specification 2025-06-18 and later,
// server/tools: Resource Links).
func (l *large) link() []byte {
	out := append([]byte(`{"type":"resource_link","uri":`), quote([]byte(l.uri()))...)
	out = append(append(out, `,"name":`...), quote([]byte("result of "+l.Exposed))...)
	what := "the whole result"
	if l.short {
		what = "the beginning of the result"
	}
	out = append(append(out, `,"description":`...), quote(fmt.Appendf(nil, "%s, about %d tokens in all", what, l.tokens))...)
	return append(strconv.AppendInt(append(out, `,"mimeType":"text/plain","size":`...), int64(l.kept), 10), '}')
}

// note is the same for programs.
func (l *large) note(policy string) []byte {
	out := fmt.Appendf(nil, `{"policy":%q,"tokens":%d,"limit":%d,"bytes":%d`, policy, l.tokens, l.limit, l.body.size())
	if l.handle != "" {
		out = fmt.Appendf(out, `,"handle":%q,"uri":%q`, l.handle, l.uri())
	}
	return append(out, '}')
}

// blocked is the error in the place of a result that the configuration does not let
// through.
func (l *large) blocked() []byte {
	f := fault.Of(fault.TooLarge, l.Server, "the result is too large: about %s tokens, the limit is %s; ask for less, with a filter or page by page",
		thousands(l.tokens), thousands(l.limit))
	f.Tool = l.Tool
	out := []byte(`{`)
	if kind := l.body.kind; kind.OK() {
		out = append(append(append(out, `"resultType":`...), kind.Of(l.body.raw)...), ',')
	}
	out = append(append(out, `"content":[{"type":"text","text":`...), quote([]byte(f.Sentence()))...)
	out = append(append(out, `}],"isError":true,"_meta":{"mcp-aggregator/error":`...), f.Describe()...)
	return append(append(append(out, `,"mcp-aggregator/result":`...), l.note(config.PolicyBlock)...), "}}"...)
}

// quote makes one JSON string of some pieces.
func quote(pieces ...[]byte) []byte { return wire.AppendQuote(nil, string(bytes.Join(pieces, nil))) }

// thousands writes a number as people read it.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// lines counts lines; the last needs no line break.
func lines(text []byte) int {
	n := bytes.Count(text, []byte{'\n'})
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

// wholeLines cuts behind the last line break before n, or the last character if that
// would leave less than half.
func wholeLines(text []byte, n int) []byte {
	if n >= len(text) {
		return text
	}
	if i := bytes.LastIndexByte(text[:n], '\n'); i >= n/2 {
		return text[:i+1]
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
