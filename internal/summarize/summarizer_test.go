package summarize_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/summarize"
)

func TestEqualRequestsAtOnceAreOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := piped(t, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			send(w, kinds[0].begin+kinds[0].say("one "))
			time.Sleep(time.Second)
			send(w, kinds[0].say("answer")+kinds[0].end("stop"))
		})
		var attempts []summarize.Attempt
		s := opened(t, summarize.Options{
			Models:    []summarize.Model{kinds[0].model(t, b, "m")},
			Attempted: func(a summarize.Attempt) { attempts = append(attempts, a) },
		})
		var mu sync.Mutex
		outcomes, heard := map[summarize.Outcome]int{}, map[string]int{}
		var all sync.WaitGroup
		for n := range 16 {
			all.Go(func() {
				time.Sleep(time.Duration(n) * 100 * time.Millisecond) // some come when half has been said
				var pieces strings.Builder
				a, outcome, err := s.Summarize(t.Context(), numbered(1), nil, func(c string) { pieces.WriteString(c) })
				if err != nil || a.Text != "one answer" {
					t.Errorf("%q, %v", a.Text, err)
				}
				mu.Lock()
				defer mu.Unlock()
				outcomes[outcome]++
				heard[pieces.String()]++
			})
		}
		all.Wait()
		if n := len(b.got()); n != 1 {
			t.Errorf("%d requests to the model", n)
		}
		if diff := cmp.Diff(map[summarize.Outcome]int{summarize.OK: 1, summarize.Cached: 15}, outcomes); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		if heard["one answer"] != 16 {
			t.Errorf("pieces heard: %v", heard)
		}
		want := []summarize.Attempt{{Model: "m", Outcome: summarize.OK, In: 321, Out: 12, Took: 2 * time.Second}}
		if diff := cmp.Diff(want, attempts); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
	})
}

func TestWhatShapesASummaryKeepsItApart(t *testing.T) {
	base := func() summarize.Request {
		return summarize.Request{
			Owner: "alice", Session: "s1", Server: "k8s", Tool: "pods", Description: "lists pods", Arguments: []byte(`{"a":1}`),
			Intent: "find the failing one", Recent: []string{"nodes", "events"}, Text: []byte("text"), MaxTokens: 500,
		}
	}
	tests := []struct {
		name   string
		change func(r *summarize.Request)
		want   summarize.Outcome
	}{
		{"nothing else", func(*summarize.Request) {}, summarize.Cached},
		{"another session of the owner", func(r *summarize.Request) { r.Session = "s2" }, summarize.Cached},
		{"another owner", func(r *summarize.Request) { r.Owner = "bob" }, summarize.OK},
		{"another server", func(r *summarize.Request) { r.Server = "k8" }, summarize.OK},
		{"letters moved from one name to the next", func(r *summarize.Request) { r.Server, r.Tool = "k8sp", "ods" }, summarize.OK},
		{"another description", func(r *summarize.Request) { r.Description = "" }, summarize.OK},
		{"other arguments", func(r *summarize.Request) { r.Arguments = []byte(`{"a":2}`) }, summarize.OK},
		{"another intent", func(r *summarize.Request) { r.Intent = "count" }, summarize.OK},
		{"other earlier calls", func(r *summarize.Request) { r.Recent = []string{"nodesevents"} }, summarize.OK},
		{"another text", func(r *summarize.Request) { r.Text = []byte("texT") }, summarize.OK},
		{"another length", func(r *summarize.Request) { r.MaxTokens = 501 }, summarize.OK},
		{"another model", func(r *summarize.Request) { r.Models = []string{"b"} }, summarize.OK},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := opened(t, summarize.Options{Models: []summarize.Model{says("a", "ok"), says("b", "ok")}})
			if _, outcome, err := s.Summarize(t.Context(), base(), nil, nil); outcome != summarize.OK {
				t.Fatal(err)
			}
			r := base()
			tt.change(&r)
			if _, outcome, err := s.Summarize(t.Context(), r, nil, nil); outcome != tt.want {
				t.Errorf("%q, %v, want %q", outcome, err, tt.want)
			}
		})
	}
}

