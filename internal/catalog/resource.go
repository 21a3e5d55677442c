package catalog

import "sort"

// A matcher is a template that URIs are matched against.
type matcher struct {
	entry    *Entry
	template *template
}

// Resource finds who serves a URI: the resource that has it, the server it is
// qualified with, or the template that fits it best: the one with most literal
// characters, then the one of the first server. The entry's Name is the URI to send
// there. The text of a listed template finds the template.
func (s *Snapshot) Resource(uri string) (*Entry, bool) {
	if e, ok := s.lists[Resources].find[uri]; ok {
		return e, true
	}
	if e, ok := s.lists[Templates].find[uri]; ok {
		return e, true
	}
	server, own := s.qualified(uri)
	if server != "" {
		if e := s.odd[Resources][[2]string{server, own}]; e != nil {
			return e, true
		}
		for _, k := range []Kind{Resources, Templates} {
			if e := s.lists[k].find[own]; e != nil && e.Server == server {
				return e, true
			}
		}
	}
	if len(own) > maxURI {
		return nil, false
	}
	for i := range s.matchers {
		m := &s.matchers[i]
		if server != "" && m.entry.Server != server || !m.template.match(own) || !s.byServer[m.entry.Server].readable.Allows(own) {
			continue
		}
		e := *m.entry
		e.Kind, e.Name, e.Exposed = Resources, own, uri
		return &e, true
	}
	return nil, false
}

// Owners returns the servers that could serve a URI that no list shows, in
// configuration order, and the URI as they know it: those with resources whose
// filter lets it pass, or only the one it is qualified with.
func (s *Snapshot) Owners(uri string) (servers []string, own string) {
	named, own := s.qualified(uri)
	for _, l := range s.listings {
		if l.Server != Own && (named == "" || l.Server == named) && l.offers(Resources) && l.readable.Allows(own) {
			servers = append(servers, l.Server)
		}
	}
	return servers, own
}

// qualified takes a URI that is qualified with one of our servers apart.
func (s *Snapshot) qualified(uri string) (server, own string) {
	if server, own, ok := Restore(uri); ok && s.naming != nil && s.naming.servers.has[server] {
		return server, own
	}
	return "", uri
}

// assignURIs gives every resource or template its URI. A URI that is qualified with
// one of our servers is never left as it is, or one server could stand in for
// another.
func (n *naming) assignURIs(claims []claim) {
	first := make(map[string]struct{}, len(claims))
	for i := range claims {
		c := &claims[i]
		c.plain, c.exposed = c.item.Name, c.item.Name
		if server, _, ok := Restore(c.plain); ok && n.servers.has[server] {
			c.reason = reasonOwner
		} else if _, taken := first[c.plain]; taken {
			c.reason = reasonClash
		}
		if c.reason != "" {
			c.exposed = Qualify(c.listing.Server, c.plain)
			continue
		}
		first[c.plain] = struct{}{}
	}
}

// collectMatchers orders the templates by how well they fit.
func (s *Snapshot) collectMatchers(claims []claim) {
	for i := range claims {
		if t := claims[i].item.matcher; t != nil {
			s.matchers = append(s.matchers, matcher{&s.lists[Templates].entries[i], t})
		}
	}
	sort.SliceStable(s.matchers, func(a, b int) bool {
		return s.matchers[a].template.literals > s.matchers[b].template.literals
	})
}
