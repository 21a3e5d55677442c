package catalog_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/wire"
)

func TestHiddenTextIsTakenOut(t *testing.T) {
	tests := []struct{ name, in, want string }{ // JSON text of a description
		{"bidi override", `a\u202Eb`, `ab`},
		{"bidi isolates, raw", "a\u2066b\u2069", `ab`},
		{"zero-width space", "a\u200bb\\u200Bc", `abc`},
		{"tag characters as a surrogate pair", `x\udb40\udc41\udb40\udc42y`, `xy`},
		{"tag characters, raw", "x\U000E0041y", `xy`},
		{"terminal controls", `\u001b[31mred\u0007`, `[31mred`},
		{"C1 controls", "a\u009bb\\u0080", `ab`},
		{"delete", "a\x7fb", `ab`},
		{"form feed and backspace", `a\fb\bc`, `abc`},
		{"byte order mark", "\uFEFFa", `a`},
		{"soft hyphen", "a\u00adb", `ab`},
		{"Hangul filler", "a\u3164b", `ab`},
		{"joiners between Latin letters", "a\u200db\u200cc", `abc`},
		{"joiners as a code", "é\u200d\u200c\u200dé", `éé`},
		{"variation selectors as a code", "x\U000E0100\U000E0101\U000E0102y", "x\U000E0100y"},
		{"at both ends", `\u200ba\u200b`, `a`},
		{"only hidden", `\u200b\u200b`, ``},
		{"escapes around stay", `\u0041\"\u202e\\\/\n\u00e9`, `\u0041\"\\\/\n\u00e9`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			def := func(text string) string {
				return `{"description":"` + text + `","name":"a","title":"` + text + `","inputSchema":{"type":"object","description":"` + text +
					`","properties":{"p":{"title":"` + text + `"}}},"annotations":{"title":"` + text + `"},"_meta":{"k":"` + tt.in + `"}}`
			}
			l := catalog.NewListing(catalog.Input{Server: server("s", prefix("")), Tools: raw(t, def(tt.in))})
			if len(l.Tools) != 1 {
				t.Fatalf("rejected: %v", l.Problems)
			}
			got, want := string(l.Tools[0].Def), def(tt.want)
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if at := l.Tools[0].At; string(at.Of(l.Tools[0].Def)) != `"a"` {
				t.Errorf("the name is at %v", at)
			}
			if p := problems(l.Problems); strings.Count(p, "hidden characters taken out") != 5 {
				t.Errorf("problems: %s", p)
			}
		})
	}
}

func TestLongDescriptionsAreCut(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("x", 1<<20),
		strings.Repeat("é", 20<<10),
		strings.Repeat(`\u00e9`, 20<<10),
		strings.Repeat(`\ud83d\ude00`, 20<<10),
		strings.Repeat(`\\`, 20<<10),
		strings.Repeat(`\u200b`, 20<<10),
	} {
		for _, key := range []string{"title", "description"} {
			def := `{"name":"a","` + key + `":"` + text + `","inputSchema":{"type":"object"}}`
			l := catalog.NewListing(catalog.Input{Server: server("s"), Tools: [][]byte{[]byte(def)}})
			if len(def) > 1<<20 {
				if len(l.Tools) != 0 {
					t.Errorf("%.30s: a definition of %d bytes was accepted", text, len(def))
				}
				continue
			}
			got := l.Tools[0].Def
			if err := wire.Valid(got); err != nil {
				t.Errorf("%.30s: %v", text, err)
			}
			kept := wire.Field(got, wire.Span{Lo: 0, Hi: len(got)}, key)
			if n := kept.Hi - kept.Lo - 2; n > 16<<10 {
				t.Errorf("%.30s: %d bytes are kept", text, n)
			}
			if note := fmt.Sprintf(`… [cut: %d bytes, limit 16384]"`, len(text)); !bytes.HasSuffix(kept.Of(got), []byte(note)) {
				t.Errorf("%.30s: ends in %s", text, got[kept.Hi-40:kept.Hi])
			}
			if len(l.Problems) != 1 {
				t.Errorf("%.30s: problems %v", text, l.Problems)
			}
		}
	}
}

