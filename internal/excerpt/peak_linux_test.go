//go:build linux && !race

package excerpt_test

import "syscall"

// peakOfChildren returns the largest resident size a child had so far, in bytes.
func peakOfChildren() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage); err != nil {
		return 0
	}
	return usage.Maxrss << 10
}
