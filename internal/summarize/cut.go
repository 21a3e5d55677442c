package summarize

import (
	"fmt"
	"sort"
	"strings"
	"unicode"
)

// tidy returns the text of an answer without what is not meant for its reader: lines
// with the marks of the prompt, control characters and space around.
func tidy(text, mark string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
	if mark != "" && strings.Contains(text, mark) {
		var kept []string
		for line := range strings.SplitSeq(text, "\n") {
			if !strings.Contains(line, mark) {
				kept = append(kept, line)
			}
		}
		text = strings.Join(kept, "\n")
	}
	return strings.TrimSpace(text)
}

// cutTo shortens a text to limit tokens as counted by estimate, at the end of a line
// if there is one in the last half of what fits, and says so.
func cutTo(text string, limit int, estimate func([]byte) int) (string, bool) {
	if estimate([]byte(text)) <= limit {
		return text, false
	}
	note := fmt.Sprintf("\n[summary cut at %d tokens]", limit)
	room := limit - estimate([]byte(note))
	if room <= 0 {
		note, room = "", limit // no place for it
	}
	// The longest beginning that fits: estimates grow with the text.
	fits := sort.Search(len(text), func(n int) bool { return estimate([]byte(text[:n+1])) > room })
	kept := text[:wholeRunes(text, fits)]
	if i := strings.LastIndexByte(kept, '\n'); i > len(kept)/2 {
		kept = kept[:i]
	} else if i := strings.LastIndexByte(kept, ' '); i > len(kept)/2 {
		kept = kept[:i]
	}
	kept = strings.TrimRightFunc(kept, unicode.IsSpace)
	for kept != "" && estimate([]byte(kept+note)) > limit { // they do not grow quite evenly
		kept = kept[:wholeRunes(kept, len(kept)-1-len(kept)/16)]
	}
	return kept + note, true
}

// perFour is the rule of thumb that a token has four characters.
func perFour(text []byte) int {
	n := 0
	for _, b := range text {
		if b&0xC0 != 0x80 { // not in the middle of a character
			n++
		}
	}
	return (n + 3) / 4
}
