package downstream_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/downstream"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// initializeWith opens a session of a client that has declared this.
func initializeWith(caps string) string {
	return strings.Replace(initializeAble, `{"elicitation":{"form":{}}}`, caps, 1)
}

// A resident is a legacy client with a stream for what belongs to no call.
type resident struct {
	talk
	session string
}

// throughEachStream runs f with a client on each transport that has declared this.
func throughEachStream(t *testing.T, caps string, f func(t *testing.T, b *bare, c resident)) {
	face := func() (*bare, func() string) {
		session := make(chan string, 1)
		b := newBare(t, tools("x"), func(c *config.Config) { c.Limits.ParkedTTL = time.Minute })
		b.Carry(func(_ context.Context, c *router.Call) router.Reply {
			session <- c.Session
			return router.Reply{Result: wire.Value{Raw: []byte(`{}`)}}
		})
		return b, func() string { return <-session }
	}
	event := func(s string) string {
		_, data, _ := strings.Cut(s, "data: ")
		return data
	}
	t.Run("HTTP", func(t *testing.T) {
		b, session := face()
		srv := b.serve(t)
		id := post(t, srv, nil, initializeWith(caps)).header.Get("Mcp-Session-Id")
		say := func(msg string) { post(t, srv, legacyHeaders(id), msg) }
		say(callBody("1", "x", "{}", ""))
		if b.Ask(id, upstream.Ask{Method: "roots/list"}) {
			t.Error("asked without a stream")
		}
		fd := listen(t, http.DefaultTransport, srv, legacyHeaders(id), "")
		defer fd.close()
		f(t, b, resident{talk{say, func() string { return event(fd.next()) }, fd.close}, session()})
	})
	t.Run("HTTP+SSE", func(t *testing.T) {
		b, session := face()
		base := strings.TrimSuffix(b.serve(t), "/mcp")
		fd := listen(t, http.DefaultTransport, base+"/sse", nil, "")
		defer fd.close()
		_, at, _ := strings.Cut(fd.next(), "data: ")
		say := func(msg string) { post(t, base+at, nil, msg) }
		say(initializeWith(caps))
		fd.next()
		say(callBody("1", "x", "{}", ""))
		fd.next()
		f(t, b, resident{talk{say, func() string { return event(fd.next()) }, fd.close}, session()})
	})
	t.Run("stdio", func(t *testing.T) {
		b, session := face()
		defer b.shut(t)
		p := b.servePipe(t)
		defer func() { go io.Copy(io.Discard, p.out); p.in.Close(); <-p.ended }()
		p.ask(initializeWith(caps))
		p.ask(callBody("1", "x", "{}", ""))
		f(t, b, resident{talk{func(msg string) { p.say(msg) }, p.hear, func() { p.in.Close() }}, session()})
	})
}

// put puts a request of an upstream to the session. What the upstream gets comes by the
// channel, progress first.
func put(t *testing.T, b *bare, session, method, params string) (got chan string, withdraw func()) {
	t.Helper()
	got, done := make(chan string, 10), make(chan struct{})
	taken := b.Ask(session, upstream.Ask{Method: method, Params: []byte(params), Done: done,
		Progress: func(params []byte) { got <- "progress " + string(params) },
		Answer: func(result []byte, e *wire.RPCError) {
			if e != nil {
				got <- "error " + e.Message
				return
			}
			got <- string(result)
		}})
	if !taken {
		t.Fatalf("%s is not taken", method)
	}
	return got, func() { close(done) }
}

// A client that was shown a question hears that it is withdrawn, however much waits for it.
func TestAClientThatReadsLateHearsOfWithdrawals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session := make(chan string, 1)
		b := newBare(t, tools("x"), func(c *config.Config) { c.Limits.QueueMessages = 2 })
		b.Carry(func(_ context.Context, c *router.Call) router.Reply {
			session <- c.Session
			return router.Reply{Result: wire.Value{Raw: []byte(`{}`)}}
		})
		defer b.shut(t)
		p := b.servePipe(t)
		defer func() { go io.Copy(io.Discard, p.out); p.in.Close(); <-p.ended }()
		p.ask(initializeWith(`{"roots":{}}`))
		p.ask(callBody("1", "x", "{}", ""))
		id := <-session
		var withdraw []func()
		for range 3 { // one is being written, two wait
			_, end := put(t, b, id, "roots/list", `{}`)
			withdraw = append(withdraw, end)
			synctest.Wait()
		}
		withdraw[1]()
		withdraw[2]()
		synctest.Wait()
		var heard []string
		for range 5 {
			heard = append(heard, p.hear())
		}
		all := strings.Join(heard, "")
		for _, want := range []string{`"requestId":"agg-2"`, `"requestId":"agg-3"`} {
			if !strings.Contains(all, want) {
				t.Errorf("%s is not in %s", want, all)
			}
		}
	})
}

