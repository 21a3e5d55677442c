package excerpt_test

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"mcp-aggregator/internal/excerpt"
)

func TestGrep(t *testing.T) {
	log := "start\nerror: disk [1]\nok\nok 2\nERROR: net\r\nok 3\nok 4\nok 5\nerror: end"
	tests := []struct {
		name       string
		q          excerpt.Query
		want       string
		note, next string
	}{
		{"lines that match", excerpt.Query{Grep: "error"}, "2:error: disk [1]\n9:error: end\n", "2 matches in lines 1-9 of 9", ""},
		{"ignoring case", excerpt.Query{Grep: "error", IgnoreCase: true}, "2:error: disk [1]\n5:ERROR: net\n9:error: end\n", "3 matches", ""},
		{"none", excerpt.Query{Grep: "panic"}, "", "0 matches in lines 1-9 of 9", ""},
		{"end of a CRLF line", excerpt.Query{Grep: "net$"}, "5:ERROR: net\n", "1 matches", ""},
		{"begin of a line", excerpt.Query{Grep: "^ok$"}, "3:ok\n", "1 matches", ""},
		{"literal", excerpt.Query{Grep: "[1]", Literal: true}, "2:error: disk [1]\n", "1 matches", ""},
		{"literal ignoring case", excerpt.Query{Grep: "DISK [", Literal: true, IgnoreCase: true}, "2:error: disk [1]\n", "1 matches", ""},
		{"before", excerpt.Query{Grep: "net", Before: 2}, "3-ok\n4-ok 2\n5:ERROR: net\n", "1 matches", ""},
		{"after", excerpt.Query{Grep: "net", After: 1}, "5:ERROR: net\n6-ok 3\n", "1 matches", ""},
		{"groups", excerpt.Query{Grep: "error", Context: 1}, "1-start\n2:error: disk [1]\n3-ok\n--\n8-ok 5\n9:error: end\n", "2 matches", ""},
		{"groups that touch", excerpt.Query{Grep: "(?i)error", Context: 1}, "1-start\n2:error: disk [1]\n3-ok\n4-ok 2\n5:ERROR: net\n6-ok 3\n--\n8-ok 5\n9:error: end\n", "3 matches", ""},
		{"a range", excerpt.Query{Grep: "ok", From: 4, To: 6}, "4:ok 2\n6:ok 3\n", "2 matches in lines 4-6 of 9", ""},
		{"some matches", excerpt.Query{Grep: "ok", MaxMatches: 2, To: 7}, "3:ok\n4:ok 2\n", "2 matches in lines 1-7 of 9; 2 more are left off", `{"from":6,"to":7,"grep":"ok","max_matches":2}`},
		{"endless context", excerpt.Query{Grep: "^start", Context: 1<<63 - 1}, "1:start\n2-error: disk [1]\n3-ok\n4-ok 2\n5-ERROR: net\n6-ok 3\n7-ok 4\n8-ok 5\n9-error: end\n", "1 matches", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, err := read(t, log, tt.q)
			if err != nil {
				t.Fatal(err)
			}
			next := ""
			if e.Next != nil {
				next = e.Next.String()
			}
			if string(e.Text) != tt.want || !strings.Contains(e.Note, tt.note) || next != tt.next {
				t.Errorf("got %q, note %q, next %s; want %q, note with %q, next %s", e.Text, e.Note, next, tt.want, tt.note, tt.next)
			}
		})
	}
}

