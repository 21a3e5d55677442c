package limit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/limit"
)

// newQueue returns a queue of the given settings and what changes them.
func newQueue(s limit.Settings) (*limit.Queue, func(limit.Settings), *limit.Queues) {
	all := limit.NewQueues()
	change := func(s limit.Settings) { all.Apply(map[string]limit.Settings{"heavy": s}) }
	change(s)
	return all.Named("heavy"), change, all
}

func enter(t *testing.T, q *limit.Queue) {
	t.Helper()
	if err := q.Enter(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestCallersAreLetInInTheOrderTheyCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _, _ := newQueue(limit.Settings{Slots: 1, Waiting: 10, Timeout: time.Hour})
		enter(t, q)
		var order []int
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				if q.Enter(t.Context()) == nil {
					order = append(order, i) // one at a time, and a slot is handed over with the lock
					time.Sleep(time.Second)
					q.Leave()
				}
			})
			synctest.Wait()
		}
		q.Leave()
		wg.Wait()
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(order, want) {
			t.Errorf("let in %v", order)
		}
	})
}

func TestNobodyOvertakesWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _, _ := newQueue(limit.Settings{Slots: 1, Waiting: 1})
		enter(t, q)
		first := make(chan error, 1)
		go func() { first <- q.Enter(t.Context()) }()
		synctest.Wait()
		q.Leave() // the slot belongs to who waits, even before that one has woken up
		if err := q.Enter(canceled(t)); !errors.Is(err, context.Canceled) {
			t.Errorf("who came later got %v", err)
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestAFullQueueRefusesAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _, all := newQueue(limit.Settings{Slots: 2, Waiting: 1, Timeout: 30 * time.Second})
		enter(t, q)
		enter(t, q)
		began := time.Now()
		late := make(chan error, 1)
		go func() { late <- q.Enter(t.Context()) }()
		synctest.Wait()
		want := []limit.QueueState{{Name: "heavy", Slots: 2, Running: 2, Waiting: 1}}
		if diff := cmp.Diff(want, all.States()); diff != "" {
			t.Error(diff)
		}
		if err := q.Enter(t.Context()); err == nil || err.Error() != "queue heavy: 2 calls are running and 1 waiting, which is all it takes" {
			t.Errorf("full: %v", err)
		}
		if err := <-late; err == nil || err.Error() != "queue heavy: no slot became free within 30s" || time.Since(began) != 30*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		q.Leave()
		q.Leave()
		want[0].Running, want[0].Waiting = 0, 0
		if diff := cmp.Diff(want, all.States()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWhoGivesUpFreesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _, _ := newQueue(limit.Settings{Slots: 1, Waiting: 1, Timeout: time.Hour})
		enter(t, q)
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := make(chan error, 1)
		go func() { gone <- q.Enter(ctx) }()
		synctest.Wait()
		cause := errors.New("the client went away")
		cancel(cause)
		if err := <-gone; !errors.Is(err, cause) {
			t.Errorf("got %v", err)
		}
		next := make(chan error, 1)
		go func() { next <- q.Enter(t.Context()) }()
		synctest.Wait()
		q.Leave()
		if err := <-next; err != nil {
			t.Error(err)
		}
	})
}

func TestQueuesAreResizedWhileTheyAreInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, change, all := newQueue(limit.Settings{Slots: 1, Waiting: 5, Timeout: time.Hour})
		enter(t, q)
		in := make(chan struct{}, 5)
		for range 3 {
			go func() {
				if q.Enter(t.Context()) == nil {
					in <- struct{}{}
				}
			}()
		}
		synctest.Wait()
		change(limit.Settings{Slots: 2, Waiting: 5, Timeout: time.Hour})
		synctest.Wait()
		if len(in) != 1 {
			t.Errorf("%d are in after one more slot", len(in))
		}
		change(limit.Settings{Slots: 1, Waiting: 1, Timeout: time.Hour})
		q.Leave()
		synctest.Wait()
		if len(in) != 1 {
			t.Errorf("%d are in although one slot too many is taken", len(in))
		}
		q.Leave()
		synctest.Wait()
		if len(in) != 2 {
			t.Errorf("%d are in: who waits stays when fewer may wait", len(in))
		}
		all.Apply(nil)
		synctest.Wait()
		if len(in) != 3 {
			t.Errorf("%d are in after the queue is gone", len(in))
		}
		if all.Named("heavy").Enter(t.Context()) != nil || all.States() != nil {
			t.Error("a queue that is gone stops somebody")
		}
		all.Named("heavy").Leave()
	})
}

func TestASlotThatIsGivenToWhoJustLeftIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _, all := newQueue(limit.Settings{Slots: 1, Waiting: 1})
		for range 100 {
			enter(t, q)
			ctx, cancel := context.WithCancel(t.Context())
			over := make(chan struct{})
			go func() {
				defer close(over)
				if q.Enter(ctx) == nil {
					q.Leave()
				}
			}()
			synctest.Wait()
			cancel()
			q.Leave()
			<-over
		}
		if got := all.States()[0]; got.Running != 0 || got.Waiting != 0 {
			t.Errorf("left behind: %+v", got)
		}
	})
}

func TestSlotsAreNeverLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _, all := newQueue(limit.Settings{Slots: 3, Waiting: 20, Timeout: 5 * time.Millisecond})
		var wg sync.WaitGroup
		for i := range 60 {
			wg.Go(func() {
				for n := range 20 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration((i*7+n*3)%11)*time.Millisecond)
					if q.Enter(ctx) == nil {
						time.Sleep(time.Duration((i+n)%5) * time.Millisecond)
						q.Leave()
					}
					cancel()
				}
			})
		}
		wg.Wait()
		if got := all.States()[0]; got.Running != 0 || got.Waiting != 0 {
			t.Errorf("left behind: %+v", got)
		}
	})
}
