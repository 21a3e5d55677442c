package upstream_test

import (
	"testing"
	"time"

	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
)

// children are the programs this test binary becomes when it is started again. Test
// files add theirs in init.
var children = mcptest.Children{}

func TestMain(m *testing.M) {
	upstream.RunKeeper()
	children.Main(m)
}

// within asks again until ok, or fails the test. It is for what processes and real
// connections bring about.
func within(t *testing.T, d time.Duration, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(d); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", d, what)
		}
	}
}
