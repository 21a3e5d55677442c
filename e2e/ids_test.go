//go:build e2e && linux

package e2e_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// jsonIDs are request ids and progress tokens of every kind JSON has for them.
var jsonIDs = []string{
	`0`, `-1`, `1`, `9007199254740993`, `-9223372036854775808`, `123456789012345678901234567890`,
	`""`, `"1"`, `"a b"`, `"caf\u00e9 \ud83d\ude00 \/ \" \\"`, `"😀"`, `"<&>"`,
	`"` + strings.Repeat("x", 300) + `"`,
}

func TestIDsAndProgressTokensSurvive(t *testing.T) {
	config := harness.Servers(map[string]harness.Config{
		"hl": listen(t, awkwardServer("hl", mcptest.Legacy)),
		"sm": harness.Child(t, "sm"),
	})
	a := harness.Serve(t, config)
	n := 2 * (len(awkwardTools) + len(awkwardResults) + len(awkwardErrors) + 1)
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		_, pipes := harness.ServeStdio(t, config, era)
		for front, c := range map[string]*mcptest.Client{"HTTP": a.Connect(t, era), "stdio": pipes} {
			awaitTools(t, c, n)
			for _, server := range []string{"hl", "sm"} {
				t.Run(fmt.Sprintf("%s client on %s, server %s", era, front, server), func(t *testing.T) {
					for _, id := range jsonIDs {
						checkID(t, c, server, id)
					}
				})
			}
		}
	}
}

func checkID(t *testing.T, c *mcptest.Client, server, id string) {
	t.Helper()
	x, err := c.CallID(harness.Context(t, 10*time.Second), id, "tools/call",
		`{"name":"`+server+`__mirror","arguments":{},"_meta":{"progressToken":`+id+`}}`)
	if err != nil {
		t.Errorf("id %s: %v", id, err)
		return
	}
	if string(x.ID) != id {
		t.Errorf("id is %s, want %s: %s", x.ID, id, show(x))
	}
	if len(x.Before) != 1 {
		t.Errorf("progress with token %s: %d messages before the answer, want 1: %s", id, len(x.Before), x.Before)
		return
	}
	want := `{"x":1.0,"progressToken":` + id + `,"progress":0.50,"total":1.0}`
	if got := string(mcptest.Field(x.Before[0], "params")); mcptest.WithoutEra(got) != want {
		t.Errorf("progress is %s, want %s", got, want)
	}
}

// Fifty sessions use the same id and the same token at once: each gets its own
// answer and its own progress.
func TestSameIDInManySessions(t *testing.T) {
	a := harness.Serve(t, harness.Servers(map[string]harness.Config{
		"hl": listen(t, awkwardServer("hl", mcptest.Legacy)), "sl": harness.Child(t, "sl")}))
	awaitTools(t, a.Connect(t, mcptest.Legacy), 2*(len(awkwardTools)+len(awkwardResults)+len(awkwardErrors)+1))
	ctx := harness.Context(t, 30*time.Second)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			c, err := mcptest.ConnectHTTP(ctx, a.URL, []mcptest.Era{mcptest.Legacy, mcptest.Modern}[i%2], nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			for round := range 5 {
				mine := fmt.Sprintf(`"session %d round %d"`, i, round)
				x, err := c.CallID(ctx, "1", "tools/call", fmt.Sprintf(
					`{"name":"%s__mirror","arguments":{"who":%s},"_meta":{"progressToken":1}}`, []string{"hl", "sl"}[i/2%2], mine))
				if err != nil {
					t.Error(err)
					return
				}
				if !strings.Contains(string(x.Result), strings.Trim(mine, `"`)) || len(x.Before) != 1 {
					t.Errorf("session %d got %s with %d messages before it", i, show(x), len(x.Before))
				}
			}
		})
	}
	wg.Wait()
}
