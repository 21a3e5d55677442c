package excerpt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/internal/excerpt"
)

const pods = `{"kind":"List","items":[
 {"name":"a","n":12345678901234567890123,"x":1.10,"e":1e1000,"ready":true},
 {"name":"böse","n":-0,"x":0.1000,"ready":false}]}`

func read(t *testing.T, text string, q excerpt.Query) (excerpt.Excerpt, error) {
	t.Helper()
	return excerpt.New(excerpt.Limits{}).Read(t.Context(), excerpt.NewText([]byte(text)), q)
}

func TestJQ(t *testing.T) {
	tests := []struct {
		name, text, program string
		raw                 bool
		want                string
	}{
		{"a path", pods, ".items[1].name", false, `"böse"` + "\n"},
		{"raw strings", pods, ".items[].name", true, "a\nböse\n"},
		{"raw leaves the rest", pods, ".items[0].ready, .items[0]", true, "true\n" + `{"e":1e1000,"n":12345678901234567890123,"name":"a","ready":true,"x":1.10}` + "\n"},
		{"large numbers keep their digits", pods, ".items[0].n", false, "12345678901234567890123\n"},
		{"large numbers are added exactly", pods, ".items[0].n + 1", false, "12345678901234567890124\n"},
		{"decimals stay as they are", pods, "[.items[].x]", false, "[1.10,0.1000]\n"},
		{"no result", pods, "empty", false, ""},
		{"null", pods, ".nothing", false, "null\n"},
		{"select", pods, `[.items[] | select(.ready | not) | .name]`, false, `["böse"]` + "\n"},
		{"regular expressions", pods, `.items[].name | test("^b")`, false, "false\ntrue\n"},
		{"several values", "{\"a\":1}\n{\"a\":2} 3\n", ".a?", false, "1\n2\n"},
		{"no environment", "{}", "env, $ENV", false, "{}\n{}\n"},
		{"halt", "1 2 3", "., halt", false, "1\n"},
		{"deep nesting", strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "[recurse] | length", false, "5000\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := read(t, tt.text, excerpt.Query{JQ: tt.program, Raw: tt.raw})
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Text) != tt.want {
				t.Errorf("got %q (%s), want %q", got.Text, got.Note, tt.want)
			}
		})
	}
}

