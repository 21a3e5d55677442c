package limit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/limit"
)

func TestRatesLetThroughWhatIsAllowedAndSayWhenToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := limit.NewRates()
		for range 3 {
			if wait := r.Take("git", 2, 3); wait != 0 {
				t.Fatalf("refused for %v within the burst", wait)
			}
		}
		for range 2 { // a refusal takes nothing
			if wait := r.Take("git", 2, 3); wait != 500*time.Millisecond {
				t.Errorf("wait %v", wait)
			}
		}
		if wait := r.Take("hub", 2, 3); wait != 0 {
			t.Errorf("another server is refused for %v", wait)
		}
		time.Sleep(500 * time.Millisecond)
		if wait := r.Take("git", 2, 3); wait != 0 {
			t.Errorf("refused for %v after the wait", wait)
		}
		if wait := r.Take("git", 10, 3); wait != 100*time.Millisecond {
			t.Errorf("under the new rate wait %v", wait)
		}
		r.Keep(func(server string) bool { return server == "hub" })
		if wait := r.Take("git", 0.5, 0); wait != 0 {
			t.Errorf("a new server is refused for %v", wait)
		}
		if wait := r.Take("git", 0.5, 0); wait != 2*time.Second {
			t.Errorf("a burst of one second is at least 1; wait %v", wait)
		}
	})
}

func TestFewCallsMayAlwaysBeRepeatedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := limit.NewBudget()
		var done []func()
		for range 3 {
			d := b.Repeat("git", time.Now(), 20)
			if d == nil {
				t.Fatal("refused")
			}
			done = append(done, d)
		}
		if b.Repeat("git", time.Now(), 20) != nil {
			t.Error("a fourth at once")
		}
		if b.Repeat("hub", time.Now(), 20) == nil {
			t.Error("another server has nothing to do with it")
		}
		b.Keep(func(string) bool { return true })
		done[0]()
		if b.Repeat("git", time.Now(), 20) == nil {
			t.Error("refused although one has ended")
		}
	})
}

func TestMoreAreRepeatedAsAShareOfTheCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := limit.NewBudget()
		for range 100 {
			b.Called("git", time.Now())
			time.Sleep(50 * time.Millisecond)
		}
		n := 0
		for b.Repeat("git", time.Now(), 20) != nil {
			n++
		}
		if n != 20 {
			t.Errorf("%d of 100 calls repeated", n)
		}
		time.Sleep(11 * time.Second)
		if b.Repeat("git", time.Now(), 20) != nil {
			t.Error("calls of long ago count")
		}
	})
}

func BenchmarkBudgetCalled(b *testing.B) {
	budget := limit.NewBudget()
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		budget.Called("git", now)
	}
}

func BenchmarkQueue(b *testing.B) {
	q, _, _ := newQueue(limit.Settings{Slots: 4, Waiting: 4})
	b.ReportAllocs()
	for b.Loop() {
		if q.Enter(b.Context()) == nil {
			q.Leave()
		}
	}
}