func TestAllMatchesAreFoundByReadingOn(t *testing.T) {
	var text strings.Builder
	want := map[int]bool{}
	for i := range 3000 {
		if i%7 == 0 {
			want[i+1] = true
			fmt.Fprintf(&text, "match %d\n", i)
		} else {
			fmt.Fprintf(&text, "other %d\n", i)
		}
	}
	r, indexed := excerpt.New(excerpt.Limits{Chars: 500}), excerpt.NewText([]byte(text.String()))
	answers := 0
	for q := (&excerpt.Query{Grep: "^match", Context: 1}); q != nil; answers++ {
		e, err := r.Read(t.Context(), indexed, *q)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^(\d+):`).FindAllStringSubmatch(string(e.Text), -1) {
			var n int
			_, _ = fmt.Sscan(m[1], &n)
			if !want[n] {
				t.Fatalf("line %d twice, or no match", n)
			}
			delete(want, n)
		}
		q = e.Next
	}
	if len(want) > 0 || answers < 10 {
		t.Errorf("%d matches were not shown in %d answers", len(want), answers)
	}
}

func TestMatchesInOneLongLineAreFoundByReadingOn(t *testing.T) {
	var text strings.Builder
	for i := range 120 {
		fmt.Fprintf(&text, `{"id":%d,"pad":"%s","mark":"needle-%d"},`, i, strings.Repeat("ü", 1500), i)
	}
	data := []byte(text.String())
	r, indexed := excerpt.New(excerpt.Limits{Chars: 5000}), excerpt.NewText(data)
	for _, pattern := range []string{`needle-\d+`, `\bneedle-\d+\b`} {
		found := map[string]bool{}
		for q := (&excerpt.Query{Grep: pattern}); q != nil; {
			e, err := r.Read(t.Context(), indexed, *q)
			if err != nil {
				t.Fatal(err)
			}
			if utf8.RuneCount(e.Text) > 5000 || !utf8.Valid(e.Text) {
				t.Fatalf("%d characters, valid: %v", utf8.RuneCount(e.Text), utf8.Valid(e.Text))
			}
			for _, piece := range bytes.Split(bytes.TrimSpace(e.Text), []byte{'\n'}) {
				var line, offset int
				if n, _ := fmt.Sscanf(string(piece), "%d:@%d:", &line, &offset); n != 2 || line != 1 {
					t.Fatalf("a piece without place: %.80q", piece)
				}
				shown := piece[bytes.Index(piece, []byte("@"))+1:]
				shown = shown[bytes.IndexByte(shown, ':')+1:]
				if !bytes.HasPrefix(data[offset:], shown) {
					t.Fatalf("at %d there is no %.80q", offset, shown)
				}
			}
			for _, m := range regexp.MustCompile(`needle-\d+`).FindAllString(string(e.Text), -1) {
				found[m] = true
			}
			q = e.Next
		}
		if len(found) != 120 {
			t.Errorf("%s: %d matches, want 120", pattern, len(found))
		}
	}
}

func TestAnEmptyMatchAtTheEndOfALongLineIsOne(t *testing.T) {
	e, err := read(t, strings.Repeat("a", 10_000)+"\nb", excerpt.Query{Grep: "$", To: 1})
	if err != nil || e.Matches != 1 || e.Next != nil {
		t.Errorf("%d matches, next %v, %v; want 1", e.Matches, e.Next, err)
	}
}

func TestAnchorsMeanTheLineAndNotWhereTheSearchGoesOn(t *testing.T) {
	text := strings.Repeat("ab", 40_000)
	e, err := read(t, text, excerpt.Query{Grep: "^ab"})
	if err != nil || e.Matches != 1 || e.Next != nil {
		t.Errorf("%d matches, next %v, %v; want 1", e.Matches, e.Next, err)
	}
	e, err = read(t, text, excerpt.Query{Grep: "^ab", Offset: 2})
	if err != nil || e.Matches != 0 {
		t.Errorf("from the middle: %d matches, %v; want none", e.Matches, err)
	}
}

// The largest patterns that are allowed, on texts that make them slow.
func TestHostilePatternsEndInTime(t *testing.T) {
	patterns := []string{`(a+)+$`, `(a*)*b`, `(a|a)*b`, `(.*.*.*.*)*b`, `(((a{1,10}){1,10}){1,10})b`, `(a{0,900}){0,1}b`, `(?i)(\pL{0,450}\w{0,450})b`,
		`(a?){450}a{450}b`, `.{900}b`, strings.Repeat("a?", 300) + strings.Repeat("a", 300) + "b", `\b\w+b`, `(?:\b|a)*$b`, `^`, `$`, `\b`, `a*?`}
	texts := map[string]*excerpt.Text{
		"one line":   excerpt.NewText(bytes.Repeat([]byte("a"), 2<<20)),
		"many lines": excerpt.NewText(bytes.Repeat([]byte(strings.Repeat("a", 1000)+"\n"), 2000)),
		"words":      excerpt.NewText(bytes.Repeat([]byte("aaaa "), 400_000)),
		"no UTF-8":   excerpt.NewText(bytes.Repeat([]byte{0x80}, 1<<20)),
	}
	const limit = 50 * time.Millisecond
	r := excerpt.New(excerpt.Limits{Time: limit})
	for name, text := range texts {
		for _, p := range patterns {
			start := time.Now()
			e, err := r.Read(t.Context(), text, excerpt.Query{Grep: p, Context: 2})
			if took := time.Since(start); took > limit+time.Second {
				t.Errorf("%q on %s took %v", p, name, took)
			} else {
				t.Logf("%6v %-12s %-30.30s %v %s", took.Round(time.Millisecond), name, p, err, e.Note)
			}
			if err != nil && !errors.Is(err, excerpt.ErrLimit) && !errors.Is(err, excerpt.ErrQuery) {
				t.Errorf("%q on %s: %v", p, name, err)
			}
			if utf8.RuneCount(e.Text) > 20_000 {
				t.Errorf("%q on %s: %d characters", p, name, utf8.RuneCount(e.Text))
			}
		}
	}
}

func FuzzGrep(f *testing.F) {
	f.Add([]byte("a\nb\r\n\nüc"), "b|^$", 10, 1, false)
	f.Add([]byte(strings.Repeat("needle in hay ", 100)), `\bneedle`, 200, 0, true)
	f.Fuzz(func(t *testing.T, text []byte, pattern string, chars, context int, flag bool) {
		if len(text) > 1<<16 || chars < 1 || context < 0 || pattern == "" {
			return
		}
		const limit = 200 * time.Millisecond
		r, indexed := excerpt.New(excerpt.Limits{Chars: chars, Time: limit}), excerpt.NewText(text)
		q := &excerpt.Query{Grep: pattern, Context: context, Literal: flag}
		for range 5 {
			start := time.Now()
			e, err := r.Read(t.Context(), indexed, *q)
			if took := time.Since(start); took > limit+2*time.Second {
				t.Fatalf("took %v", took)
			}
			if err != nil && !errors.Is(err, excerpt.ErrQuery) && !errors.Is(err, excerpt.ErrLimit) {
				t.Fatal(err)
			}
			if n := utf8.RuneCount(e.Text); n > max(chars, 200) {
				t.Fatalf("%d characters, %d are allowed", n, chars)
			}
			if flag && err == nil && q.From == 0 && q.Offset == 0 && e.Matches == 0 && !strings.ContainsAny(pattern, "\r\n") && bytes.Contains(text, []byte(pattern)) && utf8.ValidString(pattern) {
				t.Fatalf("%q is in the text and was not found", pattern)
			}
			if e.Next == nil {
				return
			}
			if *e.Next == *q {
				t.Fatalf("no progress with %s", q)
			}
			q = e.Next
		}
	})
}

func FuzzJQ(f *testing.F) {
	for _, p := range append(hostile[:1:1], hostile[6], hostile[18], ".", ".items[].name", `@json "\(.)"`, "..|numbers", "def f(x): x; f(.)") {
		f.Add(p, []byte(pods))
	}
	const limit = 200 * time.Millisecond
	r := excerpt.New(excerpt.Limits{Time: limit, JQMemory: 64 << 20, Chars: 500})
	f.Fuzz(func(t *testing.T, program string, text []byte) {
		if program == "" {
			return
		}
		start := time.Now()
		e, err := r.Read(t.Context(), excerpt.NewText(text), excerpt.Query{JQ: program})
		if took := time.Since(start); took > limit+5*time.Second {
			t.Fatalf("took %v", took)
		}
		if err != nil && !errors.Is(err, excerpt.ErrQuery) && !errors.Is(err, excerpt.ErrLimit) {
			t.Fatal(err)
		}
		if n := utf8.RuneCount(e.Text); n > 500 {
			t.Fatalf("%d characters", n)
		}
	})
}

func BenchmarkGrep(b *testing.B) {
	data := []byte(strings.Repeat(strings.Repeat("some words of a log ", 5)+"\n", 50_000))
	text := excerpt.NewText(data)
	r := excerpt.New(excerpt.Limits{})
	for _, p := range []string{"error", "(?i)error", "err(or|no)[0-9]+"} {
		b.Run(p, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := r.Read(b.Context(), text, excerpt.Query{Grep: p}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
