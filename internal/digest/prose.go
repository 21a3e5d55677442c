package digest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// outlineMost is how many headings, keys or definitions are listed at most.
const outlineMost = 3000

// outline is what a pass over prose, a page, YAML or source code gathers.
type outline struct {
	s        *sheet
	kind     string
	heads    int // the list of headings
	n        int // headings
	fenced   bool
	kinds    values // of YAML documents and items
	object   string // the kind of the one being read
	named    bool
	metadata int // indent of its metadata, -1 for none
}

// drawProse says what a text is about by its outline and quotes both ends.
func drawProse(s *sheet, text []byte, kind string) {
	total := lineCount(text)
	name := map[string]string{kindYAML: "YAML", kindHTML: "an HTML page", kindMarkdown: "Markdown", kindText: "text"}[kind]
	s.head(must, fmt.Sprintf("digest of %s: %s, %s", name, many(total, "line"), size(len(text))))
	s.head(must+2, "L numbers are line numbers of the full result: read ranges of it, or search it, for more.")
	o := &outline{s: s, kind: kind, metadata: -1}
	o.heads = s.list(func(left, _ int) string { return fmt.Sprintf("and %d more of these", left) })
	n := 0
	for rest := text; len(rest) > 0; {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		rest = after
		n++
		o.line(n, bytes.TrimRight(line, "\r"))
	}
	o.drawBad(text)
	if o.kinds.n > 0 {
		s.head(must+3, "kinds: "+o.kinds.top(12))
	}
	s.drawEnds(text, total, 12)
	if total > 40 && kind == kindText || kind == kindMarkdown && o.n == 0 {
		drawBetween(s, text, total)
	}
	if total < 3 {
		drawLong(s, text)
	}
}

func (o *outline) line(n int, line []byte) {
	var head string
	depth := 1
	switch o.kind {
	case kindMarkdown:
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte("```")) {
			o.fenced = !o.fenced
		}
		if depth = headingDepth(line); depth > 0 && !o.fenced {
			head = strings.Repeat("  ", depth-1) + string(bytes.TrimLeft(line[:min(len(line), 300)], "# "))
		}
	case kindHTML:
		head, depth = htmlHead(line)
	case kindYAML:
		head, depth = o.yaml(line)
	default:
		if defines(line) {
			head = string(line[:min(len(line), 300)])
		}
	}
	if head == "" {
		return
	}
	o.n++
	if o.n > outlineMost {
		o.s.unlisted(o.heads, 1, 1)
		return
	}
	o.s.entry(o.heads, 20+10*max(depth, 1), 1, fmt.Sprintf("L%d: %s", n, head))
}

// drawBad quotes the lines of a text that speak of errors.
func (o *outline) drawBad(text []byte) {
	if o.kind != kindText || o.n > 3 { // source code speaks of errors all the time
		return
	}
	var lines []int
	var quotes []string
	bad, n := 0, 0
	for rest := text; len(rest) > 0; {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		rest = after
		n++
		if levelOf(line).level != levelError || defines(line) {
			continue
		}
		bad++
		if len(lines) < troubles {
			lines = append(lines, n)
			quotes = append(quotes, clip(string(line[:min(len(line), 400)]), o.s.width))
		}
	}
	if bad == 0 {
		return
	}
	o.s.head(25, fmt.Sprintf("lines that speak of errors: %d", bad))
	list := o.s.list(func(left, _ int) string { return "and " + many(left, "more such line") })
	for i := range lines {
		o.s.entry(list, 26+min(i, 10), 1, fmt.Sprintf("  L%d: %s", lines[i], quotes[i]))
	}
	o.s.unlisted(list, bad-len(lines), 0)
}

// yaml outlines keys at the left edge, and objects of Kubernetes by kind and name.
func (o *outline) yaml(line []byte) (string, int) {
	key := yamlKey(line)
	indent := len(line) - len(bytes.TrimLeft(line, " "))
	dashed := bytes.HasPrefix(line[indent:], []byte("- "))
	if indent == 0 && (dashed || bytes.HasPrefix(line, []byte("---"))) {
		o.object, o.named, o.metadata = "", false, -1
	}
	_, value, _ := bytes.Cut(line, []byte(":"))
	v := strings.Trim(string(bytes.TrimSpace(value[:min(len(value), 200)])), `"'`)
	switch {
	case key == "kind" && indent <= 2 && v != "":
		o.kinds.add(v)
		o.object, o.named = v, false
		return "", 0
	case key == "metadata" && indent <= 2:
		o.metadata = indent
		if dashed {
			o.metadata += 2
		}
		return "", 0
	case key == "name" && o.metadata >= 0 && indent == o.metadata+2 && !o.named:
		o.named = true
		return strings.TrimSpace(o.object + " " + v), 2
	case indent == 0 && key != "" && key != "apiVersion" && key != "spec" && key != "status" && !dashed:
		return string(line[:min(len(line), 200)]), 1
	}
	return "", 0
}

// htmlHead is the heading or title that a line of HTML holds.
func htmlHead(line []byte) (string, int) {
	low := strings.ToLower(string(line[:min(len(line), 2000)]))
	for depth, tag := range []string{"<title", "<h1", "<h2", "<h3", "<h4"} {
		i := strings.Index(low, tag)
		if i < 0 || i >= len(line) {
			continue
		}
		return strings.TrimSpace(untagged(line[i:min(len(line), i+500)])), depth
	}
	return "", 0
}

// untagged is HTML without its tags.
func untagged(html []byte) string {
	var b strings.Builder
	in := false
	for _, c := range html {
		switch {
		case c == '<':
			in = true
		case c == '>':
			in = false
		case !in:
			b.WriteByte(c)
		}
	}
	return b.String()
}

var definitions = []string{"func ", "type ", "class ", "def ", "async def ", "export ", "interface ", "struct ", "fn ", "impl ", "pub ", "public ", "CREATE "}

// defines: a line at the left edge that names something, in source code.
func defines(line []byte) bool {
	if len(line) == 0 || !letter(line[0]) || !bytes.ContainsAny(line, "({:;=") {
		return false
	}
	return slices.ContainsFunc(definitions, func(d string) bool { return bytes.HasPrefix(line, []byte(d)) })
}

// drawBetween quotes lines at even distances.
func drawBetween(s *sheet, text []byte, total int) {
	s.title(might, "in between:")
	step := max(1, total/40)
	n := 0
	for rest := text; len(rest) > 0; {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		rest = after
		n++
		if n > 12 && n < total-12 && n%step == 0 && len(bytes.TrimSpace(line)) > 0 {
			s.add(might+1+n/step%4, fmt.Sprintf("  L%d: %s", n, line[:min(len(line), 400)]))
		}
	}
}

// drawLong quotes pieces of a text that is one long line.
func drawLong(s *sheet, text []byte) {
	if len(text) < 1000 {
		return
	}
	s.title(could, "pieces of the long line, by byte offset:")
	for i := range 8 {
		from := boundary(text, (len(text)-s.width)*i/7)
		s.add(could+1+i%4, fmt.Sprintf("  %d: %s", from, text[max(from, 0):min(len(text), max(from, 0)+s.width-12)]))
	}
}
