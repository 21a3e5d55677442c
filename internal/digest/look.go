package digest

import (
	"bytes"
	"strings"
)

// looked is how many lines are looked at to find out what a text is: from its
// beginning, its middle and its end.
const looked = 120

// sight is what a look at some lines of a text says about it.
type sight struct {
	lines [][]byte // the ones looked at, not empty ones
	first int      // how many of them are from the beginning, without a gap
}

// look takes lines from three places of text.
func look(text []byte) sight {
	var s sight
	s.take(text, looked)
	s.first = len(s.lines)
	if len(text) > 64<<10 {
		for _, from := range []int{len(text) / 2, len(text) - 16<<10} {
			if i := bytes.IndexByte(text[from:], '\n'); i >= 0 {
				s.take(text[from+i+1:], looked/2)
			}
		}
	}
	return s
}

func (s *sight) take(text []byte, n int) {
	for ; n > 0 && len(text) > 0; n-- {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		text = rest
		line = bytes.TrimRight(line, "\r \t")
		if len(line) > 0 {
			s.lines = append(s.lines, line[:min(len(line), 2000)])
		}
	}
}

// share is which part of the lines looked at is as asked.
func (s sight) share(is func(line []byte) bool) float64 {
	if len(s.lines) == 0 {
		return 0
	}
	n := 0
	for _, line := range s.lines {
		if is(line) {
			n++
		}
	}
	return float64(n) / float64(len(s.lines))
}

func (s sight) diff() bool {
	var heads, hunks int
	for _, line := range s.lines {
		switch {
		case bytes.HasPrefix(line, []byte("diff --git ")), bytes.HasPrefix(line, []byte("+++ ")):
			heads++
		case isHunk(line):
			hunks++
		}
	}
	if heads == 0 {
		return false
	}
	return hunks > 0 || bytes.HasPrefix(s.lines[0], []byte("diff --git "))
}

// log: many lines begin with a time, or most name a level where levels stand.
func (s sight) log() bool {
	if len(s.lines) < 2 {
		return false
	}
	if s.commas() {
		return false
	}
	stamped := s.share(func(line []byte) bool { _, n := stamp(line); return n > 0 })
	levelled := s.share(func(line []byte) bool { l := levelOf(line); return l.explicit })
	return stamped >= 0.5 || levelled >= 0.6 || stamped >= 0.2 && levelled >= 0.1
}

// commas tells a table from a log with times: by its heading, or because it has
// columns enough and no line names a level.
func (s sight) commas() bool {
	t, ok := delimited(s.lines[:s.first])
	if !ok {
		return false
	}
	if _, n := stamp(s.lines[0]); n == 0 {
		return len(t.names(s.lines[0])) > 1
	}
	return (t.comma == ',' || t.comma == '\t') && len(split(s.lines[0], t.comma)) > 3 &&
		s.share(func(line []byte) bool { return levelOf(line).explicit }) < 0.1
}

func (s sight) prose(text []byte) string {
	if len(s.lines) == 0 {
		return kindText
	}
	first := strings.ToLower(string(s.lines[0]))
	tags := s.share(func(line []byte) bool {
		line = bytes.TrimSpace(line)
		return len(line) > 2 && line[0] == '<' && line[len(line)-1] == '>'
	})
	if strings.HasPrefix(first, "<!doctype html") || strings.HasPrefix(first, "<html") || tags > 0.5 && strings.Contains(first, "<") {
		return kindHTML
	}
	if s.share(func(line []byte) bool { return yamlKey(line) != "" || isItem(line) }) > 0.75 {
		return kindYAML
	}
	if isMarkdown(text) && s.share(isCode) < 0.25 {
		return kindMarkdown
	}
	return kindText
}

// isMarkdown: most lines that look like headings have room around them, which
// comments of scripts and manifests have not.
func isMarkdown(text []byte) bool {
	heads, roomy, fenced := 0, 0, false
	blank, waiting := true, false // the line before was blank; was a heading behind a blank line
	for rest := text[:min(len(text), 64<<10)]; len(rest) > 0; {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		rest = after
		line = bytes.TrimRight(line, "\r \t")
		if waiting && (len(line) == 0 || line[0] != '#') {
			roomy++
		}
		if bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("```")) {
			fenced = !fenced
		}
		head := headingDepth(line) > 0 && !fenced
		waiting = head && blank
		if head {
			heads++
		}
		blank = len(line) == 0
	}
	return roomy > 0 && roomy*10 >= heads*8
}

// isCode: lines of programs end like this.
func isCode(line []byte) bool {
	return bytes.IndexByte([]byte("{};)("), line[len(line)-1]) >= 0
}

// isItem: "- something", as lists in YAML are written.
func isItem(line []byte) bool {
	line = bytes.TrimLeft(line, " ")
	return len(line) > 1 && line[0] == '-' && (line[1] == ' ' || string(line) == "---")
}

// yamlKey is the key of a line "key: value", with or without a value.
func yamlKey(line []byte) string {
	line = bytes.TrimLeft(line, " ")
	line = bytes.TrimPrefix(line, []byte("- "))
	i := bytes.IndexByte(line, ':')
	if i <= 0 || i+1 < len(line) && line[i+1] != ' ' {
		return ""
	}
	key := bytes.Trim(line[:i], `"'`)
	if len(key) == 0 || len(key) > 80 || bytes.ContainsAny(key, " \t{}[],\"") {
		return ""
	}
	return string(key)
}

// headingDepth is the number of # a Markdown heading begins with, 0 for other lines.
func headingDepth(line []byte) int {
	n := 0
	for n < len(line) && line[n] == '#' {
		n++
	}
	if n == 0 || n > 6 || n+1 >= len(line) || line[n] != ' ' {
		return 0
	}
	return n
}
