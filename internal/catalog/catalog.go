package catalog

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A Kind is one of the four lists a server offers.
type Kind uint8

// The kinds.
const (
	Tools Kind = iota
	Prompts
	Resources
	Templates // resource templates
	kinds     = iota
)

// lists says how each kind is spelled in the protocol.
var lists = [kinds]struct{ one, member, method, key string }{
	Tools:     {"tool", "tools", "tools/list", "name"},
	Prompts:   {"prompt", "prompts", "prompts/list", "name"},
	Resources: {"resource", "resources", "resources/list", "uri"},
	Templates: {"resource template", "resourceTemplates", "resources/templates/list", "uriTemplate"},
}

// String returns what one entry of the kind is called: "tool", "resource template".
func (k Kind) String() string { return lists[k].one }

// Method returns the method that lists the kind.
func (k Kind) Method() string { return lists[k].method }

// Member returns the member of the list's result that holds the entries.
func (k Kind) Member() string { return lists[k].member }

// KindOf returns the kind that a method lists.
func KindOf(method string) (Kind, bool) {
	for k := range lists {
		if lists[k].method == method {
			return Kind(k), true
		}
	}
	return 0, false
}

// A Severity says what a problem did to the definition it is about.
type Severity uint8

// The severities.
const (
	Rejected Severity = iota // it is not exposed
	Disabled                 // it is known, but the configuration does not allow its version
	Warning                  // it is exposed, but something about it will trouble some clients
	Mapped                   // it is exposed under another name than prefix and name would give
)

var severities = [...]string{Rejected: "rejected", Disabled: "disabled", Warning: "warning", Mapped: "mapped"}

func (s Severity) String() string { return severities[s] }

// MarshalText writes the severity as a word.
func (s Severity) MarshalText() ([]byte, error) { return []byte(severities[s]), nil }

// MarshalText writes the kind as words.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// A Problem is something about one definition that a person should know. Name and
// Reason are safe to print: short and without invisible characters.
type Problem struct {
	Server   string   `json:"server"`
	Kind     Kind     `json:"kind"`
	Name     string   `json:"name"` // the upstream's own, or "#12" for the twelfth of a list if it has none
	Reason   string   `json:"reason"`
	Severity Severity `json:"severity"`
}

func (p Problem) String() string {
	return fmt.Sprintf("server %q: %s: %s %q: %s", p.Server, p.Severity, p.Kind, p.Name, p.Reason)
}

// maxShown bounds what a problem repeats of a foreign name.
const maxShown = 120

// printable makes foreign text fit for a message: short, on one line, all visible.
func printable(s string) string { return printableTo(s, maxShown) }

func printableTo(s string, most int) string {
	cut := len(s) > most
	if cut {
		for most > 0 && !utf8.RuneStart(s[most]) {
			most--
		}
		s = s[:most]
	}
	s = strings.Map(func(r rune) rune {
		if r < ' ' || !visible(r) {
			return utf8.RuneError
		}
		return r
	}, s)
	if cut {
		s += "…"
	}
	return s
}
