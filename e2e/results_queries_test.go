//go:build e2e && linux

package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

func TestOriginalsAreSearched(t *testing.T) {
	t.Parallel()
	a := harness.Serve(t, digested(t))
	r := readAs(t, overHTTP(t, a.URL), mcptest.ModernVersion, nil)
	r.await("bulky__pods", true)

	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct{ ContainerStatuses []struct{ Ready bool } }
		}
	}
	if err := json.Unmarshal([]byte(podList(1<<20)), &list); err != nil {
		t.Fatal(err)
	}
	var ill []string
	for _, pod := range list.Items {
		if !pod.Status.ContainerStatuses[0].Ready {
			ill = append(ill, pod.Metadata.Name)
		}
	}
	pods := r.call("bulky__pods", nil).note.Handle
	read := func(handle string, query map[string]any) string {
		t.Helper()
		arguments := maps.Clone(query)
		arguments["handle"] = handle
		s := r.call("result_read", arguments)
		if s.result.IsError {
			t.Errorf("%v: %.300s", query, s.text)
		}
		text, _, _ := strings.Cut(s.text, "\n[")
		return text
	}
	if got := read(pods, map[string]any{"jq": ".items | length"}); got != fmt.Sprint(len(list.Items)) {
		t.Errorf("jq counts %s pods, want %d", got, len(list.Items))
	}
	if got := read(pods, map[string]any{"jq": ".items[] | select(.status.containerStatuses[0].ready | not) | .metadata.name", "raw": true}); got != strings.Join(ill, "\n") {
		t.Errorf("jq finds %.300s, want %.300s", got, strings.Join(ill, "\n"))
	}

	text := asMasked(originals["log"]())
	lines := strings.SplitAfter(text, "\n")
	log := r.call("bulky__log", nil).note.Handle
	for _, from := range []int{1, 299, 5000, len(lines) - 30} {
		to := from + 20
		if got, want := read(log, map[string]any{"from": from, "to": to})+"\n", strings.Join(lines[from-1:to], ""); len(want) < 20_000 && got != want {
			t.Errorf("lines %d to %d are %.300q, want %.300q", from, to, got, want)
		}
	}
	// What the digest names by its line is found there.
	_, classes := errorLog(5 << 20)
	for _, c := range classes[:5] {
		pattern := `\[db-pool\] .*` + c.words[1]
		if c.words[1] == "connection to" || c.words[1] == "out of memory" {
			pattern = `\[db-pool\] ` + c.words[1]
		}
		got := read(log, map[string]any{"grep": pattern})
		if n := strings.Count(got, c.words[1]); n != c.count {
			t.Errorf("grep finds %d of %q, want %d:\n%.500s", n, c.words, c.count, got)
		}
	}
}

// Whatever a client asks of an original, it is answered soon, and others are served
// meanwhile.
func TestHostileQueriesHurtNobody(t *testing.T) {
	t.Parallel()
	a := harness.Serve(t, digested(t))
	r := readAs(t, overHTTP(t, a.URL), mcptest.ModernVersion, nil)
	r.await("bulky__log", true)
	handles := map[string]string{"log": r.call("bulky__log", nil).note.Handle, "pods": r.call("bulky__pods", nil).note.Handle}
	before := a.Usage(t)
	neighbour := a.Connect(t, mcptest.Modern)
	t.Run("queries", func(t *testing.T) {
		for name, query := range map[string]map[string]any{
			"endless":            {"jq": "range(1e18)"},
			"endless in a list":  {"jq": "[range(1e18)] | length"},
			"recursion":          {"jq": "def f: f; f"},
			"deep recursion":     {"jq": "def f: [f]; f"},
			"a huge text":        {"jq": `"x" * 1e12`},
			"a huge text, slow":  {"jq": `[limit(1e9; repeat("xxxxxxxx"))] | add | length`},
			"a slow pattern":     {"jq": `[.items[] | tostring | test("(a|a)*(b|b)*c$")] | length`},
			"input":              {"jq": "[inputs, $ENV, env, input_filename] | tostring"},
			"nested repetitions": {"grep": strings.Repeat("(", 200) + "a*" + strings.Repeat(")*", 200)},
			"large repetitions":  {"grep": "(((a{1,30}){1,30}){1,30})$"},
			"everything":         {"grep": "", "context": 1_000_000},
			"all with context":   {"grep": ".", "context": 1 << 40, "max_matches": 1 << 40},
			"far away":           {"from": 1 << 60, "to": 1 << 61},
			"many pages":         {"page": 1 << 60, "page_size": 1 << 60},
			"behind the end":     {"offset": 1 << 62, "bytes": 1 << 62},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for text, handle := range handles {
					arguments := maps.Clone(query)
					arguments["handle"] = handle
					s := (&reader{t, r.session}).call("result_read", arguments)
					if s.took > 10*time.Second || len(s.text) > 100_000 || s.text == "" {
						t.Errorf("%s: answered after %v with %d bytes", text, s.took, len(s.text))
					}
					if strings.Contains(s.text, "XDG_STATE_HOME") {
						t.Errorf("%s: the environment is in %.300s", text, s.text)
					}
				}
				if o := call(t.Context(), neighbour, "result_read", `{"handle":"`+handles["log"]+`","head":1}`, 5*time.Second); o.ok() != nil || o.took > 4*time.Second {
					t.Errorf("meanwhile another call ended %s", o)
				}
			})
		}
	})
	harness.Eventually(t, 5*time.Second, "what ran the queries has ended", func() bool { return len(serversOf(a.Process)) == 1 })
	if grown := (a.Usage(t).RSS - before.RSS) >> 20; grown > 300 {
		t.Errorf("the aggregator has grown by %d MB", grown)
	}
}
