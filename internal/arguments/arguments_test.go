package arguments_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"mcp-aggregator/internal/arguments"
)

// yaml stands for a YAML reader: it knows the documents of these tests, key by key.
var yaml = map[string]string{
	"tags: [a, b]\nn: 1":             `{"tags":["a","b"],"n":1}`,
	"z:\n  y: 1\na:\n  - 2":          `{"z":{"y":1},"a":[2]}`,
	"{'a': 'b', 'c': [1]}":           `{"a":"b","c":[1]}`,
	"{a: 1}":                         `{"a":1}`,
	"flat: yes\nn: None":             `{"flat":true,"n":"None"}`,
	"- milk\n- bread":                `["milk","bread"]`,
	"just words":                     `"just words"`,
	"broken: [":                      `{"broken":`,
	"null: [1]\nname: x":             `null`,
	"x: 1\nfilter: {a: 1, b: [2,3]}": `{"x":1,"filter":{"a":1,"b":[2,3]}}`,
}

func yamlToJSON(text []byte) ([]byte, error) {
	if out, ok := yaml[string(text)]; ok {
		return []byte(out), nil
	}
	return nil, errors.New("not YAML")
}

func TestParse(t *testing.T) {
	tests := []struct {
		name, text string
		how        arguments.How
		want       string
	}{
		{"nothing is an empty object", "", arguments.Empty, `{}`},
		{"blanks are nothing", " \n\t ", arguments.Empty, `{}`},

		{"a JSON object is used byte for byte", `{"b":1.0, "a" : 12345678901234567890,"a":null}`, arguments.Object, `{"b":1.0, "a" : 12345678901234567890,"a":null}`},
		{"space around a JSON object goes", "\n {\"a\":1}\n", arguments.Object, `{"a":1}`},
		{"a JSON list becomes the input", `[1, 2]`, arguments.JSON, `{"input":[1, 2]}`},
		{"a JSON string becomes the input", `"a: 1"`, arguments.JSON, `{"input":"a: 1"}`},
		{"a number becomes the input with all its digits", `123456789012345678901234567890`, arguments.JSON, `{"input":123456789012345678901234567890}`},
		{"true becomes the input", `true`, arguments.JSON, `{"input":true}`},
		{"null becomes the input", `null`, arguments.JSON, `{"input":null}`},

		{"YAML with a list is a map", "tags: [a, b]\nn: 1", arguments.YAML, `{"tags":["a","b"],"n":1}`},
		{"nested YAML keeps the order of keys", "z:\n  y: 1\na:\n  - 2", arguments.YAML, `{"z":{"y":1},"a":[2]}`},
		{"a Python dict is YAML in braces", "{'a': 'b', 'c': [1]}", arguments.YAML, `{"a":"b","c":[1]}`},
		{"braces make even a flat map YAML", "{a: 1}", arguments.YAML, `{"a":1}`},
		{"a flat map is pairs, whatever YAML thinks of its words", "flat: yes\nn: None", arguments.Pairs, `{"flat":"yes","n":null}`},
		{"a list of lines is text", "- milk\n- bread", arguments.Text, `{"input":"- milk\n- bread"}`},
		{"an unusable answer of the YAML reader is none", "broken: [", arguments.Pairs, `{"broken":"["}`},
		{"a YAML null is no map", "null: [1]\nname: x", arguments.Pairs, `{"null":[1],"name":"x"}`},

		{"key: value", "name: Ada", arguments.Pairs, `{"name":"Ada"}`},
		{"key=value", "name=Ada", arguments.Pairs, `{"name":"Ada"}`},
		{"spaces around the sign", "name = Ada Lovelace , born = 1815", arguments.Pairs, `{"name":"Ada Lovelace","born":1815}`},
		{"pairs on lines", "b: 1\n\na: 2\r\nc=3", arguments.Pairs, `{"b":1,"a":2,"c":3}`},
		{"pairs on lines that end in commas", "b: 1,\na: 2,", arguments.Pairs, `{"b":1,"a":2}`},
		{"both signs together", "a: 1, b=2", arguments.Pairs, `{"a":1,"b":2}`},
		{"a key may be quoted", `"the key": 1, other: 2`, arguments.Pairs, `{"the key":1,"other":2}`},
		{"an object without its braces", `"a": 1, "b": "x, y"`, arguments.Pairs, `{"a":1,"b":"x, y"}`},
		{"an empty value is an empty string", "a=, b:", arguments.Pairs, `{"a":"","b":""}`},
		{"of one key twice the last value counts, at the first place", "a=1, b=2, a=3", arguments.Pairs, `{"a":3,"b":2}`},

		{"words become booleans", "a: true, b: False, c: TRUE", arguments.Pairs, `{"a":true,"b":false,"c":true}`},
		{"null and none are null", "a: null, b: None", arguments.Pairs, `{"a":null,"b":null}`},
		{"yes and on stay words", "a: yes, b: on", arguments.Pairs, `{"a":"yes","b":"on"}`},
		{"integers", "a: 0, b: -7, c: 42", arguments.Pairs, `{"a":0,"b":-7,"c":42}`},
		{"big integers are exact", "id=9007199254740993123456789", arguments.Pairs, `{"id":9007199254740993123456789}`},
		{"floats keep their digits", "a: 1.50, b: -2e-3, c: 0.0", arguments.Pairs, `{"a":1.50,"b":-2e-3,"c":0.0}`},
		{"codes with leading zeros are strings", "zip: 01234, tel: +49, v: 1.2.3", arguments.Pairs, `{"zip":"01234","tel":"+49","v":"1.2.3"}`},
		{"what only resembles a number is a string", "a: 1., b: .5, c: 0x1f, d: NaN, e: 1_000", arguments.Pairs, `{"a":"1.","b":".5","c":"0x1f","d":"NaN","e":"1_000"}`},

		{"quotes keep a value a string", `a: "1", b: 'true'`, arguments.Pairs, `{"a":"1","b":"true"}`},
		{"quoted values may hold commas and pairs", `a: "x, b: 2", c: 'd=e, f'`, arguments.Pairs, `{"a":"x, b: 2","c":"d=e, f"}`},
		{"quoted values may hold line breaks", "a: 'one\ntwo', b: \"three\nfour\"", arguments.Pairs, `{"a":"one\ntwo","b":"three\nfour"}`},
		{"double quotes have JSON's escapes", `a: "tab\tquote\"\u00e9"`, arguments.Pairs, `{"a":"tab\tquote\"\u00e9"}`},
		{"foreign escapes are meant as they stand", `re: "\d+\"x"`, arguments.Pairs, `{"re":"\\d+\"x"}`},
		{"single quotes double to one", `a: 'it''s'`, arguments.Pairs, `{"a":"it's"}`},
		{"quotes inside a text belong to it", `a: "x" or "y"`, arguments.Pairs, `{"a":"\"x\" or \"y\""}`},
		{"a quote that does not close is a character", `a: "x, b: 5'`, arguments.Pairs, `{"a":"\"x","b":"5'"}`},
		{"a JSON list as value", `ids=[1, 2], b=3`, arguments.Pairs, `{"ids":[1, 2],"b":3}`},
		{"a JSON object as value", `where={"a": {"b": 1}}`, arguments.Pairs, `{"where":{"a": {"b": 1}}}`},
		{"brackets that are not JSON are text", `note: [todo] call, n: 1`, arguments.Pairs, `{"note":"[todo] call","n":1}`},

		{"a comma without a pair after it belongs to the value", "text: Hello, world", arguments.Pairs, `{"text":"Hello, world"}`},
		{"a sentence is text", "what is the weather in Paris?", arguments.Text, `{"input":"what is the weather in Paris?"}`},
		{"a sentence with a colon is text", "Please note: it rains", arguments.Text, `{"input":"Please note: it rains"}`},
		{"a line that is no pair makes all text", "title: x\nand more prose", arguments.Text, `{"input":"title: x\nand more prose"}`},
		{"an address is text", "https://example.com/?a=1", arguments.Text, `{"input":"https://example.com/?a=1"}`},
		{"a host and port is text", "localhost:8080", arguments.Text, `{"input":"localhost:8080"}`},
		{"a time is text", "12:30", arguments.Text, `{"input":"12:30"}`},
		{"a comparison is text", "a == b", arguments.Text, `{"input":"a == b"}`},
		{"an arrow is text", "a => b", arguments.Text, `{"input":"a => b"}`},
		{"a query is text", "SELECT * FROM t WHERE id=3", arguments.Text, `{"input":"SELECT * FROM t WHERE id=3"}`},
		{"broken JSON is text", `{"a": 1`, arguments.Text, `{"input":"{\"a\": 1"}`},
		{"markup is not escaped", `<b> & "q"`, arguments.Text, `{"input":"<b> & \"q\""}`},
		{"bytes that are no text are replaced", "a\xffb", arguments.Text, "{\"input\":\"a\uFFFDb\"}"},
		{"also in JSON", "{\"a\":\"\xff\"}", arguments.Object, "{\"a\":\"\uFFFD\"}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, how := arguments.Parse(tt.text, yamlToJSON)
			if string(got) != tt.want || how != tt.how {
				t.Errorf("%q\n got %s: %s\nwant %s: %s", tt.text, how, got, tt.how, tt.want)
			}
		})
	}
}

