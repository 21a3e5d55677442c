package digest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// class is the lines of a log that differ only in what varies.
type class struct {
	text        string // what they have in common
	level       level
	n           int // how many
	first, last int // line numbers
	from        int // where the first of them begins
}

// logbook is what a pass over a log gathers.
type logbook struct {
	classes   map[string]*class // template with level → class
	all       []*class          // in the order they first occur
	most      int               // how many classes are kept apart
	count     [levels]int       // lines by level
	beyond    [levels]int       // lines of classes beyond most
	follow    int               // lines that continue the one before
	lines     int
	from, to  string // first and last time
	stamps    int
	continued bool // the line before may be continued
}

// drawLog says what a log reports: levels, every class of errors and warnings
// with its count and first and last line, then what else there is.
func drawLog(s *sheet, text []byte) {
	b := &logbook{classes: map[string]*class{}, most: max(2000, len(text)/400)}
	b.read(text)
	head := fmt.Sprintf("digest of a log: %s, %s", many(b.lines, "line"), size(len(text)))
	if b.from != "" {
		head += fmt.Sprintf(", times %s to %s", b.from, b.to)
	}
	s.head(must, head)
	s.head(must+1, "levels: "+b.levels())
	s.head(must+2, "L numbers are line numbers of the full result: read ranges of it, or search it, for more.")
	b.drawClasses(s, text)
	s.drawEnds(text, b.lines, 3)
}

func (b *logbook) levels() string {
	var parts []string
	for l, n := range b.count {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", levelNames[l], n))
		}
	}
	if b.follow > 0 {
		parts = append(parts, fmt.Sprintf("continuation lines %d", b.follow))
	}
	return strings.Join(parts, ", ")
}

func (b *logbook) read(text []byte) {
	buf := make([]byte, 0, 2*templated)
	for from := 0; from < len(text); {
		end := bytes.IndexByte(text[from:], '\n')
		if end < 0 {
			end = len(text) - from
		}
		line := bytes.TrimRight(text[from:from+end], "\r")
		b.lines++
		buf = b.line(buf[:0], line, from)
		from += end + 1
	}
}

// line files one line; buf is scratch.
func (b *logbook) line(buf, line []byte, from int) []byte {
	if len(bytes.TrimSpace(line)) == 0 {
		b.follow++
		return buf
	}
	start, n := stamp(line)
	if n > 0 {
		b.stamps++
		t := string(line[start : start+n])
		if b.from == "" {
			b.from = t
		}
		b.to = t
	}
	j := levelOf(line)
	if n == 0 && b.continued && continues(line) && (!j.explicit || j.level > levelWarn) && !raises(line) {
		b.follow++
		return buf
	}
	b.continued = true
	b.count[j.level]++
	buf = append(buf, '0'+byte(j.level))
	buf = template(buf, line)
	if c := b.classes[string(buf)]; c != nil {
		c.n++
		c.last = b.lines
		return buf
	}
	if len(b.all) >= b.most && (j.level > levelWarn || len(b.all) >= 2*b.most) {
		b.beyond[j.level]++
		return buf
	}
	c := &class{text: string(buf), level: j.level, n: 1, first: b.lines, last: b.lines, from: from}
	b.classes[c.text] = c
	b.all = append(b.all, c)
	return buf
}

// continues: indented, as frames of a stack and wrapped messages are.
func continues(line []byte) bool {
	return line[0] == ' ' || line[0] == '\t' || line[0] == '}' || line[0] == ')' || bytes.HasPrefix(line, []byte("... "))
}

// raises: the line of a stack trace that says what happened.
func raises(line []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("Caused by:"))
}

// drawClasses lists the classes by level, the worst first.
func (b *logbook) drawClasses(s *sheet, text []byte) {
	titles := [levels]string{"errors", "warnings", "lines that only mention errors", "info", "debug", "other"}
	ranks := [levels]int{10, 30, could, could + 20, might + 20, could + 30}
	width := s.width
	for l := range levels {
		var of []*class
		for _, c := range b.all {
			if c.level == l {
				of = append(of, c)
			}
		}
		if len(of) == 0 {
			continue
		}
		title := fmt.Sprintf("%s: %s in %s", titles[l], many(len(of), "class"), many(b.count[l], "line"))
		if b.beyond[l] > 0 {
			title += fmt.Sprintf(", and %s of classes too many to tell apart", many(b.beyond[l], "line"))
		}
		s.head(ranks[l], title)
		if l <= levelWarn {
			s.width = narrow(s, of, width)
		}
		b.drawLevel(s, of, l, ranks[l])
		s.width = width
		if l == levelError {
			drawSamples(s, text, of, b.lines)
		}
	}
}

// narrow is how wide the lines of classes may be for all of them to fit into
// most of the digest.
func narrow(s *sheet, of []*class, width int) int {
	for _, w := range []int{width, 140, 110, 80} {
		if w > width {
			continue
		}
		left := s.max * 3 / 4
		for i, c := range of {
			if left -= s.cost(clip(c.line(), w)); left < 0 || i > s.max {
				break
			}
		}
		if left >= 0 {
			return w
		}
	}
	return min(width, 80)
}

func (c *class) line() string {
	return fmt.Sprintf("%6dx %s %s", c.n, at(c.first, c.last), c.text[1:])
}

// listed is how many classes of a level may compete for a place.
const listed = 2000

// drawLevel lists classes: the most frequent first, and certainly the one that
// came first and the one that was seen last.
func (b *logbook) drawLevel(s *sheet, of []*class, l level, rank int) {
	first, last := of[0], of[0]
	for _, c := range of {
		if c.last > last.last {
			last = c
		}
	}
	slices.SortStableFunc(of, func(x, y *class) int { return y.n - x.n })
	more := s.list(func(left, weight int) string {
		return fmt.Sprintf("and %s (%s): search the full result for them", many(left, "more class"), many(weight, "line"))
	})
	for i, c := range of {
		if i >= listed && c != first && c != last {
			s.unlisted(more, 1, c.n)
			continue
		}
		r := rank + 2
		if c == first || c == last || i < 3 {
			r = rank + 1
		}
		s.entry(more, r, c.n, c.line())
	}
}

// drawSamples quotes the first line of the most frequent errors with what
// follows it, a stack trace for instance.
func drawSamples(s *sheet, text []byte, of []*class, total int) {
	s.title(should, "first occurrences:")
	shown := map[int]bool{}
	for i, c := range of[:min(len(of), 5)] {
		rest := text[c.from:]
		for n := range 6 {
			if shown[c.first+n] {
				break
			}
			line, after, _ := bytes.Cut(rest, []byte("\n"))
			if n > 0 {
				if _, stamped := stamp(line); stamped > 0 || len(line) == 0 || !continues(line) && !levelOf(line).bad() {
					break
				}
			}
			shown[c.first+n] = true
			s.add(should+1+4*i+min(n, 3), fmt.Sprintf("  L%d: %s", c.first+n, line[:min(len(line), 400)]))
			rest = after
			if c.first+n >= total {
				break
			}
		}
	}
}

func (j judgement) bad() bool { return j.level <= levelWarn }
