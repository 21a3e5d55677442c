// Package filter selects names by allow and deny lists of patterns. Matching takes
// time proportional to pattern times name at worst, whatever they hold: both come
// from people we do not trust, the names even from servers.
package filter

import "fmt"

// A Filter is a compiled pair of lists. It is immutable. A nil Filter allows
// everything.
type Filter struct {
	allow, deny []*Pattern // an empty allow allows everything
}

// New compiles the lists. The error names the first pattern that is malformed.
func New(allow, deny []string) (*Filter, error) {
	f := &Filter{}
	for _, l := range []struct {
		globs []string
		to    *[]*Pattern
	}{{allow, &f.allow}, {deny, &f.deny}} {
		for _, glob := range l.globs {
			p, err := Compile(glob)
			if err != nil {
				return nil, fmt.Errorf("compiling pattern %q: %w", glob, err)
			}
			*l.to = append(*l.to, p)
		}
	}
	if len(f.allow)+len(f.deny) == 0 {
		return nil, nil
	}
	return f, nil
}

// Allows reports whether the name may be seen: some pattern of allow matches it and
// none of deny does.
func (f *Filter) Allows(name string) bool {
	if f == nil {
		return true
	}
	return !matchAny(f.deny, name) && (len(f.allow) == 0 || matchAny(f.allow, name))
}

func matchAny(patterns []*Pattern, name string) bool {
	for _, p := range patterns {
		if p.Match(name) {
			return true
		}
	}
	return false
}
