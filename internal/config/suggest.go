package config

import (
	"fmt"
	"strings"
)

// didYouMean returns `; did you mean "x"?` for the nearest candidate and that candidate, or nothing.
func didYouMean(word string, candidates []string) (hint, nearest string) {
	best := 1 + (len(word)+1)/4 // about one slip in four letters
	for _, c := range candidates {
		if d := distance(flat(word), flat(c)); d < best || d == 0 {
			best, nearest = d, c
		}
	}
	if nearest == "" {
		return "", ""
	}
	return fmt.Sprintf("; did you mean %q?", nearest), nearest
}

// flat removes what people write differently in the same word: initTimeout, init-timeout, init_timeout.
func flat(s string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s))
}

// distance counts the insertions, deletions, replacements and swaps of neighbours between two words.
// Words far longer than any key are not compared.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	before, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return prev[len(b)]
}

// short bounds what a message quotes from the file and keeps it on one line.
func short(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x85 || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, s)
	if r := []rune(s); len(r) > 60 {
		return string(r[:57]) + "..."
	}
	return s
}
