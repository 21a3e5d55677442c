package mask_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/internal/mask"
	"mcp-aggregator/internal/wire"
)

const (
	configuredValue = `c0nf/"igured" välue+1`
	planted         = "ghp_a1B2c3D4e5F6a1B2c3D4e5F6a1B2c3D4e5F6"
)

func fuzzed(f *testing.F) *mask.Masker {
	m := masker(f, mask.Options{
		Sets: []string{"all"}, Code: []string{mask.KubernetesSecret}, Values: []string{configuredValue, "hunter2hunter2"},
		Patterns: []mask.Pattern{{Name: "ticket", Regexp: `TICKET-(\d+)`}, {Name: "vowels", Regexp: `(?i)[aeiou]{6,}`}},
	})
	for _, p := range plants {
		text, _ := p.make(newRand())
		f.Add(p.key + "=" + text)
		f.Add(quoted(map[string]any{p.key: text, "x": quoted(text)}))
	}
	f.Add("apiVersion: v1\nkind: List\nitems:\n- data:\n    a: b\n  kind: Secret\n---\nkind: SecretList\nitems:\n- stringData: {a: b}\n")
	f.Add(`x {"kind":"Secret","data":{"a":"b"`)
	f.Add("password: [masked:jwt]x TICKET-12 [masked:password")
	return m
}

func FuzzText(f *testing.F) {
	m := fuzzed(f)
	f.Fuzz(func(t *testing.T, s string) {
		in := []byte(s)
		out := m.Text(in, nil)
		if string(in) != s {
			t.Fatal("the text itself was changed")
		}
		if bytes.Equal(in, out) && len(in) > 0 && &in[0] != &out[0] {
			t.Error("a text without secrets was copied")
		}
		if again := m.Text(out, nil); !bytes.Equal(again, out) {
			t.Errorf("once: %q\ntwice: %q", out, again)
		}
		for _, secret := range []string{planted, configuredValue} {
			if got := m.Text([]byte(s+" "+secret+" "+s), nil); bytes.Contains(got, []byte(secret)) {
				t.Errorf("%s is left in %q", secret, got)
			}
		}
	})
}

// skeleton is what is left of a JSON text without its strings.
func skeleton(raw []byte) string {
	var b strings.Builder
	for i := 0; i < len(raw); i++ {
		b.WriteByte(raw[i])
		if raw[i] != '"' {
			continue
		}
		for i++; raw[i] != '"'; i++ {
			if raw[i] == '\\' {
				i++
			}
		}
		b.WriteByte('"')
	}
	return b.String()
}

func FuzzEdits(f *testing.F) {
	m := fuzzed(f)
	f.Fuzz(func(t *testing.T, s string) {
		texts := []string{quoted([]string{s, s + " " + planted + " " + s, configuredValue + s}), quoted(map[string]any{"a": quoted(quoted(s + " " + planted)), s: 1})}
		if wire.Valid([]byte(s)) == nil {
			texts = append(texts, s, `{"x":`+s+`,"token":"`+planted+`"}`)
		}
		for i, text := range texts {
			out := edited(m, []byte(text))
			if err := wire.Valid(out); err != nil {
				t.Fatalf("%v\nin  %s\nout %s", err, text, out)
			}
			if skeleton(out) != skeleton([]byte(text)) {
				t.Errorf("changed outside of strings\nin  %s\nout %s", text, out)
			}
			if i != 2 && bytes.Contains(out, []byte(planted)) {
				t.Errorf("left in %s", out)
			}
			if i == 0 && bytes.Contains(out, []byte(`c0nf/\"igured`)) {
				t.Errorf("left in %s", out)
			}
			if again := edited(m, out); !bytes.Equal(again, out) {
				t.Errorf("in    %s\nonce  %s\ntwice %s", text, out, again)
			}
		}
	})
}

func FuzzPattern(f *testing.F) {
	for _, p := range []string{`(a+)+$`, `((a{100}){10})`, `(.{1000}){1000}`, `[\pL]{1000}`, `(?i)foo(bar|baz)*qux`, `(|a)*`, `\b`, `^`, `(?s).*`, `x*`, strings.Repeat("(", 1000)} {
		f.Add(p, "foobar aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa! quxx")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		start := time.Now()
		m, err := mask.New(mask.Options{Patterns: []mask.Pattern{{Name: "own", Regexp: pattern}}})
		if err != nil {
			return
		}
		out := m.Text([]byte(text), nil)
		edited(m, []byte(quoted([]string{text})))
		if took := time.Since(start); took > 5*time.Second && len(text) < 10000 {
			t.Errorf("took %v", took)
		}
		if len(out) > 14*len(text)+14 {
			t.Errorf("%d bytes became %d", len(text), len(out))
		}
	})
}
