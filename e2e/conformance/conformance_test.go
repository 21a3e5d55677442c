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

// Where the server behind is run over HTTP, one process speaks the legacy era, with
// sessions, and another one the modern era.
const (
	withSessions = "-stateless=false"
	stateless    = "-stateless=true"
)

// revisions says how many scenarios each revision requires, how the server behind is run
// over HTTP where it is of the same era, and in which cells: transport, era of the server
// if not that of the revision, prefix. Over stdio that server speaks both eras.
var revisions = []struct {
	name     string
	required int
	era      string
	mode     string
	cells    []string
}{
	{"2025-11-25", 30, "legacy", withSessions, []string{"direct", "http", "stdio", "http modern", "stdio modern", "http prefix", "stdio prefix"}},
	{"2026-07-28", 37, "modern", stateless, []string{"direct", "http", "stdio", "http legacy", "stdio legacy", "http prefix", "stdio prefix"}},
}

const prefix = "es"

func TestConformance(t *testing.T) {
	expected := expectedFailures(t)
	for _, rev := range revisions {
		t.Run(rev.name, func(t *testing.T) {
			direct := startServer(t, rev.mode)
			results := map[string]*verdicts{"direct": runSuite(t, direct, rev.name)}
			if passed, required := results["direct"].score(); passed != rev.required || required != rev.required {
				t.Fatalf("without the aggregator %d of %d scenarios pass, want %d of %[3]d\n%s",
					passed, required, rev.required, results["direct"].output)
			}
			for _, cell := range rev.cells[1:] {
				results[cell] = runSuite(t, serveCell(t, cell, rev.era, direct), rev.name)
			}
			t.Logf("\n%s", table(rev.name, rev.cells, results))
			for _, cell := range rev.cells[1:] {
				for _, c := range complaints(results[cell], expected[rev.name+" "+cell]) {
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
func serveCell(t *testing.T, cell, era, direct string) (url string) {
	t.Helper()
	transport, what, _ := strings.Cut(cell, " ")
	other := what == "legacy" || what == "modern"
	if other {
		era = what
	}
	upstream := harness.Config{"command": harness.ConformanceServer(t)}
	if transport == "http" {
		if other {
			direct = startServer(t, map[string]string{"legacy": withSessions, "modern": stateless}[era])
		}
		upstream = harness.Config{"url": direct}
	}
	upstream = upstream.With("protocol", era)
	switch what {
	case "prefix":
		return startShim(t, serve(t, map[string]harness.Config{"everything": upstream.With("prefix", prefix)}), prefix+"__")
	case "modern":
		return serve(t, inquiring(t, upstream.With("prefix", "")))
	}
	return serve(t, map[string]harness.Config{"everything": upstream.With("prefix", "")})
}

// serve starts the aggregator before these servers and returns its endpoint once all
// their tools are listed.
func serve(t *testing.T, upstreams map[string]harness.Config) (url string) {
	t.Helper()
	a := harness.Serve(t, harness.Servers(upstreams))
	c := a.Connect(t, mcptest.Modern)
	harness.Eventually(t, 20*time.Second, "the servers' tools are listed", func() bool {
		tools, _, err := c.List(t.Context(), "tools/list")
		return err == nil && len(tools) > 20
	})
	return a.URL
}
