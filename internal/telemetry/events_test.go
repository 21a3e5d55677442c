package telemetry_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/telemetry"
)

func append3(e *telemetry.Events) (first int64) {
	for i := range 3 {
		e.Append(telemetry.ServerState, "s", i)
	}
	return e.Last() - 2
}

// ids of events relative to the first, and whether some were missed.
func since(e *telemetry.Events, id, first int64) string {
	events, missed, _ := e.Since(id)
	var ids []int64
	for _, ev := range events {
		ids = append(ids, ev.ID-first)
	}
	return fmt.Sprint(ids, missed)
}

func TestEventsSince(t *testing.T) {
	e := telemetry.NewEvents()
	first := append3(e)
	for _, tt := range []struct {
		name string
		id   int64
		want string
	}{
		{"all", 0, "[0 1 2] false"},
		{"behind one of them", first, "[1 2] false"},
		{"behind the last", first + 2, "[] false"},
		{"before the first", first - 1, "[0 1 2] false"},
		{"of an earlier run", first - 1000, "[0 1 2] true"},
		{"of a run whose clock was ahead", first + 1000, "[0 1 2] true"},
	} {
		if got := since(e, tt.id, first); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestTheLastThousandEventsAreKept(t *testing.T) {
	e := telemetry.NewEvents()
	first := append3(e)
	for i := 3; i < 5000; i++ {
		e.Append(telemetry.ServerState, "s", i)
	}
	events, missed, _ := e.Since(first)
	if len(events) != 1024 || !missed || events[0].ID != first+5000-1024 || events[1023].ID != first+4999 {
		t.Fatalf("%d events, %d to %d, missed %v", len(events), events[0].ID-first, events[len(events)-1].ID-first, missed)
	}
	for i, ev := range events {
		if ev.Data != 5000-1024+i {
			t.Fatalf("event %d is %v", i, ev.Data)
		}
	}
	if got := since(e, first+4998, first); got != "[4999] false" {
		t.Error(got)
	}
}

func TestAReaderIsWokenByTheNextEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := telemetry.NewEvents()
		start := append3(e) + 2
		time.AfterFunc(time.Hour, func() { e.Append(telemetry.Reloaded, "", nil) })
		_, _, more := e.Since(start)
		begin := time.Now()
		<-more
		events, missed, _ := e.Since(start)
		if len(events) != 1 || missed || events[0].Type != telemetry.Reloaded || time.Since(begin) != time.Hour {
			t.Errorf("%v after %v", events, time.Since(begin))
		}
	})
}

func TestIdsGoOnAboveThoseOfAnEarlierRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := telemetry.NewEvents()
		for range 100 {
			before.Append(telemetry.ServerState, "s", nil)
		}
		time.Sleep(time.Second)
		after := telemetry.NewEvents()
		after.Append(telemetry.ServerState, "s", nil)
		if events, missed, _ := after.Since(before.Last()); len(events) != 1 || !missed {
			t.Errorf("%v, missed %v", events, missed)
		}
	})
}
