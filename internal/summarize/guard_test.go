package summarize_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/breaker"
	"mcp-aggregator/internal/summarize"
)

// costs is a model that counts tokens as it is told to.
func costs(in, out int) *writer {
	return &writer{"m", func(context.Context, summarize.Prompt, func(string)) (summarize.Answer, error) {
		return summarize.Answer{Text: "ok", In: in, Out: out}, nil
	}}
}

func TestTheBudgetOfAMinute(t *testing.T) {
	ask := func(t *testing.T, s *summarize.Summarizer, n int, want summarize.Outcome) {
		t.Helper()
		r := numbered(n)
		r.MaxTokens = 100
		if _, outcome, err := s.Summarize(t.Context(), r, nil, nil); outcome != want {
			t.Errorf("summary %d: %q, %v, want %q", n, outcome, err, want)
		}
	}
	t.Run("what was spent is missing until it has come back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := opened(t, summarize.Options{Models: []summarize.Model{costs(5000, 1000)}, TokensPerMinute: 6000})
			ask(t, s, 1, summarize.OK) // estimated at some hundreds, counted as all
			if left := s.Stats().BudgetLeft; left != 0 {
				t.Errorf("%d tokens left", left)
			}
			ask(t, s, 2, summarize.Budget)
			time.Sleep(30 * time.Second)
			if left := s.Stats().BudgetLeft; left != 3000 {
				t.Errorf("%d tokens left after half a minute", left)
			}
			ask(t, s, 3, summarize.OK)
			ask(t, s, 4, summarize.Budget) // in debt
			time.Sleep(31 * time.Second)
			ask(t, s, 5, summarize.Budget)
			time.Sleep(10 * time.Second)
			ask(t, s, 6, summarize.OK)
		})
	})
	t.Run("what an estimate took too much comes back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := opened(t, summarize.Options{Models: []summarize.Model{costs(1, 1)}, TokensPerMinute: 2000})
			for n := range 100 {
				ask(t, s, n, summarize.OK)
			}
		})
	})
	t.Run("a refused request costs nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := piped(t, func(w http.ResponseWriter, r *http.Request) { status(400, "no")(kinds[0], w, r) })
			s := opened(t, summarize.Options{Models: []summarize.Model{kinds[0].model(t, b, "m")}, TokensPerMinute: 2000})
			ask(t, s, 1, summarize.Failed)
			if left := s.Stats().BudgetLeft; left != 2000 {
				t.Errorf("%d tokens left", left)
			}
		})
	})
	t.Run("one that costs more than a minute's gets all of a minute's", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := opened(t, summarize.Options{Models: []summarize.Model{costs(5000, 1000)}, TokensPerMinute: 10})
			ask(t, s, 1, summarize.OK)
			time.Sleep(time.Minute)
			ask(t, s, 2, summarize.Budget)
		})
	})
	t.Run("the client's own model costs its client", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := opened(t, summarize.Options{Models: []summarize.Model{costs(5000, 1000)}, TokensPerMinute: 5000})
			ask(t, s, 1, summarize.OK)
			r := numbered(2)
			if a, outcome, err := s.Summarize(t.Context(), r, says("own", "mine"), nil); outcome != summarize.OK || a.Text != "mine" {
				t.Errorf("%q, %v", outcome, err)
			}
		})
	})
}

// More than may run wait a little, and are told soon that it is too much.
func TestOnlySoManyAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running, most := 0, 0
		slow := &writer{"m", func(context.Context, summarize.Prompt, func(string)) (summarize.Answer, error) {
			running++
			most = max(most, running)
			time.Sleep(3 * time.Second)
			running--
			return summarize.Answer{Text: "ok"}, nil
		}}
		s := opened(t, summarize.Options{Models: []summarize.Model{slow}, Concurrency: 1})
		type end struct {
			outcome summarize.Outcome
			took    time.Duration
		}
		ends := make(chan end)
		began := time.Now()
		ask := func(n int) {
			_, outcome, _ := s.Summarize(t.Context(), numbered(n), nil, nil)
			ends <- end{outcome, time.Since(began)}
		}
		for n := range 8 {
			go ask(n)
			synctest.Wait()
		}
		// One more comes late enough to wait for a place until there is one.
		go func() { time.Sleep(2500 * time.Millisecond); ask(8) }()
		count := map[end]int{}
		for range 9 {
			count[<-ends]++
		}
		want := map[end]int{
			{summarize.OK, 3 * time.Second}:   1,
			{summarize.Busy, 0}:               3, // more than may wait
			{summarize.Busy, 2 * time.Second}: 4,
			{summarize.OK, 6 * time.Second}:   1,
		}
		if len(count) != len(want) {
			t.Errorf("ends %v, want %v", count, want)
		}
		for e, n := range want {
			if count[e] != n {
				t.Errorf("%d ended with %v, want %d", count[e], e, n)
			}
		}
		if most != 1 {
			t.Errorf("%d at a time", most)
		}
	})
}

// Who waited for a place while the model failed does not ask it any more, and who goes
// meanwhile is let go.
func TestWaitingForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		m := &writer{"m", func(context.Context, summarize.Prompt, func(string)) (summarize.Answer, error) {
			asked++
			time.Sleep(time.Second)
			return summarize.Answer{}, errors.New("no")
		}}
		s := opened(t, summarize.Options{Models: []summarize.Model{m}, Concurrency: 1, Breaker: breaker.Settings{Failures: 1}})
		ends := make(chan summarize.Outcome)
		ask := func(ctx context.Context, n int) {
			_, outcome, _ := s.Summarize(ctx, numbered(n), nil, nil)
			ends <- outcome
		}
		go ask(t.Context(), 1)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		go ask(ctx, 2)
		synctest.Wait()
		cancel()
		if got := <-ends; got != summarize.Cancelled {
			t.Errorf("who went: %q", got)
		}
		go ask(t.Context(), 3)
		got := map[summarize.Outcome]int{<-ends: 1}
		got[<-ends]++
		if got[summarize.Failed] != 1 || got[summarize.Open] != 1 || asked != 1 {
			t.Errorf("%v, asked %d times", got, asked)
		}
	})
}

// A client's own model, which may ask a person, keeps nobody else from theirs.
func TestTheClientsOwnModelTakesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, summarize.Options{Models: []summarize.Model{says("m", "ok")}, Concurrency: 1})
		r := numbered(1)
		r.Models = []string{summarize.Caller}
		go func() { _, _, _ = s.Summarize(t.Context(), r, silent(summarize.Caller), nil) }()
		synctest.Wait()
		began := time.Now()
		if _, outcome, err := s.Summarize(t.Context(), numbered(2), nil, nil); outcome != summarize.OK || time.Since(began) > 0 {
			t.Errorf("%q after %v, %v", outcome, time.Since(began), err)
		}
		s.Close()
	})
}
