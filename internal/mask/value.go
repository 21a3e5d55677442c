package mask

import (
	"bytes"
	"slices"
)

// A value is where the value of a name lies, without its quotes.
type value struct {
	lo, hi int
	quoted bool
	list   bool // more strings can follow
	alone  bool // it is all that its line has: NAME=value
	code   bool // it can be an expression of a program instead
	tight  bool
	colon  bool
	words  bool   // it can be more than one word
	stops  *class // what ends a bare word
}

// Bounds on how far the end of a value is looked for. A bare word that turns out to be
// secret goes on to its end.
const (
	maxValue = 8 << 10
	maxWord  = 256
)

var (
	blanks = setOf("", func(c byte) bool { return c <= ' ' })
	stops  = setOf(",;&\"'<>)}]|`\\", func(c byte) bool { return c <= ' ' })
)

// valueAt reads the value that begins at a.at for the name at from.
func (f *finder) valueAt(a assignment, from int, n *named) value {
	b, i := f.b, a.at
	v := value{code: a.op == 'w', tight: a.tight, colon: a.op == ':', words: n.form == asPassword}
	if b[i] == '[' {
		if j := skipAny(b, i+1, " \t\r\n", false); j < len(b) && (b[j] == '"' || b[j] == '\'') {
			v.list, i = true, j
		}
	}
	if i+1 < len(b) && bytes.IndexByte([]byte("rbfuRBFU@$"), b[i]) >= 0 && (b[i+1] == '"' || b[i+1] == '\'') {
		i++
	}
	if c := b[i]; c == '"' || c == '\'' || c == '`' {
		v.quoted, v.lo = true, i+1
		v.hi = closing(b, i)
		return v
	}
	if n.form == asHeader || n.form == asCookie { // up to the end of its line or of the string it is in
		v.lo, v.hi = i, i
		quote := byte('\n')
		if from > 0 && (b[from-1] == '"' || b[from-1] == '\'') {
			quote = b[from-1]
		}
		for v.hi < min(len(b), i+maxValue) && b[v.hi] != '\n' && b[v.hi] != '\r' && b[v.hi] != quote {
			v.hi++
		}
		return v
	}
	if (b[i] == '|' || b[i] == '>') && a.op == ':' {
		return block(b, i, v)
	}
	v.bare(b, i, from, a)
	return v
}

// bare reads a value without quotes and judges by what is around it whether it can be
// something else.
func (v *value) bare(b []byte, i, from int, a assignment) {
	begins := from
	for begins > 0 && bytes.IndexByte([]byte(" \t-"), b[begins-1]) >= 0 {
		begins--
	}
	begins = startOf(b, begins)
	v.alone = begins == 0 || b[begins-1] == '\n' || b[begins-1] == '\r'
	v.lo, v.hi = i, i
	v.stops = &stops
	if v.alone && !a.named {
		v.stops = &blanks
	}
	for v.hi < min(len(b), i+maxWord) && !v.stops.has(b[v.hi]) {
		v.hi++
	}
	if v.hi > v.lo && bytes.IndexByte([]byte(",;"), b[v.hi-1]) >= 0 {
		v.hi--
	}
	end := skipAny(b, v.hi, " \t", false)
	ends := end >= len(b) || b[end] == '\n' || b[end] == '\r' || b[end] == '#'
	switch {
	case v.hi < len(b) && b[v.hi] == '(' || !a.tight && end < len(b) && bytes.IndexByte([]byte("(.[+"), b[end]) >= 0:
		v.code = true
	case !a.tight && !ends && a.op != ' ' && !digit(b[v.lo:v.hi]):
		v.code = true // or prose: words follow
	case !a.tight && v.hi < len(b) && bytes.IndexByte([]byte(",;)"), b[v.hi]) >= 0 && !a.named:
		v.code = v.code || identifier(b[v.lo:v.hi])
	}
	if v.alone && a.op == ':' && !ends && end > v.hi && v.words && digit(b[v.lo:v.hi]) { // a password of several words
		for v.hi < len(b) && b[v.hi] != '\n' && b[v.hi] != '\r' && !bytes.HasPrefix(b[v.hi:], []byte(" #")) {
			v.hi++
		}
	}
}

