package catalog

import (
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"mcp-aggregator/internal/wire"
)

// Names, titles and descriptions are read by models and by people who decide what a
// model may do. Text that the one sees and the other does not, or sees in another
// order, is taken out of titles and descriptions; a name that has any is refused,
// since it could not be told from another.

// hidden reports characters that show nothing or reorder what is shown: controls
// other than tab and line breaks, format characters (bidi controls, zero-width
// characters, tags), fillers.
func hidden(r rune) bool {
	switch {
	case r < ' ':
		return r != '\t' && r != '\n' && r != '\r'
	case r < 0x7f:
		return false
	case r < 0xa0:
		return true
	}
	return unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r) ||
		unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}

// joiner reports the two format characters that scripts and emoji need between two
// visible characters beyond ASCII: zero-width joiner and non-joiner.
func joiner(r rune) bool { return r == '\u200c' || r == '\u200d' }

// variation reports selectors, of which one may follow a visible character.
func variation(r rune) bool { return unicode.Is(unicode.Variation_Selector, r) }

// visible reports characters that stay wherever they stand.
func visible(r rune) bool { return !hidden(r) && !variation(r) }

// badName says why a name or URI is refused, or "".
func badName(raw []byte, longest int) (name, bad string) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", "is missing or no string"
	}
	if len(raw) > 6*longest {
		return "", fmt.Sprintf("is longer than %d bytes", longest)
	}
	name, ok := wire.Unquote(raw)
	switch {
	case !ok:
		return "", "cannot be read"
	case name == "":
		return "", "is empty"
	case len(name) > longest:
		return name, fmt.Sprintf("is longer than %d bytes", longest)
	}
	for _, r := range name {
		if r < ' ' || r >= 0x7f && (r == utf8.RuneError || !visible(r)) {
			return name, fmt.Sprintf("has a hidden or unreadable character (U+%04X)", r)
		}
	}
	return name, ""
}

// clean returns the edits that take hidden characters out of the JSON string at s
// and cut it to limit bytes of JSON (at least 128), and what was done. It changes nothing else, and
// nothing in the text it leaves.
func clean(raw []byte, s wire.Span, limit int) (edits []wire.Edit, done string) {
	lo, end := s.Lo+1, s.Hi-1 // without the quotes
	if end-lo <= limit && !suspect(raw[lo:end]) {
		return nil, ""
	}
	keep := end
	if end-lo > limit {
		keep = lo + limit - noteRoom
	}
	var before rune // the last character; 0 at the beginning and behind one that went
	var run wire.Span
	removed, i := 0, lo
	for i < end {
		r, n := character(raw[i:end])
		if i+n > keep {
			break
		}
		stays := !hidden(r)
		switch {
		case variation(r):
			stays = before > ' ' && !variation(before)
		case joiner(r):
			after, _ := character(raw[i+n : end])
			stays = before >= utf8.RuneSelf && after >= utf8.RuneSelf && visible(after)
		}
		if before = r; !stays {
			before = 0
			if removed++; run.Hi != i {
				edits = appendCut(edits, run)
				run.Lo = i
			}
			run.Hi = i + n
		}
		i += n
	}
	edits = appendCut(edits, run)
	if i == end {
		return edits, describe(removed, 0, 0)
	}
	note := fmt.Sprintf("… [cut: %d bytes, limit %d]", end-lo, limit)
	return append(edits, wire.Edit{Span: wire.Span{Lo: i, Hi: end}, With: []byte(note)}), describe(removed, end-lo, limit)
}

// noteRoom is kept free for the note behind text that was cut.
const noteRoom = 64

func appendCut(edits []wire.Edit, run wire.Span) []wire.Edit {
	if !run.OK() {
		return edits
	}
	return append(edits, wire.Edit{Span: run})
}

func describe(removed, size, limit int) string {
	switch {
	case removed > 0 && size > 0:
		return fmt.Sprintf("%d hidden characters taken out, cut from %d to %d bytes", removed, size, limit)
	case removed > 0:
		return fmt.Sprintf("%d hidden characters taken out", removed)
	case size > 0:
		return fmt.Sprintf("cut from %d to %d bytes", size, limit)
	}
	return ""
}

// suspect reports whether a JSON string can have hidden characters at all.
func suspect(inner []byte) bool {
	for i, c := range inner {
		if c >= 0x7f || c == '\\' && i+1 < len(inner) && (inner[i+1] == 'u' || inner[i+1] == 'b' || inner[i+1] == 'f') {
			return true
		}
	}
	return false
}

// character decodes the first character of the inside of a JSON string and how many
// bytes it takes. A surrogate without its other half is U+FFFD.
func character(s []byte) (rune, int) {
	switch {
	case len(s) == 0:
		return 0, 0
	case s[0] != '\\' || len(s) < 2:
		return utf8.DecodeRune(s)
	}
	switch s[1] {
	case 'b', 'f':
		return '\b', 2
	case 'n', 'r':
		return '\n', 2
	case 't':
		return '\t', 2
	case 'u':
		r := unit(s)
		if utf16.IsSurrogate(r) {
			if pair := utf16.DecodeRune(r, unit(s[min(6, len(s)):])); pair != utf8.RuneError {
				return pair, 12
			}
			return utf8.RuneError, min(6, len(s))
		}
		return r, min(6, len(s))
	}
	return rune(s[1]), 2
}

// unit reads \uXXXX.
func unit(s []byte) rune {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return utf8.RuneError
	}
	n, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}
