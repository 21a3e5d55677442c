package breaker_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/breaker"
)

// fail makes n calls fail in a row.
func fail(t *testing.T, s *breaker.Set, n int, r breaker.Result) {
	t.Helper()
	for range n {
		ticket := allow(t, s, "push")
		ticket.Done(r, 0)
	}
}

func allow(t *testing.T, s *breaker.Set, tool string) *breaker.Ticket {
	t.Helper()
	ticket, refusal := s.Allow("git", tool)
	if refusal != nil {
		t.Fatalf("%s is refused: %+v", tool, refusal)
	}
	return &ticket
}

func refuse(t *testing.T, s *breaker.Set, tool string) *breaker.Refusal {
	t.Helper()
	_, refusal := s.Allow("git", tool)
	if refusal == nil {
		t.Fatalf("%s is let through", tool)
	}
	return refusal
}

// state is the state of git's tool push.
func state(s *breaker.Set) string {
	for _, st := range s.States() {
		if st.Tool == "push" {
			return st.State
		}
	}
	return "none"
}

func TestACircuitOpensAfterFailuresInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := breaker.New(nil)
		fail(t, s, 4, breaker.Failed)
		allow(t, s, "push").Done(breaker.Worked, 0)
		fail(t, s, 4, breaker.Failed)
		allow(t, s, "push").Done(breaker.Ignored, 0)
		if got := state(s); got != breaker.Closed {
			t.Fatalf("after 4 failures it is %s", got)
		}
		fail(t, s, 1, breaker.Failed)
		time.Sleep(18 * time.Second)
		if got := refuse(t, s, "push"); *got != (breaker.Refusal{RetryAfter: 42 * time.Second, Failures: 5}) {
			t.Errorf("refused with %+v", got)
		}
		allow(t, s, "pull").Done(breaker.Worked, 0)
		if ticket, refusal := s.Allow("hub", "push"); refusal != nil {
			t.Error("the tool of another server is refused")
		} else {
			ticket.Done(breaker.Worked, 0)
		}
	})
}

func TestItClosesWhenAsManyCallsWorkAsItLetsThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes []breaker.Change
		s := breaker.New(func(c breaker.Change) { changes = append(changes, c) })
		fail(t, s, 5, breaker.Failed)
		time.Sleep(time.Minute + time.Millisecond)
		if got := state(s); got != breaker.HalfOpen {
			t.Fatalf("after the cool-down it is %s", got)
		}
		a, b, c := allow(t, s, "push"), allow(t, s, "push"), allow(t, s, "push")
		if got := refuse(t, s, "push"); got.RetryAfter != time.Second {
			t.Errorf("refused with %+v", got)
		}
		a.Done(breaker.Worked, 0)
		b.Done(breaker.Ignored, 0) // and another may go in its place
		d := allow(t, s, "push")
		c.Done(breaker.Worked, 0)
		if got := state(s); got != breaker.HalfOpen {
			t.Errorf("after 2 successes it is %s", got)
		}
		d.Done(breaker.Worked, 0)
		if got := state(s); got != "none" {
			t.Errorf("after 3 successes it is %s", got)
		}
		want := []breaker.Change{
			{Server: "git", Tool: "push", From: breaker.Closed, To: breaker.Open},
			{Server: "git", Tool: "push", From: breaker.Open, To: breaker.HalfOpen},
			{Server: "git", Tool: "push", From: breaker.HalfOpen, To: breaker.Closed},
		}
		if diff := cmp.Diff(want, changes); diff != "" {
			t.Error(diff)
		}
	})
}

func TestItOpensAgainWhenATryFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := breaker.New(nil)
		fail(t, s, 5, breaker.Failed)
		time.Sleep(time.Minute + time.Millisecond)
		a, b := allow(t, s, "push"), allow(t, s, "push")
		a.Done(breaker.Failed, 0)
		if got := refuse(t, s, "push"); *got != (breaker.Refusal{RetryAfter: time.Minute, Failures: 6}) {
			t.Errorf("refused with %+v", got)
		}
		time.Sleep(10 * time.Second)
		b.Done(breaker.Failed, 0) // it was let through before
		if got := refuse(t, s, "push"); *got != (breaker.Refusal{RetryAfter: 50 * time.Second, Failures: 6}) {
			t.Errorf("after a late end refused with %+v", got)
		}
	})
}

func TestTriesThatHangAreNotWaitedForForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := breaker.New(nil)
		fail(t, s, 5, breaker.Failed)
		time.Sleep(time.Minute + time.Millisecond)
		for range 3 {
			allow(t, s, "push")
		}
		time.Sleep(time.Minute)
		refuse(t, s, "push")
		time.Sleep(time.Millisecond)
		_, _ = s.Allow("git", "push")
		time.Sleep(time.Millisecond)
		for range 3 {
			allow(t, s, "push").Done(breaker.Worked, 0)
		}
		if got := state(s); got != "none" {
			t.Errorf("it is %s", got)
		}
	})
}

func TestCallsLostWithOneConnectionCountOnce(t *testing.T) {
	s := breaker.New(nil)
	for conn := int64(1); conn <= 4; conn++ {
		var together []*breaker.Ticket
		for range 10 {
			together = append(together, allow(t, s, "push"))
		}
		for _, ticket := range together {
			ticket.Done(breaker.Broke, conn)
		}
	}
	if got := s.States(); len(got) != 1 || got[0].Failures != 4 || got[0].State != breaker.Closed {
		t.Fatalf("got %+v", got)
	}
	allow(t, s, "push").Done(breaker.Broke, 4) // it came later, and so is a failure of its own
	refuse(t, s, "push")
}

func TestAnOutageIsNotCountedWithEachCallThatMeetsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := breaker.New(nil)
		for range 4 {
			fail(t, s, 100, breaker.Away)
			time.Sleep(time.Second)
		}
		if got := s.States(); got[0].Failures != 4 || got[0].State != breaker.Closed {
			t.Fatalf("got %+v", got)
		}
		fail(t, s, 1, breaker.Away)
		refuse(t, s, "push")
		time.Sleep(time.Minute + time.Millisecond)
		allow(t, s, "push").Done(breaker.Away, 0)
		refuse(t, s, "push")
	})
}

func TestTheReturnOfTheServerShortensTheCoolDown(t *testing.T) {
	type end struct {
		r    breaker.Result
		conn int64
	}
	for _, c := range []struct {
		name string
		ends [5]end
		want string
	}{
		{"of tools that could not be used", [5]end{{breaker.Failed, 0}, {breaker.Failed, 0}, {breaker.Failed, 0}, {breaker.Failed, 0}, {breaker.Failed, 0}}, breaker.HalfOpen},
		{"of tools whose calls the network has broken", [5]end{{breaker.Broke, 7}, {breaker.Broke, 7}, {breaker.Failed, 0}, {breaker.Broke, 7}, {breaker.Broke, 7}}, breaker.HalfOpen},
		{"not of those that take one connection down after the other", [5]end{{breaker.Broke, 7}, {breaker.Failed, 0}, {breaker.Broke, 8}, {breaker.Failed, 0}, {breaker.Failed, 0}}, breaker.Open},
		{"not of those that break inside", [5]end{{breaker.Broke, 0}, {breaker.Failed, 0}, {breaker.Failed, 0}, {breaker.Failed, 0}, {breaker.Failed, 0}}, breaker.Open},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := breaker.New(nil)
				for _, e := range c.ends {
					allow(t, s, "push").Done(e.r, e.conn)
				}
				s.Recovered("hub")
				time.Sleep(time.Millisecond)
				refuse(t, s, "push")
				s.Recovered("git")
				time.Sleep(time.Millisecond)
				if got := state(s); got != c.want {
					t.Fatalf("it is %s", got)
				}
				if c.want == breaker.Open {
					return
				}
				allow(t, s, "push").Done(breaker.Failed, 0)
				if got := refuse(t, s, "push").RetryAfter; got != time.Minute {
					t.Errorf("it opened again for %v", got)
				}
			})
		})
	}
}

func TestSettingsChangeWithoutStatesBeingLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := breaker.New(nil)
		fail(t, s, 2, breaker.Failed)
		s.Configure(breaker.Settings{Failures: 3, Cooldown: time.Minute, HalfOpen: 1})
		fail(t, s, 1, breaker.Failed)
		time.Sleep(5 * time.Second)
		refuse(t, s, "push")
		s.Configure(breaker.Settings{Failures: 9, Cooldown: 20 * time.Second, HalfOpen: 2})
		if got := refuse(t, s, "push").RetryAfter; got != 15*time.Second {
			t.Errorf("open for another %v", got)
		}
		time.Sleep(15*time.Second + time.Millisecond)
		allow(t, s, "push").Done(breaker.Worked, 0)
		allow(t, s, "push").Done(breaker.Worked, 0)
		if got := state(s); got != "none" {
			t.Errorf("it is %s", got)
		}
	})
}

func TestOpenCircuitsOutliveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := breaker.New(nil)
		fail(t, old, 5, breaker.Broke)
		allow(t, old, "pull").Done(breaker.Failed, 0)
		time.Sleep(20 * time.Second)
		kept := old.States()
		for i := range kept {
			kept[i].OpenedAt = kept[i].OpenedAt.Round(0) // as after reading it from a file
			kept[i].RetryAt = kept[i].RetryAt.Round(0)
		}

		s := breaker.New(nil)
		s.Restore(kept)
		if got := refuse(t, s, "push"); *got != (breaker.Refusal{RetryAfter: 40 * time.Second, Failures: 5}) {
			t.Errorf("refused with %+v", got)
		}
		allow(t, s, "pull")
		s.Recovered("git")
		time.Sleep(39 * time.Second)
		refuse(t, s, "push")
		time.Sleep(2 * time.Second)
		allow(t, s, "push")

		s = breaker.New(nil)
		s.Restore([]breaker.State{{Server: "git", Tool: "push", State: breaker.Open, RetryAt: time.Now().Add(1000 * time.Hour)}})
		if got := refuse(t, s, "push").RetryAfter; got != time.Minute {
			t.Errorf("a wrong clock keeps it open for %v", got)
		}
	})
}

func TestCircuitsCanBeReset(t *testing.T) {
	s := breaker.New(nil)
	fail(t, s, 5, breaker.Failed)
	if s.Reset("hub", "") || s.Reset("git", "pull") {
		t.Error("what is not there was reset")
	}
	if !s.Reset("git", "push") || s.Reset("git", "push") {
		t.Error("it was not reset once")
	}
	fail(t, s, 5, breaker.Failed)
	if !s.Reset("git", "") {
		t.Error("those of the server were not reset")
	}
	fail(t, s, 5, breaker.Failed)
	s.Keep(func(server string) bool { return server != "git" })
	allow(t, s, "push")
}

func TestACallThatWaitedIsToldThatItsToolRestsNow(t *testing.T) {
	s := breaker.New(nil)
	early, another := allow(t, s, "push"), allow(t, s, "push")
	if early.Stands() != nil {
		t.Error("refused without reason")
	}
	fail(t, s, 5, breaker.Failed)
	if early.Stands() == nil {
		t.Error("let through")
	}
	early.Done(breaker.Worked, 0) // calls from before say nothing
	another.Done(breaker.Failed, 0)
	if got := refuse(t, s, "push"); got.Failures != 5 {
		t.Errorf("refused with %+v", got)
	}
}

func TestTheNumberOfCircuitsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := breaker.New(nil)
		fail(t, s, 5, breaker.Failed)
		for i := range 4096 {
			time.Sleep(time.Millisecond)
			allow(t, s, strconv.Itoa(i)).Done(breaker.Failed, 0)
		}
		if got := len(s.States()); got != 4096 {
			t.Errorf("%d circuits", got)
		}
		if got := state(s); got != "none" {
			t.Errorf("the one that failed least recently is %s", got)
		}
	})
}

func TestCallsOfManyGoroutinesAreCountedRight(t *testing.T) {
	var opened int
	var mu sync.Mutex
	s := breaker.New(func(c breaker.Change) {
		mu.Lock()
		defer mu.Unlock()
		opened++
	})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				ticket, refusal := s.Allow("git", fmt.Sprint(i%10))
				if refusal != nil {
					continue
				}
				if ticket.Done(breaker.Failed, 0); g == 0 {
					s.States()
				}
			}
		})
	}
	wg.Wait()
	if opened != 10 {
		t.Errorf("%d changes, want each of 10 tools to open once", opened)
	}
}

func BenchmarkClosed(b *testing.B) {
	for _, failing := range []int{0, 100} {
		b.Run(fmt.Sprint(failing, " others fail"), func(b *testing.B) {
			s := breaker.New(nil)
			for i := range failing {
				t, _ := s.Allow("git", strconv.Itoa(i))
				t.Done(breaker.Failed, 0)
			}
			b.ReportAllocs()
			for b.Loop() {
				t, _ := s.Allow("git", "push")
				t.Done(breaker.Worked, 0)
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	s := breaker.New(nil)
	for range 5 {
		t, _ := s.Allow("git", "push")
		t.Done(breaker.Failed, 0)
	}
	for b.Loop() {
		if _, refusal := s.Allow("git", "push"); refusal == nil {
			b.Fatal("let through")
		}
	}
}
