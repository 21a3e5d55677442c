package excerpt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"mcp-aggregator/internal/excerpt"
)

// numbered is a text of n lines: "line 1\n" and so on.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return b.String()
}

func TestLines(t *testing.T) {
	long := "short\n" + strings.Repeat("ü", 50) + "\nend"
	tests := []struct {
		name, text string
		q          excerpt.Query
		want, next string
		note       string
	}{
		{"all", "a\nb\n", excerpt.Query{}, "a\nb\n", "", "lines 1-2 of 2, bytes 0-4 of 4"},
		{"no last newline", "a\nb", excerpt.Query{From: 2}, "b", "", "lines 2-2 of 2, bytes 2-3 of 3"},
		{"CRLF stays", "a\r\nb\r\n", excerpt.Query{From: 1, To: 1}, "a\r\n", "", "lines 1-1 of 2"},
		{"empty lines", "\n\n\n", excerpt.Query{From: 2, To: 2}, "\n", "", "lines 2-2 of 3"},
		{"a range", numbered(9), excerpt.Query{From: 3, To: 4}, "line 3\nline 4\n", "", "lines 3-4 of 9"},
		{"a range over the end", numbered(2), excerpt.Query{From: 2, To: 1 << 60}, "line 2\n", "", "lines 2-2 of 2"},
		{"head", numbered(9), excerpt.Query{Head: 1}, "line 1\n", "", "lines 1-1 of 9"},
		{"head of more", numbered(1), excerpt.Query{Head: 5}, "line 1\n", "", "lines 1-1 of 1"},
		{"tail", numbered(9), excerpt.Query{Tail: 1}, "line 9\n", "", "lines 9-9 of 9"},
		{"tail of more", numbered(1), excerpt.Query{Tail: 5}, "line 1\n", "", "lines 1-1 of 1"},
		{"a page", numbered(5), excerpt.Query{Page: 2, PageSize: 2}, "line 3\nline 4\n", `{"from":5,"page_size":2}`, "lines 3-4 of 5"},
		{"the last page", numbered(5), excerpt.Query{Page: 3, PageSize: 2}, "line 5\n", "", "lines 5-5 of 5"},
		{"a page of all", numbered(2), excerpt.Query{Page: 1, PageSize: 1 << 62}, "line 1\nline 2\n", "", "lines 1-2"},
		{"cut at a line", numbered(9), excerpt.Query{From: 2, To: 8}, "line 2\nline 3\nline 4\nline 5\n", `{"from":6,"to":8}`, "the last 21 bytes of what was asked for are left off"},
		{"cut in a line", long, excerpt.Query{From: 2}, strings.Repeat("ü", 30), `{"offset":66}`, "ends inside line 2"},
		{"on in a line", long, excerpt.Query{Offset: 66}, strings.Repeat("ü", 20) + "\nend", "", "begins inside line 2"},
		{"on in a line to its end", long, excerpt.Query{Offset: 66, To: 2}, strings.Repeat("ü", 20) + "\n", "", "lines 2-2 of 3"},
		{"bytes", long, excerpt.Query{Offset: 2, Bytes: 3}, "ort", `{"offset":5,"bytes":3}`, "bytes 2-5 of 110"},
		{"bytes from the beginning", long, excerpt.Query{Bytes: 5}, "short", `{"offset":5,"bytes":5}`, "ends inside line 1"},
		{"bytes that would cut characters", "üü", excerpt.Query{Offset: 1, Bytes: 2}, "ü", `{"offset":2,"bytes":2}`, "bytes 0-2"},
		{"less than a character", "€€", excerpt.Query{Bytes: 1}, "€", `{"offset":3,"bytes":1}`, "bytes 0-3"},
		{"endless bytes", "abc", excerpt.Query{Offset: 1, Bytes: 1<<63 - 1}, "bc", "", "bytes 1-3"},
		{"nothing", "", excerpt.Query{Page: 3}, "", "", "the text is empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, err := excerpt.New(excerpt.Limits{Chars: 30}).Read(t.Context(), excerpt.NewText([]byte(tt.text)), tt.q)
			if err != nil {
				t.Fatal(err)
			}
			next := ""
			if e.Next != nil {
				next = e.Next.String()
			}
			if string(e.Text) != tt.want || next != tt.next || !strings.Contains(e.Note, tt.note) || !strings.Contains(e.Note, next) {
				t.Errorf("got %q, next %s, note %q; want %q, next %s, note with %q", e.Text, next, e.Note, tt.want, tt.next, tt.note)
			}
		})
	}
}