func TestOnlyGoodSummariesAreKept(t *testing.T) {
	n := 0
	m := &writer{"m", func(context.Context, summarize.Prompt, func(string)) (summarize.Answer, error) {
		n++
		switch n {
		case 1:
			return summarize.Answer{}, errors.New("no")
		case 2:
			return summarize.Answer{Text: "I will not", Refused: true}, nil
		}
		return summarize.Answer{Text: "good"}, nil
	}}
	s := opened(t, summarize.Options{Models: []summarize.Model{m}})
	var got []string
	for range 4 {
		a, outcome, _ := s.Summarize(t.Context(), numbered(1), nil, nil)
		got = append(got, fmt.Sprintf("%s %q", outcome, a.Text))
	}
	if diff := cmp.Diff([]string{`error ""`, `ok "I will not"`, `ok "good"`, `cached "good"`}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheCacheIsBounded(t *testing.T) {
	fill := func(o summarize.CacheOptions) summarize.Stats {
		s := opened(t, summarize.Options{Models: []summarize.Model{says("m", strings.Repeat("word ", 200))}, Cache: o})
		for n := range 50 {
			_, _, _ = s.Summarize(t.Context(), numbered(n), nil, nil)
		}
		return s.Stats()
	}
	if st := fill(summarize.CacheOptions{Entries: 7}); st.Cached != 7 {
		t.Errorf("bounded in number: %+v", st)
	}
	if st := fill(summarize.CacheOptions{Bytes: 10_000}); st.CacheBytes > 10_000 || st.CacheBytes < 8_000 {
		t.Errorf("bounded in bytes: %+v", st)
	}
	if st := fill(summarize.CacheOptions{Entries: -1}); st.Cached != 0 {
		t.Errorf("switched off: %+v", st)
	}
	if st := fill(summarize.CacheOptions{Bytes: 100}); st.Cached != 0 || st.CacheBytes != 0 {
		t.Errorf("each too large: %+v", st)
	}
}

// The request to the model ends when the last of those who wait for it goes.
func TestWhenNobodyWaitsTheModelIsNotAskedAnyMore(t *testing.T) {
	for _, k := range kinds {
		synctest.Test(t, func(t *testing.T) {
			gone := false
			b := piped(t, func(w http.ResponseWriter, r *http.Request) {
				send(w, k.begin+k.say("so far"))
				hang(r)
				gone = true
			})
			s := opened(t, summarize.Options{Models: []summarize.Model{k.model(t, b, "m")}})
			ends := make(chan summarize.Outcome)
			var leave [2]context.CancelFunc
			for i := range leave {
				var ctx context.Context
				ctx, leave[i] = context.WithCancel(t.Context())
				go func() {
					_, outcome, _ := s.Summarize(ctx, numbered(1), nil, nil)
					ends <- outcome
				}()
				synctest.Wait()
			}
			for i, left := range leave {
				left()
				if got := <-ends; got != summarize.Cancelled {
					t.Errorf("%s: caller %d: %q", k.name, i, got)
				}
				synctest.Wait()
				if last := i == len(leave)-1; gone != last {
					t.Errorf("%s: after caller %d has left, the request is gone: %v", k.name, i, gone)
				}
			}
			if n := len(b.got()); n != 1 {
				t.Errorf("%s: %d requests", k.name, n)
			}
		})
	}
}

func TestACancelledRequestEndsOnTheNetwork(t *testing.T) {
	began, gone := make(chan struct{}), make(chan struct{})
	b := local(t, func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		hang(r)
		close(gone)
	})
	s := opened(t, summarize.Options{Models: []summarize.Model{kinds[0].model(t, b, "m")}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-began; cancel() }()
	if _, outcome, err := s.Summarize(ctx, numbered(1), nil, nil); outcome != summarize.Cancelled {
		t.Errorf("%q, %v", outcome, err)
	}
	<-gone
}

func TestCallersThatGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts []summarize.Outcome
		s := opened(t, summarize.Options{
			Models:    []summarize.Model{silent("m")},
			Attempted: func(a summarize.Attempt) { attempts = append(attempts, a.Outcome) },
		})
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, outcome, err := s.Summarize(gone, numbered(1), nil, nil); outcome != summarize.Cancelled || err == nil {
			t.Errorf("gone before: %q, %v", outcome, err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, outcome, err := s.Summarize(short, numbered(1), nil, nil); outcome != summarize.Timeout || err == nil {
			t.Errorf("with less time than the model: %q, %v", outcome, err)
		}
		// A request that nobody waits for is not joined: it is about to fail.
		synctest.Wait()
		if diff := cmp.Diff([]summarize.Outcome{summarize.Cancelled}, attempts); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
		if n := s.Stats().Running; n != 0 {
			t.Errorf("%d running", n)
		}
		if st := s.Circuits(); len(st) != 0 {
			t.Errorf("a caller that goes counts against the model: %+v", st)
		}
	})
}

func TestTheOrderOfModels(t *testing.T) {
	bad := failing("a", "out of order\n\x1b[31m")
	s := opened(t, summarize.Options{Models: []summarize.Model{bad, says("b", "from b"), says("c", "from c")}})
	own := says(summarize.Caller, "from the client")
	tests := []struct {
		names  []string
		caller summarize.Model
		want   string
	}{
		{nil, nil, "from b"},
		{nil, own, "from b"},
		{[]string{"c", "b"}, nil, "from c"},
		{[]string{summarize.Caller, "b"}, own, "from the client"},
		{[]string{summarize.Caller, "b"}, nil, "from b"},
		{[]string{"a", "nobody", summarize.Caller}, own, "from the client"},
		{[]string{"a"}, own, ""},
		{[]string{}, own, ""},
		{[]string{"nobody"}, own, ""},
	}
	for i, tt := range tests {
		r := numbered(i)
		r.Models = tt.names
		a, outcome, err := s.Summarize(t.Context(), r, tt.caller, nil)
		if a.Text != tt.want || (err == nil) != (tt.want != "") || err == nil && outcome != summarize.OK {
			t.Errorf("%q: %q, %q, %v, want %q", tt.names, a.Text, outcome, err, tt.want)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("control characters in %q", err)
		}
	}
}

func TestOutcomesAreAClosedSet(t *testing.T) {
	seen := map[summarize.Outcome]bool{}
	for _, o := range summarize.Outcomes() {
		seen[o] = true
	}
	if len(seen) != 9 || len(summarize.Outcomes()) != 9 || seen[""] {
		t.Errorf("%v", summarize.Outcomes())
	}
	for _, r := range replies {
		if !seen[r.want] {
			t.Errorf("%q is none", r.want)
		}
	}
}

// The bytes of a request are free when Summarize returns, even if others wait for the
// same summary.
func TestTheBytesOfARequestAreNotUsedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var prompt string
		m := &writer{"m", func(_ context.Context, p summarize.Prompt, _ func(string)) (summarize.Answer, error) {
			time.Sleep(time.Second)
			prompt = p.User
			return summarize.Answer{Text: "ok"}, nil
		}}
		s := opened(t, summarize.Options{Models: []summarize.Model{m}})
		buffer := []byte("the original bytes")
		short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		go func() {
			time.Sleep(100 * time.Millisecond)
			r := summarize.Request{Text: []byte("the original bytes")}
			if _, outcome, err := s.Summarize(t.Context(), r, nil, nil); outcome != summarize.Cached {
				t.Errorf("the one who stays: %q, %v", outcome, err)
			}
		}()
		_, _, _ = s.Summarize(short, summarize.Request{Text: buffer}, nil, nil)
		copy(buffer, "XXXXXXXXXXXXXXXXXX")
		time.Sleep(time.Second)
		synctest.Wait()
		if !strings.Contains(prompt, "the original bytes") {
			t.Errorf("the model got %q", prompt)
		}
	})
}

