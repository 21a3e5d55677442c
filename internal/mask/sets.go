package mask

import (
	"fmt"
	"slices"
	"strings"
)

// A Set is a named group of kinds.
type Set struct {
	Name  string
	Kinds []string
}

// Names of sets that stand for others.
const (
	setDefault = "default" // all but generic
	setAll     = "all"
	setGeneric = "generic"
)

// Sets lists the built-in sets. Two of them stand for others: "default" for all kinds
// of high precision, "all" for everything.
func Sets() []Set {
	var sets []Set
	put := func(set, kind string) {
		i := slices.IndexFunc(sets, func(s Set) bool { return s.Name == set })
		if i < 0 {
			i = len(sets)
			sets = append(sets, Set{Name: set})
		}
		if !slices.Contains(sets[i].Kinds, kind) {
			sets[i].Kinds = append(sets[i].Kinds, kind)
		}
	}
	every := func(set, kind string) {
		put(set, kind)
		put(setAll, kind)
		if set != setGeneric {
			put(setDefault, kind)
		}
	}
	for _, t := range tokens {
		every(t.set, t.kind)
	}
	for _, s := range specials {
		for _, kind := range s.kinds {
			every(s.set, kind)
		}
	}
	for _, n := range names {
		every(n.set, n.kind)
	}
	slices.SortFunc(sets, func(a, b Set) int { return strings.Compare(a.Name, b.Name) })
	return sets
}

// enabledKinds returns the kinds of some sets.
func enabledKinds(names []string) (map[string]bool, error) {
	if len(names) == 0 {
		return nil, nil
	}
	sets := Sets()
	enabled := map[string]bool{}
	for _, name := range names {
		i := slices.IndexFunc(sets, func(s Set) bool { return s.Name == name })
		if i < 0 {
			var known []string
			for _, s := range sets {
				known = append(known, s.Name)
			}
			return nil, fmt.Errorf("unknown set of patterns %q: known are %s", name, strings.Join(known, ", "))
		}
		for _, kind := range sets[i].Kinds {
			enabled[kind] = true
		}
	}
	return enabled, nil
}
