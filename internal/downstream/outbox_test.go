package downstream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/downstream"
)

func TestOutboxIsBounded(t *testing.T) {
	dropped := 0
	o := downstream.NewOutbox(3, 1000, func() { dropped++ })
	for i := range 5 {
		if got := o.Offer(fmt.Sprint("m", i)); got != (i < 3) {
			t.Errorf("message %d: %v", i, got)
		}
	}
	if dropped != 2 {
		t.Errorf("%d dropped", dropped)
	}
	o = downstream.NewOutbox(100, 100, func() { dropped++ })
	if !o.Offer(strings.Repeat("x", 90)) || o.Offer(strings.Repeat("x", 20)) || !o.Offer("y") {
		t.Error("the bound on bytes")
	}
	o.Close()
	before := dropped
	if o.Offer("z") || dropped != before {
		t.Error("a closed queue takes nothing and drops nothing")
	}
}

func TestOutboxKeepsOrderAndRepliesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := downstream.NewOutbox(2, 1000, nil)
		o.Offer("1")
		o.Offer("2")
		put := make(chan error, 1)
		go func() { put <- o.Put(t.Context(), "3") }()
		synctest.Wait()
		select {
		case err := <-put:
			t.Fatalf("did not wait: %v", err)
		default:
		}
		var got strings.Builder
		drained := make(chan error, 1)
		go func() {
			drained <- o.Drain(t.Context(), func(b []byte) error { got.Write(b); return nil })
		}()
		if err := <-put; err != nil {
			t.Error(err)
		}
		if err := o.Put(t.Context(), strings.Repeat("4", 5000)); err != nil {
			t.Errorf("a message above the bound, alone: %v", err)
		}
		synctest.Wait()
		o.Close()
		if err := <-drained; err != nil {
			t.Error(err)
		}
		if want := "1\n2\n3\n" + strings.Repeat("4", 5000) + "\n"; got.String() != want {
			t.Errorf("%.20q", got.String())
		}
	})
}

func TestOutboxLetsGoOfWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken pipe")
		for name, end := range map[string]func(o downstream.Outbox, cancel func()){
			"closed":    func(o downstream.Outbox, _ func()) { o.Close() },
			"cancelled": func(_ downstream.Outbox, cancel func()) { cancel() },
			"broken": func(o downstream.Outbox, _ func()) {
				if err := o.Drain(context.Background(), func([]byte) error { time.Sleep(time.Second); return broken }); !errors.Is(err, broken) {
					t.Errorf("drain: %v", err)
				}
			},
		} {
			o := downstream.NewOutbox(1, 1000, nil)
			o.Offer("1")
			ctx, cancel := context.WithCancel(t.Context())
			put := make(chan error, 2)
			for range 2 {
				go func() { put <- o.Put(ctx, "2") }()
			}
			synctest.Wait()
			end(o, cancel)
			failed := 0
			for range 2 {
				if <-put != nil {
					failed++
				}
			}
			if failed == 0 {
				t.Errorf("%s: nobody was told", name)
			}
			cancel()
		}
	})
}

func TestFraming(t *testing.T) {
	for _, c := range []struct{ msg, event, line string }{
		{`{"a":1}`, "data: {\"a\":1}\n\n", "{\"a\":1}\n"},
		{"{\n\"a\":1}", "data: {\ndata: \"a\":1}\n\n", "{ \"a\":1}\n"},
		{"{\r\"a\":1}", "data: { \"a\":1}\n\n", "{ \"a\":1}\n"},
		{"{\r\n\"a\":1}", "data: {  \"a\":1}\n\n", "{  \"a\":1}\n"},
	} {
		if got := string(downstream.AppendEvent(nil, []byte(c.msg))); got != c.event {
			t.Errorf("event of %q: %q", c.msg, got)
		}
		if got := string(downstream.AppendLine(nil, []byte(c.msg))); got != c.line {
			t.Errorf("line of %q: %q", c.msg, got)
		}
	}
}
