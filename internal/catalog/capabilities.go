package catalog

import "mcp-aggregator/internal/wire"

// declares reports whether a server declared a capability, such as "resources" or
// "resources", "subscribe".
func (l *Listing) declares(path ...string) bool {
	at := wire.Span{Lo: 0, Hi: len(l.Capabilities)}
	for _, name := range path {
		if at = wire.Field(l.Capabilities, at, name); !at.OK() {
			return false
		}
	}
	v := string(at.Of(l.Capabilities))
	return v != "null" && v != "false"
}

// offers reports whether a server has the feature that a kind belongs to, declared
// or seen.
func (l *Listing) offers(k Kind) bool {
	switch k {
	case Tools:
		return len(l.Tools) > 0 || l.declares("tools")
	case Prompts:
		return len(l.Prompts) > 0 || l.declares("prompts")
	}
	return len(l.Resources)+len(l.Templates) > 0 || l.declares("resources")
}

// capabilities merges what the servers can do: a feature is declared if one of them
// has it. List changes are ours to tell, whoever can tell them to us: servers come
// and go. Both eras use the same object.
func capabilities(listings []*Listing, pending bool) []byte {
	some := func(has func(*Listing) bool) bool {
		for _, l := range listings {
			if has(l) {
				return true
			}
		}
		return pending
	}
	out := []byte{'{'}
	add := func(has bool, text string) {
		if !has {
			return
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, text...)
	}
	add(some(func(l *Listing) bool { return l.declares("completions") }), `"completions":{}`)
	add(some(func(l *Listing) bool { return l.declares("logging") }), `"logging":{}`)
	add(some(func(l *Listing) bool { return l.offers(Prompts) }), `"prompts":{"listChanged":true}`)
	resources := `"resources":{"listChanged":true}`
	if some(func(l *Listing) bool { return l.declares("resources", "subscribe") }) {
		resources = `"resources":{"subscribe":true,"listChanged":true}`
	}
	add(some(func(l *Listing) bool { return l.offers(Resources) }), resources)
	add(some(func(l *Listing) bool { return l.offers(Tools) }), `"tools":{"listChanged":true}`)
	return append(out, '}')
}
