package digest_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/digest"
	"mcp-aggregator/internal/tokens"
)

var update = flag.Bool("update", false, "write the golden files")

func digested(text []byte, max int) digest.Result {
	return digest.Make(text, digest.Options{MaxTokens: max, Count: tokens.Auto.Text})
}

// large is texts as large as tools answer with.
func large() map[string][]byte {
	log, _ := logText(5 << 20)
	return map[string][]byte{
		"log": log, "kubernetes": pods(1100, "  "), "compact": pods(2200, ""), "table": orders(50_000), "json": events(8000), "diff": patchText(3000),
		"text":     bytes.Repeat([]byte("The quick brown fox jumps over the lazy dog, again and again.\n"), 40_000),
		"one line": bytes.Repeat([]byte("abc def "), 200_000), "noise": noise(1 << 20), "deep": bytes.Repeat([]byte("["), 9_000),
		"unique":   unique(5 << 20),
		"markdown": bytes.Repeat([]byte("# A heading\n\nSome text below it.\n\n"), 20_000),
	}
}

// unique is a log in which no two errors are alike.
func unique(n int) []byte {
	r := seeded(8)
	var b bytes.Buffer
	for b.Len() < n {
		b.WriteString("06:12:00 ERROR ")
		for range 12 {
			b.WriteByte(byte('a' + r.IntN(26)))
		}
		b.WriteString("e\n")
	}
	return b.Bytes()
}

