package digest

import (
	"bytes"
	"fmt"
	"slices"
)

// patch is the change of one file.
type patch struct {
	name          string
	line, last    int // line numbers
	added, gone   int
	hunks         int
	note          string // new, deleted, renamed, binary
	heads         []hunk
	seen, counted bool
}

// hunk is the head of a hunk and its first changed lines.
type hunk struct {
	line    int
	head    string
	changes []string
}

const (
	patchesMost = 3000
	hunksMost   = 40 // of a file, quoted
	changesMost = 4  // of a hunk, quoted
)

func isHunk(line []byte) bool {
	return bytes.HasPrefix(line, []byte("@@ -")) || bytes.HasPrefix(line, []byte("@@@ -"))
}

// drawDiff says which files change, by how much, and where.
func drawDiff(s *sheet, text []byte) {
	d := changes{s: s}
	n := 0
	for rest := text; len(rest) > 0; {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		rest = after
		n++
		d.line(n, bytes.TrimRight(line, "\r"))
	}
	d.end(n)
	var added, gone int
	for _, p := range d.files {
		added += p.added
		gone += p.gone
	}
	s.head(must, fmt.Sprintf("digest of a diff: %s changed, %d lines added, %d removed; %s, %s", many(len(d.files)+d.beyond, "file"), added, gone, many(n, "line"), size(len(text))))
	s.head(must+2, "L numbers are line numbers of the full result: read ranges of it, or search it, for more.")
	files := s.list(func(left, weight int) string {
		return fmt.Sprintf("and %s (%s changed)", many(left, "more file"), many(weight, "line"))
	})
	s.unlisted(files, d.beyond, 0)
	large := slices.Clone(d.files)
	slices.SortStableFunc(large, func(a, b *patch) int { return b.added + b.gone - a.added - a.gone })
	for _, p := range large[:min(len(large), 10)] {
		p.counted = true
	}
	for _, p := range d.files {
		rank := 20
		if p.counted {
			rank = 10
		}
		s.entry(files, rank, p.added+p.gone, p.String())
	}
	for i, p := range large[:min(len(large), 50)] {
		s.title(should+i, clip(p.name, s.width)+":")
		for j, h := range p.heads {
			s.add(should+i+min(j, 10), fmt.Sprintf("  L%d: %s", h.line, h.head))
			for _, c := range h.changes {
				s.add(could+i+j, "    "+c)
			}
		}
	}
}

func (p *patch) String() string {
	text := fmt.Sprintf("  %s +%d -%d in %s, %s", p.name, p.added, p.gone, many(p.hunks, "hunk"), at(p.line, max(p.line, p.last)))
	if p.note != "" {
		text += ", " + p.note
	}
	return text
}

// changes is what a pass over a diff gathers.
type changes struct {
	s        *sheet
	files    []*patch
	beyond   int
	now      *patch
	in       bool // inside a hunk
	old, new int  // lines of the hunk still to come
	quoted   int
}

func (d *changes) begin(n int, name []byte) {
	d.end(n - 1)
	d.in = false
	d.now = &patch{name: string(name[:min(len(name), 300)]), line: n}
	if len(d.files) >= patchesMost {
		d.beyond++
		return
	}
	d.files = append(d.files, d.now)
}

func (d *changes) end(n int) {
	if d.now != nil {
		d.now.last = n
	}
}

func (d *changes) line(n int, line []byte) {
	if d.in && d.body(line) {
		return
	}
	switch {
	case bytes.HasPrefix(line, []byte("diff --git ")):
		name := line[len("diff --git "):]
		if i := bytes.LastIndex(name, []byte(" b/")); i >= 0 {
			name = name[i+3:]
		}
		d.begin(n, name)
	case bytes.HasPrefix(line, []byte("--- ")) && (d.now == nil || d.now.seen):
		d.begin(n, line[4:])
	case bytes.HasPrefix(line, []byte("+++ ")) && d.now != nil:
		d.now.seen = true
		if name := bytes.TrimPrefix(line[4:], []byte("b/")); !bytes.HasPrefix(name, []byte("/dev/null")) {
			name, _, _ = bytes.Cut(name, []byte("\t"))
			d.now.name = string(name[:min(len(name), 300)])
		}
	case d.now == nil:
	case isHunk(line):
		d.hunk(n, line)
	case bytes.HasPrefix(line, []byte("new file")):
		d.now.note = "new"
	case bytes.HasPrefix(line, []byte("deleted file")):
		d.now.note = "deleted"
	case bytes.HasPrefix(line, []byte("rename from ")):
		d.now.note = "renamed from " + clip(string(line[len("rename from "):]), short)
	case bytes.HasPrefix(line, []byte("Binary files")), bytes.HasPrefix(line, []byte("GIT binary patch")):
		d.now.note = "binary"
	}
}

func (d *changes) hunk(n int, line []byte) {
	d.now.hunks++
	d.now.seen = true
	d.in = true
	d.old, d.new = extent(line, '-'), extent(line, '+')
	if len(d.now.heads) < hunksMost && d.quoted < 2000 {
		d.quoted++
		d.now.heads = append(d.now.heads, hunk{line: n, head: clip(string(line), d.s.width)})
	}
}

// extent is how many lines of one side a hunk has: 7 in "-10,7".
func extent(head []byte, side byte) int {
	i := bytes.IndexByte(head, side)
	for i++; i < len(head) && digit(head[i]); i++ {
	}
	if i >= len(head) || head[i] != ',' {
		return 1
	}
	n := 0
	for i++; i < len(head) && digit(head[i]) && n < 1<<30; i++ {
		n = n*10 + int(head[i]-'0')
	}
	return n
}

// body counts a line of a hunk, or reports that the hunk is over.
func (d *changes) body(line []byte) bool {
	if d.old <= 0 && d.new <= 0 || len(line) > 0 && line[0] != '+' && line[0] != '-' && line[0] != ' ' && line[0] != '\\' {
		d.in = false
		return false
	}
	if len(line) == 0 || line[0] == ' ' {
		d.old--
		d.new--
		return true
	}
	switch line[0] {
	case '+':
		d.new--
		d.now.added++
	case '-':
		d.old--
		d.now.gone++
	default:
		return true
	}
	if n := len(d.now.heads); n > 0 && n <= 8 && len(d.now.heads[n-1].changes) < changesMost && d.quoted < 2000 {
		h := &d.now.heads[n-1]
		h.changes = append(h.changes, clip(string(line[:min(len(line), 400)]), d.s.width))
		d.quoted++
	}
	return true
}