func TestWhatJQCannotDoIsSaid(t *testing.T) {
	tests := []struct {
		name, text, program string
		want                error
		message             string
	}{
		{"a syntax error", pods, ".[", excerpt.ErrQuery, "unexpected EOF"},
		{"an unknown function", pods, "frobnicate", excerpt.ErrQuery, "frobnicate/0"},
		{"a wrong type", pods, ".items.name", excerpt.ErrQuery, "expected an object but got: array"},
		{"no JSON", "line one\nline two", ".", excerpt.ErrQuery, "the text is no JSON: line 1"},
		{"no JSON later on", "{\n\"a\":\n oops}", ".", excerpt.ErrQuery, "line 3"},
		{"input", pods, "input", excerpt.ErrQuery, "input"},
		{"modules", pods, `import "x" as x; .`, excerpt.ErrQuery, "module"},
		{"include", pods, `include "/etc/passwd"; .`, excerpt.ErrQuery, "module"},
		{"a long program", pods, strings.Repeat(".|", 6000) + ".", excerpt.ErrQuery, "at most 10000"},
		{"too deep a text", strings.Repeat("[", 20000), ".", excerpt.ErrQuery, "depth"},
		{"an empty text", "", ".[]", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := read(t, tt.text, excerpt.Query{JQ: tt.program})
			if !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), tt.message) {
				t.Errorf("got %+v, %v; want %v with %q", got, err, tt.want, tt.message)
			}
			if err != nil && len(err.Error()) > 600 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestResultsBeforeAnErrorAreShown(t *testing.T) {
	got, err := read(t, "{\"a\":1}\n[]\n{\"a\":2}\nnonsense", excerpt.Query{JQ: ".a"})
	if err != nil {
		t.Fatal(err)
	}
	if string(got.Text) != "1\n2\n" {
		t.Errorf("text %q", got.Text)
	}
	for _, want := range []string{"1 values failed", "array", "no JSON from line 4 on"} {
		if !strings.Contains(got.Note, want) {
			t.Errorf("note %q lacks %q", got.Note, want)
		}
	}
}

func TestTheOutputOfJQIsReadOnByOffset(t *testing.T) {
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, "{\"i\":%d,\"s\":%q}\n", i, strings.Repeat("ü€", i%30))
	}
	whole, err := excerpt.New(excerpt.Limits{Chars: 1 << 20}).Read(t.Context(), excerpt.NewText([]byte(text.String())), excerpt.Query{JQ: "."})
	if err != nil {
		t.Fatal(err)
	}
	r := excerpt.New(excerpt.Limits{Chars: 1000})
	var got []byte
	q, results := &excerpt.Query{JQ: "."}, 0
	for n := 0; q != nil; n++ {
		e, err := r.Read(t.Context(), excerpt.NewText([]byte(text.String())), *q)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Text...)
		results += e.Matches
		if q = e.Next; q != nil && !strings.Contains(e.Note, q.String()) {
			t.Errorf("note %q does not say how to go on", e.Note)
		}
	}
	if !bytes.Equal(got, whole.Text) || results != 200 {
		t.Errorf("%d bytes and %d results, want %d and 200", len(got), results, len(whole.Text))
	}
	if _, err := r.Read(t.Context(), excerpt.NewText([]byte("1")), excerpt.Query{JQ: ".", Offset: 500}); !errors.Is(err, excerpt.ErrQuery) || !strings.Contains(err.Error(), "2 bytes") {
		t.Errorf("behind the end: %v", err)
	}
}

// hostile are programs that take for ever or all memory. Many of them do so in one
// operation, which no context can stop.
var hostile = []string{
	`def f: f; f`,
	`def f: 1+f; f`,
	`[range(1e9)]`,
	`[limit(1e9; repeat(1))]`,
	`last(range(1e12))`,
	`reduce repeat(1) as $x (0; .+1)`,
	`reduce range(100) as $i (1; [., .]) | tojson`,
	`reduce range(100) as $i (1; [., .]) | . == .`,
	`reduce range(100) as $i (1; [., .]) | flatten`,
	`reduce range(100) as $i (1; [., .]) | [., .] | sort`,
	`reduce range(100) as $i (1; [., .]) | error`,
	`reduce range(100) as $i (1; [., .])`,
	`"\(reduce range(100) as $i (1; [., .]))"`,
	`reduce range(100) as $i ({}; {a: ., b: .}) | . * .`,
	`reduce range(40) as $i (10; . * .)`,
	`reduce range(40) as $i ("ab"; . + .)`,
	`reduce range(40) as $i ([1]; . + .)`,
	`"x" * 1000000000`,
	`null | .[500000000] = 1`,
	`[range(300000)] | . - .`,
	`("a" * 5000000) | test("(((a{1,10}){1,10}){1,10})b")`,
	`("a" * 1000000) | [match(""; "g")]`,
	`("a" * 1000000) | gsub("a"; "bb")`,
	`("a" * 5000000) | [splits("a")]`,
	`("a" * 100000000) | explode`,
	`("a" * 100000000) | @base64 | @base64 | @base64`,
	`{} | setpath([range(3000000) | "a"]; 1)`,
	`reduce range(3000000) as $i (1; [.]) | tojson`,
	`reduce range(10000000) as $i (1; [.]) | [..]`,
	`[range(1e7)] | combinations(100)`,
	`[recurse(.)]`,
	`[range(3000)] | [combinations(3)]`,
	`try (def f: 1+f; f) catch .`,
	`[paths] | until(false; .)`,
	`[range(100000) | "\(.)" * 1000] | add`,
}

