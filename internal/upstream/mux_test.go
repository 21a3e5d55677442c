package upstream_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// A line is a connection in memory whose far end the test plays.
type line struct {
	upstream.Transport
	t       *testing.T
	far     net.Conn
	in      *bufio.Reader
	notices chan upstream.Notice
}

// connect makes a line whose messages are bounded to 64 KiB.
func connect(t *testing.T) *line {
	t.Helper()
	near, far := net.Pipe()
	l := &line{t: t, far: far, in: bufio.NewReader(far), notices: make(chan upstream.Notice, 100)}
	l.Transport = upstream.OpenConn(near, 64<<10, nil, func(n upstream.Notice) { l.notices <- n })
	t.Cleanup(func() {
		far.Close()
		if err := l.Close(context.Background()); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return l
}

// hear returns the next message that arrives at the far end.
func (l *line) hear() *mcptest.Request {
	l.t.Helper()
	b, err := l.in.ReadBytes('\n')
	if err != nil {
		l.t.Fatalf("nothing to hear: %v", err)
	}
	q, err := mcptest.ParseRequest(b)
	if err != nil {
		l.t.Fatalf("heard %q: %v", b, err)
	}
	return q
}

// say sends one line from the far end.
func (l *line) say(format string, args ...any) {
	l.t.Helper()
	if _, err := fmt.Fprintf(l.far, format+"\n", args...); err != nil {
		l.t.Fatalf("saying: %v", err)
	}
}

// An outcome is what a call returned.
type outcome struct {
	Result string
	Code   int        // of a JSON-RPC error
	Kind   fault.Kind // of a failure, where Reason is not empty
	Reason string
	Events []string
}

// call starts a call and returns where its outcome will be.
func (l *line) call(ctx context.Context, method string) <-chan outcome {
	done := make(chan outcome, 1)
	go func() { done <- callOn(ctx, l, method, `{"name":"x"}`) }()
	return done
}

// begin starts a call and returns with its request at the far end.
func (l *line) begin(ctx context.Context, method string) (<-chan outcome, *mcptest.Request) {
	l.t.Helper()
	done := l.call(ctx, method)
	return done, l.hear()
}

func callOn(ctx context.Context, c upstream.Conn, method, params string) outcome {
	var mu sync.Mutex
	var o outcome
	reply, err := c.Call(ctx, &upstream.Request{
		ID: upstream.NextID(), Method: method, Params: wire.Value{Raw: []byte(params)},
		Events: func(e upstream.Event) {
			mu.Lock()
			defer mu.Unlock()
			o.Events = append(o.Events, e.Method+" "+string(e.Params))
		},
	})
	mu.Lock()
	defer mu.Unlock()
	if f := (*fault.Error)(nil); errors.As(err, &f) {
		o.Kind, o.Reason = f.Kind, f.Reason
	}
	if reply.Err != nil {
		o.Code = reply.Err.Code
	}
	o.Result = string(reply.Result.Raw)
	reply.Release()
	return o
}

func TestAnswersReachTheirCalls(t *testing.T) {
	for name, tc := range map[string]struct {
		answer string // ID stands for the id of the call
		want   outcome
	}{
		"a result":                              {`{"jsonrpc":"2.0","id":ID,"result":{"a":1.0}}`, outcome{Result: `{"a":1.0}`}},
		"the id in quotes":                      {`{"jsonrpc":"2.0","id":"ID","result":{}}`, outcome{Result: `{}`}},
		"the id as a float":                     {`{"jsonrpc":"2.0","id":ID.0,"result":{}}`, outcome{Result: `{}`}},
		"the id at the end":                     {`{"result":{"x":[]},"jsonrpc":"2.0","id":ID}`, outcome{Result: `{"x":[]}`}},
		"an error":                              {`{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"no"}}`, outcome{Code: -32602}},
		"CRLF":                                  {"{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{}}\r", outcome{Result: `{}`}},
		"text before":                           {"Listening...\n{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{}}", outcome{Result: `{}`}},
		"a log line with the same id":           {"{\"level\":\"info\",\"id\":ID}\n{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{}}", outcome{Result: `{}`}},
		"a bare number, a blank line":           {"17\n\n{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{}}", outcome{Result: `{}`}},
		"the id in a text":                      {"sent {\"result\":{},\"jsonrpc\":\"2.0\",\"id\":ID}\n{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{}}", outcome{Result: `{}`}},
		"another's answer before":               {"{\"jsonrpc\":\"2.0\",\"id\":999999999,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"mine\":true}}", outcome{Result: `{"mine":true}`}},
		"twice":                                 {"{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"again\":true}}", outcome{Result: `{}`}},
		"in a batch":                            {`[{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":ID}},{"jsonrpc":"2.0","id":ID,"result":{"b":2}}]`, outcome{Result: `{"b":2}`, Events: []string{`notifications/progress {"progressToken":ID}`}}},
		"progress and logs, in order":           {"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"ID\",\"progress\":1}}\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":7}}\n{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{}}", outcome{Result: `{}`, Events: []string{`notifications/progress {"progressToken":"ID","progress":1}`, `notifications/message {"data":7}`}}},
		"progress of an unknown token":          {"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"zz\"}}\n{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{}}", outcome{Result: `{}`}},
		"result and error":                      {`{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1,"message":""}}`, outcome{Kind: fault.Protocol, Reason: "the server sent an answer that is not valid: a response cannot have both result and error (at byte 0)"}},
		"neither result nor error":              {`{"jsonrpc":"2.0","id":ID}`, outcome{Kind: fault.Protocol, Reason: "the server sent an answer that is not valid: method, result or error is missing (at byte 0)"}},
		"no jsonrpc":                            {`{"id":ID,"result":{}}`, outcome{Kind: fault.Protocol, Reason: `the server sent an answer that is not valid: jsonrpc "2.0" is missing (at byte 0)`}},
		"a result that is no object":            {`{"jsonrpc":"2.0","id":ID,"result":[1]}`, outcome{Kind: fault.Protocol, Reason: "the server answered with a result that is not an object"}},
		"a null result":                         {`{"jsonrpc":"2.0","id":ID,"result":null}`, outcome{Kind: fault.Protocol, Reason: "the server answered with a result that is not an object"}},
		"bad UTF-8":                             {"{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"a\":\"\xff\"}}", outcome{Kind: fault.Protocol, Reason: "the server sent an answer that is not valid: invalid UTF-8 in string (at byte AT)"}},
		"bad UTF-8, the id at the end":          {"{\"result\":{\"a\":\"\xff\"},\"jsonrpc\":\"2.0\",\"id\":ID}", outcome{Kind: fault.Protocol, Reason: "the server sent an answer that is not valid: invalid UTF-8 in string (at byte 16)"}},
		"too deep":                              {`{"id":"ID","jsonrpc":"2.0","result":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "}", outcome{Kind: fault.Protocol, Reason: "the server sent an answer that is not valid: nested too deeply (at byte AT)"}},
		"too large":                             {`{"jsonrpc":"2.0","id":ID,"result":{"a":"` + strings.Repeat("x", 70<<10) + `"}}`, outcome{Kind: fault.Protocol, Reason: "the answer exceeds the limit of 65536 bytes"}},
		"too large, the id at the end":          {`{"result":{"a":"` + strings.Repeat("x", 300<<10) + `"},"jsonrpc":"2.0","id":ID}`, outcome{Kind: fault.Protocol, Reason: "the answer exceeds the limit of 65536 bytes"}},
		"a little too large, the id at the end": {`{"result":{"a":"` + strings.Repeat("x", 64<<10) + `"},"jsonrpc":"2.0","id":ID}`, outcome{Kind: fault.Protocol, Reason: "the answer exceeds the limit of 65536 bytes"}},
		"a large request of the server":         {`{"method":"x","params":{"a":"` + strings.Repeat("x", 300<<10) + "\"},\"jsonrpc\":\"2.0\",\"id\":ID}\n{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{}}", outcome{Result: `{}`}},
		"a large answer nobody waits for":       {`{"jsonrpc":"2.0","id":999999999,"result":{"a":"` + strings.Repeat("x", 300<<10) + "\"}}\n{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{}}", outcome{Result: `{}`}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := connect(t)
				done, q := l.begin(t.Context(), "tools/call")
				id := string(q.ID)
				answer := strings.ReplaceAll(tc.answer, "ID", id)
				began := time.Now()
				l.say("%s", answer)
				got := <-done
				want := tc.want
				want.Reason = strings.ReplaceAll(want.Reason, "AT", fmt.Sprint(firstBad(answer)))
				for i, e := range want.Events {
					want.Events[i] = strings.ReplaceAll(e, "ID", id)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("outcome (-want +got):\n%s", diff)
				}
				if d := time.Since(began); d != 0 {
					t.Errorf("took %v", d)
				}
				// The connection works on.
				done = l.call(t.Context(), "tools/call")
				l.say(`{"jsonrpc":"2.0","id":%s,"result":{"next":1}}`, l.hear().ID)
				if got := <-done; got.Result != `{"next":1}` {
					t.Errorf("the next call: %+v", got)
				}
			})
		})
	}
}

