package summarize_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/summarize"
)

func TestCloseEndsWhatIsBeingWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := piped(t, func(w http.ResponseWriter, r *http.Request) { hang(r) })
		s := summarize.New(summarize.Options{Models: []summarize.Model{kinds[1].model(t, b, "m")}})
		end := make(chan summarize.Outcome)
		go func() {
			_, outcome, _ := s.Summarize(t.Context(), numbered(1), nil, nil)
			end <- outcome
		}()
		synctest.Wait()
		began := time.Now()
		s.Close()
		if got := <-end; got != summarize.Cancelled || time.Since(began) > 0 {
			t.Errorf("%q after %v", got, time.Since(began))
		}
		if _, outcome, err := s.Summarize(t.Context(), numbered(2), nil, nil); outcome != summarize.Cancelled || err == nil {
			t.Errorf("after Close: %q, %v", outcome, err)
		}
	})
}

func TestRetireLetsWhatIsBeingWrittenEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &writer{"m", func(ctx context.Context, _ summarize.Prompt, _ func(string)) (summarize.Answer, error) {
			select {
			case <-time.After(5 * time.Second):
				return summarize.Answer{Text: "ok"}, nil
			case <-ctx.Done():
				return summarize.Answer{}, ctx.Err()
			}
		}}
		for _, cut := range []bool{false, true} {
			s := summarize.New(summarize.Options{Models: []summarize.Model{m}})
			ends := make(chan summarize.Outcome, 1)
			go func() {
				_, outcome, _ := s.Summarize(t.Context(), numbered(1), nil, nil)
				ends <- outcome
			}()
			synctest.Wait()
			began, want, longest := time.Now(), summarize.OK, 5*time.Second
			if cut {
				time.AfterFunc(time.Second, s.Close)
				want, longest = summarize.Cancelled, time.Second
			}
			s.Retire()
			if got := <-ends; got != want || time.Since(began) != longest {
				t.Errorf("cut %v: %q after %v", cut, got, time.Since(began))
			}
			if _, outcome, _ := s.Summarize(t.Context(), numbered(2), nil, nil); outcome != summarize.Cancelled {
				t.Errorf("a new one: %q", outcome)
			}
		}
	})
}
