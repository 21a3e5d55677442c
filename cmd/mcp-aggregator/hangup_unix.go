//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// onHangup calls reload for each SIGHUP until stop is called. Signals that come while it
// runs fall together. If the signal says that the terminal we were started from has
// gone, end is called instead.
func onHangup(reload, end func()) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	ended := make(chan struct{})
	attended := hasTerminal()
	go func() {
		defer close(ended)
		for range signals {
			if attended && !hasTerminal() {
				end()
			} else {
				reload()
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-ended
	}
}

// hasTerminal reports whether there is a controlling terminal.
func hasTerminal() bool {
	f, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	f.Close()
	return true
}
