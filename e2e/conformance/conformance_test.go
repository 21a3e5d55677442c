//go:build e2e && linux

package conformance_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// revisions says how many scenarios each revision requires, how the server behind
// is run over HTTP, and in which cells. Over stdio that server speaks both eras
// and is spoken to in the modern one, unless the cell says otherwise.
var revisions = []struct {
	name      string
	required  int
	stateless string
	cells     []string
}{
	{"2025-11-25", 30, "-stateless=false", []string{"direct", "http", "stdio", "stdio legacy", "http prefix", "stdio prefix"}},
	{"2026-07-28", 37, "-stateless=true", []string{"direct", "http", "stdio", "http prefix", "stdio prefix"}},
}

const prefix = "es"

func TestConformance(t *testing.T) {
	expected := expectedFailures(t)
	for _, rev := range revisions {
		t.Run(rev.name, func(t *testing.T) {
			direct := startServer(t, rev.stateless)
			results := map[string]*verdicts{"direct": runSuite(t, direct, rev.name)}
			if passed, required := results["direct"].score(); passed != rev.required || required != rev.required {
				t.Fatalf("without the aggregator %d of %d scenarios pass, want %d of %[3]d\n%s",
					passed, required, rev.required, results["direct"].output)
			}
			for _, cell := range rev.cells[1:] {
				results[cell] = runSuite(t, serveCell(t, cell, direct), rev.name)
			}
			t.Logf("\n%s", table(rev.name, rev.cells, results))
			for _, cell := range rev.cells[1:] {
				for _, c := range complaints(results[cell], expected[rev.name]) {
					name, _, _ := strings.Cut(c, " ")
					t.Errorf("%s, %s: %s\n%s", rev.name, cell, c, results[cell].excerpt(name))
				}
			}
		})
	}
}

// startServer starts the conformance server itself on HTTP.
func startServer(t *testing.T, mode string) (url string) {
	t.Helper()
	addr := harness.FreeAddr(t)
	p := harness.Start(t, exec.Command(harness.ConformanceServer(t), "-http", addr, mode))
	p.AwaitListening(t, addr, 10*time.Second)
	return "http://" + addr
}

// serveCell starts what stands between the suite and its server in one cell.
func serveCell(t *testing.T, cell, direct string) (url string) {
	t.Helper()
	upstream := harness.Config{"url": direct}
	if strings.HasPrefix(cell, "stdio") {
		upstream = harness.Config{"command": harness.ConformanceServer(t)}
	}
	if strings.HasSuffix(cell, "legacy") {
		upstream = upstream.With("protocol", "legacy")
	}
	if strings.HasSuffix(cell, "prefix") {
		return startShim(t, serve(t, upstream.With("prefix", prefix)), prefix+"__")
	}
	return serve(t, upstream.With("prefix", ""))
}

// serve starts the aggregator before one server and returns its endpoint once
// the server's tools are listed.
func serve(t *testing.T, upstream harness.Config) (url string) {
	t.Helper()
	a := harness.Serve(t, harness.Servers(map[string]harness.Config{"everything": upstream}))
	c := a.Connect(t, mcptest.Modern)
	harness.Eventually(t, 20*time.Second, "the server's tools are listed", func() bool {
		tools, _, err := c.List(t.Context(), "tools/list")
		return err == nil && len(tools) > 10
	})
	return a.URL
}
