package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// field is one setting, read from the struct tags of Config:
//
//	yaml     the key; the field is found in the struct by index
//	default  in the form the file uses; absent means empty
//	doc      one line
//	kind     "size" for bytes, "addr", "optaddr" (an address or off), "path", "key" (32 bytes); otherwise the Go type says it
//	each     what every element of a list is: "host", "origin", "glob", "forward", "maskset", "maskcode"
//	min max  bounds, both included; numbers and times are never negative
//	enum     the choices; "alias" adds other spellings, as other=choice
//	without  keys that a section does not have here, though its struct does
//	short    the key that a plain value stands for in the place of a section
//	restart  "yes" if a running aggregator cannot take up a change, with all that is below it
//	env      a further variable that overrides it, besides the one named after its path
//	unit     what a bare number in that variable counts, such as 1ms
//	for      the server types it has a meaning for; absent means all
type field struct {
	key, doc, def string
	kind          kind
	each          string
	min, max      string
	short         string
	env, unit     string
	restart       bool
	enum          []string
	alias         map[string]string // other spelling → choice
	spellings     []string          // the keys of alias in the order of the tag
	types         []string
	index         []int   // see reflect.Value.FieldByIndex
	sub           []field // of a section, and of one entry where there are several
}

type kind uint8

const (
	kindString kind = iota
	kindAddr
	kindOptAddr
	kindPath
	kindKey
	kindBool
	kindInt
	kindFloat
	kindSize
	kindDuration
	kindStrings
	kindStringMap
	kindListMap
	kindSectionMap  // names to sections: map[string]*T
	kindSectionList // []T
	kindSection
	kindServers
)

// expected says in messages what a value must look like.
func (k kind) expected() string {
	return [...]string{"text", "an address such as 127.0.0.1:8080", "an address such as 127.0.0.1:8081, or off", "a path such as /mcp", "32 bytes as hex or base64", "true or false", "a whole number", "a number", "a size such as 4MiB or 65536", "a time such as 1.5s or 2m",
		"a list", "a mapping of names to text", "a mapping of names to lists", "a mapping of names to settings", "a list of settings", "a mapping", "a mapping of server names to servers"}[k]
}

// The one description of all settings.
var (
	rootFields   = fieldsOf(reflect.TypeFor[Config](), nil)
	serverFields = fieldsOf(reflect.TypeFor[serverEntry](), nil)
)

// fieldsOf lists the settings of a struct, those of embedded structs among them; index leads to t.
func fieldsOf(t reflect.Type, index []int) []field {
	var out []field
	for i := range t.NumField() {
		sf := t.Field(i)
		here := append(slices.Clone(index), i)
		if sf.Anonymous {
			out = append(out, fieldsOf(sf.Type, here)...)
		} else if key := sf.Tag.Get("yaml"); key != "" && key != "-" {
			out = append(out, newField(sf, key, here))
		}
	}
	return out
}

func newField(sf reflect.StructField, key string, index []int) field {
	tag := sf.Tag.Get
	f := field{key: key, doc: tag("doc"), def: tag("default"), each: tag("each"), min: tag("min"), max: tag("max"),
		short: tag("short"), env: tag("env"), unit: tag("unit"), restart: tag("restart") != "", enum: strings.Fields(tag("enum")), types: strings.Fields(tag("for")), alias: map[string]string{}, index: index}
	for _, a := range strings.Fields(tag("alias")) {
		from, to, _ := strings.Cut(a, "=")
		f.alias[from] = to
		f.spellings = append(f.spellings, from)
	}
	f.kind = kindOf(sf.Type, tag("kind"))
	switch f.kind {
	case kindSection:
		without := strings.Fields(tag("without"))
		f.sub = slices.DeleteFunc(fieldsOf(sf.Type, nil), func(s field) bool { return slices.Contains(without, s.key) })
	case kindSectionMap:
		f.sub = fieldsOf(sf.Type.Elem().Elem(), nil)
	case kindSectionList:
		f.sub = fieldsOf(sf.Type.Elem(), nil)
	}
	return f
}

