package config_test

import (
	"encoding/json"
	"strings"
	"testing"

	"mcp-aggregator/internal/config"
)

func TestYAMLToJSON(t *testing.T) {
	cases := []struct{ what, yaml, want string }{
		{"a map keeps its order", "z: 1\na: {y: 2, b: [3, x]}", `{"z":1,"a":{"y":2,"b":[3,"x"]}}`},
		{"digits of numbers are kept", "[12345678901234567890123, 1.0, 1.50, -0, 1e3, 1E400]", `[12345678901234567890123,1.0,1.50,-0,1e3,1E400]`},
		{"numbers that JSON writes differently", "[0x1F, 0o17, 0b101, 1_000, +5, .5, -.5, 5., 010]", `[31,15,5,1000,5,0.5,-0.5,5.0,8]`},
		{"words", "[true, False, null, ~, yes, 'true', 2024-01-02]", `[true,false,null,null,"yes","true","2024-01-02"]`},
		{"text", `["<a&b>", "\u2028\x07", é, "a\nb"]`, `["<a&b>","\u2028\u0007","é","a\nb"]`},
		{"block text", "a: |\n  x\n  y\n", `{"a":"x\ny\n"}`},
		{"keys that are numbers", "1: a\ntrue: b", `{"1":"a","true":"b"}`},
		{"anchors and merge keys", "a: &a {x: 1}\nb: {<<: *a, y: 2}", `{"a":{"x":1},"b":{"y":2,"x":1}}`},
		{"nothing is null", "# nothing", `null`},
		{"references to variables stay", "a: ${HOME}", `{"a":"${HOME}"}`},
		{"a scalar", "abc", `"abc"`},
	}
	for _, c := range cases {
		t.Run(c.what, func(t *testing.T) {
			got, err := config.YAMLToJSON([]byte(c.yaml))
			if err != nil || string(got) != c.want {
				t.Errorf("got %s, %v\nwant %s", got, err, c.want)
			}
		})
	}
}

func TestYAMLThatJSONCannotHold(t *testing.T) {
	cases := map[string]string{
		"a: [":             "YAML:1:1: not valid YAML",
		"a: .inf":          "line 1, column 4: JSON has no form for this number",
		"a: 1\na: 2":       `YAML:2:1: key "a" is given twice`,
		"? [a]\n: b":       "YAML:1:3: a key must be plain text",
		"a: !!binary aGk=": "YAML:1:4: the YAML tag",
		"a: 1\n---\nb: 2":  "YAML:2:1: a second YAML document",
		"a: \xff":          "YAML:1:4: the byte 0xff is not UTF-8",
	}
	for src, want := range cases {
		if got, err := config.YAMLToJSON([]byte(src)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %s, %v; want %s", src, got, err, want)
		}
	}
}

// FuzzYAMLToJSON: whatever comes out is JSON, and JSON comes out with the same meaning.
func FuzzYAMLToJSON(f *testing.F) {
	for _, s := range []string{"a: 1\nb: [x, ~]", "[0x1F, .5, 1_0, +1, -.5, 0o7, 1e5]", "{a: &a [1], b: *a, <<: {c: d}}", `"\u0000"`, "- |\n  x\n", "[.inf, .nan, 08, 1__2, 0b_1]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		got, err := config.YAMLToJSON(src)
		if err != nil {
			return
		}
		if !json.Valid(got) {
			t.Fatalf("%q becomes %s, which is not JSON", src, got)
		}
		again, err := config.YAMLToJSON(got)
		if err == nil && string(again) != string(got) {
			t.Errorf("%s becomes %s", got, again)
		}
	})
}
