package upstream_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What a server asks is kept until it is answered: of large questions there may be fewer.
func TestRequestsOutsideOfCallsAreBoundedInSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c sessions
		opts := options()
		opts.Ask = c.ask
		_, own, _ := ownConnection(t, opts, nil)
		large := `{"a":"` + strings.Repeat("x", 12<<20) + `"}`
		for range 2 { // what is answered counts no longer
			got := make(chan string, 5)
			for range 4 {
				go func() { got <- said(t, own, "vendor/x", large) }()
			}
			synctest.Wait()
			if len(c.open) != 2 || len(got) != 2 {
				t.Errorf("%d open, %d answered", len(c.open), len(got))
			}
			go func() { got <- said(t, own, "vendor/x", "{}") }()
			if synctest.Wait(); len(c.open) != 3 {
				t.Errorf("with a small one %d are open", len(c.open))
			}
			c.answer(`{}`)
			synctest.Wait()
		}
	})
}

// Where no client can be asked outside of calls, not everything waits for the next one.
func TestRequestsForRootsThatWaitForACallAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, own, _ := ownConnection(t, options(), nil)
		got := make(chan string, 100)
		for range 100 {
			go func() { got <- said(t, own, "roots/list", "") }()
		}
		synctest.Wait()
		if len(got) != 36 {
			t.Errorf("%d of 100 were answered at once", len(got))
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if len(got) != 100 {
			t.Errorf("%d of 100 were answered in the end", len(got))
		}
	})
}
