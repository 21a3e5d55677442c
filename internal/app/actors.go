package app

import (
	"context"
	"errors"
	"time"
)

// An actor is something that runs as long as the aggregator does.
type actor struct {
	name string
	run  func(context.Context) error // returns soon after its context has ended
	stop func(context.Context)       // begins an orderly end, bounded by its context; may be nil
}

func (a *App) add(name string, run func(context.Context) error, stop func(context.Context)) {
	a.actors = append(a.actors, actor{name, run, stop})
}

// runActors runs all actors until ctx ends or the first of them returns, then ends
// them: faces first, so that calls in flight still find their upstreams, then the
// upstreams, then whatever waits for its context.
func (a *App) runActors(ctx context.Context, drain time.Duration) error {
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	ended := make(chan error, len(a.actors))
	for _, act := range a.actors {
		go func() { ended <- act.run(run) }()
	}
	var first error
	left := len(a.actors)
	select {
	case <-ctx.Done():
		a.log.Info("stopping", "drain", drain)
	case first = <-ended:
		left--
	}
	a.shutdown(drain)
	cancel()
	for ; left > 0; left-- {
		if err := <-ended; first == nil && !errors.Is(err, context.Canceled) {
			first = err
		}
	}
	if errors.Is(first, context.Canceled) {
		return nil
	}
	return first
}

// shutdown drains the faces and closes the upstreams.
func (a *App) shutdown(drain time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	close(a.stopping)
	a.results.Hurry()
	go func() {
		defer close(a.drained)
		a.down.Close(ctx)
	}()
	for _, act := range a.actors {
		if act.stop != nil {
			act.stop(ctx)
		}
	}
	<-a.drained
	limits := a.config().Limits
	grace, cancel := context.WithTimeout(context.Background(), limits.StopInput+limits.StopTerm+time.Second)
	defer cancel()
	a.rout.Close(grace)
	if err := a.set.Close(grace); err != nil {
		a.log.Warn("closing upstreams", "err", err)
	}
}
