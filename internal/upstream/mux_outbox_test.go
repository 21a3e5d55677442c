package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
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

// Answers of clients may be large, and a server that asks and does not read gets many.
func TestWhatWaitsForAServerThatDoesNotReadIsBoundedInSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connect(t)
		large := []byte(`{"a":"` + strings.Repeat("x", 8<<20) + `"}`)
		ask := func(a upstream.Ask) { a.Answer(large, nil) }
		go func() {
			_, _ = l.Call(t.Context(), &upstream.Request{ID: upstream.NextID(), Method: "tools/call", Ask: ask})
		}()
		_ = l.hear()
		const questions = 12
		for i := range questions {
			l.say(`{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":{}}`, i)
		}
		synctest.Wait()
		waiting := upstream.Waiting(l.Transport)
		if most := upstream.OutboxOffered / len(large); waiting > most+1 || waiting < most-1 {
			t.Errorf("%d answers wait, want %d", waiting, most)
		}
		if n := upstream.CountsOf(l.Transport).Refused; int(n) < questions-waiting-1 || n == 0 {
			t.Errorf("%d were refused", n)
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

// The rest of a message that was written in part comes before what others sent
// meanwhile.
func TestAMessageWrittenInPartsStaysWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got strings.Builder
		var box upstream.Outbox
		blocked := make(chan struct{})
		box = upstream.NewOutbox(upstream.Sink{
			Write: func(b []byte) (int, error) { <-blocked; return got.Write(b) },
			TryWrite: func(b []byte) (int, error) {
				for _, other := range []string{"second;", "third;"} {
					box.Send(t.Context(), 2, []byte(other))
				}
				got.Write(b[:3])
				return 3, nil
			},
		}, nil)
		if !box.Send(t.Context(), 1, []byte("first;")) {
			t.Error("refused")
		}
		close(blocked)
		synctest.Wait()
		if got.String() != "first;second;third;" {
			t.Error(got.String())
		}
		box.Close()
	})
}

func TestAnOutboxKnowsWhatWasSent(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		took int // bytes of the first message before the sink fails
		sent bool
	}{
		"nothing": {0, false},
		"a part":  {2, true},
	} {
		t.Run(name, func(t *testing.T) {
			var lost []error
			box := upstream.NewOutbox(upstream.Sink{
				TryWrite: func([]byte) (int, error) { return tc.took, broken },
			}, func(err error) { lost = append(lost, err) })
			if sent := box.Send(t.Context(), 1, []byte("first;")); sent != tc.sent {
				t.Errorf("sent: %v", sent)
			}
			if box.Send(t.Context(), 2, []byte("second;")) {
				t.Error("sent to a broken sink")
			}
			if len(lost) != 1 || lost[0] != broken {
				t.Errorf("lost %v", lost)
			}
		})
	}
	t.Run("what waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			closed := make(chan struct{})
			box := upstream.NewOutbox(upstream.Sink{
				TryWrite: func([]byte) (int, error) { return 1, nil },
				Write:    func([]byte) (int, error) { <-closed; return 0, broken },
			}, nil)
			for id := range int64(4) {
				if !box.Send(t.Context(), id+1, []byte("message;")) {
					t.Error("refused")
				}
				synctest.Wait()
			}
			time.AfterFunc(time.Second, func() { close(closed) })
			if unsent := box.Close(); !slices.Equal(unsent, []int64{2, 3, 4}) {
				t.Errorf("not sent: %v", unsent)
			}
		})
	})
}
