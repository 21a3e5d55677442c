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

// mixed appends a server's event, then so many pairs of a call, then another server's.
func mixed(e *telemetry.Events, calls int) (first int64) {
	e.Append(telemetry.ServerState, "a", nil)
	for range calls {
		e.Append(telemetry.CallStarted, "a", nil)
		e.Append(telemetry.CallCompleted, "a", nil)
	}
	e.Append(telemetry.ServerState, "b", nil)
	return e.Last() - int64(2*calls) - 1
}

func TestEventsOfCallsComeInTheOrderOfAll(t *testing.T) {
	e := telemetry.NewEvents()
	first := mixed(e, 2)
	e.Append(telemetry.SummaryStarted, "a", nil)
	if got := since(e, 0, first); got != "[0 1 2 3 4 5 6] false" {
		t.Error(got)
	}
	if got := since(e, first+3, first); got != "[4 5 6] false" {
		t.Error(got)
	}
}

// However many calls there are, what happens to servers stays.
func TestCallsDoNotPushOtherEventsOut(t *testing.T) {
	e := telemetry.NewEvents()
	first := mixed(e, 5000)
	for _, tt := range []struct {
		name   string
		id     int64
		types  []string
		n      int
		missed bool
	}{
		{"all", first - 1, nil, 4096 + 2, true},
		{"those of servers", first - 1, []string{"server"}, 2, false},
		{"those of servers by their full name", first, []string{telemetry.ServerState}, 1, false},
		{"those of calls", first, []string{"call"}, 4096, true},
		{"the ends of calls", first, []string{telemetry.CallCompleted}, 2048, true},
		{"of calls, the last ones", first + 10001 - 4, []string{"call"}, 3, false},
		{"of several types", first - 1, []string{"server", "call.started"}, 2048 + 2, true},
		{"of a type that has not come", first, []string{"reload"}, 0, false},
	} {
		events, missed, _ := e.Since(tt.id, tt.types...)
		if len(events) != tt.n || missed != tt.missed {
			t.Errorf("%s: %d events, missed %v", tt.name, len(events), missed)
		}
		for i := 1; i < len(events); i++ {
			if events[i].ID <= events[i-1].ID {
				t.Fatalf("%s: %d comes behind %d", tt.name, events[i].ID, events[i-1].ID)
			}
		}
	}
}

// BenchmarkEventsOfACall is what the two events of a call cost it.
func BenchmarkEventsOfACall(b *testing.B) {
	e := telemetry.NewEvents()
	type data struct {
		Call       int64
		Tool, Kind string
		Took       float64
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := int64(0); pb.Next(); i++ {
			e.Append(telemetry.CallStarted, "s", &data{Call: i, Tool: "t"})
			e.Append(telemetry.CallCompleted, "s", &data{Call: i, Tool: "t", Kind: "ok", Took: 1.5})
		}
	})
}
