package digest

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// columnsMost is how many columns of a table are described.
const columnsMost = 200

// layout is how the rows of a table are split.
type layout struct {
	comma  rune  // the delimiter; 0: columns are aligned with blanks
	starts []int // where aligned columns begin
	pipes  bool  // a Markdown table
}

// table finds out how text is a table.
func (s sight) table(text []byte) (layout, bool) {
	if s.first < 2 {
		return layout{}, false
	}
	lines := s.lines[:s.first]
	if lines[0][0] == '|' && isRuler(lines[1]) {
		return layout{comma: '|', pipes: true}, true
	}
	if l, ok := delimited(lines); ok && s.first > 2 {
		return l, true
	}
	return aligned(lines)
}

// isRuler: |---|:--:|
func isRuler(line []byte) bool {
	return bytes.Contains(line, []byte("--")) && len(bytes.Trim(line, "|-: \t")) == 0
}

// delimited: nearly all lines have the same number of the same delimiter.
func delimited(lines [][]byte) (layout, bool) {
	if len(lines) < 3 {
		return layout{}, false
	}
	for _, comma := range []rune{'\t', ',', ';', '|'} {
		want := len(split(lines[0], comma))
		if want < 2 || comma != '\t' && want < 3 && len(lines) < 5 {
			continue
		}
		same := 0
		for _, line := range lines {
			if len(split(line, comma)) == want {
				same++
			}
		}
		if same*10 >= len(lines)*9 && (want > 2 || comma == '\t' || headed(split(lines[0], comma))) {
			return layout{comma: comma}, true
		}
	}
	return layout{}, false
}

// split splits a line at its delimiters, those in quotes apart.
func split(line []byte, comma rune) []string {
	var fields []string
	in, start := false, 0
	for i, c := range line {
		switch {
		case c == '"':
			in = !in
		case rune(c) == comma && !in:
			fields = append(fields, string(line[start:i]))
			start = i + 1
		}
	}
	return append(fields, string(line[start:]))
}

// headed: the fields look like names of columns.
func headed(fields []string) bool {
	for _, f := range fields {
		f = strings.Trim(f, ` "`)
		if f == "" || len(f) > 60 || digit(f[0]) || f[0] == '-' || strings.ContainsAny(f, "{}=") || strings.Count(f, " ") > 3 {
			return false
		}
	}
	return true
}

// aligned: a heading of words two blanks apart, as of kubectl, and rows that keep
// its columns.
func aligned(lines [][]byte) (layout, bool) {
	head := lines[0]
	var l layout
	for i := range head {
		if head[i] != ' ' && (i == 0 || i > 1 && head[i-1] == ' ' && head[i-2] == ' ') {
			l.starts = append(l.starts, i)
		}
	}
	if len(l.starts) < 2 || !bytes.Equal(bytes.ToUpper(head), head) && len(l.starts) < 3 {
		return layout{}, false
	}
	keep := 0
	for _, line := range lines[1:] {
		ok := true
		for _, at := range l.starts[1:] {
			if at < len(line) && (line[at-1] != ' ' || line[at] == ' ' && at+1 < len(line) && line[at+1] == ' ' && at > l.starts[len(l.starts)-1]) {
				ok = false
				break
			}
		}
		if ok && len(line) > l.starts[1] {
			keep++
		}
	}
	return l, keep*10 >= (len(lines)-1)*8
}

// names is the headings, or numbers where the first row is none.
func (l layout) names(head []byte) []string {
	if fields := l.row(string(head)); headed(fields) {
		return fields
	}
	return nil
}

// row splits a line that holds a whole row.
func (l layout) row(line string) []string {
	if l.comma == 0 {
		var fields []string
		for i, at := range l.starts {
			if at >= len(line) {
				break
			}
			end := len(line)
			if i+1 < len(l.starts) && l.starts[i+1] < end {
				end = l.starts[i+1]
			}
			fields = append(fields, strings.TrimSpace(line[at:end]))
		}
		return fields
	}
	if l.pipes {
		line = strings.Trim(strings.TrimSpace(line), "|")
	}
	fields := split([]byte(line), l.comma)
	for i := range fields {
		fields[i] = strings.Trim(fields[i], ` "`)
	}
	return fields
}

