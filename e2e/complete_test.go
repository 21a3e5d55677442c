//go:build e2e && linux

package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// manyTools is a server of n tools on pages of that size.
func manyTools(n, pageSize int) *mcptest.Raw {
	raw := &mcptest.Raw{PageSize: pageSize}
	for i := range n {
		raw.Tools = append(raw.Tools, fmt.Sprintf(
			`{"name":"tool_%05d","description":"Number %d.","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}`, i, i))
	}
	return raw
}

func TestEveryToolIsListedOnce(t *testing.T) {
	many := func(servers, tools, page int) func(*testing.T) map[string]harness.Config {
		return func(t *testing.T) map[string]harness.Config {
			config := map[string]harness.Config{}
			for i := range servers {
				config[fmt.Sprintf("s%02d", i)] = listen(t, manyTools(tools, page))
			}
			return config
		}
	}
	tests := []struct {
		name    string
		servers func(*testing.T) map[string]harness.Config
		want    int
		within  time.Duration // from the start of the process
	}{
		{"2,500 tools over 25 pages on HTTP", many(1, 2500, 100), 2500, 10 * time.Second},
		{"2,500 tools over 25 pages on stdio", func(t *testing.T) map[string]harness.Config {
			return map[string]harness.Config{"s": harness.Child(t, "many tools")}
		}, 2500, 10 * time.Second},
		{"20 servers with 50 tools", many(20, 50, 0), 1000, 10 * time.Second},
		{"10,000 tools on one page", many(1, 10000, 0), 10000, 10 * time.Second},
		{"10,000 tools over 100 pages", many(1, 10000, 100), 10000, 10 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			config := harness.Servers(tt.servers(t))
			started := time.Now()
			a := harness.Serve(t, config)
			for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
				c := a.Connect(t, era)
				awaitTools(t, c, tt.want)
				if took := time.Since(started); took > tt.within {
					t.Errorf("%s: listed after %s, want within %s", era, took, tt.within)
				}
				defs, pages, err := c.List(t.Context(), "tools/list")
				if err != nil {
					t.Fatal(err)
				}
				seen := map[string]bool{}
				for _, def := range defs {
					seen[string(mcptest.Field(def, "name"))] = true
				}
				if len(seen) != tt.want || pages < 2 && tt.want > 1000 {
					t.Errorf("%s: %d different names on %d pages, want %d names", era, len(seen), pages, tt.want)
				}
			}
		})
	}
}
