package digest

import (
	"bytes"
	"fmt"
)

// drawEnds quotes the first and the last n lines.
func (s *sheet) drawEnds(text []byte, total, n int) {
	s.title(could+8, "first lines:")
	rest := text
	shown := 0
	for ; shown < n && len(rest) > 0; shown++ {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		if len(bytes.TrimSpace(line)) > 0 {
			s.add(could+9, fmt.Sprintf("  L%d: %s", shown+1, line[:min(len(line), 400)]))
		}
		rest = after
	}
	if total <= shown {
		return
	}
	s.title(could+8, "last lines:")
	for _, from := range lastLines(text, min(n, total-shown)) {
		line, _, _ := bytes.Cut(text[from.at:], []byte("\n"))
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		s.add(could+9, fmt.Sprintf("  L%d: %s", total-from.back, line[:min(len(line), 400)]))
	}
}

// tailLine is where a line begins, back lines before the last one.
type tailLine struct{ at, back int }

// lastLines finds the last n lines of text, in order.
func lastLines(text []byte, n int) []tailLine {
	text = bytes.TrimSuffix(text, []byte("\n"))
	var found []tailLine
	for back := range n {
		i := bytes.LastIndexByte(text, '\n')
		found = append([]tailLine{{i + 1, back}}, found...)
		if i < 0 {
			break
		}
		text = text[:i]
	}
	return found
}