func kindOf(t reflect.Type, tag string) kind {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch tag {
	case "size":
		return kindSize
	case "addr":
		return kindAddr
	case "optaddr":
		return kindOptAddr
	case "path":
		return kindPath
	case "key":
		return kindKey
	}
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return kindDuration
	case t == reflect.TypeFor[[]*Server]():
		return kindServers
	case t == reflect.TypeFor[map[string][]string]():
		return kindListMap
	}
	switch t.Kind() {
	case reflect.Bool:
		return kindBool
	case reflect.Int:
		return kindInt
	case reflect.Float64:
		return kindFloat
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return kindSectionList
		}
		return kindStrings
	case reflect.Map:
		if t.Elem().Kind() == reflect.Pointer {
			return kindSectionMap
		}
		return kindStringMap
	case reflect.Struct:
		return kindSection
	}
	return kindString
}

func keys(fields []field) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.key
	}
	return out
}

func find(fields []field, key string) (field, bool) {
	for _, f := range fields {
		if f.key == key {
			return f, true
		}
	}
	return field{}, false
}

// setDefaults fills a struct from the default tags. A tag that does not parse is a mistake in this package.
func setDefaults(fields []field, into reflect.Value) {
	for _, f := range fields {
		v := into.FieldByIndex(f.index)
		if f.kind == kindSection {
			setDefaults(f.sub, v)
		} else if f.def != "" {
			if err := f.set(v, f.def); err != nil {
				panic(fmt.Sprintf("config: default of %s: %v", f.key, err))
			}
		}
	}
}

// set parses text into a scalar setting and checks its bounds. Errors say what is expected
// and never repeat the text, which may have come from the environment.
func (f field) set(v reflect.Value, text string) error {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch f.kind {
	case kindBool:
		if text != "true" && text != "false" {
			return f.unexpected()
		}
		v.SetBool(text == "true")
		return nil
	case kindFloat:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return f.unexpected()
		}
		v.SetFloat(n)
		return f.floatBounds(n)
	case kindInt, kindSize, kindDuration:
		n, ok := f.number(text)
		if !ok {
			return f.unexpected()
		}
		v.SetInt(n)
		return f.bounds(n)
	}
	if to, ok := f.alias[text]; ok {
		text = to
	}
	v.SetString(text)
	return f.checkText(text)
}

func (f field) unexpected() error { return fmt.Errorf("expected %s", f.kind.expected()) }

func (f field) checkText(text string) error {
	switch f.kind {
	case kindAddr:
		return checkAddr(text)
	case kindOptAddr:
		if text == "" || text == "off" {
			return nil
		}
		return checkAddr(text)
	case kindPath:
		return checkPath(text)
	case kindKey:
		if _, ok := decodeKey(text); !ok && text != "" {
			return f.unexpected()
		}
	}
	if len(f.enum) > 0 {
		return checkChoice(text, f.enum)
	}
	return nil
}

func oneOf(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// number parses a whole number, a size or a time in the form of the field.
func (f field) number(text string) (int64, bool) {
	switch f.kind {
	case kindDuration:
		d, err := time.ParseDuration(text)
		return int64(d), err == nil
	case kindSize:
		return parseSize(text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

func (f field) bounds(n int64) error {
	if low, _ := f.number(f.min); n < low {
		return fmt.Errorf("must be at least %s", orZero(f.min))
	}
	if high, ok := f.number(f.max); ok && n > high {
		return fmt.Errorf("must be at most %s", f.max)
	}
	return nil
}

// floatBounds is bounds for decimal numbers.
func (f field) floatBounds(n float64) error {
	if low, _ := strconv.ParseFloat(f.min, 64); n < low {
		return fmt.Errorf("must be at least %s", orZero(f.min))
	}
	if high, err := strconv.ParseFloat(f.max, 64); err == nil && n > high {
		return fmt.Errorf("must be at most %s", f.max)
	}
	return nil
}

func orZero(s string) string {
	if s == "" {
		return "0"
	}
	return s
}

var sizeUnits = []struct {
	suffix string
	factor int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}}

// parseSize reads 65536, 64KiB or 4MB.
func parseSize(text string) (int64, bool) {
	factor := int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(text, u.suffix); ok {
			text, factor = strings.TrimSpace(rest), u.factor
			break
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > 1<<62/factor {
		return 0, false
	}
	return n * factor, true
}
