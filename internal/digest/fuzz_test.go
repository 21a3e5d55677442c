package digest_test

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"mcp-aggregator/internal/digest"
	"mcp-aggregator/internal/tokens"
)

func FuzzMake(f *testing.F) {
	log, _ := logText(3000)
	for _, text := range [][]byte{
		log, pods(2, " "), events(3), orders(5), patchText(2), []byte("| a | b |\n|---|---|\n| 1 | 2 |\n"), []byte("NAME   READY\nweb    1/1\nweb    0/1\n"),
		[]byte("apiVersion: v1\nkind: List\nitems:\n- kind: Pod\n  metadata:\n    name: a\n"), []byte("<html><h1>x</h1>"), []byte("# a\n## b\n"),
		[]byte(`{"items":[{"kind":1,"apiVersion":2,"metadata":{"name":[]}}],"kind":"List"}`), []byte(`{"level":50,"msg":"x"}` + "\n" + `{"level":"`),
		[]byte("E0914 06:12:00.1 1 a.go:1] x\n" + "[14/Sep/2026:06:12:00 +0200] \"GET / HTTP/1.1\" 502 1"), []byte("\xff\xfe06:12:00"), []byte("--- a\n+++ b\n@@ -1,99999999999 +1 @@\n-"),
	} {
		f.Add(text, 100)
	}
	f.Fuzz(func(t *testing.T, text []byte, max int) {
		max %= 3000
		o := digest.Options{MaxTokens: max, Count: tokens.Auto.Text}
		before := bytes.Clone(text)
		got := digest.Make(text, o)
		if !bytes.Equal(before, text) {
			t.Error("the text was changed")
		}
		limit := max
		if limit <= 0 {
			limit = 1000
		}
		if n := tokens.Auto.Text([]byte(got.Text)); n > limit {
			t.Errorf("%d tokens, limit %d", n, limit)
		}
		if !utf8.ValidString(got.Text) {
			t.Errorf("not UTF-8: %q", got.Text)
		}
		if again := digest.Make(text, o); again != got {
			t.Errorf("differs the second time:\n%s\n%s", got.Text, again.Text)
		}
	})
}
