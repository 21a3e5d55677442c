package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing wrong with the configuration and where.
type Problem struct {
	File    string // the configuration file, or "environment"
	Line    int    // from 1; 0 when the problem has no place in the file
	Col     int    // from 1, in characters
	Path    string // dotted path of the setting, such as servers.github.url; may be empty
	Message string // a sentence without secrets
}

// String is "file:line:column: path: message", the form editors and terminals link.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Col)
	}
	if p.Path != "" {
		b.WriteString(": " + p.Path)
	}
	return b.String() + ": " + p.Message
}

// Problems is the error of Load: everything that is wrong, in the order of the file.
type Problems []Problem

// Error has one line for each problem.
func (ps *Problems) Error() string {
	lines := make([]string, len(*ps))
	for i, p := range *ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// sorted puts problems in file order and drops repetitions, which an anchor
// used several times brings. Problems without a place come last.
func sorted(ps []Problem) []Problem {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		if (a.Line == 0) != (b.Line == 0) {
			return cmp.Compare(b.Line, a.Line)
		}
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return slices.CompactFunc(ps, func(a, b Problem) bool {
		return a.Line > 0 && a.Line == b.Line && a.Col == b.Col && a.Message == b.Message
	})
}