func TestParseWithoutYAML(t *testing.T) {
	got, how := arguments.Parse("tags: [1]\nn: 1", nil)
	if string(got) != `{"tags":[1],"n":1}` || how != arguments.Pairs {
		t.Errorf("got %s: %s", how, got)
	}
}

func TestWords(t *testing.T) {
	tests := []struct {
		name  string
		words []string
		how   arguments.How
		want  string
	}{
		{"no words are no arguments", nil, arguments.Empty, `{}`},
		{"one word of JSON", []string{`{"a": 1}`}, arguments.Object, `{"a": 1}`},
		{"JSON that the shell has split", []string{`{"a":`, `1}`}, arguments.Object, `{"a": 1}`},
		{"each word a pair", []string{"a=1", "b=x y", "c="}, arguments.Pairs, `{"a":1,"b":"x y","c":""}`},
		{"a word's value is whole, with commas and signs", []string{"a=1, b=2", "c=d, e"}, arguments.Pairs, `{"a":"1, b=2","c":"d, e"}`},
		{"a single word may hold several pairs", []string{"a=1, b=2"}, arguments.Pairs, `{"a":1,"b":2}`},
		{"a value of several lines", []string{"text=one\ntwo"}, arguments.Pairs, `{"text":"one\ntwo"}`},
		{"quotes left by the shell keep a string", []string{`a="1"`, "b=2"}, arguments.Pairs, `{"a":"1","b":2}`},
		{"a JSON value in a word", []string{`a=[1, "x"]`, "b=2"}, arguments.Pairs, `{"a":[1, "x"],"b":2}`},
		{"pairs with colons", []string{"title:", "Hello", "world"}, arguments.Pairs, `{"title":"Hello world"}`},
		{"one of several words is no pair", []string{"a=1", "plus"}, arguments.Pairs, `{"a":"1 plus"}`},
		{"plain words are text", []string{"hello", "world"}, arguments.Text, `{"input":"hello world"}`},
		{"one plain word is text", []string{"hello"}, arguments.Text, `{"input":"hello"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, how := arguments.Words(tt.words, yamlToJSON)
			if string(got) != tt.want || how != tt.how {
				t.Errorf("%q\n got %s: %s\nwant %s: %s", tt.words, how, got, tt.how, tt.want)
			}
		})
	}
}

func TestParseTimeIsLinear(t *testing.T) {
	const size = 256 << 10
	for _, part := range []string{
		`a={"b": 1,`, `"a": {"b": 1,`, `a='x''y,`, `a="x\",`, `,"`, `a: , `,
	} {
		start := time.Now()
		got, _ := arguments.Parse("a="+strings.Repeat(part, size/len(part)), nil)
		requireObject(t, got)
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("256 KiB of %q took %v", part, d)
		}
	}
}

func TestLongTextIsNotReadAsYAML(t *testing.T) {
	long := "a:\n  - " + strings.Repeat("x", 1<<20)
	_, how := arguments.Parse(long, func([]byte) ([]byte, error) {
		t.Error("a long text reached the YAML reader")
		return nil, errors.New("not YAML")
	})
	if how != arguments.Text {
		t.Errorf("read as %s", how)
	}
}

// FuzzParse checks that whatever is written, and whatever a YAML reader makes of it, the
// result is a JSON object, and that a JSON object stays what it is.
func FuzzParse(f *testing.F) {
	for text, out := range yaml {
		f.Add(text, []byte(out))
	}
	for _, text := range []string{
		"", `{"a":1}`, "a=1, b='x''y', c=\"\\d\"", "a: [1, {]", "\"k\\\"\": 1,\n b =\t2", "a\xff=\xc0", `a="x", b=[1,2], c={"d":1}`,
	} {
		f.Add(text, []byte(nil))
	}
	f.Fuzz(func(t *testing.T, text string, decoded []byte) {
		got, how := arguments.Parse(text, func([]byte) ([]byte, error) {
			if decoded == nil {
				return nil, errors.New("not YAML")
			}
			return decoded, nil
		})
		requireObject(t, got)
		if text := strings.TrimSpace(text); how == arguments.Object && utf8.ValidString(text) && string(got) != text {
			t.Errorf("a JSON object changed from %s to %s", text, got)
		}
		again, how := arguments.Parse(string(got), nil)
		if how != arguments.Object || !bytes.Equal(again, got) {
			t.Errorf("read again as %s: %s became %s", how, got, again)
		}
		words, _ := arguments.Words(strings.Split(text, " "), nil)
		requireObject(t, words)
	})
}

func requireObject(t *testing.T, got json.RawMessage) {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(got, &members); err != nil || members == nil || !utf8.Valid(got) {
		t.Errorf("not a JSON object in UTF-8: %q: %v", got, err)
	}
}
