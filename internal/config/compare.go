package config

import (
	"os"
	"reflect"
	"strings"
)

// Compare names the settings outside servers that differ, in the order of the documentation:
// those that a running aggregator takes up, and those that need a restart.
func Compare(old, new *Config) (live, restart []string) {
	compare("", rootFields, false, reflect.ValueOf(old).Elem(), reflect.ValueOf(new).Elem(), func(path string, needsRestart bool) {
		if needsRestart {
			restart = append(restart, path)
		} else {
			live = append(live, path)
		}
	})
	return live, restart
}

func compare(path string, fields []field, restart bool, old, new reflect.Value, differs func(path string, restart bool)) {
	for _, f := range fields {
		at, a, b := join(path, f.key), old.FieldByIndex(f.index), new.FieldByIndex(f.index)
		switch {
		case f.kind == kindServers:
		case f.kind == kindSection:
			compare(at, f.sub, restart || f.restart, a, b, differs)
		case !reflect.DeepEqual(a.Interface(), b.Interface()):
			differs(at, restart || f.restart)
		}
	}
}

// WithRestartSettings returns a copy of new that has the settings of old wherever a change needs a restart, so
// that everybody who reads it sees what is in force.
func WithRestartSettings(old, new *Config) *Config {
	out := *new
	keep(rootFields, false, reflect.ValueOf(old).Elem(), reflect.ValueOf(&out).Elem())
	return &out
}

func keep(fields []field, restart bool, old, into reflect.Value) {
	for _, f := range fields {
		a, b := old.FieldByIndex(f.index), into.FieldByIndex(f.index)
		if f.kind == kindSection {
			keep(f.sub, restart || f.restart, a, b)
		} else if restart || f.restart {
			b.Set(a)
		}
	}
}

// WithServers returns a copy of c with other servers: those of a text {"servers": {...}}, in YAML or JSON. The text
// may hold nothing else. Relative paths in it begin at the folder of c. The error is *Problems; name stands for the
// text in them.
func (c *Config) WithServers(name string, src []byte, env Env) (*Config, error) {
	if env == nil {
		env = os.LookupEnv
	}
	l := &loader{file: name, env: env, dir: folder(c.Path), meant: map[string]bool{}}
	out := *c
	out.Servers, out.Notes = nil, nil
	if src, ok := l.checkText(src); ok {
		root := l.load(src, &out)
		live, restart := Compare(c, &out)
		for _, path := range append(live, restart...) {
			first, _, _ := strings.Cut(path, ".")
			l.fail(orPlace(root.get(first)), path, "only servers can be set here")
		}
		l.across(&out, root)
	}
	if len(l.problems) > 0 {
		ps := Problems(sorted(l.problems))
		return nil, &ps
	}
	out.Notes = sorted(l.notes)
	return &out, nil
}
