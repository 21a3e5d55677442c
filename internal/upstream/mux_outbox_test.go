package upstream_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/upstream"
)

func TestCallsToAServerThatDoesNotReadEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connect(t)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		const calls, size = 200, 64 << 10
		outcomes := make(chan outcome, calls)
		for range calls {
			go func() { outcomes <- callOn(ctx, l, "tools/call", `{"a":"`+strings.Repeat("x", size)+`"}`) }()
		}
		synctest.Wait()
		if n := upstream.Waiting(l.Transport); n == 0 || n*size > upstream.OutboxBytes {
			t.Errorf("%d messages of %d bytes wait, at most %d bytes may", n, size, upstream.OutboxBytes)
		}
		for range calls {
			if o := <-outcomes; o.Kind != fault.Timeout {
				t.Fatalf("%+v", o)
			}
		}
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("took %v", d)
		}
		// What was being written is completed, what was waiting is never sent.
		done := l.call(t.Context(), "next")
		synctest.Wait()
		heard := map[string]int{}
		for heard["next"] == 0 {
			q := l.hear()
			if heard[q.Method]++; q.Method == "next" {
				l.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, q.ID)
			}
		}
		if got := <-done; got.Result != "{}" || heard["tools/call"] != 1 || heard["notifications/cancelled"] != 1 {
			t.Errorf("%+v after %v", got, heard)
		}
	})
}

func TestAnswersToAServerThatDoesNotReadAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connect(t)
		const pings = 2 * upstream.OutboxOffers
		for i := range pings {
			l.say(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i)
		}
		synctest.Wait()
		if n := upstream.Waiting(l.Transport); n != upstream.OutboxOffers {
			t.Errorf("%d answers wait, want %d", n, upstream.OutboxOffers)
		}
		refused := upstream.CountsOf(l.Transport).Refused
		answers := 0
		go func() { l.call(t.Context(), "next") }()
		for l.hear().Method != "next" {
			answers++
		}
		if refused < upstream.OutboxOffers/2 || answers != pings-int(refused) {
			t.Errorf("%d of %d answers came through, %d were dropped", answers, pings, refused)
		}
	})
}

func TestARequestWithAHugeIDIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connect(t)
		l.say(`{"jsonrpc":"2.0","id":%q,"method":"ping"}`, strings.Repeat("i", 2<<10))
		l.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		if q := l.hear(); string(q.ID) != "1" {
			t.Errorf("answered %.100s", q.Raw)
		}
	})
}

func TestWaitingMessagesKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connect(t)
		for i := range 500 {
			go func() { l.call(t.Context(), fmt.Sprint("m", i)) }()
			synctest.Wait()
		}
		for i := range 500 {
			if q := l.hear(); q.Method != fmt.Sprint("m", i) {
				t.Fatalf("message %d is %s", i, q.Raw)
			}
		}
		l.far.Close()
		if _, err := l.in.ReadByte(); err != io.ErrClosedPipe {
			t.Errorf("left over: %v", err)
		}
	})
}
