package digest_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"mcp-aggregator/internal/digest"
)

func TestCutKeepsWholeLines(t *testing.T) {
	for _, c := range []struct {
		name, text string
		max        int
		what, want string
	}{
		{"what fits stays", "one\ntwo\n", 8, "", "one\ntwo\n"},
		{"the last newline before the limit", "one\ntwo\nthree", 9, "", "one\ntwo\n[truncated: original size 13 bytes, limit 9]"},
		{"a newline just behind the limit", "one\ntwo\nthree", 7, "", "one\ntwo\n[truncated: original size 13 bytes, limit 7]"},
		{"no newline", "abcdef", 4, "", "abcd\n[truncated: original size 6 bytes, limit 4]"},
		{"characters stay whole", "中文中文", 7, "", "中文\n[truncated: original size 12 bytes, limit 7]"},
		{"no room", "abc", 0, "", "[truncated: original size 3 bytes, limit 0]"},
		{"named", "abc\ndef", 4, "result", "abc\n[result truncated: original size 7 bytes, limit 4]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, cut := digest.Cut([]byte(c.text), c.max, c.what)
			if string(got) != c.want || cut != (c.want != c.text) {
				t.Errorf("got %q, %v; want %q", got, cut, c.want)
			}
		})
	}
}

func FuzzCut(f *testing.F) {
	f.Add([]byte("one\ntwo\nthree"), 5)
	f.Add([]byte("中文\xff\xfe"), 4)
	f.Add([]byte("\n"), -1)
	f.Fuzz(func(t *testing.T, text []byte, max int) {
		got, cut := digest.Cut(text, max, "log")
		if cut != (len(text) > max && len(text) > 0 || max < 0) && len(text) > 0 {
			t.Errorf("cut %v of %d bytes to %d", cut, len(text), max)
		}
		if !cut {
			if !bytes.Equal(got, text) {
				t.Errorf("%q became %q", text, got)
			}
			return
		}
		i := bytes.LastIndex(got, []byte("[log truncated: "))
		kept := strings.TrimSuffix(string(got[:i]), "\n")
		if !strings.HasPrefix(string(text), kept) || len(kept) > max && max >= 0 {
			t.Errorf("%q, limit %d, became %q", text, max, got)
		}
		if utf8.Valid(text) && !utf8.Valid(got) {
			t.Errorf("a character of %q was cut: %q", text, got)
		}
	})
}
