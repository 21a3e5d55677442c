package telemetry_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/telemetry"
)

// told lists the events so far.
func told(e *telemetry.Events) (out []string) {
	events, _, _ := e.Since(0)
	for _, ev := range events {
		out = append(out, ev.Type+" "+ev.Data.(telemetry.Warning).Message)
	}
	return out
}

func TestAWarningLastsUntilItIsCleared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := telemetry.NewEvents()
		w := telemetry.NewWarnings(events)
		raised := time.Now()
		w.Set("state/a", telemetry.Warning{Category: telemetry.Health, Server: "a", Message: "failed"})
		time.Sleep(time.Minute)
		w.Set("state/b", telemetry.Warning{Category: telemetry.Health, Server: "b", Message: "failed"})
		w.Set("state/a", telemetry.Warning{Category: telemetry.Health, Server: "a", Message: "failed"})
		w.Set("state/a", telemetry.Warning{Category: telemetry.Health, Server: "a", Message: "refused"})
		want := []telemetry.Warning{
			{ID: "w1", Category: "mcp_health", Server: "a", Message: "refused", Time: raised},
			{ID: "w2", Category: "mcp_health", Server: "b", Message: "failed", Time: raised.Add(time.Minute)},
		}
		if diff := cmp.Diff(want, w.List()); diff != "" {
			t.Error(diff)
		}
		w.Clear("state/a")
		w.Clear("state/a")
		if diff := cmp.Diff(want[1:], w.List()); diff != "" {
			t.Error(diff)
		}
		story := []string{"warning.raised failed", "warning.raised failed", "warning.raised refused", "warning.cleared refused"}
		if diff := cmp.Diff(story, told(events)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWarningsAreBounded(t *testing.T) {
	w := telemetry.NewWarnings(nil)
	for i := range 5000 {
		w.Set(fmt.Sprint(i), telemetry.Warning{Message: "x"})
	}
	if w.Len() != 1000 || len(w.List()) != 1000 || w.Skipped() != 4000 {
		t.Errorf("%d warnings, %d skipped", w.Len(), w.Skipped())
	}
	w.Set("0", telemetry.Warning{Message: "changed"})
	w.Clear("1")
	w.Set("new", telemetry.Warning{Message: "new"})
	list := w.List()
	if len(list) != 1000 || list[0].Message != "changed" || list[999].Message != "new" {
		t.Errorf("%d warnings, %v to %v", len(list), list[0], list[len(list)-1])
	}
}
