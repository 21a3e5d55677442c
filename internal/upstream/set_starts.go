package upstream

import (
	"context"
	"sync"
	"time"

	"mcp-aggregator/internal/config"
)

// starts limits how many server processes start at the same time: each costs
// processor time and memory, and together they would make all of them slow. A
// remote server costs a socket and needs no permission.
type starts struct{ places chan struct{} }

// startPlace is how long a start may keep its place. One that takes longer is
// waiting for something, and must not keep others from starting.
const startPlace = time.Second

func newStarts(atOnce int) *starts {
	if atOnce <= 0 {
		atOnce = 8
	}
	return &starts{make(chan struct{}, atOnce)}
}

// enter waits for a place. leave gives it back.
func (s *starts) enter(ctx context.Context, t config.Type) (leave func(), err error) {
	if t != config.TypeStdio {
		return func() {}, nil
	}
	select {
	case s.places <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	free := sync.OnceFunc(func() { <-s.places })
	timer := time.AfterFunc(startPlace, free)
	return func() { timer.Stop(); free() }, nil
}
