package upstream_test

import (
	"testing"

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