// rows calls each for every row of text with the line it begins on.
func (l layout) rows(text []byte, each func(line int, fields []string)) {
	if l.comma == 0 || l.pipes {
		for n := 1; len(text) > 0; n++ {
			line, rest, _ := bytes.Cut(text, []byte("\n"))
			text = rest
			line = bytes.TrimRight(line, "\r \t")
			if len(line) > 0 && (!l.pipes || line[0] == '|' && !isRuler(line)) {
				each(n, l.row(string(line)))
			}
		}
		return
	}
	r := csv.NewReader(bytes.NewReader(text))
	r.Comma, r.LazyQuotes, r.FieldsPerRecord, r.ReuseRecord = l.comma, true, -1, true
	for {
		fields, err := r.Read()
		if err == io.EOF {
			return
		}
		if err != nil || len(fields) == 0 {
			continue
		}
		line, _ := r.FieldPos(0)
		each(line, fields)
	}
}

// drawTable says which columns there are and what is in them, and quotes rows:
// those with a state that says trouble, the first, the last. It reports whether
// text is the table it looked like.
func drawTable(s *sheet, text []byte, l layout) bool {
	if longestLine(text) > lineMost {
		return false
	}
	t := tally{s: s}
	l.rows(text, t.row)
	if t.rows < 2 || len(t.columns) < 2 {
		return false
	}
	total := lineCount(text)
	s.head(must, fmt.Sprintf("digest of a table: %s, %s, %s, %s", many(t.rows, "row"), many(t.width, "column"), many(total, "line"), size(len(text))))
	s.head(must+2, "L numbers are line numbers of the full result: read ranges of it, or search it, for more.")
	if t.ragged > 0 {
		s.head(must+3, "rows with another number of columns: "+strconv.Itoa(t.ragged))
	}
	s.title(must+4, "columns:")
	more := s.list(func(left, _ int) string { return "and " + many(left, "more column") })
	for i, c := range t.columns {
		name := strconv.Itoa(i + 1)
		if i < len(t.head) {
			name = t.head[i]
		}
		s.entry(more, 10, 1, fmt.Sprintf("  %s: %s", name, c))
	}
	s.unlisted(more, t.width-len(t.columns), 0)
	if t.bad > 0 {
		s.head(30, fmt.Sprintf("rows whose state says trouble: %d", t.bad))
		rows := s.list(func(left, _ int) string { return "and " + many(left, "more such row") })
		for i, at := range t.troubled {
			s.entry(rows, 31+min(i, 3), 1, fmt.Sprintf("  L%d: %s", at, t.quote[i]))
		}
		s.unlisted(rows, t.bad-len(t.troubled), 0)
	}
	s.drawEnds(text, total, 4)
	return true
}

// lineMost is how long the lines of a table may be: its fields are split in
// memory, a row at a time.
const lineMost = 64 << 10

func longestLine(text []byte) int {
	longest := 0
	for len(text) > 0 {
		n := bytes.IndexByte(text, '\n')
		if n < 0 {
			return max(longest, len(text))
		}
		longest = max(longest, n)
		text = text[n+1:]
	}
	return longest
}

// tally is what a pass over a table gathers.
type tally struct {
	s        *sheet
	head     []string
	columns  []*values
	width    int // columns of the widest row
	rows     int
	ragged   int
	bad      int
	troubled []int    // lines of rows that say trouble, the first ones
	quote    []string // what they say
}

// troubles is how many rows or values that say trouble are kept to be quoted.
const troubles = 400

func (t *tally) row(line int, fields []string) {
	if t.width == 0 && headed(fields) {
		for _, f := range fields[:min(len(fields), columnsMost)] {
			t.head = append(t.head, clip(strings.TrimSpace(f), short))
		}
		t.width = len(fields)
		return
	}
	if t.width > 0 && len(fields) != t.width {
		t.ragged++
	}
	t.width = max(t.width, len(fields))
	t.rows++
	bad := false
	for i, f := range fields[:min(len(fields), columnsMost)] {
		if i == len(t.columns) {
			t.columns = append(t.columns, &values{})
		}
		f = strings.TrimSpace(f)
		t.columns[i].cell(f)
		bad = bad || trouble(f)
	}
	if bad {
		t.bad++
		if len(t.troubled) < troubles {
			t.troubled = append(t.troubled, line)
			t.quote = append(t.quote, clip(strings.Join(fields, " | "), t.s.width))
		}
	}
}

// cell counts what a cell says, as a number if it is one.
func (v *values) cell(f string) {
	if f != "" && len(f) < 25 && (digit(f[0]) || f[0] == '-' || f[0] == '.') {
		if n, err := strconv.ParseFloat(f, 64); err == nil {
			v.number(f, n)
			return
		}
	}
	v.add(f)
}
