//go:build linux

package harness

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// A Load is callers that repeat something until they are stopped.
type Load struct {
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu    sync.Mutex
	took  []time.Duration
	fails []error
}

// Figures are what a load has measured. Percentiles include calls that failed.
type Figures struct {
	Calls         int
	Errors        []error
	P50, P99, Max time.Duration
}

func (f Figures) String() string {
	s := fmt.Sprintf("%d calls, %d errors, p50 %s, p99 %s, max %s", f.Calls, len(f.Errors),
		f.P50.Round(10*time.Microsecond), f.P99.Round(10*time.Microsecond), f.Max.Round(10*time.Microsecond))
	if len(f.Errors) > 0 {
		s += fmt.Sprintf(", first error: %v", f.Errors[0])
	}
	return s
}

// StartLoad repeats a call in so many callers, with a pause after each. A call
// that is under way when the load is stopped is still finished.
func StartLoad(t testing.TB, callers int, pause time.Duration, call func(ctx context.Context, caller int) error) *Load {
	t.Helper()
	until, stop := context.WithCancel(t.Context())
	l := &Load{stop: stop}
	t.Cleanup(func() { l.Stop() })
	for i := range callers {
		l.wg.Go(func() { l.run(t.Context(), until, pause, func(ctx context.Context) error { return call(ctx, i) }) })
	}
	return l
}

func (l *Load) run(ctx, until context.Context, pause time.Duration, call func(context.Context) error) {
	for until.Err() == nil {
		began := time.Now()
		err := call(ctx)
		took := time.Since(began)
		l.mu.Lock()
		l.took = append(l.took, took)
		if err != nil {
			l.fails = append(l.fails, err)
		}
		l.mu.Unlock()
		select {
		case <-until.Done():
		case <-time.After(pause):
		}
	}
}

// Stop ends the load and says what it measured.
func (l *Load) Stop() Figures {
	l.stop()
	l.wg.Wait()
	return l.Figures()
}

// Figures says what has been measured so far.
func (l *Load) Figures() Figures {
	l.mu.Lock()
	defer l.mu.Unlock()
	return FiguresOf(l.took, l.fails)
}

// FiguresOf sums up.
func FiguresOf(took []time.Duration, fails []error) Figures {
	f := Figures{Calls: len(took), Errors: slices.Clone(fails)}
	if len(took) == 0 {
		return f
	}
	sorted := slices.Sorted(slices.Values(took))
	at := func(percent int) time.Duration { return sorted[(len(sorted)-1)*percent/100] }
	f.P50, f.P99, f.Max = at(50), at(99), sorted[len(sorted)-1]
	return f
}
