package excerpt_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-aggregator/internal/excerpt"
)

// Searches that take long wait for each other; one that is quick waits for none of them.
func TestHardSearchesTakeTurnsAndQuickOnesDoNotWait(t *testing.T) {
	text := excerpt.NewText([]byte(strings.Repeat("abcdefghij klmnop ", 200_000)))
	r := excerpt.New(excerpt.Limits{Time: 300 * time.Millisecond})
	hard := excerpt.Query{Grep: "(?i)a.*b.*c.*d.*e.*f.*g.*h.*i.*jzz"}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if e, err := r.Read(ctx, text, hard); err == nil && e.Next == nil {
				t.Error("a search that takes for ever has ended")
			}
		})
	}
	if e, err := r.Read(ctx, excerpt.NewText([]byte("one\ntwo\n")), excerpt.Query{Grep: "two"}); err != nil || e.Matches != 1 {
		t.Errorf("%+v, %v", e, err)
	}
	all.Wait()
	if e, err := r.Read(ctx, text, excerpt.Query{Grep: "klmnop"}); err != nil || e.Matches == 0 {
		t.Errorf("no place is left: %+v, %v", e, err)
	}
}
