package filter_test

import (
	"path"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/internal/filter"
)

func TestPatterns(t *testing.T) {
	tests := []struct {
		glob    string
		matches []string
		misses  []string
	}{
		{"*", []string{"", "a", "a/b.c", "größe"}, nil},
		{"any", []string{"", "x", "any"}, nil},
		{"ANY", []string{"x"}, nil},
		{"anyone", []string{"anyone"}, []string{"any", "x"}},
		{"read_*", []string{"read_", "read_file", "READ_FILE"}, []string{"read", "xread_file"}},
		{"*_file", []string{"read_file", "_file"}, []string{"read_files", "file"}},
		{"*list*", []string{"list", "a_list_b"}, []string{"lst"}},
		{"a*b*c", []string{"abc", "axxbyyc", "abbcc", "abcbc"}, []string{"ab", "acb", "abcx"}},
		{"a**b", []string{"ab", "axb"}, []string{"a"}},
		{"?", []string{"a", "ü", "."}, []string{"", "ab"}},
		{"get_?", []string{"get_x"}, []string{"get_", "get_xy"}},
		{"[a-c]x", []string{"ax", "Bx", "cX"}, []string{"dx", "x", "-x"}},
		{"[^a-c]x", []string{"dx", "-x"}, []string{"ax", "Bx", "x"}},
		{"[!a-c]x", []string{"dx"}, []string{"ax"}},
		{"[abz-]", []string{"a", "z", "-"}, []string{"c"}},
		{`\*`, []string{"*"}, []string{"a", ""}},
		{`[\]]`, []string{"]"}, []string{"["}},
		{"file:///docs/*", []string{"file:///docs/a/b", "FILE:///docs/"}, []string{"file:///doc"}},
		{"[K-L]s", []string{"ks", "LS", "\u212a\u017f"}, []string{"js"}},
		{strings.Repeat("a", 70) + "*", []string{strings.Repeat("A", 70)}, []string{strings.Repeat("a", 69)}},
		{"*[^ä]", []string{"ö", "äx"}, []string{"Ä", "xä", ""}},
		{"Größe*", []string{"größe", "GRÖßE_2"}, []string{"grosse"}},
	}
	for _, tt := range tests {
		t.Run(tt.glob, func(t *testing.T) {
			p, err := filter.Compile(tt.glob)
			if err != nil {
				t.Fatalf("Compile: %v", err)
			}
			for _, name := range tt.matches {
				if !p.Match(name) {
					t.Errorf("does not match %q", name)
				}
			}
			for _, name := range tt.misses {
				if p.Match(name) {
					t.Errorf("matches %q", name)
				}
			}
		})
	}
}

func TestMalformedPatternsAreRefused(t *testing.T) {
	for _, glob := range []string{"", "[", "[]", "[a", "[a-", "[^]", `\`, `[\`, `a[b\`} {
		if _, err := filter.Compile(glob); err == nil {
			t.Errorf("Compile(%q) succeeded", glob)
		}
		_, err := filter.New(nil, []string{"fine", glob})
		if err == nil || !strings.Contains(err.Error(), "pattern") {
			t.Errorf("New with %q: %v, want an error that names the pattern", glob, err)
		}
	}
}

func TestFilter(t *testing.T) {
	tests := []struct {
		name        string
		allow, deny []string
		visible     string
		hidden      string
	}{
		{"empty lists allow everything", nil, nil, "a", ""},
		{"allow selects", []string{"get_*", "list"}, nil, "get_x list LIST", "put_x lists"},
		{"deny hides", nil, []string{"*delete*"}, "get", "delete delete_all Undelete"},
		{"deny wins over allow", []string{"*"}, []string{"rm"}, "ls", "rm RM"},
		{"deny wins over the same name in allow", []string{"rm"}, []string{"rm"}, "", "rm ls"},
		{"deny any hides all", []string{"a"}, []string{"any"}, "", "a b"},
		{"allow any", []string{"any"}, []string{"b"}, "a c", "b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := filter.New(tt.allow, tt.deny)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range strings.Fields(tt.visible) {
				if !f.Allows(name) {
					t.Errorf("%q is hidden", name)
				}
			}
			for _, name := range strings.Fields(tt.hidden) {
				if f.Allows(name) {
					t.Errorf("%q is visible", name)
				}
			}
		})
	}
}

// hostile are pairs on which a backtracking matcher takes exponential time and a
// greedy one as long as it can.
var hostile = []struct{ name, glob, text string }{
	{"many stars", strings.Repeat("*a", 500) + "b", strings.Repeat("a", 1024)},
	{"a long literal behind a star", "*" + strings.Repeat("a", 511) + "b", strings.Repeat("a", 1024)},
	{"question marks behind a star", "*" + strings.Repeat("?", 511) + "b", strings.Repeat("a", 1024)},
	{"sets behind a star", "*" + strings.Repeat("[^b]", 255) + "b", strings.Repeat("a", 1024)},
	{"stars and question marks", strings.Repeat("*?", 512), strings.Repeat("ä", 500)},
}

func TestHostilePatternsTakeNoTime(t *testing.T) {
	for _, h := range hostile {
		t.Run(h.name, func(t *testing.T) {
			p, err := filter.Compile(h.glob)
			if err != nil {
				t.Fatal(err)
			}
			best := time.Hour // of several: the machine may be busy
			for range 5 {
				began := time.Now()
				p.Match(h.text)
				best = min(best, time.Since(began))
			}
			if best > 10*time.Millisecond { // far less than 1 ms without the race detector, see the benchmark
				t.Errorf("took %v", best)
			}
		})
	}
}

func BenchmarkHostile(b *testing.B) {
	for _, h := range hostile {
		p, err := filter.Compile(h.glob)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(strings.ReplaceAll(h.name, " ", "_"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Match(h.text)
			}
		})
	}
}

// FuzzPattern holds the matcher against path.Match where both mean the same:
// lower-case ASCII without slashes.
func FuzzPattern(f *testing.F) {
	for _, h := range hostile {
		f.Add(h.glob[:20], h.text[:20])
	}
	f.Add("a*[b-d]?\\*", "axxcy*")
	f.Add("[^a]*[]", "zz")
	f.Fuzz(func(t *testing.T, glob, name string) {
		if len(glob) > 1024 || len(name) > 1024 {
			return
		}
		p, err := filter.Compile(glob)
		if err != nil {
			if _, theirs := path.Match(glob, ""); theirs == nil && glob != "" {
				t.Fatalf("Compile(%q): %v, but path.Match accepts it", glob, err)
			}
			return
		}
		began := time.Now()
		got := p.Match(name)
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Fatalf("matching %q with %q took %v", name, glob, took)
		}
		want, err := path.Match(glob, name)
		if err == nil && plain(glob) && plain(name) && !strings.Contains(glob, "[!") && !coversCapitals(glob) && glob != "any" && got != want {
			t.Errorf("%q on %q: %v, path.Match says %v", glob, name, got, want)
		}
	})
}

// coversCapitals reports whether a range may begin below the capital letters and end
// above some of them: ours then matches the small ones, too.
func coversCapitals(glob string) bool {
	for i := 1; i+1 < len(glob); i++ {
		if glob[i] == '-' && glob[i-1] < 'A' && glob[i+1] >= 'A' {
			return true
		}
	}
	return false
}

func plain(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool {
		return r >= 0x80 || r == '/' || 'A' <= r && r <= 'Z' || r == '^' || r == '_' || r == '`'
	}) < 0
}
