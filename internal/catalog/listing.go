package catalog

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/filter"
	"mcp-aggregator/internal/wire"
)

// Input is what one refresh of a server brought. Definitions are JSON objects that
// wire.Scan has accepted as part of a message; they may be parts of a larger buffer,
// which must not be modified afterwards.
type Input struct {
	Server *config.Server // name, prefix, filters, tool versions
	Limits config.Limits  // sizes of schemas and descriptions; zero fields take the defaults

	Tools, Prompts, Resources, Templates [][]byte

	Capabilities []byte // raw JSON object, as the server declared them; may be nil
	ServerInfo   []byte // raw JSON object; may be nil
	Instructions string

	Modern bool // the server speaks revision 2026-07-28
	Public bool // the server allows its lists to be cached for everybody
	Stale  bool // the lists are the last known ones of a server that is not connected
}

// An Item is one checked definition.
type Item struct {
	Name string    // the upstream's own name, URI or URI template
	Def  []byte    // the definition, without line breaks
	At   wire.Span // where the JSON string of Name stands in Def

	ReadOnly, Destructive, Idempotent bool          // annotations of tools
	Headers                           []ParamHeader // of tools

	matcher *template // of templates; nil if it cannot be matched
}

// A ParamHeader is a parameter of a tool that HTTP servers want to see as a header
// as well (specification 2026-07-28, tools: x-mcp-header).
type ParamHeader struct {
	Name string   // the header is Mcp-Param-Name
	Path []string // where the value stands in the arguments: keys of nested objects
}

// A Listing is what one server offers: the definitions that passed the checks and
// the filters of its configuration. It is made once per refresh and never modified,
// so the same listing can be part of many snapshots.
type Listing struct {
	Server       string
	Prefix       string // in place of the server's name in exposed names; may be empty
	Capabilities []byte
	ServerInfo   []byte
	Instructions string // "" if the configuration does not want them
	Modern       bool
	Public       bool
	Stale        bool

	Tools, Prompts, Resources, Templates []Item

	Problems []Problem // definitions that were rejected or are doubtful
	Hidden   int       // definitions that a filter took out

	readable *filter.Filter // of the URIs that may be read
	checked  *Listing       // the listing this is a copy of, with another mark; itself if it is none

	hidden *atomic.Pointer[hiding] // what Hide made last
}

// alike reports whether two listings offer the same to the byte. What else they hold
// is looked up in the listing itself, or told once.
func (l *Listing) alike(o *Listing) bool {
	if l.checked == o.checked {
		return true
	}
	if l.Server != o.Server || l.Prefix != o.Prefix || l.Public != o.Public || l.Hidden != o.Hidden ||
		!bytes.Equal(l.Capabilities, o.Capabilities) || !slices.Equal(l.Problems, o.Problems) {
		return false
	}
	for kind := range Kind(kinds) {
		if !slices.EqualFunc(l.Items(kind), o.Items(kind), func(a, b Item) bool { return a.Name == b.Name && bytes.Equal(a.Def, b.Def) }) {
			return false
		}
	}
	return true
}

// WithStale returns the listing with another Stale mark; everything else is shared.
func (l *Listing) WithStale(stale bool) *Listing {
	if l.Stale == stale {
		return l
	}
	out := *l
	out.Stale, out.hidden = stale, new(atomic.Pointer[hiding])
	return &out
}

// Items returns the definitions of a kind.
func (l *Listing) Items(k Kind) []Item {
	return [kinds][]Item{l.Tools, l.Prompts, l.Resources, l.Templates}[k]
}

// defaults stand in for settings that are zero.
var defaults = sync.OnceValue(config.Default)

// maxProblems bounds what is remembered about one list.
const maxProblems = 500

