package tokens_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-aggregator/internal/tokens"
)

// real is what tokenizers count in a sample.
type real struct{ O200k, Cl100k int }

func counts(t *testing.T) map[string]real {
	t.Helper()
	data, err := os.ReadFile("testdata/counts.json")
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]real
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) != len(c) || len(c) < 20 {
		t.Fatalf("%d samples, %d counted (%v)", len(files), len(c), err)
	}
	return c
}

func sample(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// grow repeats a sample until it is size bytes long.
func grow(sample []byte, size int) []byte {
	return bytes.Repeat(sample, size/len(sample)+1)[:size]
}

func off(got, want int) float64 { return 100 * (float64(got)/float64(want) - 1) }

func TestEstimateIsWithinAFifthOfRealTokenizers(t *testing.T) {
	for name, real := range counts(t) {
		t.Run(name, func(t *testing.T) {
			text := sample(t, name)
			got := tokens.Auto.Text(text)
			plain := tokens.Chars.Text(text)
			t.Logf("| %s | %d | %d | %d | %+.1f %% | %+.1f %% |", name, real.O200k, real.Cl100k, got, off(got, real.O200k), off(plain, real.O200k))
			if e := off(got, real.O200k); math.Abs(e) > 20 {
				t.Errorf("estimate %d, o200k_base %d: %+.1f %%", got, real.O200k, e)
			}
			older := 20.0
			if name == "chinese" {
				older = 30 // the two tokenizers are further apart than a fifth either way
			}
			if e := off(got, real.Cl100k); math.Abs(e) > older {
				t.Errorf("estimate %d, cl100k_base %d: %+.1f %%", got, real.Cl100k, e)
			}
		})
	}
}

func TestEstimateGrowsWithTheText(t *testing.T) {
	for name := range counts(t) {
		text := sample(t, name)
		per := float64(tokens.Auto.Text(text)) / float64(len(text))
		sizes := []int{8 * len(text)}
		if name == "log_app" || name == "chinese" {
			sizes = append(sizes, 5<<20)
		}
		for _, size := range sizes {
			big := grow(text, size)
			for rule, got := range map[string]int{"text": tokens.Auto.Text(big), "json": tokens.Auto.JSON(big)} {
				if strings.IndexByte(string(text), '\\') >= 0 && rule == "json" {
					continue // its backslashes would be read as escapes
				}
				if e := 100 * (float64(got)/float64(size)/per - 1); math.Abs(e) > 2 {
					t.Errorf("%s of %d bytes as %s: %+.1f %% per byte against the sample", name, size, rule, e)
				}
			}
		}
	}
}

// A window of a text costs about its share: what is cut from a result is judged
// by the same measure as the whole.
func TestSmallPiecesAddUpToTheWhole(t *testing.T) {
	for name := range counts(t) {
		text := sample(t, name)
		for _, size := range []int{100, 1000, 10_000} {
			sum := 0
			for at := 0; at < len(text); at += size {
				sum += tokens.Auto.Text(text[at:min(at+size, len(text))])
			}
			if e := off(sum, tokens.Auto.Text(text)); math.Abs(e) > 10 {
				t.Errorf("%s in pieces of %d bytes: %+.1f %%", name, size, e)
			}
		}
	}
}

func TestTextCostsTheSameInsideAJSONString(t *testing.T) {
	for name := range counts(t) {
		text := sample(t, name)
		for _, escape := range []func([]byte) []byte{marshalled, asciiOnly} {
			quoted := escape(grow(text, 3*len(text)))
			want := tokens.Auto.Text(grow(text, 3*len(text)))
			if e := off(tokens.Auto.JSON(quoted), want); math.Abs(e) > 0.5 {
				t.Errorf("%s: %+.2f %% as JSON string", name, e)
			}
			inside := quoted[1 : len(quoted)-1]
			if got, want := tokens.Chars.JSON(inside), tokens.Chars.Text(grow(text, 3*len(text))); got != want {
				t.Errorf("%s: %d characters/4 as JSON string, %d as text", name, got, want)
			}
		}
	}
}

func marshalled(text []byte) []byte {
	quoted, err := json.Marshal(string(text))
	if err != nil {
		panic(err)
	}
	return quoted
}

func asciiOnly(text []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(marshalled(text)) {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	return b.Bytes()
}

func TestCharsIsAQuarterOfTheCharactersRoundedUp(t *testing.T) {
	for _, c := range []struct {
		name, raw  string
		text, json int
	}{
		{"nothing", "", 0, 0},
		{"one character", "a", 1, 1},
		{"four characters", "abcd", 1, 1},
		{"five characters", "abcde", 2, 2},
		{"characters, not bytes", "中文中文", 1, 1},
		{"invalid bytes count one each", "\xff\xff\xff\xff\xff", 2, 2},
		{"escapes count one in JSON", `\n\t\"\\`, 2, 1},
		{"unicode escapes count one in JSON", `\u4e2d\u6587\u4E2D\u6587`, 6, 1},
		{"a surrogate pair counts one", `\ud83d\ude00abc`, 4, 1},
		{"a lone surrogate counts one", `\ud83dabc`, 3, 1},
		{"what is no escape counts as it stands", `\q\u12`, 2, 2},
		{"a backslash at the end", `abc\`, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := tokens.Chars.Text([]byte(c.raw)); got != c.text {
				t.Errorf("as text %d, want %d", got, c.text)
			}
			if got := tokens.Chars.JSON([]byte(c.raw)); got != c.json {
				t.Errorf("as JSON %d, want %d", got, c.json)
			}
		})
	}
}

func TestRulesAreReadByName(t *testing.T) {
	for _, rule := range []tokens.Rule{tokens.Auto, tokens.Chars} {
		if got, err := tokens.Parse(rule.String()); err != nil || got != rule {
			t.Errorf("Parse(%q) = %v, %v", rule, got, err)
		}
	}
	if _, err := tokens.Parse("words"); err == nil || !strings.Contains(err.Error(), `"words"`) {
		t.Errorf("Parse(words) = %v, want an error that names it", err)
	}
}

func TestEstimatingAllocatesNothing(t *testing.T) {
	text := grow(sample(t, "log_app"), 1<<20)
	quoted := marshalled(text)
	if n := testing.AllocsPerRun(3, func() {
		tokens.Auto.Text(text)
		tokens.Auto.JSON(quoted)
		tokens.Chars.JSON(quoted)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestNothingLongIsCheap(t *testing.T) {
	for _, s := range []string{" ", "\t", "\n", "\r\n", "\n ", "=", "-=", "a", "A", "0", "a0", "é", "中", "🙂", "\xff"} {
		text := strings.Repeat(s, 1<<18/len(s))
		if got := tokens.Auto.Text([]byte(text)); got < len(text)/128 {
			t.Errorf("%d tokens in 256 KiB of %q", got, s)
		}
	}
}

func FuzzEstimate(f *testing.F) {
	for _, s := range []string{"", "a", `\u`, `\ud83d\u`, "\xff\xfe", " \n\t ", "----", "aB9_" + strings.Repeat("é", 9000), strings.Repeat(`\\`, 5000)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, rule := range []tokens.Rule{tokens.Auto, tokens.Chars} {
			for name, n := range map[string]int{"text": rule.Text(text), "json": rule.JSON(text)} {
				if n < 0 || n > 3*len(text)+1 {
					t.Errorf("%v: %d tokens in %d bytes of %s", rule, n, len(text), name)
				}
			}
		}
	})
}