// startOf steps back over a word that introduces an assignment.
func startOf(b []byte, i int) int {
	for _, w := range []string{"export", "set", "ENV", "env", "ARG", "setenv"} {
		if i >= len(w) && string(b[i-len(w):i]) == w {
			return i - len(w)
		}
	}
	return i
}

// closing returns where the string that opens at b[i] ends.
func closing(b []byte, i int) int {
	quote := b[i]
	for j := i + 1; j < min(len(b), i+maxValue); j++ {
		switch {
		case b[j] == '\\' && quote != '`':
			j++
		case b[j] == quote:
			return j
		case b[j] == '\n' && quote != '`':
			return j
		}
	}
	return min(len(b), i+maxValue)
}

// block reads the first line of a block scalar of YAML.
func block(b []byte, i int, v value) value {
	line := bytes.IndexByte(b[i:min(len(b), i+8)], '\n')
	if line < 0 {
		return v
	}
	v.lo = skipAny(b, i+line+1, " \t", false)
	for v.hi = v.lo; v.hi < len(b) && b[v.hi] > ' '; v.hi++ {
	}
	v.alone = true
	return v
}

// secret tells whether a value is one that a name of this form promises.
func (v value) secret(text []byte, as form) bool {
	if placeholder(text) || typeWord(text) {
		return false
	}
	switch as {
	case asBasic:
		return userAndPassword(text)
	case asBase64:
		return len(text) >= 24 && digit(text) && bytes.IndexFunc(text, func(r rune) bool {
			return r > 0x7f || !inWord(byte(r)) && bytes.IndexByte([]byte("+/=%."), byte(r)) < 0
		}) < 0
	case asToken:
		return v.token(text)
	}
	return v.password(text)
}

// password accepts any word, unless it is more likely a program's expression or a
// label for people.
func (v value) password(text []byte) bool {
	switch {
	case len(text) < 3, bytes.Count(text, []byte(" ")) >= 2 && !digit(text):
		return false
	case v.quoted:
		return !number(text) || len(text) > 3
	case path(text):
		return false
	case v.code, bytes.ContainsAny(text, "(){}"):
		return v.tight && !bytes.ContainsAny(text, "(){}")
	case number(text):
		return len(text) >= 4 && v.alone && (v.tight || v.colon)
	case v.alone, v.tight:
		return !chain(text) || v.tight
	}
	return !identifier(text) || digit(text)
}

// token accepts what no person would make up.
func (v value) token(text []byte) bool {
	if len(text) < 8 || bytes.ContainsAny(text, " \t\n(){}<>$*[") || path(text) || bytes.Contains(text, []byte("://")) || number(text) {
		return false
	}
	if v.code && !v.quoted {
		return false
	}
	letters, upper, lower, digits := 0, 0, 0, 0
	for _, c := range text {
		switch {
		case 'a' <= c && c <= 'z':
			lower++
			letters++
		case 'A' <= c && c <= 'Z':
			upper++
			letters++
		case isDigit(c):
			digits++
		}
	}
	switch {
	case digits == 0:
		return len(text) >= 20 && upper >= 3 && lower >= 3 && !bytes.ContainsAny(text, "._-/ ")
	case identifier(text) && !v.quoted && !v.alone && !v.tight && digits <= 2:
		return false
	case chain(text) && digits <= 2:
		return false
	}
	return digits >= 2 || len(text) >= 16 || upper > 0
}

// placeholders stand where a secret would.
var placeholders = []string{"null", "nil", "none", "true", "false", "undefined", "redacted", "hidden", "masked", "your", "...", "xxx", "changeme-example", "todo", "n/a", "env", "process.env", "os.environ", "getenv", "secrets.", "vars.", "example", "placeholder", "<nil>", "(null)", "unset", "required", "optional"}