func TestASessionIsAskedOutsideOfCalls(t *testing.T) {
	throughEachStream(t, `{"roots":{},"sampling":{}}`, func(t *testing.T, b *bare, c resident) {
		got, _ := put(t, b, c.session, "roots/list", `{"x":1.0,"_meta":{"progressToken":"its","y":2}}`)
		q := c.hear()
		id := idOf(q)
		if want := `{"jsonrpc":"2.0","id":"` + id + `","method":"roots/list","params":{"x":1.0,"_meta":{"progressToken":"` + id + `","y":2}}}`; q != want {
			t.Fatalf("asked %s, want %s", q, want)
		}
		c.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"agg-99","progress":0}}`)
		c.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"` + id + `","progress":1.50}}`)
		c.say(`{"jsonrpc":"2.0","id":"` + id + `","result":{"roots":[]}}`)
		for _, want := range []string{`progress {"progressToken":"` + id + `","progress":1.50}`, `{"roots":[]}`} {
			if answer := <-got; answer != want {
				t.Errorf("the upstream got %s, want %s", answer, want)
			}
		}
		// What the client has not declared is refused without asking it.
		if got, _ := put(t, b, c.session, "elicitation/create", `{}`); !strings.Contains(<-got, "has not declared the capability elicitation.form") {
			t.Error("an elicitation is not refused")
		}
		// What nobody wants answered any more is taken back.
		got, withdraw := put(t, b, c.session, "sampling/createMessage", ``)
		id = idOf(c.hear())
		withdraw()
		if msg := c.hear(); !strings.Contains(msg, `"notifications/cancelled","params":{"requestId":"`+id+`"`) {
			t.Errorf("the client heard %s", msg)
		}
		<-got
	})
}

func TestASessionHearsWhatBelongsToNoCall(t *testing.T) {
	throughEachStream(t, `{}`, func(t *testing.T, b *bare, c resident) {
		const warning, debug = `{"level":"warning","data":1.0}`, `{"level":"debug","data":2}`
		c.say(`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"info"}}`)
		if c.session != "" && !strings.Contains(t.Name(), "HTTP") || strings.Contains(t.Name(), "SSE") {
			c.hear() // the reply
		}
		b.Tell(c.session, "notifications/message", []byte(debug))
		b.Tell(c.session, "notifications/message", []byte(warning))
		b.Tell(c.session, "notifications/elicitation/complete", []byte(`{"elicitationId":"e"}`))
		b.Tell(c.session, "notifications/vendor/x", nil)
		for _, want := range []string{
			`{"jsonrpc":"2.0","method":"notifications/message","params":` + warning + `}`,
			`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e"}}`,
			`{"jsonrpc":"2.0","method":"notifications/vendor/x"}`,
		} {
			if got := c.hear(); got != want {
				t.Errorf("heard %s, want %s", got, want)
			}
		}
		b.Tell("nobody", "notifications/vendor/x", nil)
		if n := b.Stats().Dropped; n != 1 {
			t.Errorf("%d dropped", n)
		}
	})
}

func TestWhatASessionHasDeclared(t *testing.T) {
	throughEachStream(t, `{"roots":{"listChanged":true}}`, func(t *testing.T, b *bare, c resident) {
		if caps, ok := b.Declared(c.session); !ok || string(caps) != `{"roots":{"listChanged":true}}` {
			t.Errorf("%s, %t", caps, ok)
		}
		if _, ok := b.Declared("nobody"); ok {
			t.Error("a session that is not there has declared something")
		}
	})
}

// A modern client on stdio has a session and cannot be asked outside of its requests.
func TestAModernClientIsNotAskedOutsideOfCalls(t *testing.T) {
	b := newBare(t, tools("x"))
	defer b.shut(t)
	session := ""
	b.Carry(func(_ context.Context, c *router.Call) router.Reply {
		session = c.Session
		return router.Reply{Result: wire.Value{Raw: []byte(`{}`)}}
	})
	p := b.servePipe(t)
	defer p.stop()
	p.ask(callBody("1", "x", "{}", ","+strings.Replace(meta, `Capabilities":{}`, `Capabilities":{"roots":{}}`, 1)))
	if session == "" || b.Ask(session, upstream.Ask{Method: "roots/list"}) {
		t.Errorf("session %q is asked", session)
	}
	if _, ok := b.Declared(session); ok {
		t.Error("it has declared something for good")
	}
}

func TestASessionThatDoesNotAnswerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBare(t, tools("x"), func(c *config.Config) { c.Limits.ParkedTTL = time.Minute })
		defer b.shut(t)
		session := make(chan string, 1)
		b.Carry(func(_ context.Context, c *router.Call) router.Reply {
			session <- c.Session
			return router.Reply{Result: wire.Value{Raw: []byte(`{}`)}}
		})
		p := b.servePipe(t)
		p.ask(initializeWith(`{"roots":{}}`))
		p.ask(callBody("1", "x", "{}", ""))
		id := <-session
		began := time.Now()
		got, _ := put(t, b, id, "roots/list", "")
		p.hear()
		withdrawn := make(chan string)
		go func() { withdrawn <- p.hear() }()
		if answer := <-got; !strings.Contains(answer, "parked_ttl (1m0s)") || time.Since(began) != time.Minute {
			t.Errorf("got %s after %v", answer, time.Since(began))
		}
		if msg := <-withdrawn; !strings.Contains(msg, "notifications/cancelled") {
			t.Errorf("the client heard %s", msg)
		}
		// One session cannot be made to keep more than so many.
		for range downstream.MaxQuestions {
			_, withdraw := put(t, b, id, "roots/list", "")
			defer withdraw()
			p.hear()
		}
		got, _ = put(t, b, id, "roots/list", "")
		if answer := <-got; !strings.Contains(answer, "requests to answer") {
			t.Errorf("got %s", answer)
		}
		go io.Copy(io.Discard, p.out)
		p.in.Close()
		<-p.ended
	})
}
