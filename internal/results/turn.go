package results

import (
	"context"
	"runtime"
)

// heavy is from how many bytes on a result waits for its turn. What is smaller takes a
// few milliseconds and must not wait behind what takes a second.
const heavy = 1 << 20

// turns bound how many heavy results are worked on at the same time: to half of the
// processors, so that small calls find a free one, and so that not all of many results
// are in memory twice. It is as full as there are some.
type turns chan struct{}

func newTurns() turns { return make(turns, max(1, runtime.GOMAXPROCS(0)/2)) }

// A turn is that of one result. It belongs to one goroutine.
type turn struct {
	of  turns // nil: a result that needs none
	has bool
}

func (t turns) of(bytes int) *turn {
	if bytes < heavy {
		return &turn{}
	}
	return &turn{of: t}
}

// take waits for the turn. The error is that of ctx.
func (t *turn) take(ctx context.Context) error {
	if t.of == nil || t.has {
		return nil
	}
	if ctx.Err() != nil { // also if there is a turn to be had
		return context.Cause(ctx)
	}
	select {
	case t.of <- struct{}{}:
		t.has = true
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave lets the next result have its turn, while this one waits for something else or
// is done.
func (t *turn) leave() {
	if t.has {
		t.has = false
		<-t.of
	}
}
