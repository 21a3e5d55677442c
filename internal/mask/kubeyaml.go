package mask

import (
	"bytes"
	"regexp"
)

// kindLine finds what says that the mapping it is in is a Secret.
var kindLine = regexp.MustCompile(`(?m)^([ \t]*(?:- +)*)["']?(?:kind["']?:[ \t]*["']?(Secret|SecretList)|type["']?:[ \t]*["']?(Opaque))["']?[ \t]*(?:#.*)?\r?$`)

// A line of YAML: where it lies, and how far it and what follows its dashes are
// indented.
type line struct {
	lo, hi       int
	indent, text int
}

func (l line) blank() bool { return l.lo+l.text >= l.hi }

// yaml masks the data of Secrets in YAML, going by indentation alone: text that is
// not quite YAML, or only a piece of it, is read as far as it goes.
func (s *secrets) yaml() {
	var lines []line
	var last struct{ from, to, col int }
	for _, at := range kindLine.FindAllSubmatchIndex(s.b, -1) {
		if lines == nil {
			lines = splitLines(s.b)
		}
		i := lineAt(lines, at[0])
		col := lines[i].text
		if i < last.to && i >= last.from && col == last.col {
			continue // the same mapping says it twice
		}
		from, to := mapping(s.b, lines, i)
		last.from, last.to, last.col = from, to, col
		list := at[4] >= 0 && string(s.b[at[4]:at[5]]) == "SecretList"
		if at[6] >= 0 && s.kinded(lines[from:to], col) {
			continue
		}
		for j := from; j < to; j++ {
			if l := lines[j]; (l.text == col || list) && isData(s.b[l.lo+l.text:l.hi]) {
				s.children(lines[j:to])
			}
		}
	}
}

// kinded tells whether a mapping says of which kind it is.
func (s *secrets) kinded(lines []line, col int) bool {
	for _, l := range lines {
		if l.text == col && bytes.HasPrefix(s.b[l.lo+l.text:l.hi], []byte("kind:")) {
			return true
		}
	}
	return false
}

func splitLines(b []byte) []line {
	var lines []line
	for lo := 0; lo < len(b); {
		hi := lo + len(b[lo:])
		if i := bytes.IndexByte(b[lo:], '\n'); i >= 0 {
			hi = lo + i
		}
		l := line{lo: lo, hi: hi}
		for l.indent = 0; lo+l.indent < hi && (b[lo+l.indent] == ' ' || b[lo+l.indent] == '\t'); l.indent++ {
		}
		l.text = l.indent
		for lo+l.text+1 < hi && b[lo+l.text] == '-' && b[lo+l.text+1] == ' ' {
			for l.text++; lo+l.text < hi && b[lo+l.text] == ' '; l.text++ {
			}
		}
		if l.hi > l.lo && b[l.hi-1] == '\r' {
			l.hi--
		}
		lines = append(lines, l)
		lo = hi + 1
	}
	return lines
}

// lineAt returns the line that place at is in.
func lineAt(lines []line, at int) int {
	lo, hi := 0, len(lines)
	for lo+1 < hi {
		if mid := (lo + hi) / 2; lines[mid].lo <= at {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// mapping returns the lines of the mapping that line i is in.
func mapping(b []byte, lines []line, i int) (from, to int) {
	col := lines[i].text
	from, to = i, i+1
	for from > 0 && lines[from].text == lines[from].indent || from > 0 && lines[from].text != col {
		l := lines[from-1]
		if !l.blank() && l.indent < col && l.text != col || bytes.HasPrefix(b[l.lo:l.hi], []byte("---")) {
			break
		}
		from--
	}
	for ; to < len(lines); to++ {
		l := lines[to]
		if !l.blank() && l.indent < col || bytes.HasPrefix(b[l.lo:l.hi], []byte("---")) {
			break
		}
		if l.text == col && l.indent < col {
			break
		}
	}
	return from, to
}

func isData(text []byte) bool {
	key, _, ok := bytes.Cut(text, []byte(":"))
	return ok && roleOf(bytes.Trim(key, `"' `)) == keyData
}

// children masks the values below the first line.
func (s *secrets) children(lines []line) {
	kind := s.m.kindOf[KubernetesSecret]
	head := lines[0]
	col := -1
	var open span
	flush := func() {
		for open.hi > open.lo && open.hi <= len(s.b) && (s.b[open.hi-1] == ' ' || s.b[open.hi-1] == '\r') {
			open.hi--
		}
		if open.lo < open.hi {
			s.found = append(s.found, open)
		}
		open = span{}
	}
	if at := s.scalar(head, head.text); at < head.hi && s.b[at] != '#' { // data: {a: b}
		open = span{at, head.hi, kind}
	}
	for _, l := range lines[1:] {
		switch {
		case l.blank():
			continue
		case l.indent <= head.text:
			flush()
			return
		case col < 0 && open.lo == 0:
			col = l.indent
		}
		if l.indent > col || col < 0 {
			if open.lo == 0 {
				open = span{lo: l.lo + l.indent, kind: kind}
			}
			open.hi = l.hi
			continue
		}
		flush()
		at := s.scalar(l, l.indent)
		switch {
		case at >= l.hi, s.b[at] == '#', string(s.b[at:l.hi]) == `""`, string(s.b[at:l.hi]) == `''`, string(s.b[at:l.hi]) == "null":
		case s.b[at] == '|' || s.b[at] == '>': // its lines follow
		default:
			open = span{at, l.hi, kind}
		}
	}
	flush()
}

// scalar returns where the value behind a key begins. A line without a key is all
// value.
func (s *secrets) scalar(l line, col int) int {
	text := s.b[l.lo+col : l.hi]
	i := bytes.Index(text, []byte(": "))
	if i < 0 {
		if i = bytes.IndexByte(text, ':'); i < 0 || i < len(text)-1 {
			return l.lo + col
		}
	}
	at := l.lo + col + i + 1
	for at < l.hi && (s.b[at] == ' ' || s.b[at] == '\t') {
		at++
	}
	return at
}
