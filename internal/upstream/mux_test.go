package upstream_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
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

func TestParamsWithLineBreaksAreOneMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := connect(t)
		go callOn(t.Context(), l, "tools/call", "{\r\n\t\"name\": \"x\",\n\"a\":\"line\\nbreak\"}")
		if got, want := string(l.hear().Params), "{  \t\"name\": \"x\", \"a\":\"line\\nbreak\"}"; got != want {
			t.Errorf("params %q, want %q", got, want)
		}
	})
}
