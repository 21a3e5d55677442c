package downstream_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/downstream"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/wire"
)

// initializeAble opens a session of a client that can be asked.
const initializeAble = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"form":{}}},"clientInfo":{"name":"test","version":"1"}}}`

// A talk is a legacy client at the other end of some transport, as messages.
type talk struct {
	say  func(msg string) // sends a message, whatever becomes of it
	hear func() string    // the next message on the stream of the call; "" at its end
	quit func()           // the client goes away in the middle of the call
}

// throughEachLine runs f for each transport, each with a face of its own that has this
// router: call calls a tool in a session of a client that can be asked.
func throughEachLine(t *testing.T, carry func(context.Context, *router.Call) router.Reply, f func(t *testing.T, b *bare, call func(id string) talk), change ...func(*config.Config)) {
	face := func() *bare {
		b := newBare(t, tools("x"), change...)
		b.Carry(carry)
		return b
	}
	event := func(s string) string {
		_, data, _ := strings.Cut(s, "data: ")
		return data
	}
	t.Run("HTTP", func(t *testing.T) {
		b := face()
		srv := b.serve(t)
		session := openAble(t, srv)
		f(t, b, func(id string) talk {
			fd := listen(t, http.DefaultTransport, srv, legacyHeaders(session), callBody(id, "x", "{}", ""))
			t.Cleanup(fd.close)
			return talk{
				say:  func(msg string) { post(t, srv, legacyHeaders(session), msg) },
				hear: func() string { return event(fd.next()) },
				quit: fd.close,
			}
		})
	})
	t.Run("HTTP+SSE", func(t *testing.T) {
		b := face()
		base := strings.TrimSuffix(b.serve(t), "/mcp")
		fd := listen(t, http.DefaultTransport, base+"/sse", nil, "")
		defer fd.close()
		_, at, _ := strings.Cut(fd.next(), "data: ")
		say := func(msg string) { post(t, base+at, nil, msg) }
		say(initializeAble)
		fd.next()
		f(t, b, func(id string) talk {
			say(callBody(id, "x", "{}", ""))
			return talk{say, func() string { return event(fd.next()) }, fd.close}
		})
	})
	t.Run("stdio", func(t *testing.T) {
		b := face()
		defer b.shut(t)
		p := b.servePipe(t)
		defer func() { go io.Copy(io.Discard, p.out); p.in.Close(); <-p.ended }()
		p.ask(initializeAble)
		f(t, b, func(id string) talk {
			p.say(callBody(id, "x", "{}", ""))
			return talk{func(msg string) { p.say(msg) }, p.hear, func() { p.in.Close() }}
		})
	})
}

func openAble(t testing.TB, url string) string {
	t.Helper()
	a := post(t, url, nil, initializeAble)
	if a.status != http.StatusOK {
		t.Fatalf("initialize: %d %s", a.status, a.body)
	}
	return a.header.Get("Mcp-Session-Id")
}

// askingOnce is a router whose calls put one question and reply with what came of it.
func askingOnce(ctx context.Context, c *router.Call) router.Reply {
	got, err := c.Ask(ctx, "elicitation/create", []byte(`{"n":1.0, "é":"😀"}`), nil)
	if err != nil {
		return router.Reply{Err: err}
	}
	return router.Reply{Result: wire.Value{Raw: got}}
}

func idOf(msg string) string {
	raw := []byte(msg)
	id, _ := wire.Unquote(wire.Field(raw, wire.Span{Hi: len(raw)}, "id").Of(raw))
	return id
}

func TestAQuestionGoesToTheCallsStreamAndItsAnswerBack(t *testing.T) {
	throughEachLine(t, askingOnce, func(t *testing.T, _ *bare, call func(id string) talk) {
		c := call("7")
		q := c.hear()
		want := `{"jsonrpc":"2.0","id":"` + idOf(q) + `","method":"elicitation/create","params":{"n":1.0, "é":"😀"}}`
		if q != want || !strings.HasPrefix(idOf(q), "agg-") {
			t.Fatalf("asked %s", q)
		}
		for _, other := range []string{`"agg-99"`, `1`, `"1"`, `"agg-"`, `"agg-x"`} { // answer nothing
			c.say(`{"jsonrpc":"2.0","id":` + other + `,"result":{"wrong":true}}`)
		}
		c.say(`{"jsonrpc":"2.0","id":"` + idOf(q) + `","result":{"a":1.50, "b":"\u00e9"}}`)
		c.say(`{"jsonrpc":"2.0","id":"` + idOf(q) + `","result":{"late":true}}`)
		if got := c.hear(); got != `{"jsonrpc":"2.0","id":7,"result":{"a":1.50, "b":"\u00e9"}}` {
			t.Errorf("replied %s", got)
		}

		c = call("8")
		c.say(`{"jsonrpc":"2.0","id":"` + idOf(c.hear()) + `","error":{"code":-1,"message":"no","data":[1.0],"x":1}}`)
		if got := c.hear(); got != `{"jsonrpc":"2.0","id":8,"error":{"code":-1,"message":"no","data":[1.0],"x":1}}` {
			t.Errorf("an error became %s", got)
		}

		c = call("9")
		c.say(`{"jsonrpc":"2.0","id":"` + idOf(c.hear()) + `","result":"no object"}`)
		if got := c.hear(); !strings.Contains(got, `"error":{"code":-32603`) {
			t.Errorf("no object became %s", got)
		}
	})
}

// Several questions of one call are open side by side and answered in any order.
func TestQuestionsAreAnsweredInAnyOrder(t *testing.T) {
	carry := func(ctx context.Context, c *router.Call) router.Reply {
		var all sync.WaitGroup
		got := make([]string, 10)
		for i := range got {
			all.Go(func() {
				result, err := c.Ask(ctx, "roots/list", fmt.Appendf(nil, `{"i":%d}`, i), nil)
				got[i] = fmt.Sprint(string(result), err)
			})
		}
		all.Wait()
		return router.Reply{Result: wire.Value{Raw: wire.AppendQuote(nil, strings.Join(got, " "))}}
	}
	throughEachLine(t, carry, func(t *testing.T, _ *bare, call func(id string) talk) {
		c := call("1")
		var asked, want []string
		for i := range 10 {
			asked = append(asked, c.hear())
			want = append(want, fmt.Sprintf(`{"i":%d}<nil>`, i))
		}
		for i := len(asked) - 1; i >= 0; i-- {
			params := asked[i][strings.Index(asked[i], `{"i"`) : len(asked[i])-1]
			c.say(`{"jsonrpc":"2.0","id":"` + idOf(asked[i]) + `","result":` + params + `}`)
		}
		reply := c.hear()
		got, _ := wire.Unquote(wire.Field([]byte(reply), wire.Span{Hi: len(reply)}, "result").Of([]byte(reply)))
		if got != strings.Join(want, " ") {
			t.Errorf("got %s", got)
		}
	})
}

// Whatever ends a question ends it at once, and a client that can still hear is told.
func TestQuestionsEnd(t *testing.T) {
	ended := make(chan string, 10)
	withdraw := make(chan struct{})
	carry := func(ctx context.Context, c *router.Call) router.Reply {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-withdraw:
				cancel()
			case <-ctx.Done():
			}
		}()
		_, err := c.Ask(ctx, "sampling/createMessage", nil, nil)
		ended <- err.Message
		return router.Reply{Err: err}
	}
	for _, e := range []struct {
		name  string
		end   func(t *testing.T, b *bare, c talk)
		why   string
		heard bool // the client is told that the question is withdrawn
	}{
		{"the client cancels the call", func(_ *testing.T, _ *bare, c talk) {
			c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
		}, "cancelled by the client", true},
		{"the upstream withdraws it", func(*testing.T, *bare, talk) { withdraw <- struct{}{} }, "the request was withdrawn", true},
		{"the aggregator stops", func(t *testing.T, b *bare, _ talk) { go b.shut(t) }, "the aggregator is stopping", true},
		{"the client goes away", func(_ *testing.T, _ *bare, c talk) { c.quit() }, "", false},
	} {
		t.Run(e.name, func(t *testing.T) {
			throughEachLine(t, carry, func(t *testing.T, b *bare, call func(id string) talk) {
				c := call("7")
				q := c.hear()
				began := time.Now()
				e.end(t, b, c)
				if e.heard {
					if got := c.hear(); !strings.Contains(got, `"notifications/cancelled","params":{"requestId":"`+idOf(q)+`","reason":"`) {
						t.Errorf("the client heard %s", got)
					}
				}
				select {
				case why := <-ended:
					if e.why != "" && why != e.why {
						t.Errorf("ended by %q", why)
					}
				case <-time.After(5 * time.Second):
					t.Fatal("the question goes on")
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
	t.Run("the session is deleted", func(t *testing.T) {
		b := newBare(t, tools("x"))
		b.Carry(carry)
		url := b.serve(t)
		session := openAble(t, url)
		f := listen(t, http.DefaultTransport, url, legacyHeaders(session), callBody("1", "x", "{}", ""))
		defer f.close()
		f.next()
		send(t, http.MethodDelete, url, legacyHeaders(session), "")
		if why := <-ended; why != "the client has ended the session" {
			t.Errorf("ended by %q", why)
		}
	})
}

// A reply ends the questions of its call: they are withdrawn before it, and nothing of
// the call comes behind it.
func TestNothingIsAskedBehindTheReply(t *testing.T) {
	late, shown := make(chan string, 2), make(chan struct{})
	carry := func(ctx context.Context, c *router.Call) router.Reply {
		ask := c.Ask
		go func() {
			_, err := ask(context.Background(), "roots/list", nil, nil)
			late <- err.Message
			_, err = ask(context.Background(), "roots/list", nil, nil)
			late <- err.Message
		}()
		<-shown
		return router.Reply{Result: wire.Value{Raw: []byte(`{}`)}}
	}
	throughEachLine(t, carry, func(t *testing.T, _ *bare, call func(id string) talk) {
		c := call("7")
		heard := []string{c.hear()}
		for shown <- struct{}{}; !strings.Contains(heard[len(heard)-1], `"result"`); {
			heard = append(heard, c.hear())
		}
		if len(heard) != 3 || !strings.Contains(heard[1], "notifications/cancelled") {
			t.Errorf("heard %q", heard)
		}
		for range 2 {
			if why := <-late; why != "the call that caused the request is over" {
				t.Errorf("ended by %q", why)
			}
		}
	})
}

func TestOnlyTheSessionOfTheCallAnswers(t *testing.T) {
	b := newBare(t, tools("x"))
	b.Carry(askingOnce)
	url := b.serve(t)
	mine, other := openAble(t, url), openAble(t, url)
	f := listen(t, http.DefaultTransport, url, legacyHeaders(mine), callBody("1", "x", "{}", ""))
	g := listen(t, http.DefaultTransport, url, legacyHeaders(other), callBody("1", "x", "{}", ""))
	defer f.close()
	defer g.close()
	_, q, _ := strings.Cut(f.next(), "data: ")
	if _, same, _ := strings.Cut(g.next(), "data: "); idOf(same) != idOf(q) {
		t.Fatalf("the test needs equal ids: %s %s", q, same)
	}
	response := `{"jsonrpc":"2.0","id":"` + idOf(q) + `","result":{"from":"%s"}}`
	post(t, url, legacyHeaders(other), fmt.Sprintf(response, "other"))
	post(t, url, legacyHeaders("nobody"), fmt.Sprintf(response, "nobody"))
	post(t, url, legacyHeaders(mine), fmt.Sprintf(response, "mine"))
	if got := f.next(); !strings.HasSuffix(got, `{"from":"mine"}}`) {
		t.Errorf("got %s", got)
	}
	if got := g.next(); !strings.HasSuffix(got, `{"from":"other"}}`) {
		t.Errorf("the other got %s", got)
	}
}

func TestQuestionsAreBounded(t *testing.T) {
	carry := func(ctx context.Context, c *router.Call) router.Reply {
		if _, err := c.Ask(ctx, "roots/list", []byte(`{"x":"`+strings.Repeat("x", 5000)+`"}`), nil); err == nil || !strings.Contains(err.Message, "limits.answer") {
			t.Errorf("too large a question: %v", err)
		}
		ctx, cancel := context.WithCancel(ctx)
		var all sync.WaitGroup
		refused := make(chan string, 2*downstream.MaxQuestions)
		for range downstream.MaxQuestions + 5 {
			all.Go(func() { _, err := c.Ask(ctx, "roots/list", nil, nil); refused <- err.Message })
		}
		for range 5 {
			if why := <-refused; why != "the client has 64 requests to answer" {
				t.Errorf("refused: %q", why)
			}
		}
		cancel()
		all.Wait()
		return router.Reply{Result: wire.Value{Raw: []byte(`{}`)}}
	}
	throughEachLine(t, carry, func(t *testing.T, _ *bare, call func(id string) talk) {
		c, asked := call("1"), 0
		for {
			msg := c.hear()
			if strings.Contains(msg, `"result"`) {
				break
			}
			if strings.Contains(msg, "roots/list") {
				asked++
			}
		}
		if asked != downstream.MaxQuestions {
			t.Errorf("%d questions", asked)
		}
	}, func(c *config.Config) { c.Limits.Answer = 4 << 10 })
}

// A question is not lost among notifications that fill the queue: it waits for the
// client, and fails when the client reads nothing at all.
func TestQuestionsWaitForSlowReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBare(t, tools("x"), func(c *config.Config) { c.Limits.QueueMessages, c.Limits.QueueBytes = 4, 4<<10 })
		failed := make(chan string, 1)
		b.Carry(func(ctx context.Context, c *router.Call) router.Reply {
			for range 5 {
				if _, err := c.Ask(ctx, "roots/list", []byte(`{"x":"`+strings.Repeat("x", 4<<10)+`"}`), nil); err != nil {
					failed <- err.Message
					return router.Reply{Err: err}
				}
			}
			return router.Reply{Result: wire.Value{Raw: []byte(`{}`)}}
		})
		p, client, stop := b.servePipes(t)
		defer stop()
		open := func() string {
			resp, err := client.RoundTrip(newRequest(t, http.MethodPost, "http://localhost/mcp", nil, strings.NewReader(initializeAble)))
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			return resp.Header.Get("Mcp-Session-Id")
		}
		// One that does not read loses its question after limits.write.
		deaf := open()
		conn, err := p.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		body := callBody("1", "x", "{}", "")
		began := time.Now()
		if _, err := fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n"+
			"Mcp-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s", deaf, len(body), body); err != nil {
			t.Fatal(err)
		}
		// Meanwhile another one is served, slowly as it reads.
		f := listen(t, client, "http://localhost/mcp", legacyHeaders(open()), body)
		defer f.close()
		session := f.resp.Request.Header.Get("Mcp-Session-Id")
		for range 5 {
			time.Sleep(time.Second)
			_, q, _ := strings.Cut(f.next(), "data: ")
			resp, err := client.RoundTrip(newRequest(t, http.MethodPost, "http://localhost/mcp", legacyHeaders(session),
				strings.NewReader(`{"jsonrpc":"2.0","id":"`+idOf(q)+`","result":{}}`)))
			if err != nil || resp.StatusCode != http.StatusAccepted {
				t.Fatal(err, resp.StatusCode)
			}
			resp.Body.Close()
		}
		if got := f.next(); !strings.HasSuffix(got, `"result":{}}`) {
			t.Errorf("replied %.200s", got)
		}
		<-failed
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestCallsCarryWhoAsksAndWhatTheClientCan(t *testing.T) {
	b := newBare(t, tools("x"))
	seen := make(chan router.Call, 1)
	b.Carry(func(_ context.Context, c *router.Call) router.Reply {
		copied := *c
		copied.Caps = []byte(string(c.Caps))
		seen <- copied
		return router.Reply{Result: wire.Value{Raw: []byte(`{}`)}}
	})
	front := b.Handler()
	srv := httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		front.ServeHTTP(w, r.WithContext(downstream.WithPrincipal(r.Context(), "alice")))
	}))
	defer b.shut(t)
	able, unable := openAble(t, srv+"/mcp"), open(t, srv+"/mcp")
	modernCall := strings.Replace(callBody("1", "x", "{}", ","+meta), `clientCapabilities":{}`, `clientCapabilities":{"roots":{}}`, 1)
	for _, c := range []struct {
		name   string
		header map[string]string
		body   string
		caps   string
		ask    bool
	}{
		{"legacy, able", legacyHeaders(able), callBody("1", "x", "{}", ""), `{"elicitation":{"form":{}}}`, true},
		{"legacy, without capabilities", legacyHeaders(unable), callBody("1", "x", "{}", ""), `{}`, false},
		{"modern", with(modernHeaders("tools/call"), "Mcp-Name", "lab__x"), modernCall, `{"roots":{}}`, false},
	} {
		if a := post(t, srv+"/mcp", c.header, c.body); a.status != http.StatusOK {
			t.Fatalf("%s: %d %s", c.name, a.status, a.body)
		}
		got := <-seen
		if string(got.Caps) != c.caps || (got.Ask != nil) != c.ask || got.Principal != "alice" {
			t.Errorf("%s: capabilities %s, can be asked: %v, principal %q", c.name, got.Caps, got.Ask != nil, got.Principal)
		}
	}
}

func httpServer(t *testing.T, h http.Handler) (url string) {
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}