// placeholder tells whether a value only stands for a secret: empty, ***, <password>,
// ${VAR}, {{ .Values.x }}, %s, null.
func placeholder(text []byte) bool {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || bytes.HasPrefix(text, markerHead) {
		return true
	}
	switch first, last := text[0], text[len(text)-1]; {
	case first == '$' && len(text) > 1 && (text[1] == '{' || text[1] == '(' || identifier(text[1:]) && !digit(text)),
		first == '<' && last == '>', first == '{' && last == '}', first == '[' && last == ']', first == '(' && last == ')',
		first == '%' && len(text) <= 3, first == '%' && last == '%', first == '@' && identifier(text[1:]), first == '!' && len(text) > 1 && text[1] == 'v':
		return true
	}
	if bytes.HasPrefix(text, []byte("{{")) || bytes.HasPrefix(text, []byte("<%")) || bytes.HasPrefix(text, []byte("#{")) || bytes.HasPrefix(text, []byte("%(")) {
		return true
	}
	if strip := bytes.TrimLeft(text, string(text[:1])); len(strip) == 0 && bytes.IndexByte([]byte("*.xX-_#?•"), text[0]) >= 0 {
		return true
	}
	if bytes.Trim(text, "*•.") == nil || len(bytes.Trim(text, "*.\xe2\x80\xa2")) == 0 {
		return true
	}
	lower := bytes.ToLower(text)
	if slices.Contains(placeholders, string(lower)) {
		return true
	}
	for _, p := range []string{"your-", "your_", "process.env", "os.environ", "os.getenv", "secrets.", "var.", "env.", "<"} {
		if bytes.HasPrefix(lower, []byte(p)) {
			return true
		}
	}
	return false
}

var typeWords = []string{"string", "str", "int", "bool", "boolean", "bytes", "byte", "number", "any", "object", "secretstr", "password", "passwd", "pass", "token", "secret", "text", "varchar", "char", "optional", "char*", "[]byte", "*string", "string;", "string,", "string?", "key", "file", "hash", "error", "err"}

// typeWord tells whether a value is a type or the name of the thing itself.
func typeWord(text []byte) bool { return slices.Contains(typeWords, string(bytes.ToLower(text))) }

// identifier tells whether text could be a variable.
func identifier(text []byte) bool {
	for i, c := range text {
		if !inWord(c) || c == '-' || i == 0 && isDigit(c) {
			return false
		}
	}
	return len(text) > 0
}

// chain tells whether text could be a.b.c, with or without sigils of a program.
func chain(text []byte) bool {
	text = bytes.TrimLeft(text, "&*!@$")
	if bytes.IndexByte(text, '.') < 0 {
		return false
	}
	for part := range bytes.SplitSeq(bytes.TrimSuffix(text, []byte(".")), []byte(".")) {
		if !identifier(part) {
			return false
		}
	}
	return true
}

// number tells whether text is a number, dates and versions included.
func number(text []byte) bool {
	if hex, ok := bytes.CutPrefix(bytes.TrimLeft(text, "-+"), []byte("0x")); ok && len(hex) <= 16 {
		return len(bytes.Trim(hex, "0123456789abcdefABCDEF")) == 0
	}
	return len(bytes.Trim(text, "0123456789.,_-+")) == 0
}

// path tells whether text is a path of a file. Long base64 is none.
func path(text []byte) bool {
	if bare := bytes.ReplaceAll(text, []byte("/"), nil); len(text) >= 40 && digit(bare) && longWord(bare) == len(bytes.TrimRight(bare, "=")) {
		return false
	}
	return text[0] == '/' && bytes.Count(text, []byte("/")) > 1 || bytes.HasPrefix(text, []byte("./")) || bytes.HasPrefix(text, []byte("../")) || bytes.HasPrefix(text, []byte("~/"))
}