func noise(n int) []byte {
	r := seeded(9)
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestADigestIsNeverLongerThanItsLimit(t *testing.T) {
	for name, text := range large() {
		for _, max := range []int{1, 3, 10, 40, 200, 1000, 5000} {
			for rule, count := range map[string]func([]byte) int{"auto": tokens.Auto.Text, "chars": tokens.Chars.Text, "bytes": func(b []byte) int { return len(b) }} {
				got := digest.Make(text[:min(len(text), 40_000)], digest.Options{MaxTokens: max, Count: count})
				if n := count([]byte(got.Text)); n > max {
					t.Errorf("%s: %d tokens (%s), limit %d", name, n, rule, max)
				}
				if !utf8.ValidString(got.Text) {
					t.Errorf("%s: not UTF-8", name)
				}
			}
		}
	}
}

func TestKindsAreToldApart(t *testing.T) {
	log, _ := logText(20_000)
	for _, c := range []struct {
		want string
		text []byte
	}{
		{"log", log},
		{"log", []byte("Sep 14 06:12:00 host sshd[12]: Failed password\nSep 14 06:12:01 host sshd[12]: Accepted\n")},
		{"log", []byte(`{"level":"info","msg":"a"}` + "\n" + `{"level":"error","msg":"b"}` + "\n")},
		{"kubernetes", pods(3, "  ")}, {"kubernetes", pods(3, "")},
		{"json", events(3)}, {"json", []byte(`[1,2,3]`)},
		{"ndjson", []byte(`{"a":1}` + "\n" + `{"a":2}` + "\n" + `{"a":3}` + "\n")},
		{"table", orders(30)},
		{"table", []byte("a\tb\n1\t2\n3\t4\n5\t6\n")},
		{"table", []byte("NAME    READY   STATUS\nweb-1   1/1     Running\nweb-2   0/1     Error\nweb-3   1/1     Running\n")},
		{"table", []byte("| name | size |\n|------|-----:|\n| a | 1 |\n| b | 2 |\n")},
		{"diff", patchText(2)},
		{"yaml", []byte("apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  containers:\n  - name: web\n")},
		{"html", []byte("<!doctype html>\n<html>\n<h1>Hello</h1>\n</html>\n")},
		{"markdown", []byte("# Title\n\nText.\n\n## Second\n\nMore.\n")},
		{"text", []byte("# Copyright somebody\n# All rights reserved\nimport os\nx = {\n}\n# a comment\nprint(x)\n")},
		{"table", []byte("1,2026-09-14 06:12:00,a,b\n2,2026-09-14 06:12:01,a,b\n3,2026-09-14 06:12:02,c,d\n4,2026-09-14 06:12:03,c,d\n")},
		{"text", []byte("Just a sentence.\nAnd, as it happens, another one.\nThat is all there is.\n")},
		{"text", []byte(`{"cut": [1, 2, `)},
		{"text", nil},
	} {
		if got := digested(c.text, 500); got.Kind != c.want {
			t.Errorf("%.60q is taken for %s, want %s", c.text, got.Kind, c.want)
		}
	}
}

func TestLinesAreJudgedByTheLevelTheyName(t *testing.T) {
	for _, c := range []struct{ want, line string }{
		{"error", "2026-09-14 06:12:00 ERROR db is away"},
		{"error", "2026-09-14T06:12:00Z error db is away"},
		{"error", "[Sun Dec 04 06:42:30 2005] [error] mod_jk child in state 6"},
		{"error", `time="2026-09-14T06:12:00Z" level=error msg="db is away"`},
		{"error", `{"ts":1789000000.5,"level":"error","msg":"db is away"}`},
		{"error", `{"level":50,"time":1789000000000,"msg":"db is away"}`},
		{"error", "E0914 06:12:00.123456    1221 scope.go:117] db is away"},
		{"error", "09-14 06:12:00.873  2227  2227 E Database: it is away"},
		{"error", `10.0.0.1 - - [14/Sep/2026:06:12:00 +0200] "GET / HTTP/1.1" 502 12 "-" "curl"`},
		{"error", "Sep 14 06:12:00 host sshd[12]: Failed password for root"},
		{"error", "Sep 14 06:12:00 host app[12]: java.lang.NullPointerException at x"},
		{"warn", "2026-09-14 06:12:00 WARN failed once, trying again"},
		{"warn", `10.0.0.1 - - [14/Sep/2026:06:12:00 +0200] "GET / HTTP/1.1" 404 12 "-" "curl"`},
		{"harmless but mentioning errors", "2026-09-14 06:12:00 INFO the last attempt failed"},
		{"info", "2026-09-14 06:12:00 INFO finished, 0 errors, error=nil"},
		{"info", "2026-09-14 06:12:00, Info   CBS  loaded"},
		{"debug", `{"time":"2026-09-14T06:12:00Z","level":"DEBUG","msg":"polling"}`},
		{"no level", "Sep 14 06:12:00 host cron[12]: started, no errors"},
	} {
		got := digested([]byte(c.line+"\n"+c.line+"\n"), 500)
		if want := "levels: " + c.want + " 2\n"; got.Kind != "log" || !strings.Contains(got.Text, want) {
			t.Errorf("%s\nis no %q in the %s\n%s", c.line, want, got.Kind, got.Text)
		}
	}
}

func TestEveryClassOfErrorsIsNamedWithItsCount(t *testing.T) {
	text, counts := logText(5 << 20)
	got := digested(text, 1000).Text
	for _, f := range failures {
		found := false
		for _, line := range strings.Split(got, "\n") {
			if strings.Contains(line, f.shows) && strings.HasPrefix(strings.TrimSpace(line), fmt.Sprintf("%dx L", counts[f.shows])) {
				found = true
			}
		}
		if !found {
			t.Errorf("no line says %dx %s in\n%s", counts[f.shows], f.shows, got)
		}
	}
}

func TestLineNumbersLeadToTheLines(t *testing.T) {
	text, _ := logText(200_000)
	lines := strings.Split(string(text), "\n")
	checked := 0
	for _, line := range strings.Split(digested(text, 2000).Text, "\n") {
		rest, ok := strings.CutPrefix(line, "  L")
		if !ok {
			continue
		}
		no, quote, _ := strings.Cut(rest, ": ")
		n, err := strconv.Atoi(no)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		quote = strings.TrimSuffix(quote, "…")
		if !strings.HasPrefix(lines[n-1], quote) {
			t.Errorf("L%d is said to be\n%s\nbut is\n%s", n, quote, lines[n-1])
		}
		checked++
	}
	if checked < 8 {
		t.Errorf("only %d lines quoted", checked)
	}
}

// With more classes than fit, the most frequent, the first and the last are named
// and the rest is counted.
func TestThousandsOfErrorClassesAreCounted(t *testing.T) {
	r := seeded(6)
	var b strings.Builder
	word := func(i int) string {
		w := ""
		for i += 26; i > 0; i /= 26 {
			w += string(rune('a'+i%26)) + "o"
		}
		return w
	}
	const classes = 4000
	lines := 0
	for i := range classes {
		n := 1
		if i == 1234 {
			n = 50
		}
		for range n {
			fmt.Fprintf(&b, "2026-09-14 06:%02d:%02d ERROR module %s broke down at %d\n", i/60%60, i%60, word(i), r.IntN(1000))
			lines++
		}
	}
	got := digested([]byte(b.String()), 800).Text
	for _, want := range []string{
		fmt.Sprintf("errors: %d classes in %d lines", classes, lines), "50x L", word(0), word(1234), word(classes - 1), "more classes (", "search the full result",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

func TestSickObjectsComeFirst(t *testing.T) {
	for _, indent := range []string{"", "  "} {
		got := digested(pods(400, indent), 1000).Text
		if !strings.Contains(got, "not well: 10") || strings.Count(got, "CrashLoopBackOff") != 10 {
			t.Errorf("not all 10 sick pods in\n%s", got)
		}
		if !strings.Contains(got, "[3]") || !strings.Contains(got, "kinds: Pod 400") {
			t.Errorf("no index or no kinds in\n%s", got)
		}
	}
}

func TestFailedRowsAndValuesAreFound(t *testing.T) {
	if got := digested(orders(5000), 1000).Text; !strings.Contains(got, "rows whose state says trouble: 10") || !strings.Contains(got, "L79: 1077") ||
		!strings.Contains(got, "5000 rows, 5 columns") {
		t.Errorf("got\n%s", got)
	}
	if got := digested(events(500), 1000).Text; !strings.Contains(got, "values that say trouble: 5") || !strings.Contains(got, "[142]") ||
		!strings.Contains(got, ".events[].status: text: failed 5, done 495") {
		t.Errorf("got\n%s", got)
	}
}

func TestDiffsAreCounted(t *testing.T) {
	got := digested(patchText(20), 2000).Text
	for _, want := range []string{"20 files changed, 77 lines added, 20 removed", "pkg/file6.go +7 -1 in 1 hunk", "@@ -10,3 +10,9 @@ func f6() {"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

func TestSmallDigestsReadAsBefore(t *testing.T) {
	log, _ := logText(30_000)
	for name, text := range map[string][]byte{"log": log, "pods": pods(60, "  "), "orders": orders(600), "events": events(150), "patch": patchText(6)} {
		t.Run(name, func(t *testing.T) {
			golden := filepath.Join("testdata", name+".golden")
			got := digested(text, 600).Text + "\n"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got; -update writes it anew\n%s", diff)
			}
		})
	}
}

func TestDigestsAreQuickAndSmall(t *testing.T) {
	for name, text := range large() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		got := digested(text, 1000)
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		t.Logf("%-10s %8d bytes as %-10s %8v, %d allocated", name, len(text), got.Kind, took.Round(time.Millisecond), after.TotalAlloc-before.TotalAlloc)
		// Generous bounds: they are for what grows with the square.
		if took > 5*time.Second {
			t.Errorf("%s took %v", name, took)
		}
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > uint64(5*len(text))+1<<20 {
			t.Errorf("%s: %d bytes allocated for %d", name, allocated, len(text))
		}
	}
}

func BenchmarkMake(b *testing.B) {
	for name, text := range large() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				digested(text, 1000)
			}
		})
	}
}
