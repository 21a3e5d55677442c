package app

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// heapFloor is the size of the heap below which collecting garbage is not worth it.
// A proxy has a small live heap and makes garbage with every call: with the runtime's
// rule (collect when the heap has doubled, from 4 MiB) it would collect a hundred
// times a second under load. It is also what an aggregator that has had some work to
// do keeps above one that has had none.
const heapFloor = 16 << 20

// keepHeapFloor makes the collector wait until the heap has heapFloor bytes, or has
// doubled if that is more, and adapts after each collection. It leaves the collector
// alone when GOGC is set. The returned function ends it.
func keepHeapFloor() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	var stopped atomic.Bool
	before := debug.SetGCPercent(percentFor(liveHeap()))
	var watch func()
	watch = func() {
		// The cleanup of an unreachable object runs after each collection.
		runtime.AddCleanup(new([64]byte), func(struct{}) {
			if stopped.Load() {
				return
			}
			debug.SetGCPercent(percentFor(liveHeap()))
			watch()
		}, struct{}{})
	}
	watch()
	return func() {
		stopped.Store(true)
		debug.SetGCPercent(before)
	}
}

// percentFor is the GOGC at which the next collection comes at heapFloor.
func percentFor(live uint64) int {
	const runtimeFloor = 4 << 20 // at GOGC=100; the runtime scales it with GOGC
	if live >= heapFloor/2 {
		return 100
	}
	return int(min(heapFloor*100/runtimeFloor, (heapFloor-live)*100/max(live, 1)))
}

// liveHeap is what the last collection left over, in bytes.
func liveHeap() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
