package upstream_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/upstream"
)

var errNoKeeper = errors.New("no keeper today")

func TestAServerHardlyWaitsForTheKeeper(t *testing.T) {
	for name, tt := range map[string]struct {
		starting, first time.Duration // what the start takes and how long the first child waits
	}{
		"one that cannot be started": {0, 0},
		"one that starts slowly":     {30 * time.Millisecond, 30 * time.Millisecond},
		"one that hangs":             {time.Hour, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := upstream.NewKeeperOfNone(func() error { time.Sleep(tt.starting); return errNoKeeper })
				for child, want := range []time.Duration{tt.first, 0, 0} {
					began := time.Now()
					k.Prepare()
					if took := time.Since(began); took != want {
						t.Errorf("the start of child %d waited %v, want %v", child, took, want)
					}
				}
				for range 3 {
					k.Forgo()
				}
				k.Rest()
			})
		})
	}
}

func TestAServerWaitsUntilTheKeeperIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var launched atomic.Bool
		k := upstream.NewKeeperOfNone(func() error { time.Sleep(time.Millisecond); launched.Store(true); return errNoKeeper })
		if k.Prepare(); !launched.Load() {
			t.Error("the child starts before the keeper")
		}
		k.Forgo()
		k.Rest()
	})
}

// A set may be closed while another one starts a server.
func TestTheKeeperStaysWhileAChildIsStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		launches := 0
		k := upstream.NewKeeperOfNone(func() error { launches++; return errNoKeeper })
		k.Prepare()
		k.Rest()
		time.Sleep(time.Hour)
		synctest.Wait()
		if launches < 2 {
			t.Error("nobody tries to start a keeper any more while a child is starting")
		}
		k.Forgo()
		k.Rest()
		before := launches
		time.Sleep(time.Hour)
		synctest.Wait()
		if launches != before {
			t.Error("a keeper is started although there is no child")
		}
	})
}
