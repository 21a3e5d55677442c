//go:build e2e && linux

package e2e_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// children are the stdio servers this test binary can become.
var children = mcptest.Children{
	"sl":         mcptest.Stdio(func() *mcptest.Raw { return awkwardServer("sl", mcptest.Legacy) }),
	"sm":         mcptest.Stdio(func() *mcptest.Raw { return awkwardServer("sm", mcptest.Modern) }),
	"echo":       mcptest.Stdio(func() *mcptest.Raw { return &mcptest.Raw{Tools: []string{echoTool}} }),
	"many tools": mcptest.Stdio(func() *mcptest.Raw { return manyTools(2500, 100) }),
	"garbage":    serveGarbage,
	"silent":     serveNothing,
	"noisy":      serveNoise,
	"exits":      serveAndExit,
	"stubborn":   serveStubbornly,

	"lively legacy": mcptest.Stdio(func() *mcptest.Raw { return lively(mcptest.Legacy, "r://sl") }),
	"lively modern": mcptest.Stdio(func() *mcptest.Raw { return lively(mcptest.Modern, "r://sm") }),
}

func TestMain(m *testing.M) { children.Main(m) }

const echoTool = `{"name":"echo","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`

// listen serves raw on loopback and returns the configuration of that server.
func listen(t *testing.T, raw *mcptest.Raw) harness.Config {
	t.Helper()
	srv := httptest.NewServer(raw)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return harness.Config{"url": srv.URL}
}

// awaitTools waits until the client is shown n tools.
func awaitTools(t *testing.T, c *mcptest.Client, n int) {
	t.Helper()
	var got int
	harness.Eventually(t, 20*time.Second, "tools are listed", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		tools, _, err := c.List(ctx, "tools/list")
		if err != nil {
			t.Fatalf("listing tools: %v", err)
		}
		if len(tools) != got {
			t.Logf("%d of %d tools", len(tools), n)
		}
		got = len(tools)
		return got >= n
	})
	if got != n {
		t.Fatalf("%d tools are listed, want %d", got, n)
	}
}
