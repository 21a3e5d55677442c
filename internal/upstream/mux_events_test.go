package upstream_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

const logMessage = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`

// answer ends a call that begin has begun.
func (l *line) answer(q *mcptest.Request, done <-chan outcome) outcome {
	l.t.Helper()
	l.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, q.ID)
	return <-done
}

func TestALogMessageGoesToTheOnlyCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connect(t)
		done, q := l.begin(t.Context(), "tools/call")
		// Our own housekeeping does not stand in the way.
		ping, p := l.begin(t.Context(), "ping")
		listen, s := l.begin(t.Context(), "subscriptions/listen")
		l.say(logMessage)
		if got := l.answer(q, done); len(got.Events) != 1 {
			t.Errorf("the call: %+v", got)
		}
		if a, b := l.answer(p, ping), l.answer(s, listen); a.Events != nil || b.Events != nil {
			t.Errorf("our own: %+v, %+v", a, b)
		}
	})
}

func TestALogMessageThatMayBeAnyonesIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connect(t)
		l.say(logMessage)
		synctest.Wait()
		first, p := l.begin(t.Context(), "tools/call")
		second, q := l.begin(t.Context(), "tools/call")
		l.say(logMessage)
		a, b := l.answer(p, first), l.answer(q, second)
		if c := upstream.CountsOf(l.Transport); a.Events != nil || b.Events != nil || c.Dropped != 2 {
			t.Errorf("%+v %+v %+v", a, b, c)
		}
	})
}

func TestRequestsOfAServerAreAnsweredAtOnce(t *testing.T) {
	for method, want := range map[string]string{
		"ping":                   `{"jsonrpc":"2.0","id":"s-1","result":{}}`,
		"roots/list":             `{"jsonrpc":"2.0","id":"s-1","result":{"roots":[]}}`,
		"sampling/createMessage": `{"jsonrpc":"2.0","id":"s-1","error":{"code":-32600,"message":"no client is available for this request"}}`,
	} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := connect(t)
				l.say(`{"jsonrpc":"2.0","id":"s-1","method":%q}`, method)
				if got := strings.TrimSpace(string(l.hear().Raw)); got != want {
					t.Errorf("answered with %s", got)
				}
			})
		})
	}
}

func TestNewsOfTheServerAreNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connect(t)
		done, q := l.begin(t.Context(), "tools/call")
		l.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		l.say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:y","_meta":{"io.modelcontextprotocol/subscriptionId":3}}}`)
		l.say(`{"jsonrpc":"2.0","method":"notifications/of/the/future","params":{"of":"call"}}`)
		if diff := cmp.Diff([]string{`notifications/of/the/future {"of":"call"}`}, l.answer(q, done).Events); diff != "" {
			t.Errorf("what is not about the server belongs to the only call (-want +got):\n%s", diff)
		}
		l.say(`{"jsonrpc":"2.0","method":"notifications/of/the/future","params":{}}`)
		for _, want := range []upstream.Notice{
			{Server: "beta", Method: "notifications/tools/list_changed"},
			{Server: "beta", Method: "notifications/resources/updated", Params: []byte(`{"uri":"x:y","_meta":{"io.modelcontextprotocol/subscriptionId":3}}`)},
			{Server: "beta", Method: "notifications/of/the/future", Params: []byte(`{}`)},
		} {
			if diff := cmp.Diff(want, <-l.notices); diff != "" {
				t.Errorf("notice (-want +got):\n%s", diff)
			}
		}
	})
}

func TestOnlyASubscriptionIsEndedByTheServersCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connect(t)
		listen, s := l.begin(t.Context(), "subscriptions/listen")
		call, c := l.begin(t.Context(), "tools/call")
		for _, id := range [][]byte{c.ID, s.ID} {
			l.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id)
		}
		if got := <-listen; got.Kind != fault.Lost || got.Reason == "" {
			t.Errorf("%+v", got)
		}
		l.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, c.ID)
		if got := <-call; got.Result != "{}" {
			t.Errorf("%+v", got)
		}
	})
}

// Each call gets all of its events, in order, before its answer and none after, and
// nothing of another's, while buffers and waiters are reused all the time.
func TestManyCallsAtATimeKeepApart(t *testing.T) {
	near, far := net.Pipe()
	conn := upstream.OpenConn(near, 1<<20, nil, nil)
	defer conn.Close(context.Background())
	defer far.Close()
	go chat(far)

	var wg sync.WaitGroup
	for worker := range 32 {
		wg.Go(func() {
			for i := range 50 {
				secret := fmt.Sprintf("%d-%d-%s", worker, i, strings.Repeat("x", rand.IntN(3000)))
				callChat(t, conn, secret, i%7 == 0)
			}
		})
	}
	wg.Wait()
	if c := upstream.CountsOf(conn); c.Junk != 0 {
		t.Errorf("counts %+v", c)
	}
}

// callChat makes one call to chat and checks that everything about it is its own.
func callChat(t *testing.T, conn upstream.Conn, secret string, impatient bool) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over, seen := false, 0
	var mu sync.Mutex
	reply, err := conn.Call(ctx, &upstream.Request{
		ID: upstream.NextID(), Method: "chat", Params: wire.Value{Raw: []byte(`{"s":` + mcptest.Quote(secret) + `}`)},
		Events: func(e upstream.Event) {
			mu.Lock()
			defer mu.Unlock()
			if over {
				t.Error("an event after the end of the call")
			}
			if want := fmt.Sprintf(`"progress":%d,"s":%q}`, seen, secret); !strings.HasSuffix(string(e.Params), want) {
				t.Errorf("event %d: %s", seen, e.Params)
			}
			if seen++; impatient && seen == 2 {
				cancel()
			}
		},
	})
	mu.Lock()
	defer mu.Unlock()
	over = true
	switch {
	case err != nil && (!impatient || fault.KindOf(err) != fault.Cancelled):
		t.Error(err)
	case err == nil && (seen != 5 || string(reply.Result.Raw) != fmt.Sprintf(`{"s":%q}`, secret)):
		t.Errorf("%d events, result %s", seen, reply.Result.Raw)
	}
	reply.Release()
}

// chat answers each request with five progress notifications and a result that
// carry its parameter, those of different requests mixed.
func chat(conn net.Conn) {
	var mu sync.Mutex
	for in := bufio.NewReader(conn); ; {
		b, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		q, err := mcptest.ParseRequest(b)
		if err != nil || q.ID == nil {
			continue
		}
		s := mcptest.Field(q.Params, "s")
		go func() {
			for i := range 6 {
				mu.Lock()
				if i < 5 {
					fmt.Fprintf(conn, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"s":%s}}`+"\n", q.ID, i, s)
				} else {
					fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":%s,"result":{"s":%s}}`+"\n", q.ID, s)
				}
				mu.Unlock()
			}
		}()
	}
}
