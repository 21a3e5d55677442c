package app

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestCollectionsWaitForTheFloor(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{{0, 400}, {3 << 20, 400}, {4 << 20, 300}, {6 << 20, 166}, {8 << 20, 100}, {100 << 20, 100}} {
		if got := percentFor(c.live); got != c.want {
			t.Errorf("live heap of %d MiB: GOGC %d, want %d", c.live>>20, got, c.want)
		}
	}
}

func TestHeapFloorIsTakenBack(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	stop := keepHeapFloor()
	runtime.GC()
	stop()
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("GOGC is %d after stopping, want 100", got)
	}
}
