// Package digest makes a large text small without a model: it recognises what
// the text is and says what a reader asks first. Of a log that is which errors
// there are and how often, of a Kubernetes list what is not healthy, of JSON and
// tables the shape with the values that occur, of a diff the files, of prose the
// headings and both ends. Whatever it names, it names with line numbers or jq
// paths, so that a reader can fetch the rest.
//
// A digest is a pure function of the text and the limit. Time is linear in the
// length of the text; memory is bounded by a small multiple of it, because
// everything that could grow with the text (classes of lines, fields, values) is
// capped and what is beyond the cap is counted. The text is foreign: it is only
// ever quoted, never obeyed.
package digest

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// Options say how long a digest may be.
type Options struct {
	MaxTokens int                   // the most tokens of the digest; 0 means 1000
	Count     func(text []byte) int // how tokens are counted; nil means a quarter of the characters
}

func (o Options) max() int {
	if o.MaxTokens <= 0 {
		return 1000
	}
	return o.MaxTokens
}

func (o Options) count() func([]byte) int {
	if o.Count != nil {
		return o.Count
	}
	return func(text []byte) int { return (utf8.RuneCount(text) + 3) / 4 }
}

// Result is a digest.
type Result struct {
	Text string // valid UTF-8, at most MaxTokens
	Kind string // what the text was taken for: kubernetes, json, ndjson, log, table, diff, yaml, html, markdown, text
}

// The kinds of text that are told apart.
const (
	kindKubernetes = "kubernetes"
	kindJSON       = "json"
	kindNDJSON     = "ndjson"
	kindLog        = "log"
	kindTable      = "table"
	kindDiff       = "diff"
	kindYAML       = "yaml"
	kindHTML       = "html"
	kindMarkdown   = "markdown"
	kindText       = "text"
)

// Make digests text. The digest is at most o.MaxTokens long by o.Count, whatever
// the text: if the limit is too small to say anything, it is empty.
func Make(text []byte, o Options) Result {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	s := &sheet{max: o.max(), count: o.count(), under: -1}
	s.width = min(200, max(40, s.max/3))
	kind := draw(s, text)
	return Result{Text: s.fill(), Kind: kind}
}

// draw puts what is worth saying about text on the sheet.
func draw(s *sheet, text []byte) string {
	if looksLikeJSON(text) {
		if kind, ok := drawJSON(s, text); ok {
			return kind
		}
	}
	l := look(text)
	switch {
	case l.diff():
		drawDiff(s, text)
		return kindDiff
	case l.log():
		drawLog(s, text)
		return kindLog
	}
	if t, ok := l.table(text); ok && drawTable(s, text, t) {
		return kindTable
	}
	kind := l.prose(text)
	drawProse(s, text, kind)
	return kind
}

// size is how long a text is, for people.
func size(n int) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%d bytes", n)
	case n < 10_000_000:
		return fmt.Sprintf("%d kB", n/1000)
	}
	return fmt.Sprintf("%d MB", n/1_000_000)
}

// lineCount is the number of lines of text; an unfinished one counts.
func lineCount(text []byte) int {
	n := bytes.Count(text, []byte("\n"))
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

// many is n things: "1 line", "3 lines".
func many(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if thing[len(thing)-1] == 's' {
		return fmt.Sprintf("%d %ses", n, thing)
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// at names lines of the full text, as ranges are asked for.
func at(first, last int) string {
	if first == last {
		return fmt.Sprintf("L%d", first)
	}
	return fmt.Sprintf("L%d-%d", first, last)
}
