package catalog

import (
	"strings"

	"mcp-aggregator/internal/wire"
)

// An Entry is one tool, prompt, resource or template as clients see it. It belongs
// to a snapshot and is never modified.
type Entry struct {
	Kind    Kind
	Server  string
	Name    string // the upstream's own name or URI: what to send there
	Exposed string // what clients use
	Def     []byte // the definition with Exposed in the place of Name

	ReadOnly, Destructive, Idempotent bool          // annotations of tools
	Headers                           []ParamHeader // of tools
}

// A Snapshot is an immutable picture of everything the upstreams offer. It is
// replaced whole, never modified, and safe for concurrent use.
type Snapshot struct {
	lists    [kinds]list
	listings []*Listing // in configuration order
	naming   *naming
	byServer map[string]*Listing
	odd      [kinds]map[[2]string]*Entry // server and name → entry whose name is not found by joining them
	matchers []matcher

	instructions string
	capabilities [2][]byte // by era
	public       bool

	rules    Rules     // it was made by
	problems []Problem // that were found
}

// Tool finds a tool by its exposed name, or by server.name, server__name and
// mcp__server__name with the name that the server itself uses. A name that a filter
// hides is as unknown as one that does not exist.
func (s *Snapshot) Tool(name string) (*Entry, bool) { return s.named(Tools, name) }

// Prompt finds a prompt in the same way.
func (s *Snapshot) Prompt(name string) (*Entry, bool) { return s.named(Prompts, name) }

func (s *Snapshot) named(kind Kind, name string) (*Entry, bool) {
	if e, ok := s.lists[kind].find[name]; ok {
		return e, true
	}
	if e := s.alias(kind, name); e != nil {
		return e, true
	}
	if rest, ok := strings.CutPrefix(name, "mcp"+separator); ok {
		if e, ok := s.lists[kind].find[rest]; ok {
			return e, true
		}
		e := s.alias(kind, rest)
		return e, e != nil
	}
	return nil, false
}

// alias finds an entry by the name of its server and the name there.
func (s *Snapshot) alias(kind Kind, alias string) *Entry {
	if s.naming == nil {
		return nil
	}
	server, name, ok := s.naming.servers.split(alias, separator, ".")
	if !ok || s.byServer[server] == nil {
		return nil
	}
	if e := s.odd[kind][[2]string{server, name}]; e != nil {
		return e
	}
	// Also by the name there as it is spelled in exposed names.
	e := s.lists[kind].find[s.naming.join(s.byServer[server].Prefix, name)]
	if e == nil || e.Server != server {
		return nil
	}
	return e
}

// Entries returns all entries of a kind in the order of the list. They must not be
// modified.
func (s *Snapshot) Entries(k Kind) []Entry { return s.lists[k].entries }

// Page returns one page of a list as the result that legacy clients get. The cursor
// is "" for the first page, else the nextCursor of the page before, also if that
// was part of an earlier snapshot; the error is ErrBadCursor.
func (s *Snapshot) Page(k Kind, cursor string) (wire.Value, error) {
	return s.lists[k].page(k, cursor)
}

// PageModern returns the same page with the members that modern results have in
// addition.
func (s *Snapshot) PageModern(k Kind, cursor string) (wire.Value, error) {
	v, err := s.lists[k].page(k, cursor)
	if err != nil {
		return v, err
	}
	if len(v.Edits) == 0 {
		v.Edits = s.lists[k].modern
		return v, nil
	}
	return v.With(s.lists[k].modern...), nil
}

// Instructions returns the merged instructions (CAT-9), "" if there are none.
func (s *Snapshot) Instructions() string { return s.instructions }

// Capabilities returns what the servers can do together, as the JSON object that
// initialize answers with.
func (s *Snapshot) Capabilities() []byte { return s.capabilities[wire.Legacy] }

// ModernCapabilities is Capabilities for server/discover.
func (s *Snapshot) ModernCapabilities() []byte { return s.capabilities[wire.Modern] }

// Public reports whether the lists may be cached for everybody.
func (s *Snapshot) Public() bool { return s.public }

// Servers returns the servers whose listings are part of the snapshot, in
// configuration order.
func (s *Snapshot) Servers() []string {
	names := make([]string, 0, len(s.listings))
	for _, l := range s.listings {
		if l.Server != Own {
			names = append(names, l.Server)
		}
	}
	return names
}