func TestArgumentsThatMakeNoSenseAreRefused(t *testing.T) {
	tests := []struct {
		q    excerpt.Query
		want string
	}{
		{excerpt.Query{From: -1}, "from is -1, it must not be negative"},
		{excerpt.Query{Bytes: -1 << 62}, "must not be negative"},
		{excerpt.Query{From: 10}, "there is no line 10: the text has 9 lines"},
		{excerpt.Query{From: 5, To: 4}, "from (5) is behind to (4)"},
		{excerpt.Query{Page: 4, PageSize: 3}, "the text has 3 pages of 3 lines"},
		{excerpt.Query{Page: 1 << 62}, "there is no page"},
		{excerpt.Query{Offset: 63}, "offset 63 is behind the end: the text has 63 bytes"},
		{excerpt.Query{Offset: 60, To: 2}, "offset 60 is in line 9, behind to (2)"},
		{excerpt.Query{Head: 1, Tail: 1}, "tail does not go with head"},
		{excerpt.Query{Page: 1, Head: 1}, "head does not go with page"},
		{excerpt.Query{Offset: 1, From: 1}, "from does not go with offset"},
		{excerpt.Query{From: 1, To: 2, PageSize: 2}, "to or page_size, not both"},
		{excerpt.Query{JQ: ".", Grep: "x"}, "grep does not go with jq"},
		{excerpt.Query{JQ: ".", From: 3}, "from does not go with jq"},
		{excerpt.Query{Grep: "x", Head: 3}, "head does not go with grep"},
		{excerpt.Query{Grep: "x", From: 3, Offset: 1}, "from or offset, not both"},
		{excerpt.Query{Context: 3}, "context does not go with from"},
		{excerpt.Query{Literal: true}, "literal does not go with from"},
		{excerpt.Query{Grep: "("}, "missing closing ): `(`; to search for the text as it is, set literal"},
		{excerpt.Query{Grep: `(a)\1`}, "invalid escape sequence"},
		{excerpt.Query{Grep: "x{1001}"}, "invalid repeat count"},
		{excerpt.Query{Grep: strings.Repeat("x", 1001)}, "at most 1000 are allowed"},
		{excerpt.Query{Grep: "a{1000}b{1000}c{1000}"}, "at most 2000 are allowed; use smaller counts"},
		{excerpt.Query{Grep: strings.Repeat(`\pL{1000}`, 100)}, "at most 2000 are allowed"},
	}
	for _, tt := range tests {
		_, err := read(t, numbered(9), tt.q)
		if !errors.Is(err, excerpt.ErrQuery) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want ErrQuery with %q", tt.q, err, tt.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := excerpt.New(excerpt.Limits{}).Read(ctx, excerpt.NewText(nil), excerpt.Query{}); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}

// follow reads on until the end and returns all the text. Each answer must be small
// enough and say how to go on.
func follow(t *testing.T, text []byte, q excerpt.Query, chars int) []byte {
	t.Helper()
	r, indexed := excerpt.New(excerpt.Limits{Chars: chars}), excerpt.NewText(text)
	var all []byte
	for next := &q; next != nil; {
		e, err := r.Read(t.Context(), indexed, *next)
		if err != nil {
			t.Fatalf("%s: %v", next, err)
		}
		if n := utf8.RuneCount(e.Text); n > chars {
			t.Fatalf("%s: %d characters, want at most %d", next, n, chars)
		}
		if len(text) > 0 && len(e.Text) == 0 {
			t.Fatalf("%s: no progress", next)
		}
		if utf8.Valid(text) && !utf8.Valid(e.Text) {
			t.Fatalf("%s: a character was cut", next)
		}
		if len(all) == 0 && e.Start > 0 || !bytes.Equal(e.Text, text[e.Start:e.End]) {
			t.Fatalf("%s: bytes %d-%d are not what the answer holds", next, e.Start, e.End)
		}
		all = append(all, e.Text...)
		if next = e.Next; next != nil && !strings.HasSuffix(e.Note, "continue with "+next.String()) {
			t.Fatalf("note %q does not say how to go on: %s", e.Note, next)
		}
	}
	return all
}

// tricky makes texts of the pieces that could go wrong.
func tricky(r *rand.Rand) []byte {
	pieces := []string{"\n", "\r\n", "\r", "", "a", "line of text", "ü", "€", "😀", "\x80", "\xff\xfe", "\xe2\x82", "\xf0\x9f", "\x00", "é",
		strings.Repeat("x", 300), strings.Repeat("世界", 100), strings.Repeat("\x80", 50), strings.Repeat("\n", 600)}
	var b []byte
	for range r.IntN(60) {
		b = append(b, pieces[r.IntN(len(pieces))]...)
	}
	return b
}

func TestReadingOnGivesTheTextBackByteForByte(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		text := tricky(r)
		chars := 1 + r.IntN(400)
		for _, q := range []excerpt.Query{{}, {From: 1}, {To: 1 << 40}, {Page: 1}, {Page: 1, PageSize: 1 + r.IntN(40)}, {Head: 1 << 40}, {Tail: 1 << 40},
			{Bytes: 1 + r.IntN(500)}, {PageSize: 1 + r.IntN(9)}} {
			if got := follow(t, text, q, chars); !bytes.Equal(got, text) {
				t.Fatalf("%s of %q at %d characters gave %q", q, text, chars, got)
			}
		}
	}
}

func TestEachLineIsFoundByItsNumber(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	reader := excerpt.New(excerpt.Limits{Chars: 1 << 20})
	for range 20 {
		text := tricky(r)
		indexed := excerpt.NewText(text)
		lines := bytes.SplitAfter(text, []byte{'\n'})
		if len(lines[len(lines)-1]) == 0 {
			lines = lines[:len(lines)-1]
		}
		if indexed.Lines() != len(lines) {
			t.Fatalf("%d lines, want %d in %q", indexed.Lines(), len(lines), text)
		}
		for i, want := range lines {
			e, err := reader.Read(t.Context(), indexed, excerpt.Query{From: i + 1, To: i + 1})
			if err != nil || !bytes.Equal(e.Text, want) || e.From != i+1 || e.To != i+1 || e.Next != nil {
				t.Fatalf("line %d: %+v, %v; want %q", i+1, e, err, want)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("a\r\nb\n\nü\xff"), 3, 2, 1)
	f.Add([]byte(numbered(300)), 50, 0, 7)
	f.Fuzz(func(t *testing.T, text []byte, chars, page, size int) {
		if chars < 1 || page < 0 || size < 0 || len(text) > 1<<16 || len(text)/chars > 5000 || page > 0 && len(text)/page > 5000 || size > 0 && len(text)/size > 5000 {
			return
		}
		for _, q := range []excerpt.Query{{}, {PageSize: page}, {Bytes: size}} {
			if got := follow(t, text, q, chars); !bytes.Equal(got, text) {
				t.Errorf("%s gave %q", q, got)
			}
		}
		r := excerpt.New(excerpt.Limits{Chars: chars})
		if e, err := r.Read(t.Context(), excerpt.NewText(text), excerpt.Query{Offset: page, Bytes: size}); err == nil && !bytes.Equal(e.Text, text[e.Start:e.End]) {
			t.Errorf("bytes %d-%d are not what the answer holds", e.Start, e.End)
		}
	})
}

func BenchmarkIndex(b *testing.B) {
	text := []byte(strings.Repeat(strings.Repeat("x", 99)+"\n", 50_000))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		excerpt.NewText(text)
	}
}

func BenchmarkPage(b *testing.B) {
	text := excerpt.NewText([]byte(strings.Repeat(strings.Repeat("x", 99)+"\n", 50_000)))
	r := excerpt.New(excerpt.Limits{})
	for b.Loop() {
		if _, err := r.Read(b.Context(), text, excerpt.Query{From: 49_000, To: 49_100}); err != nil {
			b.Fatal(err)
		}
	}
}