// Who comes when the first model has failed hears only the second.
func TestAnotherModelBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := &writer{"first", func(_ context.Context, _ summarize.Prompt, chunk func(string)) (summarize.Answer, error) {
			chunk("never to end")
			return summarize.Answer{}, errors.New("no")
		}}
		second := &writer{"second", func(_ context.Context, _ summarize.Prompt, chunk func(string)) (summarize.Answer, error) {
			chunk("right ")
			time.Sleep(2 * time.Second)
			chunk("away")
			return summarize.Answer{Text: "right away"}, nil
		}}
		s := opened(t, summarize.Options{Models: []summarize.Model{first, second}})
		go func() { _, _, _ = s.Summarize(t.Context(), numbered(1), nil, nil) }()
		time.Sleep(time.Second)
		var heard strings.Builder
		_, outcome, err := s.Summarize(t.Context(), numbered(1), nil, func(c string) { heard.WriteString(c) })
		if outcome != summarize.Cached || heard.String() != "right away" {
			t.Errorf("%q, %v, heard %q", outcome, err, heard.String())
		}
	})
}

func TestNothingIsToldAfterTheCallerHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &writer{"m", func(_ context.Context, _ summarize.Prompt, chunk func(string)) (summarize.Answer, error) {
			for range 10 {
				chunk("x")
				time.Sleep(time.Second)
			}
			return summarize.Answer{Text: "ok"}, nil
		}}
		s := opened(t, summarize.Options{Models: []summarize.Model{m}})
		go func() { _, _, _ = s.Summarize(t.Context(), numbered(1), nil, nil) }()
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		var heard strings.Builder
		_, _, _ = s.Summarize(short, numbered(1), nil, func(c string) { heard.WriteString(c) })
		time.Sleep(time.Minute)
		if heard.String() != "xxx" {
			t.Errorf("heard %q", heard.String())
		}
	})
}
