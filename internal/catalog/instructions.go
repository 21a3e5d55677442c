package catalog

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// instructions merges the instructions of the servers (CAT-9), each under a heading
// of its own, and names the servers that are missing. When they are too long together
// the longest are cut, so that no server can push out another.
func instructions(listings []*Listing, unavailable []Unavailable, limit int) string {
	var tail strings.Builder
	for i, u := range unavailable {
		if i == 0 {
			tail.WriteString("#### Unavailable MCP servers\n\nThese servers are configured, but their tools cannot be used at the moment:\n")
		}
		fmt.Fprintf(&tail, "- %s: %s\n", printable(u.Server), printableTo(u.Reason, 4*maxShown))
	}
	end := cutLines(tail.String(), limit)

	var heads, texts []string
	room := limit - len(end)
	for _, l := range listings {
		if text := readable(l.Instructions); text != "" {
			head := "#### MCP Server: " + printable(l.Server) + "\n\n"
			heads, texts = append(heads, head), append(texts, text)
			room -= len(head) + len("\n\n")
		}
	}
	share := fairShare(texts, room)
	var out strings.Builder
	for i, text := range texts {
		if text = cutLines(text, share); text != "" {
			out.WriteString(heads[i] + text + "\n\n")
		}
	}
	return strings.TrimRight(out.String()+end, "\n")
}

// fairShare returns a length such that the texts, each cut to it, fit in room.
func fairShare(texts []string, room int) int {
	sorted := slices.SortedFunc(slices.Values(texts), func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	for i, text := range sorted {
		if left := len(sorted) - i; len(text)*left > room {
			return max(room, 0) / left
		}
		room -= len(text)
	}
	return math.MaxInt
}

// cutLines cuts a text so that it has at most limit bytes together with the note that
// says so: at the end of a line, or of a character if it is all one line. It is "" if
// not even the note fits.
func cutLines(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	note := fmt.Sprintf("[cut: %d bytes, limit %d]", len(text), limit)
	if len(note) > limit {
		return ""
	}
	end := limit - len(note)
	if line := strings.LastIndexByte(text[:end], '\n') + 1; line > 0 {
		return text[:line] + note
	}
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + note
}

// readable makes a server's instructions fit to stand among those of others: without
// hidden characters, and without lines that look like our headings.
func readable(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == '\r' || hidden(r) && !joiner(r) {
			return -1
		}
		return r
	}, text)
	var out strings.Builder
	for line := range strings.Lines(strings.TrimSpace(text)) {
		if bare := strings.TrimLeft(line, " \t"); isHeading(bare) {
			out.WriteString(`\`)
			line = bare
		}
		out.WriteString(line)
	}
	return out.String()
}

func isHeading(line string) bool {
	title := strings.TrimLeft(line, "#")
	if len(title) == len(line) {
		return false
	}
	title = strings.ToLower(strings.TrimLeft(title, " \t"))
	return strings.HasPrefix(title, "mcp server") || strings.HasPrefix(title, "tool:") || strings.HasPrefix(title, "unavailable mcp")
}
