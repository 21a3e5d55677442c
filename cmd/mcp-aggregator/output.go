package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode"
)

// printJSON prints v as indented JSON. Raw messages inside keep their digits and the
// order of their keys.
func (c *cli) printJSON(v any) error {
	e := json.NewEncoder(c.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// table writes rows in columns; the first row is the head.
type table struct{ rows [][]string }

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range t.rows {
		fmt.Fprintln(tw, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	return tw.Flush()
}

// maxCell is the longest text shown in a table, in characters.
const maxCell = 80

// cell makes a text of a server fit for a table: its first line, printable and not too long.
func cell(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	r := []rune(printable(s))
	if len(r) > maxCell {
		r = append(r[:maxCell-1], '…')
	}
	return string(r)
}

// printable removes what could steer a terminal or reorder what a person reads: control
// characters except line breaks and tabs, direction marks and invisible tags.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) || r >= 0xE0000 && r <= 0xE007F {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// isTerminal reports whether a person reads w directly.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
