//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// outlivePipes lets the process outlive whoever reads its standard output or error:
// writing there fails then, as on any other file. The signal is caught rather than
// ignored, because the servers we start would inherit that it is ignored.
func outlivePipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
