package wire_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"mcp-aggregator/internal/wire"
)

// rebuild writes the value in front of the cursor without white space, by what the
// cursor shows of it.
func rebuild(dst, raw []byte, c *wire.Cursor) []byte {
	switch c.Kind() {
	case '{':
		dst = append(dst, '{')
		for key := range c.Object() {
			if dst[len(dst)-1] != '{' {
				dst = append(dst, ',')
			}
			dst = append(append(dst, key.Of(raw)...), ':')
			dst = rebuild(dst, raw, c)
		}
		return append(dst, '}')
	case '[':
		dst = append(dst, '[')
		for i := range c.Array() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = rebuild(dst, raw, c)
		}
		return append(dst, ']')
	}
	return append(dst, c.Skip().Of(raw)...)
}

func TestCursorReadsEverythingOnce(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `1`, `-1.5e3`, `"a\"]}"`, `null`, `true`, `false`,
		`{"a":1,"b":[1,{"c":"d"},[]],"e":{},"f":"\\"}`,
		" { \"a\" : [ 1 , 2 ] , \"b\" : { } } ",
		`[[[[1]]],{"a":{"b":{"c":[true,false,null]}}}]`,
		"[\n]", `["]","}",",",":"]`,
	} {
		var want bytes.Buffer
		if err := json.Compact(&want, []byte(text)); err != nil {
			t.Fatal(err)
		}
		c := wire.NewCursor([]byte(text), wire.Span{Lo: 0, Hi: len(text)})
		if got := rebuild(nil, []byte(text), &c); string(got) != want.String() {
			t.Errorf("%s: read %s", text, got)
		}
	}
}

func TestCursorSkipsWhatTheBodyLeaves(t *testing.T) {
	raw := []byte(`{"skip":{"a":[1,2]},"read":"x","none":[{}],"last":3} tail`)
	c := wire.NewCursor(raw, wire.Span{Lo: 0, Hi: len(raw)})
	var keys []string
	for key := range c.Object() {
		keys = append(keys, string(key.Of(raw)))
		if string(key.Of(raw)) == `"read"` {
			if got := string(c.Skip().Of(raw)); got != `"x"` {
				t.Errorf("read = %s", got)
			}
		}
	}
	if got := strings.Join(keys, " "); got != `"skip" "read" "none" "last"` {
		t.Errorf("keys = %s", got)
	}
}

func FuzzCursor(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":null}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if wire.Valid(raw) != nil {
			return
		}
		var want bytes.Buffer
		if err := json.Compact(&want, raw); err != nil {
			t.Fatal(err)
		}
		c := wire.NewCursor(raw, wire.Span{Lo: 0, Hi: len(raw)})
		if got := rebuild(nil, raw, &c); !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%q: read %q", raw, got)
		}
	})
}
