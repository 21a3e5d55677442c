package results_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/keep"
	"mcp-aggregator/internal/results"
	"mcp-aggregator/internal/tokens"
	"mcp-aggregator/internal/wire"
)

// A shop is a Reducer and what it has told.
type shop struct {
	*results.Reducer
	done  []results.Done
	steps []string
}

func newShop(t *testing.T, c *config.Config) *shop {
	t.Helper()
	store, err := keep.Open(keep.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{}
	s.Reducer = results.New(results.Options{Store: store, Watch: results.Watch{
		Reduced: func(d results.Done) { s.done = append(s.done, d) },
		Summary: func(st results.Step) { s.steps = append(s.steps, st.What+" "+string(st.Outcome)) },
	}})
	if err := s.Configure(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Reduce takes plain bytes.
func (s *shop) Reduce(ctx context.Context, j *results.Job, raw []byte) ([]byte, bool) {
	return s.Reducer.Reduce(ctx, j, wire.Value{Raw: raw})
}

func settings(change func(*config.Results)) *config.Config {
	c := config.Default()
	c.Results.ThresholdTokens, c.Results.MaxSummaryTokens = 500, 200
	change(&c.Results)
	return c
}

// job is one of a tool of server s, for alice.
func job(c *config.Config) *results.Job {
	return &results.Job{Rules: c.Results, Server: "s", Tool: "big", Exposed: "s__big", Owner: "alice", Links: true,
		Def: []byte(`{"name":"s__big","description":"Makes something big.","inputSchema":{"type":"object"}}`)}
}

// numbered is a text of so many lines.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d of the report, with an id %08x\n", i+1, i*2654435761)
	}
	return b.String()
}

// result is a plain result with one text.
func result(text string, more string) []byte {
	return fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]%s}`, wire.AppendQuote(nil, text), more)
}

// decoded is what tests look at.
type decoded struct {
	Content []struct {
		Type, Text, URI, MimeType, Data string
		Size                            int
	}
	StructuredContent json.RawMessage
	IsError           bool
	Meta              map[string]json.RawMessage `json:"_meta"`
	Other             json.RawMessage
}

func decode(t *testing.T, raw []byte) (d decoded) {
	t.Helper()
	if err := wire.Valid(raw); err != nil {
		t.Fatalf("no valid JSON: %v\n%s", err, raw)
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// handle is that of a result that was made smaller.
func handle(t *testing.T, d decoded) string {
	t.Helper()
	var note struct{ Handle string }
	if err := json.Unmarshal(d.Meta["mcp-aggregator/result"], &note); err != nil || note.Handle == "" {
		t.Fatalf("no handle: %s", d.Meta)
	}
	return note.Handle
}

func TestWhatIsNotTouched(t *testing.T) {
	big := numbered(1000)
	structured := `,"structuredContent":{"n":1}`
	promised := []byte(`{"name":"s__big","outputSchema":{"type":"object"}}`)
	for _, tt := range []struct {
		name   string
		change func(*config.Results)
		def    []byte
		raw    []byte
	}{
		{name: "under the threshold", raw: result(numbered(20), "")},
		{name: "policy pass", change: func(r *config.Results) { r.Policy = "pass" }, raw: result(big, "")},
		{name: "an error", raw: result(big, `,"isError":true`)},
		{name: "structuredContent that was promised", def: promised, raw: result(big, structured)},
		{name: "images", raw: []byte(`{"content":[{"type":"image","mimeType":"image/png","data":"` + strings.Repeat("A", 100_000) + `"}]}`)},
		{name: "no content", raw: []byte(`{"task":{"taskId":"` + strings.Repeat("A", 100_000) + `"}}`)},
		{name: "content twice", raw: []byte(`{"content":[],"content":[{"type":"text","text":"` + strings.Repeat("a b ", 10_000) + `"}]}`)},
		{name: "text twice", raw: []byte(`{"content":[{"type":"text","text":"a","text":"` + strings.Repeat("a b ", 10_000) + `"}]}`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := settings(func(r *config.Results) { r.Policy = "digest" })
			if tt.change != nil {
				tt.change(&c.Results)
			}
			j := job(c)
			if tt.def != nil {
				j.Def = tt.def
			}
			if small, ok := newShop(t, c).Reduce(t.Context(), j, tt.raw); ok {
				t.Errorf("became %.200s", small)
			}
		})
	}
}

func TestPoliciesKeepTheWholeAndItsCompany(t *testing.T) {
	text := numbered(2000)
	raw := fmt.Appendf(nil, `{"_meta":{"x/y":[1.0,2]},"content":[{"type":"image","data":"AAAA","mimeType":"image/png"},{"type":"text","text":%s,"annotations":{"priority":1}},{"type":"odd","v":1e400}],"structuredContent":{"a":12345678901234567890},"other":{"k":1.50}}`,
		wire.AppendQuote(nil, text))
	for _, policy := range []string{"page", "digest", "summarize"} {
		t.Run(policy, func(t *testing.T) {
			c := settings(func(r *config.Results) { r.Policy = policy })
			s := newShop(t, c)
			small, ok := s.Reduce(t.Context(), job(c), raw)
			if !ok {
				t.Fatal("not made smaller")
			}
			d := decode(t, small)
			for _, want := range []string{`{"type":"image","data":"AAAA","mimeType":"image/png"}`, `{"type":"odd","v":1e400}`, `"other":{"k":1.50}`, `"x/y":[1.0,2]`} {
				if !strings.Contains(string(small), want) {
					t.Errorf("lost %s in %.600s", want, small)
				}
			}
			if d.StructuredContent != nil {
				t.Error("structuredContent stayed, though nobody was promised any")
			}
			limit := map[string]int{"page": 500, "digest": 200, "summarize": 500}[policy] // without a model the beginning is shown
			if n := tokens.Auto.Text([]byte(d.Content[0].Text)); n > limit+150 {
				t.Errorf("%d tokens, limit %d", n, limit)
			}
			h := handle(t, d)
			if !strings.Contains(d.Content[0].Text, h) || d.Content[1].Type != "resource_link" || d.Content[1].URI != results.Scheme+h || d.Content[1].Size != len(text) {
				t.Errorf("no way to the original: %+v", d.Content[:2])
			}
			checkOriginal(t, s, h, text)
			got, err := s.Read(t.Context(), "alice", fmt.Appendf(nil, `{"handle":%q,"structured":true,"jq":".a"}`, h))
			if err != nil || !strings.HasPrefix(string(got), "12345678901234567890\n") {
				t.Errorf("structuredContent: %s, %v", got, err)
			}
		})
	}
}

// checkOriginal reads a text back in every way, and as somebody else.
func checkOriginal(t *testing.T, s *shop, h, text string) {
	t.Helper()
	res, ok := s.Resource("alice", results.Scheme+h)
	if !ok {
		t.Fatal("the resource is not there")
	}
	var read struct{ Contents []struct{ URI, Text string } }
	if err := json.Unmarshal(res, &read); err != nil || read.Contents[0].Text != text || read.Contents[0].URI != results.Scheme+h {
		t.Errorf("resources/read gives something else: %v", err)
	}
	var all strings.Builder
	for from, n := 1, strings.Count(text, "\n"); from <= n; from += 100 {
		out, err := s.Read(t.Context(), "alice", fmt.Appendf(nil, `{"handle":%q,"from":%d,"to":%d}`, h, from, from+99))
		if err != nil {
			t.Fatal(err)
		}
		body, note, _ := strings.Cut(string(out), "\n[")
		all.WriteString(body + "\n")
		if !strings.HasSuffix(note, "]") {
			t.Errorf("no note: %.100s", note)
		}
	}
	if all.String() != text {
		t.Error("lines read one after the other give something else")
	}
	if out, err := s.Read(t.Context(), "alice", fmt.Appendf(nil, `{"handle":%q,"grep":"line 777 "}`, h)); err != nil || !strings.Contains(string(out), "line 777 of") {
		t.Errorf("grep: %s, %v", out, err)
	}
	_, ok = s.Resource("mallory", results.Scheme+h)
	out, err := s.Read(t.Context(), "mallory", fmt.Appendf(nil, `{"handle":%q}`, h))
	if ok || err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("another principal reads %v %.100s, %v", ok, out, err)
	}
}

func TestBlockIsAnErrorThatSaysWhatToDo(t *testing.T) {
	c := settings(func(r *config.Results) { r.Policy = "block" })
	s := newShop(t, c)
	small, ok := s.Reduce(t.Context(), job(c), result(numbered(1000), ""))
	d := decode(t, small)
	if !ok || !d.IsError || !strings.Contains(d.Content[0].Text, "too large") || !strings.Contains(string(d.Meta["mcp-aggregator/error"]), `"too_large"`) {
		t.Errorf("%s", small)
	}
	if s.Kept().Entries != 0 {
		t.Error("what is blocked is kept")
	}
}

func TestTheHostSetsTheThreshold(t *testing.T) {
	c := settings(func(r *config.Results) { r.Policy = "page" })
	s := newShop(t, c)
	text := result(numbered(300), "") // about 12,000 characters
	def := []byte(`{"name":"s__big","_meta":{"anthropic/maxResultSizeChars":500000}}`)
	for _, tt := range []struct {
		name    string
		change  func(*results.Job)
		smaller bool
	}{
		{"nobody says anything", func(*results.Job) {}, true},
		{"the tool wants more", func(j *results.Job) { j.Def = def }, false},
		{"the configuration of the server counts more", func(j *results.Job) { j.Def, j.Own = def, true }, true},
		{"switched off", func(j *results.Job) { j.Def, j.Rules.HostLimit = def, false }, true},
		{"the request wants more", func(j *results.Job) { j.HostChars = 400_000 }, false},
		{"the request wants less", func(j *results.Job) { j.Def, j.HostChars = def, 1000 }, true},
	} {
		j := job(c)
		tt.change(j)
		if _, ok := s.Reduce(t.Context(), j, text); ok != tt.smaller {
			t.Errorf("%s: smaller %v", tt.name, ok)
		}
	}
}

func TestOldClientsGetNoLinks(t *testing.T) {
	c := settings(func(r *config.Results) { r.Policy = "page" })
	s := newShop(t, c)
	j := job(c)
	j.Links = false
	small, _ := s.Reduce(t.Context(), j, result(numbered(1000), ""))
	if d := decode(t, small); len(d.Content) != 1 || strings.Contains(d.Content[0].Text, results.Scheme) || !strings.Contains(d.Content[0].Text, "result_read") {
		t.Errorf("%.400s", small)
	}
}

func TestThePageGoesOnWhereItEnds(t *testing.T) {
	c := settings(func(r *config.Results) { r.Policy = "page" })
	s := newShop(t, c)
	text := numbered(1000)
	small, _ := s.Reduce(t.Context(), job(c), result(text, ""))
	d := decode(t, small)
	head, page, _ := strings.Cut(d.Content[0].Text, "]\n\n")
	var next int
	_, after, _ := strings.Cut(head, "go on with from: ")
	if _, err := fmt.Sscanf(after, "%d", &next); err != nil {
		t.Fatalf("%v in %s", err, head)
	}
	out, err := s.Read(t.Context(), "alice", fmt.Appendf(nil, `{"handle":%q,"from":%d,"to":%d}`, handle(t, d), next, next))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(out), "[")
	if !strings.HasPrefix(text, page+line) || line == "" {
		t.Errorf("the page ends %.60q, line %d is %q", page[max(0, len(page)-60):], next, line)
	}
}

func TestWrongArgumentsOfTheReader(t *testing.T) {
	c := settings(func(r *config.Results) { r.Policy = "page" })
	s := newShop(t, c)
	small, _ := s.Reduce(t.Context(), job(c), result(numbered(1000), ""))
	h := handle(t, decode(t, small))
	for args, want := range map[string]string{
		``:                                   "handle",
		`{}`:                                 "not found",
		`{"handle":"nonsense"}`:              "not found",
		`{"handle":7}`:                       "handle",
		`{"handle":"` + h + `","lines":3}`:   "lines",
		`{"handle":"` + h + `","grep":"("}`:  "grep",
		`{"handle":"` + h + `","jq":".["}`:   "jq",
		`{"handle":"` + h + `","from":9999}`: "",
	} {
		out, err := s.Read(t.Context(), "alice", []byte(args))
		if want == "" {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %.100s, %v", args, out, err)
		}
	}
}

// A client's own model is asked as servers ask it.
func TestTheModelOfTheClientSummarizes(t *testing.T) {
	c := settings(func(r *config.Results) { r.Policy = "summarize" })
	s := newShop(t, c)
	j := job(c)
	j.Intent, j.Session, j.Arguments = "find the broken one", "session-1", []byte(`{"q":"all"}`)
	s.Note("session-1", "s__small", []byte(`{"first":true}`))
	s.Note("session-1", "s__big", []byte(`{"q":"all"}`))
	var asked string
	j.Ask = func(_ context.Context, method string, params []byte) ([]byte, error) {
		asked = method + " " + string(params)
		return []byte(`{"role":"assistant","model":"m","content":{"type":"text","text":"All 1,000 lines are fine."}}`), nil
	}
	small, _ := s.Reduce(t.Context(), j, result(numbered(1000), ""))
	d := decode(t, small)
	if !strings.HasSuffix(d.Content[0].Text, "]\n\nAll 1,000 lines are fine.") || !strings.Contains(d.Content[0].Text, "a summary by sampling") {
		t.Errorf("%s", d.Content[0].Text)
	}
	for _, want := range []string{"sampling/createMessage ", "find the broken one", "s__small", "first", "Makes something big", "line 1000 of the report", `\"q\":\"all\"`} {
		if !strings.Contains(asked, want) {
			t.Errorf("the prompt lacks %q", want)
		}
	}
	j.Ask = func(context.Context, string, []byte) ([]byte, error) { return nil, errors.New("the user said no") }
	j.Owner = "bob" // no summary of alice's
	small, _ = s.Reduce(t.Context(), j, result(numbered(1000), ""))
	if d = decode(t, small); !strings.Contains(d.Content[0].Text, "its beginning") {
		t.Errorf("%.300s", d.Content[0].Text)
	}
	if got := strings.Join(s.steps, ", "); !strings.HasPrefix(got, "started , ") || !strings.Contains(got, "completed ok") || !strings.HasSuffix(got, "failed error") {
		t.Error(got)
	}
}

