package config

import (
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Setting describes one setting for documentation.
type Setting struct {
	Path    string   // http.addr, or servers.NAME.command
	Env     []string // the variables that override it, MCP_HTTP_ADDR first; none for settings with names in their path
	Kind    string   // what a value looks like
	Default string   // as written in the file; empty when there is none
	Doc     string   // one line
	Enum    []string // the choices, if these are all
	Min     string   // bounds, as written in the file; may be empty
	Max     string
	Types   []string // server types it has a meaning for; empty for all
}

// Settings lists every setting in the order of the documentation, sections left out.
func Settings() []Setting { return settings(nil, "", rootFields) }

func settings(out []Setting, path string, fields []field) []Setting {
	for _, f := range fields {
		at := join(path, f.key)
		switch f.kind {
		case kindSection:
			out = settings(out, at, f.sub)
		case kindSectionMap:
			out = settings(out, at+".NAME", f.sub)
		case kindSectionList:
			out = settings(out, at+"[]", f.sub)
		case kindServers:
			out = settings(out, at+".NAME", serverFields)
		default:
			s := Setting{Path: at, Kind: f.kind.expected(), Default: f.def, Doc: f.doc, Enum: f.enum, Min: f.min, Max: f.max, Types: f.types}
			if !strings.Contains(at, ".NAME") && f.kind <= overridable {
				s.Env = f.variables(at)
			}
			out = append(out, s)
		}
	}
	return out
}

// overridable is the last kind that a variable can hold: scalars, and lists of them.
const overridable = kindStrings

// variables are those that override a setting.
func (f field) variables(path string) []string {
	all := []string{envName(path)}
	if f.env != "" {
		all = append(all, f.env)
	}
	return all
}

// envName is MCP_HTTP_ADDR for http.addr.
func envName(path string) string {
	return "MCP_" + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// overrides applies the MCP_ variables. An empty variable counts as absent, because compose files and
// service units pass empty ones along; lists are separated by commas.
func (l *loader) overrides(c *Config) { l.override("", rootFields, reflect.ValueOf(c).Elem()) }

func (l *loader) override(path string, fields []field, into reflect.Value) {
	for _, f := range fields {
		at, v := join(path, f.key), into.FieldByIndex(f.index)
		if f.kind == kindSection {
			l.override(at, f.sub, v)
			continue
		}
		if f.kind > overridable {
			continue
		}
		for _, name := range f.variables(at) {
			text, _ := l.env(name)
			if text == "" {
				continue
			}
			if name == f.env {
				text = f.withUnit(text)
			}
			if err := f.setFromEnv(v, text); err != nil {
				l.problems = append(l.problems, Problem{File: "environment", Path: at, Message: name + ": " + err.Error()})
			}
		}
	}
}

// withUnit makes a time of a bare number, as variables such as MCP_RETRY_BASE_MS hold it.
func (f field) withUnit(text string) string {
	unit, err := time.ParseDuration(f.unit)
	n, notNumber := strconv.ParseInt(text, 10, 64)
	if err != nil || notNumber != nil || n < 0 || n > int64(math.MaxInt64/unit) {
		return text
	}
	return (time.Duration(n) * unit).String()
}

func (f field) setFromEnv(v reflect.Value, text string) error {
	if f.kind != kindStrings {
		return f.set(v, text)
	}
	var out []string
	for s := range strings.SplitSeq(text, ",") {
		s = strings.TrimSpace(s)
		if err := checkEach(f.each, s); err != nil {
			return err
		}
		out = append(out, s)
	}
	v.Set(reflect.ValueOf(out))
	return nil
}
