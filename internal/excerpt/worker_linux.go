package excerpt

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// limitMemory makes the kernel refuse what goes far beyond: the watch would see a
// single huge allocation too late. RLIMIT_AS counts what the runtime reserves too,
// which it does in steps of 64 MiB; half as much again and two steps are room for that,
// for its own bookkeeping, and for what it has freed but not given back. RLIMIT_DATA
// would be closer, but did not stop a string of 1 GB when it was tried.
func limitMemory(most int64) {
	lower(syscall.RLIMIT_AS, uint64(addressSpace()+most+most/2+128<<20))
	lower(syscall.RLIMIT_CORE, 0)
	lower(syscall.RLIMIT_FSIZE, 0)
}

func lower(resource int, to uint64) {
	var now syscall.Rlimit
	if syscall.Getrlimit(resource, &now) != nil {
		return
	}
	to = min(to, now.Max)
	// It fails only if it would raise the limit.
	_ = syscall.Setrlimit(resource, &syscall.Rlimit{Cur: to, Max: to})
}

// addressSpace returns what RLIMIT_AS counts now, in bytes: about a gigabyte that is
// merely reserved, and far more under the race detector.
func addressSpace() int64 {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 4 << 30
	}
	size, _, _ := bytes.Cut(statm, []byte{' '})
	pages, _ := strconv.ParseInt(string(size), 10, 64)
	return pages * int64(os.Getpagesize())
}
