package builtin_test

//lint:file-ignore SA1019 logging is deprecated in 2026-07-28 but in use by every client of the field.

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/builtin"
)

func TestLongRunningReportsEachStep(t *testing.T) {
	inEachEra(t, func(t *testing.T, version string) {
		var seen []string
		c := dial(t, "everything", version, &mcp.ClientOptions{
			ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
				if r.Params.ProgressToken == "p" && r.Params.Total == 3 {
					seen = append(seen, r.Params.Message)
				}
			},
		})
		p := &mcp.CallToolParams{Name: "long_running", Arguments: map[string]any{"duration": 60, "steps": 3}}
		p.SetProgressToken("p")
		start := time.Now()
		res, err := c.CallTool(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if got := textOf(res); got != "Finished 3 steps in 1m0s." || time.Since(start) != time.Minute {
			t.Errorf("after %v: %s", time.Since(start), got)
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{"step 1 of 3", "step 2 of 3", "step 3 of 3"}, seen); diff != "" {
			t.Error("progress:", diff)
		}
	})
}

func TestLongRunningStopsWhenCancelled(t *testing.T) {
	inEachEra(t, func(t *testing.T, version string) {
		c, served := pair(t, builtin.Servers()["everything"](), version, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.CallTool(ctx, &mcp.CallToolParams{
			Name: "long_running", Arguments: map[string]any{"duration": 3600, "steps": 1},
		}); err == nil {
			t.Fatal("the call outlived its context")
		}
		start := time.Now()
		served.Close() // waits for handlers
		if d := time.Since(start); d != 0 {
			t.Errorf("the handler went on for %v", d)
		}
	})
}

func TestLogMessagesRespectTheLevel(t *testing.T) {
	inEachEra(t, func(t *testing.T, version string) {
		var seen []mcp.LoggingLevel
		c := dial(t, "everything", version, &mcp.ClientOptions{
			LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
				seen = append(seen, r.Params.Level)
			},
		})
		p := &mcp.CallToolParams{Name: "log_messages"}
		if version == eras["modern"] {
			p.Meta = mcp.Meta{"io.modelcontextprotocol/logLevel": "critical"}
		} else if err := c.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "critical"}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.CallTool(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if diff := cmp.Diff([]mcp.LoggingLevel{"critical", "alert", "emergency"}, seen); diff != "" {
			t.Error(diff)
		}
	})
}