func TestALineThatIsTooLongForAPageGoesOnAtAByte(t *testing.T) {
	c := settings(func(r *config.Results) { r.Policy = "page" })
	s := newShop(t, c)
	text := "Here it is:\n" + strings.Repeat(`{"id":12345,"name":"ünknown"},`, 1000)
	small, _ := s.Reduce(t.Context(), job(c), result(text, ""))
	d := decode(t, small)
	head, page, _ := strings.Cut(d.Content[0].Text, "]\n\n")
	_, after, _ := strings.Cut(head, "go on with offset: ")
	var next int
	if _, err := fmt.Sscanf(after, "%d", &next); err != nil || len(page) < 500 || !strings.HasPrefix(text, page) || next != len(page) {
		t.Fatalf("%v: %d bytes, %s", err, len(page), head)
	}
	out, err := s.Read(t.Context(), "alice", fmt.Appendf(nil, `{"handle":%q,"offset":%d,"bytes":100}`, handle(t, d), next))
	if err != nil || !strings.HasPrefix(string(out), text[next:next+90]) {
		t.Errorf("%.200s, %v", out, err)
	}
}

func TestAResultThatWouldNotBecomeSmallerIsPassedOn(t *testing.T) {
	for _, policy := range []string{"page", "digest", "summarize"} {
		c := settings(func(r *config.Results) { r.Policy, r.ThresholdTokens = policy, 10 })
		s := newShop(t, c)
		if small, ok := s.Reduce(t.Context(), job(c), result(numbered(3), "")); ok {
			t.Errorf("%s: became %s", policy, small)
		}
		if len(s.done) != 0 {
			t.Errorf("%s: told of %+v", policy, s.done)
		}
	}
}

// A change of the configuration does not take away the summary that is being written.
func TestSummariesSurviveNewModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := settings(func(r *config.Results) { r.Policy = "summarize" })
		s := newShop(t, c)
		j := job(c)
		j.Ask = func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
			next := settings(func(r *config.Results) { r.Policy, r.Summary.Concurrency = "summarize", 2 })
			if err := s.Configure(next); err != nil {
				t.Error(err)
			}
			time.Sleep(10 * time.Second)
			return []byte(`{"role":"assistant","model":"m","content":{"type":"text","text":"late, but whole"}}`), ctx.Err()
		}
		small, _ := s.Reduce(t.Context(), j, result(numbered(1000), ""))
		if d := decode(t, small); !strings.HasSuffix(d.Content[0].Text, "late, but whole") {
			t.Errorf("%.300s", d.Content[0].Text)
		}
		time.Sleep(time.Hour)
	})
}
