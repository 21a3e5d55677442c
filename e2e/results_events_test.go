//go:build e2e && linux

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

func TestSlowSummariesAreToldOf(t *testing.T) {
	t.Parallel()
	a, _ := withModels(t)
	for _, version := range []string{mcptest.LegacyVersion, mcptest.ModernVersion} {
		t.Run(version, func(t *testing.T) {
			var mu sync.Mutex
			var progress []*mcp.ProgressNotificationParams
			r := readAs(t, overHTTP(t, a.URL), version, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, q *mcp.ProgressNotificationClientRequest) {
				mu.Lock()
				defer mu.Unlock()
				progress = append(progress, q.Params)
			}})
			r.await("lib__log_slowly", true)
			live := openEvents(t, a, adminToken, "")
			params := &mcp.CallToolParams{Name: "lib__log_slowly", Arguments: map[string]any{"for": version}}
			params.SetProgressToken("mine " + version)
			s := r.callWith(params)
			endsWell(t, s, "slowly")
			if s.took < 2*time.Second || s.took > 8*time.Second {
				t.Errorf("the call took %v", s.took)
			}
			harness.Eventually(t, 5*time.Second, "progress is told of", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(progress) >= 3
			})
			mu.Lock()
			defer mu.Unlock()
			for i, p := range progress {
				if p.ProgressToken != "mine "+version || i > 0 && p.Progress <= progress[i-1].Progress || !strings.Contains(p.Message, "lib__log_slowly") {
					t.Errorf("progress %d is %+v", i, p)
				}
			}
			catchesUp(t, a, live.until(ended(1)))
		})
	}
}

// catchesUp reads the events of a summary again, behind its beginning.
func catchesUp(t *testing.T, a *harness.Aggregator, live []event) {
	t.Helper()
	live = ofServer("lib", live)
	chunks := 0
	for i, ev := range live {
		if ev.Type == "summary.chunk" {
			chunks++
			if b := live[i-1]; b.Type == ev.Type && b.Data.Bytes >= ev.Data.Bytes {
				t.Errorf("%s is followed by %s", b.raw, ev.raw)
			}
		}
	}
	if chunks < 2 || len(live) < 5 || live[0].Type != "call.started" {
		t.Errorf("told while it went on: %v", live)
		return
	}
	again := ofServer("lib", eventsAfter(t, a, adminToken, fmt.Sprint(live[1].ID), ended(1)))
	if len(again) != len(live)-2 {
		t.Fatalf("%d events come behind the second, want %d", len(again), len(live)-2)
	}
	for i, ev := range again {
		if ev.raw != live[i+2].raw {
			t.Errorf("%s was %s", ev.raw, live[i+2].raw)
		}
	}
}

func TestCancelledCallsEndTheirSummaries(t *testing.T) {
	t.Parallel()
	a, m := withModels(t)
	for i, version := range []string{mcptest.LegacyVersion, mcptest.ModernVersion} {
		r := readAs(t, overHTTP(t, a.URL), version, nil)
		r.await("lib__log_slowly", true)
		ctx, cancel := context.WithCancel(t.Context())
		live := openEvents(t, a, adminToken, "")
		ended := make(chan error, 1)
		go func() {
			_, err := r.session.CallTool(ctx, &mcp.CallToolParams{Name: "lib__log_slowly", Arguments: map[string]any{"for": version}})
			ended <- err
		}()
		harness.Eventually(t, 5*time.Second, "the model is asked", func() bool { return len(m.questions("slowly")) > i })
		began := time.Now()
		cancel()
		if err := <-ended; err == nil {
			t.Errorf("%s: the call has succeeded", version)
		}
		var last []string
		for _, ev := range live.until(func(events []event) bool { return len(events) > 0 && events[len(events)-1].Type == "call.completed" }) {
			last = append(last, ev.Type+" "+ev.Data.Outcome+ev.Data.Kind)
		}
		if got := strings.Join(last, ", "); !strings.HasSuffix(got, "summary.failed cancelled, call.completed cancelled") || time.Since(began) > 2*time.Second {
			t.Errorf("%s: after %v events were %s", version, time.Since(began), got)
		}
	}
}
