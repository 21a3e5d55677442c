package catalog

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/wire"
)

// Rules shape a snapshot.
type Rules struct {
	// Servers are all configured servers, connected or not, in configuration order:
	// it decides who keeps a name or URI that several claim, and names are split by
	// all of them. Listings of other servers are left out. nil takes the listings in
	// the order given.
	Servers []*config.Server

	Catalog config.Catalog // a zero name limit or page size is the default

	TTL     time.Duration // how long modern clients may keep a list
	Private bool          // the snapshot is made for one caller

	// Pending says that some server has not had its first listing: capabilities are
	// told once, so those that it may bring are declared already.
	Pending bool

	// Unavailable are the servers to name in the instructions.
	Unavailable []Unavailable

	// Own is what the aggregator itself offers, made by Ours; nil: nothing. It comes
	// first in the lists and keeps its names, whoever else wants them.
	Own *Listing
}

// Unavailable is a server whose offers are missing, and why.
type Unavailable struct{ Server, Reason string }

// Build makes a snapshot. It is pure: the same listings, in whatever order, and the
// same rules give the same snapshot. The problems are those of the listings, and the
// names and URIs that had to be changed.
func Build(listings []*Listing, rules Rules) (*Snapshot, []Problem) {
	catalog := rules.Catalog
	catalog.NameLimit = cmp.Or(catalog.NameLimit, defaults().Catalog.NameLimit)
	catalog.PageSize = cmp.Or(catalog.PageSize, defaults().Catalog.PageSize)

	s := &Snapshot{byServer: map[string]*Listing{}}
	s.listings = arrange(listings, rules)
	s.naming = newNaming(rules.Servers, s.listings, catalog.NameLimit)
	s.public = len(listings) > 0 && !rules.Private
	var problems []Problem
	for _, l := range s.listings {
		s.byServer[l.Server] = l
		s.public = s.public && l.Public
		problems = append(problems, l.Problems...)
	}
	modern := modernFields(rules.TTL.Milliseconds(), s.public)
	for kind := range Kind(kinds) {
		l := &s.lists[kind]
		l.size, l.modern = catalog.PageSize, modern
		l.servers = stretches(s.listings, rules.Servers, kind)
		problems = append(problems, s.fill(kind)...)
	}
	s.rules, s.problems = rules, problems
	s.introduce()
	return s, problems
}

// introduce makes what clients are told once.
func (s *Snapshot) introduce() {
	for era := range s.capabilities {
		s.capabilities[era] = capabilities(s.listings, s.rules.Pending, wire.Era(era) == wire.Modern)
	}
	s.instructions = ""
	if c := s.rules.Catalog; c.Instructions {
		s.instructions = instructions(s.listings, s.rules.Unavailable, c.InstructionsLimit)
	}
}

// Rebuild is Build for one who has the snapshot before; nil if there is none. While
// servers come and go their offers are mostly the same, and then the lists are taken
// over: with 10,000 tools that is a thousand times cheaper.
func Rebuild(before *Snapshot, listings []*Listing, rules Rules) (*Snapshot, []Problem) {
	if before == nil || !sameServers(before.rules.Servers, rules.Servers) || before.rules.Catalog != rules.Catalog ||
		before.rules.TTL != rules.TTL || before.rules.Private != rules.Private {
		return Build(listings, rules)
	}
	now := arrange(listings, rules)
	if !slices.EqualFunc(before.listings, now, (*Listing).alike) {
		return Build(listings, rules)
	}
	s := *before
	s.rules, s.listings, s.byServer = rules, now, make(map[string]*Listing, len(now))
	for _, l := range now {
		s.byServer[l.Server] = l
	}
	s.introduce()
	return &s, s.problems
}

// sameServers reports whether two lists are the very same.
func sameServers(a, b []*config.Server) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// fill makes the list of one kind and says which names had to be changed.
func (s *Snapshot) fill(kind Kind) (problems []Problem) {
	claims := collect(s.listings, kind)
	if kind < Resources {
		s.naming.assign(claims)
	} else {
		s.naming.assignURIs(claims)
	}
	l := &s.lists[kind]
	l.fill(kind, claims)
	s.odd[kind] = map[[2]string]*Entry{}
	for i := range claims {
		c := &claims[i]
		if c.reason == "" {
			continue
		}
		s.odd[kind][[2]string{c.listing.Server, c.item.Name}] = &l.entries[i]
		problems = append(problems, Problem{c.listing.Server, kind, printable(c.item.Name),
			"exposed as " + printable(c.exposed) + ": " + c.reason, Mapped})
	}
	if kind == Templates {
		s.collectMatchers(claims)
	}
	return problems
}

// arrange puts the listings in configuration order, one per server, behind our own.
func arrange(listings []*Listing, rules Rules) (out []*Listing) {
	if rules.Own != nil {
		out = append(out, rules.Own)
	}
	if rules.Servers == nil {
		return append(out, listings...)
	}
	byName := make(map[string]*Listing, len(listings))
	for _, l := range listings {
		byName[l.Server] = l
	}
	for _, s := range rules.Servers {
		if l := byName[s.Name]; l != nil {
			out = append(out, l)
		}
	}
	return out
}

// collect lines up what the servers offer of one kind.
func collect(listings []*Listing, kind Kind) []claim {
	n := 0
	for _, l := range listings {
		n += len(l.Items(kind))
	}
	claims := make([]claim, 0, n)
	for _, l := range listings {
		items := l.Items(kind)
		for i := range items {
			claims = append(claims, claim{listing: l, item: &items[i]})
		}
	}
	return claims
}

// stretches says which entries belong to which server. Servers without entries are
// in it too, so that a cursor of theirs still has a place.
func stretches(listings []*Listing, servers []*config.Server, kind Kind) []stretch {
	var out []stretch
	at := 0
	add := func(l *Listing) {
		n := len(l.Items(kind))
		out = append(out, stretch{l.Server, at, at + n})
		at += n
	}
	if len(listings) > 0 && listings[0].Server == Own {
		add(listings[0])
		listings = listings[1:]
	}
	if servers == nil {
		for _, l := range listings {
			add(l)
		}
		return out
	}
	for _, s := range servers {
		if len(listings) > 0 && listings[0].Server == s.Name {
			add(listings[0])
			listings = listings[1:]
		} else {
			out = append(out, stretch{s.Name, at, at})
		}
	}
	return out
}

// Changes says which lists differ.
type Changes struct{ Tools, Prompts, Resources bool }

// Any reports whether there is a difference.
func (c Changes) Any() bool { return c.Tools || c.Prompts || c.Resources }

// Diff compares what clients see in their lists, byte for byte: comparing 10 MB takes
// about a millisecond, no more than hashing them would, and cannot be fooled. A nil
// snapshot is an empty one.
func Diff(before, after *Snapshot) Changes {
	return Changes{
		Tools:     differ(before, after, Tools),
		Prompts:   differ(before, after, Prompts),
		Resources: differ(before, after, Resources) || differ(before, after, Templates),
	}
}

func differ(before, after *Snapshot, k Kind) bool {
	a, b := before.entriesOf(k), after.entriesOf(k)
	if len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) {
		return false
	}
	return !slices.EqualFunc(a, b, func(x, y Entry) bool { return bytes.Equal(x.Def, y.Def) })
}

func (s *Snapshot) entriesOf(k Kind) []Entry {
	if s == nil {
		return nil
	}
	return s.lists[k].entries
}