func TestTextsOfOtherKindsAreCleanedToo(t *testing.T) {
	l := catalog.NewListing(catalog.Input{
		Server:    server("s"),
		Prompts:   raw(t, `{"name":"p","description":"a\u202e","arguments":[{"name":"x","description":"b\u202e","title":"c\u202e"}]}`),
		Resources: raw(t, `{"name":"a\u202e","uri":"x:y","title":"b\u202e","description":"c\u202e"}`),
		Templates: raw(t, `{"name":"a\u202e","uriTemplate":"x:{y}","title":"b\u202e","description":"c\u202e"}`),
	})
	for _, got := range [][2]string{
		{string(l.Prompts[0].Def), `{"name":"p","description":"a","arguments":[{"name":"x","description":"b","title":"c"}]}`},
		{string(l.Resources[0].Def), `{"name":"a","uri":"x:y","title":"b","description":"c"}`},
		{string(l.Templates[0].Def), `{"name":"a","uriTemplate":"x:{y}","title":"b","description":"c"}`},
	} {
		if got[0] != got[1] {
			t.Errorf("got  %s\nwant %s", got[0], got[1])
		}
	}
}

// FuzzText checks that cleaning gives valid JSON, takes nothing out twice and keeps
// to the limit.
func FuzzText(f *testing.F) {
	for _, s := range []string{"a\u202eb", `\ud83d\ude00\u200d\ud83d\ude00`, "❤\ufe0f\u200d🔥", `\\u200b`, strings.Repeat("é\u200d", 90), `\ud800\udb40\udc41`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		def := []byte(`{"name":"a","description":"` + text + `","inputSchema":{"type":"object"}}`)
		if len(def) > 1<<20 || wire.Valid(def) != nil {
			return
		}
		limits := config.Limits{Description: 128}
		l := catalog.NewListing(catalog.Input{Server: server("s"), Limits: limits, Tools: [][]byte{def}})
		if len(l.Tools) != 1 {
			return // the text closed the string and went on
		}
		once := l.Tools[0].Def
		if err := wire.Valid(once); err != nil || !utf8.Valid(once) {
			t.Fatalf("%q became %q: %v", def, once, err)
		}
		again := catalog.NewListing(catalog.Input{Server: server("s"), Limits: limits, Tools: [][]byte{bytes.Clone(once)}})
		if len(again.Tools) != 1 || !bytes.Equal(again.Tools[0].Def, once) {
			t.Fatalf("%q became %q, and that %q", def, once, again.Tools[0].Def)
		}
		if len(l.Problems) == 0 && !bytes.Equal(once, def) {
			t.Fatalf("%q became %q without a word", def, once)
		}
		d := wire.Field(once, wire.Span{Lo: 0, Hi: len(once)}, "description")
		if d.Hi-d.Lo > 128+2 {
			t.Fatalf("%d bytes are kept", d.Hi-d.Lo)
		}
	})
}

// FuzzTool feeds whole definitions. An accepted one is what came in, but for hidden
// characters and line breaks, and can be exposed under another name.
func FuzzTool(f *testing.F) {
	for _, def := range odd {
		f.Add([]byte(def))
	}
	f.Add([]byte(referring))
	f.Add([]byte(typical("x")))
	f.Fuzz(func(t *testing.T, def []byte) {
		if wire.Valid(def) != nil {
			return
		}
		l := catalog.NewListing(catalog.Input{Server: server("srv"), Tools: [][]byte{bytes.Clone(def)}})
		if len(l.Tools)+len(l.Problems) == 0 {
			t.Fatalf("%q is gone without a word", def)
		}
		if len(l.Tools) == 0 {
			return
		}
		it := l.Tools[0]
		if want := wire.Compact(nil, bytes.Trim(def, " \t\r\n")); !bytes.Equal(it.Def, want) && !strings.Contains(problems(l.Problems), "hidden") && !strings.Contains(problems(l.Problems), "cut") {
			t.Fatalf("%q became %q", def, it.Def)
		}
		if name, ok := wire.Unquote(it.At.Of(it.Def)); !ok || name != it.Name {
			t.Fatalf("%q: the name %q is not at %v", def, it.Name, it.At)
		}
		s, _ := catalog.Build([]*catalog.Listing{l}, catalog.Rules{})
		e := &s.Entries(catalog.Tools)[0]
		if err := wire.Valid(e.Def); err != nil {
			t.Fatalf("%q is exposed as %q: %v", def, e.Def, err)
		}
		page, err := s.Page(catalog.Tools, "")
		if err != nil || wire.Valid(page.Bytes()) != nil {
			t.Fatalf("%q makes the page %q", def, page.Bytes())
		}
	})
}