// NewListing checks what a server sent (CAT-6). A definition that breaks a rule
// costs itself and becomes a problem; the others stay.
func NewListing(in Input) *Listing {
	l := &Listing{
		Server: in.Server.Name, Prefix: prefixOf(in.Server),
		Capabilities: in.Capabilities, ServerInfo: in.ServerInfo,
		Modern: in.Modern, Public: in.Public, Stale: in.Stale,
	}
	l.checked, l.hidden = l, new(atomic.Pointer[hiding])
	if in.Server.Instructions {
		l.Instructions = in.Instructions
	}
	defaults := defaults().Limits
	c := check{
		server:      in.Server,
		size:        cmp.Or(in.Limits.SchemaBytes, defaults.SchemaBytes),
		depth:       cmp.Or(in.Limits.SchemaDepth, defaults.SchemaDepth),
		description: cmp.Or(in.Limits.Description, defaults.Description),
		ours:        l,
	}
	l.Tools = c.list(Tools, in.Tools, in.Server.Tools)
	l.Prompts = c.list(Prompts, in.Prompts, in.Server.Prompts)
	l.Resources = c.list(Resources, in.Resources, in.Server.Resources)
	l.Templates = c.list(Templates, in.Templates, in.Server.Resources)
	return l
}

// prefixOf returns what stands in front of the names of a server's tools.
func prefixOf(s *config.Server) string {
	if s.Prefix != nil {
		return *s.Prefix
	}
	return s.Name
}

// A check turns the definitions of one server into items.
type check struct {
	server                   *config.Server
	size, depth, description int
	ours                     *Listing
	noted                    int // problems of the list that is read
}

// list checks one list.
func (c *check) list(kind Kind, raw [][]byte, rules config.Filter) []Item {
	names, err := filter.New(rules.Allow, rules.Deny)
	if kind == Resources {
		c.ours.readable = names
	}
	if len(raw) == 0 {
		return nil
	}
	if err != nil { // the configuration was not checked: show nothing rather than too much
		c.note(Problem{c.server.Name, kind, "*", err.Error(), Rejected})
		return nil
	}
	items := make([]Item, 0, len(raw))
	seen := make(map[string]struct{}, len(raw))
	c.noted = 0
	for i, def := range raw {
		d := definition{kind: kind, raw: def}
		bad, severity := d.open(), Rejected
		if bad == "" {
			if !names.Allows(d.item.Name) || kind == Tools && d.hides(rules) {
				c.ours.Hidden++
				continue
			}
			bad, severity = c.judge(&d, seen)
		}
		if bad == "" {
			items = append(items, d.finish())
		} else {
			d.notes = []string{bad}
		}
		for _, note := range d.notes {
			c.note(Problem{c.server.Name, kind, printable(d.nameOr(i + 1)), note, severity})
		}
	}
	return slices.Clip(items)
}

func (c *check) note(p Problem) {
	if c.noted++; c.noted <= maxProblems {
		c.ours.Problems = append(c.ours.Problems, p)
	}
}

// judge says why a definition that passes the filters is not exposed, or "" and what
// its notes are.
func (c *check) judge(d *definition, seen map[string]struct{}) (string, Severity) {
	name := d.item.Name
	if _, twice := seen[name]; twice {
		return "has the name of an earlier " + d.kind.String() + " of this server", Rejected
	}
	seen[name] = struct{}{}
	switch d.kind {
	case Tools:
		if wanted, ok := c.server.ToolVersions[name]; ok {
			have := cmp.Or(d.version(), c.serverVersion())
			if !slices.Contains(wanted, have) {
				return fmt.Sprintf("version %q is not among those of tool_versions: %s", printable(have), strings.Join(wanted, ", ")), Disabled
			}
		}
		if bad := d.checkSchemas(c.size, c.depth); bad != "" {
			return bad, Rejected
		}
		if c.server.DropsStructured(name) {
			d.dropOutput()
		}
	case Templates:
		m, err := newTemplate(name)
		if err != nil {
			d.notes = append(d.notes, "cannot be matched against URIs: "+err.Error())
		}
		d.item.matcher = m
	}
	d.checkTexts(c.description)
	return "", Warning
}

func (c *check) serverVersion() string {
	info := c.ours.ServerInfo
	version, _ := wire.Unquote(wire.Field(info, wire.Span{Lo: 0, Hi: len(info)}, "version").Of(info))
	return version
}
