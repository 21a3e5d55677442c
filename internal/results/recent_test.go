package results_test

import (
	"context"
	"testing"

	"mcp-aggregator/internal/config"
)

// An agent that makes the same call again, and gets the same result, gets the summary
// that is there. After another call the summary may have to say something else.
func TestACallThatIsRepeatedFindsItsSummary(t *testing.T) {
	c := settings(func(r *config.Results) { r.Policy = config.PolicySummarize })
	s := newShop(t, c)
	asked := 0
	j := job(c)
	j.Session = "session-1"
	j.Ask = func(context.Context, string, []byte) ([]byte, error) {
		asked++
		return []byte(`{"role":"assistant","model":"m","content":{"type":"text","text":"all is well"}}`), nil
	}
	for i, call := range []struct {
		tool  string
		asked int // all in all
	}{{"s__big", 1}, {"s__big", 1}, {"s__other", 1}, {"s__big", 2}, {"s__big", 2}} {
		s.Note(j.Session, call.tool, []byte(`{"q":"all"}`))
		if call.tool == "s__other" {
			continue
		}
		if _, ok := s.Reduce(t.Context(), j, result(numbered(1000), "")); !ok || asked != call.asked {
			t.Errorf("call %d: smaller: %v, the model was asked %d times, want %d", i, ok, asked, call.asked)
		}
	}
}
