package telemetry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/telemetry"
)

var resultMetrics = []string{"mcp_result_bytes_total", "mcp_result_tokens_total", "mcp_results_reduced_total", "mcp_summaries_total",
	"mcp_summary_tokens_total", "mcp_masked_values_total", "mcp_tokens_saved_total", "mcp_kept_results", "mcp_kept_bytes",
	"mcp_kept_spilled_total", "mcp_kept_expired_total", "mcp_kept_lost_total"}

func TestResultsAreCountedInAndOut(t *testing.T) {
	m := telemetry.New(telemetry.Options{Sources: telemetry.Sources{Kept: func() telemetry.Kept {
		return telemetry.Kept{Entries: 3, MemoryBytes: 100, DiskBytes: 200, Spilled: 2, Expired: 1}
	}}})
	m.Sized("s", 1000) // passed on
	m.Sized("s", 400)  // made smaller before
	m.Reduced("s", "digest", 9000, 400, 3000, 120)
	m.Reduced("s", "page", 5000, 1000, 2000, 500)
	m.Sized("s", 1000)
	m.Summary("small", "ok", 700, 80)
	m.Summary("small", "timeout", 700, 0)
	m.Masked("s", "github_token", 2)
	m.Masked("s", "github_token", 3)
	want := []string{
		`mcp_kept_bytes{where="disk"} 200`,
		`mcp_kept_bytes{where="memory"} 100`,
		`mcp_kept_expired_total 1`,
		`mcp_kept_lost_total 0`,
		`mcp_kept_results 3`,
		`mcp_kept_spilled_total 2`,
		`mcp_masked_values_total{kind="github_token",server="s"} 5`,
		`mcp_result_bytes_total{direction="in",server="s"} 15000`,
		`mcp_result_bytes_total{direction="out",server="s"} 2400`,
		`mcp_result_tokens_total{direction="in",server="s"} 5000`,
		`mcp_result_tokens_total{direction="out",server="s"} 620`,
		`mcp_results_reduced_total{policy="digest",server="s"} 1`,
		`mcp_results_reduced_total{policy="page",server="s"} 1`,
		`mcp_summaries_total{model="small",outcome="ok"} 1`,
		`mcp_summaries_total{model="small",outcome="timeout"} 1`,
		`mcp_summary_tokens_total{direction="in",model="small"} 1400`,
		`mcp_summary_tokens_total{direction="out",model="small"} 80`,
		`mcp_tokens_saved_total 4380`,
	}
	if diff := cmp.Diff(want, only(scrape(t, m), resultMetrics...)); diff != "" {
		t.Error(diff)
	}
	if m.Saved() != 4380 {
		t.Errorf("%d tokens saved", m.Saved())
	}
	m.Forget("s")
	for _, line := range only(scrape(t, m), resultMetrics...) {
		if strings.Contains(line, `server="s"`) {
			t.Errorf("left: %s", line)
		}
	}
	if m.Saved() != 4380 {
		t.Error("what was saved is forgotten with the server")
	}
}

func TestNamesOfResultsAreBounded(t *testing.T) {
	m := telemetry.New(telemetry.Options{})
	for i := range 3000 {
		m.Sized(fmt.Sprint("server", i), 1)
		m.Masked("s", fmt.Sprint("kind", i), 1)
		m.Summary(fmt.Sprint("model", i), fmt.Sprint("outcome", i), 1, 1)
		m.Reduced("s", fmt.Sprint("policy", i), 2, 1, 2, 1)
	}
	m.Sized(strings.Repeat("x", 1000), 1)
	m.Masked("\xff", "", 1)
	for _, tt := range []struct {
		name string
		most int
	}{
		{"mcp_result_bytes_total", 2 * 501}, {"mcp_masked_values_total", 502}, {"mcp_summaries_total", 3000},
		{"mcp_summary_tokens_total", 2 * 501}, {"mcp_results_reduced_total", 501},
	} {
		lines := only(scrape(t, m), tt.name)
		if len(lines) > tt.most || len(lines) < 500 {
			t.Errorf("%d series of %s", len(lines), tt.name)
		}
		for _, line := range lines {
			if len(line) > 400 {
				t.Errorf("%.100s...", line)
			}
		}
	}
}
