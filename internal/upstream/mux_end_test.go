package upstream_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/upstream"
)

func TestEndedContextsCancelUpstream(t *testing.T) {
	shutdown := &fault.Error{Kind: fault.ShuttingDown, Reason: "stopping"}
	for name, tc := range map[string]struct {
		method string
		ctx    func(context.Context) (context.Context, func())
		tells  string // reason in notifications/cancelled; empty: nothing is sent
		kind   fault.Kind
	}{
		"a cancelled call": {"tools/call", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		}, "cancelled", fault.Cancelled},
		"a deadline": {"tools/call", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			return ctx, cancel
		}, "timeout", fault.Timeout},
		"a cause": {"tools/call", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { cancel(shutdown) })
			return ctx, func() { cancel(nil) }
		}, "cancelled", fault.ShuttingDown},
		"a time-out by its cause": {"tools/call", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { cancel(fault.Of(fault.Timeout, "beta", "no answer")) })
			return ctx, func() { cancel(nil) }
		}, "timeout", fault.Timeout},
		"initialize": {"initialize", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			return ctx, cancel
		}, "", fault.Timeout},
		"the probe": {"server/discover", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			return ctx, cancel
		}, "", fault.Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := connect(t)
				ctx, cancel := tc.ctx(t.Context())
				defer cancel()
				began := time.Now()
				done, q := l.begin(ctx, tc.method)
				got := <-done
				if got.Kind != tc.kind || got.Reason == "" || time.Since(began) != time.Second {
					t.Errorf("after %v: %+v", time.Since(began), got)
				}
				next := l.call(t.Context(), "next")
				m := l.hear()
				if tc.tells != "" {
					want := fmt.Sprintf(`{"requestId":%s,"reason":%q}`, q.ID, tc.tells)
					if m.Method != "notifications/cancelled" || string(m.Params) != want {
						t.Errorf("the server was told %s", m.Raw)
					}
					m = l.hear()
				}
				if m.Method != "next" {
					t.Errorf("the server was told %s", m.Raw)
				}
				l.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
				<-next
			})
		})
	}
}

func TestACallDoesNotEndInTheMiddleOfAnEvent(t *testing.T) {
	l := connect(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	var err error
	go func() {
		defer close(ended)
		_, err = l.Call(ctx, &upstream.Request{ID: upstream.NextID(), Method: "x", Events: func(upstream.Event) {
			cancel()
			select {
			case <-ended:
				t.Error("the call has ended, its event has not")
			case <-time.After(20 * time.Millisecond):
			}
		}})
	}()
	l.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s}}`, l.hear().ID)
	l.hear() // the cancellation
	if <-ended; fault.KindOf(err) != fault.Cancelled {
		t.Error(err)
	}
}

func TestACallThatIsNotSentIsNotCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connect(t)
		stuck := l.call(t.Context(), "stuck") // nobody reads: it is being written
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := <-l.call(ctx, "waiting"); got.Kind != fault.Timeout || !strings.Contains(got.Reason, "nothing was sent") {
			t.Errorf("%+v", got)
		}
		next := l.call(t.Context(), "next")
		for _, want := range []string{"stuck", "next"} {
			q := l.hear()
			if q.Method != want {
				t.Errorf("heard %s, want %s", q.Raw, want)
			}
			l.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, q.ID)
		}
		<-stuck
		<-next
	})
}

func TestALostConnectionTellsWhatWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connect(t)
		answered := l.call(t.Context(), "answered")
		l.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, l.hear().ID)
		sent := l.call(t.Context(), "sent")
		l.hear()
		writing := l.call(t.Context(), "writing")
		synctest.Wait()
		waiting := l.call(t.Context(), "waiting")
		synctest.Wait()
		l.far.Close()
		<-l.Done()
		after := l.call(t.Context(), "after")
		for _, tc := range []struct {
			name string
			done <-chan outcome
			want outcome
		}{
			{"answered", answered, outcome{Result: "{}"}},
			{"sent", sent, outcome{Kind: fault.Lost, Reason: "the connection was lost before the answer came: EOF"}},
			{"writing", writing, outcome{Kind: fault.Lost, Reason: "the connection was lost before the answer came: EOF"}},
			{"waiting", waiting, outcome{Kind: fault.Unreachable, Reason: "the connection was lost before the call was sent: EOF"}},
			{"after", after, outcome{Kind: fault.Unreachable, Reason: "not connected: EOF"}},
		} {
			got := <-tc.done
			got.Reason = strings.ReplaceAll(got.Reason, "io: read/write on closed pipe", "EOF")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.name, diff)
			}
		}
		if l.Err() == nil {
			t.Error("no reason")
		}
	})
}
