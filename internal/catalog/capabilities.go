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
// and go. The eras differ in tasks alone, which do not cross from one to the other.
func capabilities(listings []*Listing, pending, modern bool) []byte {
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
	add(modern && some(func(l *Listing) bool { return l.Modern && l.declares("extensions", wire.TasksExtension) }), `"extensions":{"`+wire.TasksExtension+`":{}}`)
	add(some(func(l *Listing) bool { return l.declares("logging") }), `"logging":{}`)
	add(some(func(l *Listing) bool { return l.offers(Prompts) }), `"prompts":{"listChanged":true}`)
	resources := `"resources":{"listChanged":true}`
	if some(func(l *Listing) bool { return l.declares("resources", "subscribe") }) {
		resources = `"resources":{"subscribe":true,"listChanged":true}`
	}
	add(some(func(l *Listing) bool { return l.offers(Resources) }), resources)
	if tasks := tasks(some); !modern {
		add(tasks != "", tasks)
	}
	add(some(func(l *Listing) bool { return l.offers(Tools) }), `"tools":{"listChanged":true}`)
	return append(out, '}')
}

// tasks is the member for the tasks of legacy servers, "" if none runs tools as tasks:
// what else can be done with tasks is of no use then.
func tasks(some func(func(*Listing) bool) bool) string {
	has := func(path ...string) bool {
		return some(func(l *Listing) bool { return !l.Modern && l.declares(append([]string{"tasks"}, path...)...) })
	}
	if !has("requests", "tools", "call") {
		return ""
	}
	out := `"tasks":{`
	for _, name := range [...]string{"list", "cancel"} {
		if has(name) {
			out += `"` + name + `":{},`
		}
	}
	return out + `"requests":{"tools":{"call":{}}}}`
}

// Declares reports whether a capability, such as "tasks", "list", is among those that
// clients of an era are told.
func (s *Snapshot) Declares(era wire.Era, path ...string) bool {
	caps := s.capabilities[era]
	at := wire.Span{Hi: len(caps)}
	for _, name := range path {
		at = wire.Field(caps, at, name)
	}
	return at.OK()
}

// ServerDeclares reports whether a server that is part of the snapshot has declared a
// capability.
func (s *Snapshot) ServerDeclares(server string, path ...string) bool {
	l := s.byServer[server]
	return l != nil && l.declares(path...)
}
