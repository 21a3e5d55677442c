package summarize_test

import (
	"context"
	"testing"

	"mcp-aggregator/internal/summarize"
)

// What one client's own model has written is for that client alone: two clients may be
// the same owner, as all are without authentication.
func TestClientsDoNotGetWhatTheModelsOfOthersWrote(t *testing.T) {
	s := summarize.New(summarize.Options{})
	defer s.Close()
	by := func(name string) summarize.Model {
		return summarize.Sampling{Ask: func(context.Context, string, []byte) ([]byte, error) {
			return []byte(`{"role":"assistant","model":"m","content":{"type":"text","text":"written by ` + name + `"}}`), nil
		}}
	}
	for _, tt := range []struct{ session, name, want string }{
		{"1", "ann", "written by ann"}, {"2", "bob", "written by bob"}, {"1", "somebody else", "written by ann"},
		{"", "cid", "written by cid"}, {"", "dan", "written by dan"},
	} {
		a, _, err := s.Summarize(t.Context(), summarize.Request{Session: tt.session, Text: []byte("the same")}, by(tt.name), nil)
		if err != nil || a.Text != tt.want {
			t.Errorf("session %q of %s: %q, %v; want %q", tt.session, tt.name, a.Text, err, tt.want)
		}
	}
}
