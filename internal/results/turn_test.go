package results_test

import (
	"context"
	"strings"
	"testing"

	"mcp-aggregator/internal/config"
)

// While a model writes, other heavy results are worked on, and results that are not
// heavy never wait for those that are.
func TestAHeavyResultDoesNotKeepOthersWaitingWhileAModelWrites(t *testing.T) {
	c := settings(func(r *config.Results) { r.Policy = "summarize" })
	s := newShop(t, c)
	heavy := result(strings.Repeat(numbered(1000), 25), "")
	asked, write := make(chan struct{}), make(chan struct{})
	waits := job(c)
	waits.Ask = func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
		close(asked)
		select {
		case <-write:
			return []byte(`{"role":"assistant","model":"m","content":{"type":"text","text":"all is well"}}`), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	summary := make(chan string)
	go func() {
		out, _ := s.Reduce(t.Context(), waits, heavy)
		summary <- string(out)
	}()
	<-asked
	for range 4 {
		if _, ok := s.Reduce(t.Context(), job(c), heavy); !ok {
			t.Error("a heavy result was not made smaller")
		}
	}
	close(write)
	if got := <-summary; !strings.Contains(got, "all is well") {
		t.Errorf("got %.300s", got)
	}
}

func TestWhoGivesUpGetsNoTurnAndTakesNone(t *testing.T) {
	c := settings(func(r *config.Results) { r.Policy = "digest" })
	s := newShop(t, c)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	heavy := result(strings.Repeat(numbered(1000), 25), "")
	for range 100 {
		if _, ok := s.Reduce(gone, job(c), heavy); ok {
			t.Fatal("work was done for nobody")
		}
	}
	if _, ok := s.Reduce(t.Context(), job(c), heavy); !ok {
		t.Error("no turn is left")
	}
}

func TestAResultOfManyBlocksIsMadeSmallerLikeAnyOther(t *testing.T) {
	c := settings(func(r *config.Results) { r.Policy = "block" })
	s := newShop(t, c)
	raw := []byte(`{"content":[` + strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"one of very many"},`, 50_000), ",") + `]}`)
	small, ok := s.Reduce(t.Context(), job(c), raw)
	if !ok || !decode(t, small).IsError {
		t.Errorf("it went through: %v, %.200s", ok, small)
	}
}

// What a server has done is not lost because a model was still writing about it.
func TestClientsGetTheBeginningWhenTheAggregatorStopsDuringASummary(t *testing.T) {
	c := settings(func(r *config.Results) { r.Policy = "summarize" })
	s := newShop(t, c)
	j := job(c)
	j.Ask = func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
		s.Hurry()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for range 2 { // the second comes when it is stopping already
		small, ok := s.Reduce(t.Context(), j, result(numbered(1000), ""))
		if d := decode(t, small); !ok || d.IsError || !strings.Contains(d.Content[0].Text, "line 1 of the report") {
			t.Errorf("%v, %.300s", ok, small)
		}
	}
}

func TestWhatAModelWritesIsHiddenToo(t *testing.T) {
	c := settings(func(r *config.Results) { r.Policy = "summarize" })
	s := newShop(t, c)
	j := job(c)
	j.Hide = func(text string) string { return strings.ReplaceAll(text, "its-own-key", "[masked]") }
	j.Ask = func(context.Context, string, []byte) ([]byte, error) {
		return []byte(`{"role":"assistant","model":"m","content":{"type":"text","text":"sent with its-own-key"}}`), nil
	}
	small, _ := s.Reduce(t.Context(), j, result(numbered(1000), ""))
	if got := decode(t, small).Content[0].Text; strings.Contains(got, "its-own-key") || !strings.Contains(got, "sent with [masked]") {
		t.Errorf("got %s", got)
	}
}