// firstBad is where bad UTF-8 or too deep nesting is found in an answer.
func firstBad(answer string) int {
	if i := strings.IndexByte(answer, 0xff); i >= 0 {
		return i
	}
	return strings.IndexByte(answer, '[') + 511
}

func TestTheIDOfATooLargeAnswerIsFoundHoweverItArrives(t *testing.T) {
	for cut := range 60 {
		synctest.Test(t, func(t *testing.T) {
			l := connect(t)
			done, q := l.begin(t.Context(), "tools/call")
			answer := fmt.Sprintf(`{"result":{"a":%q},"jsonrpc":"2.0","id":%s}`+"\n", strings.Repeat("x", 64<<10), q.ID)
			at := len(answer) - cut
			for _, part := range []string{answer[:at], answer[at:]} {
				if _, err := io.WriteString(l.far, part); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			if got := <-done; got.Kind != fault.Protocol || got.Reason != "the answer exceeds the limit of 65536 bytes" {
				t.Errorf("cut before the last %d bytes: %+v", cut, got)
			}
		})
	}
}

func TestAMisaddressedAnswerFailsTheOnlyCallSoon(t *testing.T) {
	for name, id := range map[string]string{
		"null": "null", "of nobody": "987654321", "a string": `"abc"`, "negative": "-1",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := connect(t)
				done := l.call(t.Context(), "tools/call")
				l.hear()
				began := time.Now()
				l.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"?"}}`, id)
				got := <-done
				if got.Kind != fault.Protocol || got.Reason == "" || time.Since(began) != upstream.Grace {
					t.Errorf("after %v: %+v", time.Since(began), got)
				}
			})
		})
	}
}

func TestAMisaddressedAnswerDoesNoHarm(t *testing.T) {
	t.Run("when the right one follows", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := connect(t)
			done, q := l.begin(t.Context(), "tools/call")
			l.say(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}`)
			time.Sleep(upstream.Grace - time.Nanosecond)
			l.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, q.ID)
			if got := <-done; got.Result != `{}` {
				t.Errorf("%+v", got)
			}
		})
	})
	t.Run("when it cannot be told whose it is", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := connect(t)
			first, p := l.begin(t.Context(), "a")
			second, q := l.begin(t.Context(), "b")
			l.say(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}`)
			time.Sleep(time.Hour)
			l.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, p.ID)
			l.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, q.ID)
			if a, b := <-first, <-second; a.Result != `{}` || b.Result != `{}` {
				t.Errorf("%+v, %+v", a, b)
			}
		})
	})
	t.Run("when it is the late answer to a cancelled call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := connect(t)
			ctx, cancel := context.WithCancel(t.Context())
			first, p := l.begin(ctx, "a")
			cancel()
			<-first
			l.hear() // the cancellation
			second, q := l.begin(t.Context(), "b")
			l.say(`{"jsonrpc":"2.0","id":%s,"result":{"late":true}}`, p.ID)
			time.Sleep(time.Hour)
			l.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, q.ID)
			if got := <-second; got.Result != `{}` {
				t.Errorf("%+v", got)
			}
			if c := upstream.CountsOf(l.Transport); c.Late != 1 {
				t.Errorf("counts %+v", c)
			}
		})
	})
}

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

func TestMessagesWithoutAnAddress(t *testing.T) {
	const log = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`
	ask := func(l *line, method string) string {
		l.say(`{"jsonrpc":"2.0","id":"s-1","method":%q}`, method)
		return string(l.hear().Raw)
	}
	answer := func(l *line, id []byte, done <-chan outcome) outcome {
		l.say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
		return <-done
	}
	t.Run("go to the only call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := connect(t)
			done, q := l.begin(t.Context(), "tools/call")
			l.say(log)
			if got := answer(l, q.ID, done); len(got.Events) != 1 {
				t.Errorf("%+v", got)
			}
		})
	})
	t.Run("are not hindered by our own housekeeping", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := connect(t)
			done, q := l.begin(t.Context(), "tools/call")
			ping, p := l.begin(t.Context(), "ping")
			listen, s := l.begin(t.Context(), "subscriptions/listen")
			l.say(log)
			for _, r := range []struct {
				id   []byte
				done <-chan outcome
				want int
			}{{q.ID, done, 1}, {p.ID, ping, 0}, {s.ID, listen, 0}} {
				if got := answer(l, r.id, r.done); len(got.Events) != r.want {
					t.Errorf("%+v, want %d events", got, r.want)
				}
			}
		})
	})
	t.Run("are dropped if they may be anyone's", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := connect(t)
			l.say(log)
			synctest.Wait()
			first, p := l.begin(t.Context(), "tools/call")
			second, q := l.begin(t.Context(), "tools/call")
			l.say(log)
			a, b := answer(l, p.ID, first), answer(l, q.ID, second)
			if c := upstream.CountsOf(l.Transport); a.Events != nil || b.Events != nil || c.Dropped != 2 {
				t.Errorf("%+v %+v %+v", a, b, c)
			}
		})
	})
	t.Run("are answered if they are requests", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := connect(t)
			for method, want := range map[string]string{
				"ping":                   `{"jsonrpc":"2.0","id":"s-1","result":{}}`,
				"roots/list":             `{"jsonrpc":"2.0","id":"s-1","result":{"roots":[]}}`,
				"sampling/createMessage": `{"jsonrpc":"2.0","id":"s-1","error":{"code":-32601,"message":"no client is available for this request"}}`,
			} {
				if got := strings.TrimSpace(ask(l, method)); got != want {
					t.Errorf("%s was answered with %s", method, got)
				}
			}
		})
	})
	t.Run("are notices if they are about the server", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := connect(t)
			done, q := l.begin(t.Context(), "tools/call")
			l.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			l.say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:y","_meta":{"io.modelcontextprotocol/subscriptionId":3}}}`)
			l.say(`{"jsonrpc":"2.0","method":"notifications/of/the/future","params":{}}`)
			if got := answer(l, q.ID, done); got.Events != nil {
				t.Errorf("%+v", got)
			}
			want := []upstream.Notice{
				{Server: "beta", Method: "notifications/tools/list_changed"},
				{Server: "beta", Method: "notifications/resources/updated", Params: []byte(`{"uri":"x:y","_meta":{"io.modelcontextprotocol/subscriptionId":3}}`)},
				{Server: "beta", Method: "notifications/of/the/future", Params: []byte(`{}`)},
			}
			for _, w := range want {
				if diff := cmp.Diff(w, <-l.notices); diff != "" {
					t.Errorf("notice (-want +got):\n%s", diff)
				}
			}
		})
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

func TestParamsWithLineBreaksAreOneMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connect(t)
		go callOn(t.Context(), l, "tools/call", "{\r\n\t\"name\": \"x\",\n\"a\":\"line\\nbreak\"}")
		if got, want := string(l.hear().Params), "{  \t\"name\": \"x\", \"a\":\"line\\nbreak\"}"; got != want {
			t.Errorf("params %q, want %q", got, want)
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

// Whatever a server says, the connection works on.
func FuzzReceive(f *testing.F) {
	for _, said := range []string{
		"hello", `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":"x","method":"ping"}`,
		`[{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}},[]]`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":[]}`, "{\"id\":1,\"result\":\"\xff\"}\n\n\r\n\x00",
	} {
		f.Add([]byte(said))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		near, far := net.Pipe()
		conn := upstream.OpenConn(near, 4<<10, nil, func(upstream.Notice) {})
		defer conn.Close(context.Background())
		defer far.Close()
		go answerTwice(t, far, said)
		if o := callOn(t.Context(), conn, "first", "{}"); o.Result == "" && o.Reason == "" && o.Code == 0 && !bytes.Contains(said, []byte("error")) {
			t.Errorf("the first call: %+v", o)
		}
		if o := callOn(t.Context(), conn, "second", "{}"); o.Result != `{"good":1}` {
			t.Errorf("the second call: %+v", o)
		}
	})
}

// answerTwice says anything to the call of "first", followed by a good answer, and a
// good answer only to "second".
func answerTwice(t *testing.T, far net.Conn, anything []byte) {
	answers := make(chan []byte, 2)
	defer close(answers)
	go func() {
		for b := range answers {
			if _, err := far.Write(b); err != nil {
				return
			}
		}
	}()
	for in := bufio.NewReader(far); ; {
		b, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		switch q, err := mcptest.ParseRequest(b); {
		case err != nil:
			t.Errorf("the server was told %q: %v", b, err)
		case q.Method == "first":
			answers <- fmt.Appendf(bytes.ReplaceAll(anything, []byte("1"), q.ID), "\n"+`{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", q.ID)
		case q.Method == "second":
			answers <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"good":1}}`+"\n", q.ID)
		}
	}
}