func TestHostileProgramsEndInTimeAndLeaveTheProcessAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const limit = 150 * time.Millisecond
	r := excerpt.New(excerpt.Limits{Time: limit, JQMemory: 128 << 20})
	text := excerpt.NewText([]byte(pods))
	for _, program := range hostile {
		start := time.Now()
		got, err := r.Read(t.Context(), text, excerpt.Query{JQ: program})
		took := time.Since(start)
		if err == nil && got.Next == nil || err != nil && !errors.Is(err, excerpt.ErrLimit) {
			t.Errorf("%s: %q, %v; want ErrLimit, or a beginning", program, clipped(got.Text), err)
		}
		if took > limit+2*time.Second {
			t.Errorf("%s took %v", program, took)
		}
		t.Logf("%8v  %-60s %v%s", took.Round(time.Millisecond), program, err, got.Note)
	}
	if peak := peakOfChildren(); peak > 256<<20 {
		t.Errorf("a program used %d MiB, 128 are allowed", peak>>20)
	} else {
		t.Logf("the largest child had %d MiB", peak>>20)
	}
}

func clipped(text []byte) []byte { return text[:min(len(text), 100)] }

func TestACallerThatGoesAwayEndsItsProgram(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := excerpt.New(excerpt.Limits{Time: time.Hour, JQAtOnce: 1})
	text := excerpt.NewText([]byte("1"))
	ended := make(chan error)
	go func() {
		_, err := r.Read(ctx, text, excerpt.Query{JQ: "def f: f; f"})
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the program ended with %v", err)
	}
	if got, err := r.Read(t.Context(), text, excerpt.Query{JQ: "."}); err != nil || string(got.Text) != "1\n" {
		t.Errorf("the next program: %q, %v", got.Text, err)
	}
}

func TestOnlySomeProgramsRunAtOnce(t *testing.T) {
	r := excerpt.New(excerpt.Limits{Time: 300 * time.Millisecond, JQAtOnce: 1})
	text := excerpt.NewText([]byte("1"))
	errs := make(chan error)
	for range 4 {
		go func() {
			_, err := r.Read(t.Context(), text, excerpt.Query{JQ: `reduce range(100) as $i (1; [., .]) | . == .`})
			errs <- err
		}()
	}
	busy := 0
	for range 4 {
		err := <-errs
		if errors.Is(err, excerpt.ErrBusy) {
			busy++
		} else if !errors.Is(err, excerpt.ErrLimit) {
			t.Errorf("ended with %v", err)
		}
	}
	if busy == 0 {
		t.Error("four programs found a place at once, want one")
	}
}

func TestALargeTextIsReadWithJQ(t *testing.T) {
	var text bytes.Buffer
	text.WriteString(`{"items":[`)
	for i := 0; text.Len() < 5<<20; i++ {
		if i > 0 {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, `{"metadata":{"name":"pod-%d","labels":{"app":"a%d"}},"status":{"phase":"Running","n":%d}}`, i, i%7, i)
	}
	text.WriteString(`]}`)
	indexed := excerpt.NewText(text.Bytes())
	r := excerpt.New(excerpt.Limits{Time: 20 * time.Second})
	start := time.Now()
	got, err := r.Read(t.Context(), indexed, excerpt.Query{JQ: `.items[] | select(.status.n == 4321) | .metadata.name`})
	if err != nil || string(got.Text) != "\"pod-4321\"\n" {
		t.Errorf("got %q, %v", got.Text, err)
	}
	t.Logf("5 MB in %v", time.Since(start))
	if _, err := excerpt.New(excerpt.Limits{JQInput: 1 << 20}).Read(t.Context(), indexed, excerpt.Query{JQ: "."}); !errors.Is(err, excerpt.ErrLimit) {
		t.Errorf("a text over the limit: %v", err)
	}
}

func BenchmarkJQ(b *testing.B) {
	r, text := excerpt.New(excerpt.Limits{}), excerpt.NewText([]byte(pods))
	for b.Loop() {
		if _, err := r.Read(b.Context(), text, excerpt.Query{JQ: ".items[0].name"}); err != nil {
			b.Fatal(err)
		}
	}
}
