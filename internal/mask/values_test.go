package mask_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"

	"mcp-aggregator/internal/mask"
)

func newRand() *rand.Rand { return rand.New(rand.NewPCG(7, 7)) }

func TestConfiguredValuesAreMaskedInEveryEncoding(t *testing.T) {
	for _, value := range []string{"hunter2-hunter2", `with "quotes" and \slashes/`, "Zürich+secret&more=1", "line1\nline2-secret", "sixsix"} {
		m := masker(t, mask.Options{Values: []string{value}})
		std, raw := base64.StdEncoding, base64.RawURLEncoding
		forms := map[string]string{
			"plain": value, "json": strings.Trim(quoted(value), `"`), "json twice": quoted(quoted(value)), "json three times": quoted(quoted(quoted(value))),
			"query": url.QueryEscape(value), "path": url.PathEscape(value), "lower-case query": strings.ToLower(url.QueryEscape(strings.ToLower(value))),
			"hex": hex.EncodeToString([]byte(value)), "base64": std.EncodeToString([]byte(value)), "base64 url": raw.EncodeToString([]byte(value)),
			"escaped slashes": strings.ReplaceAll(strings.Trim(quoted(value), `"`), "/", `\/`),
		}
		delete(forms, "lower-case query") // only the escapes are in lower case in reality
		if len(value) >= 8 {
			forms["base64 of a pair"] = std.EncodeToString([]byte("bob:" + value))
			forms["base64 in the middle"] = std.EncodeToString([]byte("ab" + value + "cd"))
			forms["base64 at another place"] = std.EncodeToString([]byte("a" + value + "c"))
		}
		for name, form := range forms {
			for i, text := range []string{form, "x " + form + " y", "a=" + form + "&b", "(" + form + ")" + form} {
				got := m.Text([]byte(text), nil)
				if !bytes.Contains(got, []byte("[masked:configured]")) || bytes.Contains(got, []byte(form)) {
					t.Errorf("%q, %s, %d: %s", value, name, i, got)
				}
				result := edited(m, []byte(quoted(map[string]string{"k": text})))
				if !bytes.Contains(result, []byte("[masked:configured]")) || bytes.Contains(result, []byte(form)) {
					t.Errorf("%q, %s, %d: in JSON: %s", value, name, i, result)
				}
			}
		}
	}
}

func TestAThousandValuesAreNoBurden(t *testing.T) {
	r := newRand()
	values := make([]string, 1000)
	for i := range values {
		values[i] = from(r, alnum+"/+ ", 20+r.IntN(80))
	}
	m := masker(t, mask.Options{Values: values})
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() {
			for _, v := range values[i*100 : i*100+100] {
				if got := string(m.Text([]byte("x "+v+" y"), nil)); got != "x [masked:configured] y" {
					t.Errorf("got %s", got)
				}
			}
		})
	}
	wait.Wait()
}

func TestShortValuesAreLeftOut(t *testing.T) {
	if m := masker(t, mask.Options{Values: []string{"", "true", "12345"}}); !m.IsZero() {
		t.Error("a value below six bytes is masked")
	}
}

func TestAForgedMarkerHidesNothing(t *testing.T) {
	m := masker(t, mask.Options{Sets: []string{"all"}, Values: []string{"hunter2x"}})
	for _, text := range []string{"[masked:hunter2x]", "[masked:jwt hunter2x]", "[masked:jwt]hunter2x[masked:", "[masked:password=hunter2x"} {
		if got := m.Text([]byte(text), nil); bytes.Contains(got, []byte("hunter2x")) {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestOwnPatterns(t *testing.T) {
	m := masker(t, mask.Options{Patterns: []mask.Pattern{{Name: "ticket", Regexp: `TICKET-(\d+)`}, {Name: "iban", Regexp: `\b[A-Z]{2}\d{2}[A-Z0-9]{12,30}\b`}}})
	got := string(m.Text([]byte("TICKET-123 for DE89370400440532013000, TICKET-x"), nil))
	if want := "TICKET-[masked:ticket] for [masked:iban], TICKET-x"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := string(edited(m, []byte(`["\u0054ICKET-12", {"n\nDE89370400440532013000":1}]`))), `["\u0054ICKET-[masked:ticket]", {"n\n[masked:iban]":1}]`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestBadOptionsAreNamed(t *testing.T) {
	many := make([]mask.Pattern, 201)
	for i := range many {
		many[i] = mask.Pattern{Name: "x", Regexp: "y"}
	}
	for name, c := range map[string]struct {
		o    mask.Options
		want string
	}{
		"an unknown set":     {mask.Options{Sets: []string{"clouds"}}, `unknown set of patterns "clouds"`},
		"unknown code":       {mask.Options{Code: []string{"x"}}, `unknown code masker "x"`},
		"no expression":      {mask.Options{Patterns: []mask.Pattern{{Name: "mine"}}}, `pattern 1 ("mine")`},
		"a broken one":       {mask.Options{Patterns: []mask.Pattern{{Name: "ok", Regexp: "x"}, {Name: "mine", Regexp: "("}}}, `pattern 2 ("mine"): error parsing regexp`},
		"a strange name":     {mask.Options{Patterns: []mask.Pattern{{Name: "a]b", Regexp: "x"}}}, "a name has"},
		"a long one":         {mask.Options{Patterns: []mask.Pattern{{Name: "mine", Regexp: strings.Repeat("x", 1025)}}}, "1 to 1024 bytes"},
		"an expensive one":   {mask.Options{Patterns: []mask.Pattern{{Name: "mine", Regexp: strings.Repeat(".{999}", 100)}}}, "too expensive"},
		"too many":           {mask.Options{Patterns: many}, "201 patterns"},
		"together too heavy": {mask.Options{Patterns: heavy(15)}, "too expensive together"},
	} {
		if _, err := mask.New(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

func heavy(n int) []mask.Pattern {
	all := make([]mask.Pattern, n)
	for i := range all {
		all[i] = mask.Pattern{Name: fmt.Sprintf("p%d", i), Regexp: `[ab]{900}[cd]{900}`}
	}
	return all
}

func TestSetsNameTheirKinds(t *testing.T) {
	all := map[string]int{}
	for _, s := range mask.Sets() {
		all[s.Name] = len(s.Kinds)
		if _, err := mask.New(mask.Options{Sets: []string{s.Name}}); err != nil {
			t.Error(err)
		}
	}
	if all["default"] < 25 || all["all"] <= all["default"] || all["generic"] != all["all"]-all["default"] {
		t.Errorf("got %v", all)
	}
}
