package arguments

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// pair is one argument as written: a key and its value as JSON.
type pair struct {
	key   string
	value json.RawMessage
}

// object writes pairs as a JSON object. Of pairs with one key the last value counts, at
// the place of the first.
func object(ps []pair) json.RawMessage {
	values := make(map[string]json.RawMessage, len(ps))
	for _, p := range ps {
		values[p.key] = p.value
	}
	b := []byte{'{'}
	for _, p := range ps {
		v, ok := values[p.key]
		if !ok {
			continue // written already
		}
		delete(values, p.key)
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, quote(p.key)...), ':'), v...)
	}
	return append(b, '}')
}

// keyPattern is the beginning of a pair: a name or a quoted key, then "=" or ":". The
// colon must end its word, so that addresses, times and ratios stay text; "==", "=>" and
// "=~" do not assign.
var keyPattern = regexp.MustCompile(`^\s*(?:([A-Za-z_$][\w$.-]*)|("(?:[^"\\]|\\.)*"))\s*(?:=(?:[^=>~]|$)|:(?:\s|$))`)

// cutKey takes the key and its separator off the front of s.
func cutKey(s string) (key, rest string, ok bool) {
	m := keyPattern.FindStringSubmatchIndex(s)
	if m == nil {
		return "", "", false
	}
	end := m[3] // of the name
	if end >= 0 {
		key = s[m[2]:end]
	} else {
		end = m[5] // of the quoted key
		if json.Unmarshal([]byte(s[m[4]:end]), &key) != nil {
			return "", "", false
		}
	}
	separator := end + strings.IndexAny(s[end:], "=:")
	return key, s[separator+1:], true
}

// maxUnread is how many values that begin like JSON but are not may be tried. Without a
// bound each of many nested openings would be followed to the end of the text again.
const maxUnread = 32

// reader takes pairs off the front of a text.
type reader struct {
	rest   string
	unread int // values that began like JSON and were not
}

// splitPairs reads text as pairs, separated by commas and line breaks. A comma separates
// only if another pair follows, so "text: Hello, world" is one pair; a line must begin
// with a pair, so prose of several lines is none.
func splitPairs(text string) ([]pair, bool) {
	var ps []pair
	r := reader{rest: text}
	for r.rest != "" {
		key, after, ok := cutKey(r.rest)
		if !ok {
			return nil, false
		}
		r.rest = strings.TrimLeft(after, " \t\r")
		ps = append(ps, pair{key, r.value()})
		r.rest = strings.TrimLeft(r.rest, " \t\r\n")
	}
	return ps, true
}

// value takes a value and its separator. A quoted string and a JSON array or object may
// hold separators.
func (r *reader) value() json.RawMessage {
	s := r.rest
	if v, rest, ok := cutQuoted(s); ok {
		r.rest = rest
		return v
	}
	if opensJSON(s) && r.unread < maxUnread {
		if v, rest, ok := cutJSON(s); ok {
			r.rest = rest
			return v
		}
		r.unread++
	}
	for i := range len(s) {
		if s[i] != ',' && s[i] != '\n' {
			continue
		}
		if rest, ok := atSeparator(s[i:]); ok {
			r.rest = rest
			return coerce(strings.TrimSpace(s[:i]))
		}
	}
	r.rest = ""
	return coerce(strings.TrimSpace(s))
}

// atSeparator reports whether s, past blanks, is at its end or at a separator, and
// returns what follows it. At a comma only another pair, a line break or the end may follow.
func atSeparator(s string) (rest string, ok bool) {
	s = strings.TrimLeft(s, " \t\r")
	switch {
	case s == "":
		return "", true
	case s[0] == '\n':
		return s[1:], true
	case s[0] == ',':
		rest = s[1:]
		blank := strings.TrimLeft(rest, " \t\r")
		if blank == "" || blank[0] == '\n' {
			return rest, true
		}
		_, _, ok = cutKey(rest)
		return rest, ok
	}
	return "", false
}

// cutQuoted takes a quoted string off the front of s: in double quotes with JSON's
// escapes, in single quotes with two for one, as YAML has them. The quotes must enclose
// the whole value, else they are part of a text such as "a" or "b".
func cutQuoted(s string) (value json.RawMessage, rest string, ok bool) {
	end := closingQuote(s)
	if end < 0 {
		return nil, "", false
	}
	if rest, ok = atSeparator(s[end+1:]); !ok {
		return nil, "", false
	}
	inner := s[1:end]
	if s[0] == '\'' {
		return quote(strings.ReplaceAll(inner, "''", "'")), rest, true
	}
	if literal := s[:end+1]; json.Valid([]byte(literal)) {
		return json.RawMessage(literal), rest, true
	}
	// Line breaks and foreign escapes such as \d are meant as they stand.
	return quote(strings.ReplaceAll(inner, `\"`, `"`)), rest, true
}

// closingQuote returns the index of the quote that closes the one s begins with, or -1.
func closingQuote(s string) int {
	if s == "" || (s[0] != '"' && s[0] != '\'') {
		return -1
	}
	for i := 1; i < len(s); i++ {
		switch {
		case s[0] == '"' && s[i] == '\\':
			i++
		case s[i] != s[0]:
		case s[0] == '\'' && i+1 < len(s) && s[i+1] == '\'':
			i++
		default:
			return i
		}
	}
	return -1
}

func opensJSON(s string) bool { return s != "" && (s[0] == '[' || s[0] == '{') }

// cutJSON takes a JSON array or object off the front of s.
func cutJSON(s string) (value json.RawMessage, rest string, ok bool) {
	d := json.NewDecoder(strings.NewReader(s))
	if d.Decode(&value) != nil {
		return nil, "", false
	}
	if rest, ok = atSeparator(s[d.InputOffset():]); !ok {
		return nil, "", false
	}
	return value, rest, true
}

// assignment reads one word of a shell as key=value.
func assignment(word string) (pair, bool) {
	key, value, ok := cutKey(word)
	if !ok || !strings.HasPrefix(word[len(word)-len(value)-1:], "=") {
		return pair{}, false
	}
	if v, rest, ok := cutQuoted(value); ok && rest == "" {
		return pair{key, v}, true
	}
	if opensJSON(value) && json.Valid([]byte(value)) {
		return pair{key, json.RawMessage(value)}, true
	}
	return pair{key, coerce(value)}, true
}

// number is JSON's grammar, which excludes the leading zeros of codes and telephone numbers.
var number = regexp.MustCompile(`^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$`)

// coerce gives a bare word the JSON type it looks like. Numbers keep their digits,
// however many there are.
func coerce(word string) json.RawMessage {
	switch strings.ToLower(word) {
	case "true":
		return json.RawMessage("true")
	case "false":
		return json.RawMessage("false")
	case "null", "none":
		return json.RawMessage("null")
	}
	if number.MatchString(word) {
		return json.RawMessage(word)
	}
	return quote(word)
}

// quote is s as a JSON string, without the escapes that are only for HTML.
func quote(s string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
