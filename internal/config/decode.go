package config

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
)

// section reads a mapping into a struct.
func (l *loader) section(n *node, path string, fields []field, into reflect.Value) {
	if n.shape == isNull { // everything below it is commented out
		return
	}
	if n.shape != isMapping {
		l.fail(n, path, "expected a mapping, got %s", n.shape)
		return
	}
	for _, p := range n.pairs {
		f, ok := find(fields, p.key.text)
		if !ok {
			l.unknown(p.key, path, fields)
			continue
		}
		l.value(p.val, join(path, f.key), f, into.FieldByIndex(f.index))
	}
}

// elsewhere names what other systems call a setting.
var elsewhere = map[string]string{"mcpservers": "servers", "serverurl": "url", "httpurl": "url", "uri": "url", "transport": "type", "environment": "env", "workingdirectory": "cwd", "token": "bearer_token", "address": "addr", "adress": "addr", "listen": "addr"}

func (l *loader) unknown(key *node, path string, fields []field) {
	if len(l.problems) > maxProblems || len(l.notes) > maxProblems {
		return // looking for what was meant takes longer than reading
	}
	known := keys(fields)
	hint, meant := "", elsewhere[flat(key.text)]
	if _, ok := find(fields, meant); ok {
		hint = `; did you mean "` + meant + `"?`
	} else {
		hint, meant = didYouMean(key.text, known)
	}
	if meant == "" {
		hint = belongs(key.text, path)
	}
	if !l.foreign {
		l.meant[join(path, meant)] = true
	}
	l.mind(key, join(path, short(key.text)), "unknown key %q%s", short(key.text), hint)
}

// belongs points to a setting of that name elsewhere in the file.
func belongs(key, path string) string {
	for _, s := range Settings() {
		if strings.HasSuffix(s.Path, "."+key) && !strings.HasPrefix(s.Path, path+".") {
			return `; did you mean "` + s.Path + `"?`
		}
	}
	return ""
}

func (l *loader) value(n *node, path string, f field, into reflect.Value) {
	if n.shape == isNull && f.kind != kindServers { // a key without a value keeps the default
		return
	}
	switch f.kind {
	case kindSection:
		l.sectionOrShort(n, path, f, into)
	case kindSectionMap:
		l.sectionMap(n, path, f, into)
	case kindSectionList:
		l.sectionList(n, path, f, into)
	case kindServers:
		l.servers(n, into.Addr().Interface().(*[]*Server))
	case kindStrings:
		into.Set(reflect.ValueOf(l.strings(n, path, f)))
	case kindStringMap:
		into.Set(reflect.ValueOf(l.stringMap(n, path)))
	case kindListMap:
		into.Set(reflect.ValueOf(l.listMap(n, path, f)))
	default:
		l.scalar(n, path, f, into)
	}
}

// sectionOrShort reads a section, or the plain value that may stand for it.
func (l *loader) sectionOrShort(n *node, path string, f field, into reflect.Value) {
	if short, ok := find(f.sub, f.short); ok && n.shape.scalar() {
		l.scalar(n, path, short, into.FieldByIndex(short.index))
		return
	}
	l.section(n, path, f.sub, into)
}

// sectionMap reads names to sections, each with its own defaults.
func (l *loader) sectionMap(n *node, path string, f field, into reflect.Value) {
	if n.shape != isMapping {
		l.fail(n, path, "expected %s, got %s", f.kind.expected(), n.shape)
		return
	}
	into.Set(reflect.MakeMap(into.Type()))
	for _, p := range n.pairs {
		entry := reflect.New(into.Type().Elem().Elem())
		setDefaults(f.sub, entry.Elem())
		l.sectionOrShort(p.val, join(path, short(p.key.text)), f, entry.Elem())
		into.SetMapIndex(reflect.ValueOf(p.key.text), entry)
	}
}

// sectionList reads sections in the order of the file.
func (l *loader) sectionList(n *node, path string, f field, into reflect.Value) {
	if n.shape != isList {
		l.fail(n, path, "expected a list, got %s", n.shape)
		return
	}
	for i, item := range n.items {
		entry := reflect.New(into.Type().Elem()).Elem()
		setDefaults(f.sub, entry)
		l.sectionOrShort(item, path+"["+strconv.Itoa(i)+"]", f, entry)
		into.Set(reflect.Append(into, entry))
	}
}

func (l *loader) scalar(n *node, path string, f field, into reflect.Value) {
	if !n.shape.scalar() {
		l.fail(n, path, "expected %s, got %s", f.kind.expected(), n.shape)
		return
	}
	text, ok := l.expand(n, path)
	if !ok {
		return
	}
	switch err := f.set(into, text); {
	case err == nil:
	case f.kind == kindKey: // a secret that was mistyped is still one
		l.fail(n, path, "%v", err)
	default:
		l.wrong(n, path, err)
	}
}

// wrong reports a value with what was written, which is not what a variable held.
func (l *loader) wrong(n *node, path string, err error) {
	if e, ok := errors.AsType[*choiceError](err); ok {
		l.fail(n, path, "%s; got %q%s", e.want, short(n.text), e.hint)
		return
	}
	l.fail(n, path, "%v; got %q", err, short(n.text))
}

// text reads an element of a list or map.
func (l *loader) text(n *node, path string) (string, bool) {
	if n.shape == isNull {
		l.fail(n, path, `has no value; write "" for an empty one`)
		return "", false
	}
	if !n.shape.scalar() {
		l.fail(n, path, "expected text, got %s", n.shape)
		return "", false
	}
	return l.expand(n, path)
}

func (l *loader) strings(n *node, path string, f field) []string {
	if n.shape != isList {
		l.fail(n, path, "expected a list, such as [a, b]; got %s", n.shape)
		return nil
	}
	var out []string
	for i, item := range n.items {
		at := path + "[" + strconv.Itoa(i) + "]"
		s, ok := l.text(item, at)
		if !ok {
			continue
		}
		if err := checkEach(f.each, s); err != nil {
			l.wrong(item, at, err)
			continue
		}
		out = append(out, s)
	}
	return out
}

func (l *loader) stringMap(n *node, path string) map[string]string {
	if n.shape != isMapping {
		l.fail(n, path, "expected a mapping of names to text, got %s", n.shape)
		return nil
	}
	var out map[string]string
	for _, p := range n.pairs {
		if s, ok := l.text(p.val, join(path, short(p.key.text))); ok {
			if out == nil {
				out = map[string]string{}
			}
			out[p.key.text] = s
		}
	}
	return out
}

func (l *loader) listMap(n *node, path string, f field) map[string][]string {
	if n.shape != isMapping {
		l.fail(n, path, "expected a mapping of names to lists, got %s", n.shape)
		return nil
	}
	var out map[string][]string
	for _, p := range n.pairs {
		if out == nil {
			out = map[string][]string{}
		}
		out[p.key.text] = l.strings(p.val, join(path, short(p.key.text)), f)
	}
	return out
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
