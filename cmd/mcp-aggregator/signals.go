package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// untilSignal returns a context that ends with the first SIGINT or SIGTERM, whose name is
// its cause. A second signal ends the process at once, for those who cannot wait for
// an orderly end. Stop gives the signals back; it must be called.
func untilSignal(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	stopped := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		awaitSignals(signals, stopped, cancel)
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(stopped)
		<-ended
		cancel(nil)
	}
}

func awaitSignals(signals <-chan os.Signal, stopped <-chan struct{}, cancel context.CancelCauseFunc) {
	select {
	case s := <-signals:
		cancel(fmt.Errorf("stopped by %v", s))
	case <-stopped:
		return
	}
	select {
	case <-signals:
		os.Exit(exitFailure)
	case <-stopped:
	}
}
