package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// parseJSON reads JSON as editors write it: with comments and trailing commas. The YAML library
// could nearly do it, but it refuses the escapes \/ and \ud83d\ude00, which are common in such files.
// It returns nil after reporting a syntax error.
func (l *loader) parseJSON(src []byte) *node {
	p := jsonParser{loader: l, src: src, line: 1, col: 1}
	n := p.value(0)
	if n != nil && p.next() != 0 {
		return p.syntax("there is more after the end of the configuration")
	}
	if p.broken {
		return nil
	}
	return n
}

type jsonParser struct {
	*loader
	src       []byte
	off       int
	broken    bool
	inComment bool // the file ended inside one

	line, col, counted int // the place of src[counted]
}

// here returns a node at the current offset.
func (p *jsonParser) here() *node {
	for p.counted < p.off && p.counted < len(p.src) {
		r, size := utf8.DecodeRune(p.src[p.counted:])
		p.counted += size
		p.col++
		if r == '\n' {
			p.line, p.col = p.line+1, 1
		}
	}
	return place(p.line, p.col)
}

func (p *jsonParser) syntax(format string, args ...any) *node {
	if !p.broken {
		p.broken = true
		if p.off >= len(p.src) && !p.inComment {
			format, args = "the file ends too early; a bracket that was opened is never closed", nil
		}
		p.fail(p.here(), "", "not valid JSON: "+format, args...)
	}
	return nil
}

// next skips blanks and comments and returns the byte that follows, 0 at the end.
func (p *jsonParser) next() byte {
	for p.off < len(p.src) {
		rest := p.src[p.off:]
		switch {
		case bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0:
			p.off++
		case bytes.HasPrefix(rest, []byte("//")):
			p.skipTo("\n", rest)
		case bytes.HasPrefix(rest, []byte("/*")):
			if !p.skipTo("*/", rest[2:]) {
				p.inComment = true
				p.syntax("a comment that was opened with /* is never closed")
			}
		default:
			return rest[0]
		}
	}
	return 0
}

// skipTo moves behind the next end in rest, or to the end of the file.
func (p *jsonParser) skipTo(end string, rest []byte) bool {
	i := bytes.Index(rest, []byte(end))
	if i < 0 {
		p.off = len(p.src)
		return false
	}
	p.off = len(p.src) - len(rest) + i + len(end)
	return true
}

func (p *jsonParser) value(depth int) *node {
	if depth > maxDepth {
		return p.syntax("nested deeper than %d levels", maxDepth)
	}
	c := p.next()
	if p.broken {
		return nil
	}
	switch {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == '"':
		return p.str()
	case c == 0 && p.off >= len(p.src):
		return p.syntax("expected a value")
	}
	return p.word()
}

func (p *jsonParser) object(depth int) *node {
	out := p.here()
	out.shape = isMapping
	p.off++
	seen := map[string]int{} // key → line
	for {
		switch p.next() {
		case '}':
			p.off++
			return out
		case '"':
		default:
			return p.syntax(`expected a key in "quotes" or }`)
		}
		key := p.str()
		if key == nil {
			return nil
		}
		if p.next() != ':' {
			return p.syntax("expected : after the key")
		}
		p.off++
		val := p.value(depth + 1)
		if val == nil {
			return nil
		}
		if line, twice := seen[key.text]; twice {
			p.fail(key, "", "key %q is given twice, first in line %d", short(key.text), line)
		} else {
			seen[key.text] = key.line
			out.pairs = append(out.pairs, pair{key, val})
		}
		if !p.comma('}') {
			return nil
		}
	}
}

func (p *jsonParser) array(depth int) *node {
	out := p.here()
	out.shape = isList
	p.off++
	for {
		if p.next() == ']' {
			p.off++
			return out
		}
		val := p.value(depth + 1)
		if val == nil {
			return nil
		}
		out.items = append(out.items, val)
		if !p.comma(']') {
			return nil
		}
	}
}

// comma takes the comma between members; the closing bracket may follow with or without one.
func (p *jsonParser) comma(end byte) bool {
	switch p.next() {
	case ',':
		p.off++
		return true
	case end:
		return true
	}
	p.syntax("expected , or %c", end)
	return false
}

func (p *jsonParser) str() *node {
	out := p.here()
	out.shape = isText
	for i := p.off + 1; i < len(p.src) && p.src[i] >= ' '; i++ {
		switch p.src[i] {
		case '\\':
			i++
		case '"':
			if json.Unmarshal(p.src[p.off:i+1], &out.text) != nil {
				return p.syntax("a wrong escape in this text; a backslash is written \\\\")
			}
			p.off = i + 1
			return out
		}
	}
	return p.syntax("a quote that was opened is not closed in its line")
}

// word reads a number, true, false or null.
func (p *jsonParser) word() *node {
	out := p.here()
	i := p.off
	for i < len(p.src) && (p.src[i] == '+' || p.src[i] == '-' || p.src[i] == '.' || isAlnum(p.src[i])) {
		i++
	}
	out.text = string(p.src[p.off:i])
	switch {
	case out.text == "null":
	case out.text == "true" || out.text == "false":
		out.shape = isBool
	case out.text != "" && strings.IndexByte("-0123456789", out.text[0]) >= 0 && json.Valid([]byte(out.text)):
		out.shape = isNumber
	default:
		return p.syntax("%s", unexpected(p.src[p.off:]))
	}
	p.off = i
	return out
}

func unexpected(rest []byte) string {
	r, _ := utf8.DecodeRune(rest)
	return fmt.Sprintf("unexpected %q; text stands in double quotes", r)
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
