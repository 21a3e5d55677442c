//go:build e2e && linux

//lint:file-ignore SA1019 roots, sampling and logging are deprecated in 2026-07-28 and in use everywhere.

package e2e_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// What a server asks in the middle of a call reaches the client whose call it is, in the
// words of its own revision, and the answer reaches the server in its.
func TestServersAskClientsAcrossTheEras(t *testing.T) {
	throughEveryEra(t, func(t *testing.T, p *person, server string) {
		for _, c := range []struct{ tool, want string }{
			{"elicit", "ann elicit: accept ann"},
			{"visit", "ann visit: accept"},
			{"sample", "ann: ann sample"},
			{"roots", "file:///home/ann"},
			{"twice", "ann and ann"},
		} {
			t.Run(c.tool, func(t *testing.T) {
				got, err := p.call(harness.Context(t, 10*time.Second), server+"__"+c.tool, "ann "+c.tool)
				if err != nil || got != c.want {
					t.Errorf("%q, %v, want %q", got, err, c.want)
				}
			})
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		want := []string{"ann elicit", "ann visit", "ann sample", "ann twice", "ann twice again ann"}
		if diff := cmp.Diff(want, p.asked); diff != "" {
			t.Errorf("questions (-want +got):\n%s", diff)
		}
		p.asked = nil
	})
}

// Progress and log messages come in order and before the result, under the client's own
// token and at its level.
func TestProgressAndLoggingAcrossTheEras(t *testing.T) {
	throughEveryEra(t, func(t *testing.T, p *person, server string) {
		params := &mcp.CallToolParams{Name: server + "__talk", Arguments: map[string]any{"text": "x"}}
		params.SetProgressToken("mine")
		if p.session.InitializeResult().ProtocolVersion == mcptest.ModernVersion {
			params.Meta["io.modelcontextprotocol/logLevel"] = "info"
		} else if err := p.session.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
			t.Fatal(err)
		}
		// Legacy servers must have been told the level: that is on its way.
		harness.Eventually(t, 5*time.Second, "the server logs", func() bool {
			p.mu.Lock()
			p.progress, p.logged = nil, nil
			p.mu.Unlock()
			if _, err := p.session.CallTool(harness.Context(t, 10*time.Second), params); err != nil {
				t.Fatal(err)
			}
			// The SDK hands out notifications side by side with the result. Nothing of this
			// call may be taken for the next one's.
			harness.Eventually(t, 5*time.Second, "its progress is handed out", func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return len(p.progress) == 5
			})
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.logged) > 0
		})
		told := func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.progress) == 5 && len(p.logged) == 5
		}
		harness.Poll(2*time.Second, 10*time.Millisecond, told)
		p.mu.Lock()
		defer p.mu.Unlock()
		if !slices.Equal(p.progress, []float64{1, 2, 3, 4, 5}) || !slices.Equal(p.logged, []string{"x0", "x1", "x2", "x3", "x4"}) {
			t.Errorf("progress %v, log %v", p.progress, p.logged)
		}
		p.progress, p.logged = nil, nil
	})
}
