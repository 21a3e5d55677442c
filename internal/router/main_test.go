package router_test

import (
	"testing"

	"go.uber.org/goleak"

	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
)

func TestMain(m *testing.M) {
	upstream.RunKeeper()
	mcptest.Children{}.RunIfChild()
	goleak.VerifyTestMain(m)
}
