package downstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-aggregator/internal/config"
)

func TestACallIsOneJSONObject(t *testing.T) {
	h := newHouse(t)
	url := h.serve(t)
	session := open(t, url)
	for _, n := range []int{10, 1500, 3000, 17 << 10, 300 << 10} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			a := post(t, url, legacyHeaders(session), callBody(`"big"`, "big", fmt.Sprintf(`{"n":%d}`, n), ""))
			want := `{"jsonrpc":"2.0","id":"big","result":{"content":[{"type":"text","text":"` + strings.Repeat("x", n) + `"}]}}`
			if a.status != 200 || a.body != want || a.header.Get("Content-Length") != fmt.Sprint(len(want)) {
				t.Errorf("%d, length %s, %.100s", a.status, a.header.Get("Content-Length"), a.body)
			}
			call := with(modernHeaders("tools/call"), "Mcp-Name", "lab__big")
			a = post(t, url, call, callBody("1.50", "big", fmt.Sprintf(`{"n":%d}`, n), ","+meta))
			want = `{"jsonrpc":"2.0","id":1.50,"result":{`
			if a.status != 200 || !strings.HasPrefix(a.body, want) || !strings.Contains(a.body, `"resultType":"complete"`) || !strings.Contains(a.body, strings.Repeat("x", n)) || a.header.Get("Content-Length") != fmt.Sprint(len(a.body)) {
				t.Errorf("%d %.200s", a.status, a.body)
			}
		})
	}
}

func TestTheFirstEventMakesAStream(t *testing.T) {
	h := newHouse(t)
	url := h.serve(t)
	session := open(t, url)
	for _, c := range []struct {
		name   string
		header map[string]string
		more   string
		logs   bool
	}{
		{"legacy", legacyHeaders(session), `,"_meta":{"progressToken":"t/1"}`, true},
		{"modern", with(modernHeaders("tools/call"), "Mcp-Name", "lab__talk"), `,` + strings.Replace(meta, `"_meta":{`, `"_meta":{"progressToken":"t/1",`, 1), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			stream := listen(t, http.DefaultTransport, url, c.header, callBody("7", "talk", `{"n":5,"text":"a"}`, c.more))
			defer stream.close()
			if got := stream.resp.Header.Get("X-Accel-Buffering"); got != "no" {
				t.Errorf("X-Accel-Buffering: %q", got)
			}
			progress, reply := 0, ""
			for event := stream.next(); event != ""; event = stream.next() {
				switch {
				case reply != "":
					t.Errorf("behind the reply: %s", event)
				case strings.Contains(event, "notifications/progress"):
					if progress++; !strings.Contains(event, `"progressToken":"t/1"`) || !strings.Contains(event, fmt.Sprintf(`"progress":%d`, progress)) {
						t.Errorf("progress %d: %s", progress, event)
					}
				case strings.Contains(event, "notifications/message"):
					if !c.logs {
						t.Errorf("not asked for: %s", event)
					}
				default:
					reply = event
				}
			}
			if progress != 5 || !strings.Contains(reply, `data: {"jsonrpc":"2.0","id":7,"result":{`) || !strings.Contains(reply, "said a") {
				t.Errorf("%d × progress, reply %s", progress, reply)
			}
		})
	}
	if a := post(t, url, legacyHeaders(session), callBody("8", "echo", `{"text":"b"}`, "")); a.status != 200 {
		t.Errorf("the connection is of no more use: %d", a.status)
	}
}

func TestCancellationReachesTheServer(t *testing.T) {
	h := newHouse(t)
	url := h.serve(t)
	session := open(t, url)
	await := func(t *testing.T, what string) {
		t.Helper()
		select {
		case err := <-h.lab.ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(time.Second):
			t.Fatalf("%s did not reach the server", what)
		}
	}
	t.Run("legacy notification", func(t *testing.T) {
		got := make(chan answer, 1)
		go func() { got <- post(t, url, legacyHeaders(session), callBody(`"w"`, "wait", `{}`, "")) }()
		<-h.lab.started
		if a := post(t, url, legacyHeaders(session), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w"}}`); a.status != 202 {
			t.Errorf("%d %s", a.status, a.body)
		}
		await(t, "the notification")
		if a := <-got; a.status != 200 || !strings.Contains(a.body, `"id":"w","error"`) {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	for name, header := range map[string]map[string]string{
		"legacy disconnect": legacyHeaders(session),
		"modern disconnect": with(modernHeaders("tools/call"), "Mcp-Name", "lab__wait"),
	} {
		t.Run(name, func(t *testing.T) {
			more := ""
			if strings.HasPrefix(name, "modern") {
				more = "," + meta
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() {
				defer close(done)
				req := newRequest(t, http.MethodPost, url, header, strings.NewReader(callBody("1", "wait", `{}`, more)))
				if resp, err := http.DefaultTransport.RoundTrip(req.WithContext(ctx)); err == nil {
					resp.Body.Close()
				}
			}()
			<-h.lab.started
			cancel()
			await(t, "the disconnect")
			<-done
		})
	}
	t.Run("DELETE", func(t *testing.T) {
		session := open(t, url)
		got := make(chan answer, 1)
		go func() { got <- post(t, url, legacyHeaders(session), callBody("1", "wait", `{}`, "")) }()
		<-h.lab.started
		send(t, "DELETE", url, legacyHeaders(session), "")
		await(t, "the end of the session")
		<-got
	})
	if n := h.Stats(); n.InFlight != 0 {
		t.Errorf("left behind: %+v", n)
	}
}

func TestTheSameIDTwiceInFlight(t *testing.T) {
	h := newHouse(t)
	url := h.serve(t)
	session, other := open(t, url), open(t, url)
	got := make(chan answer, 1)
	go func() { got <- post(t, url, legacyHeaders(session), callBody("1", "wait", `{}`, "")) }()
	<-h.lab.started
	if a := post(t, url, legacyHeaders(session), callBody("1", "echo", `{"text":"b"}`, "")); a.status != 400 || !strings.Contains(a.body, `-32600`) {
		t.Errorf("the second: %d %s", a.status, a.body)
	}
	if a := post(t, url, legacyHeaders(session), callBody(`"1"`, "echo", `{"text":"b"}`, "")); a.status != 200 || !strings.Contains(a.body, `"id":"1","result"`) {
		t.Errorf("a string is another id: %d %s", a.status, a.body)
	}
	if a := post(t, url, legacyHeaders(other), callBody("1", "echo", `{"text":"b"}`, "")); a.status != 200 || !strings.Contains(a.body, `"id":1,"result"`) {
		t.Errorf("another session: %d %s", a.status, a.body)
	}
	send(t, "DELETE", url, legacyHeaders(session), "")
	<-got
}

func TestCallsOfASessionAreBounded(t *testing.T) {
	h := newHouse(t, func(c *config.Config) { c.Limits.InFlight = 3 })
	url := h.serve(t)
	session := open(t, url)
	var calls sync.WaitGroup
	for i := range 3 {
		calls.Go(func() { post(t, url, legacyHeaders(session), callBody(fmt.Sprint(i), "wait", `{}`, "")) })
		<-h.lab.started
	}
	if a := post(t, url, legacyHeaders(session), callBody("9", "echo", `{}`, "")); a.status != 503 || !strings.Contains(a.body, `"code":"overloaded"`) {
		t.Errorf("one too many: %d %s", a.status, a.body)
	}
	send(t, "DELETE", url, legacyHeaders(session), "")
	calls.Wait()
}

var anyText = regexp.MustCompile(`s\d+k\d`)

func TestFiftySessionsWithTheSameIDs(t *testing.T) {
	h := newHouse(t)
	url := h.serve(t)
	var work sync.WaitGroup
	for i := range 50 {
		work.Go(func() {
			session := open(t, url)
			for k := range 5 {
				text := fmt.Sprintf("s%dk%d", i, k)
				a := post(t, url, legacyHeaders(session), callBody("1", "talk", `{"n":2,"text":"`+text+`"}`, `,"_meta":{"progressToken":1}`))
				if others := anyText.FindAllString(strings.ReplaceAll(a.body, text, ""), 1); strings.Count(a.body, `"message":"`+text+`"`) != 2 ||
					strings.Count(a.body, "said "+text) != 1 || others != nil {
					t.Errorf("session %d got %s", i, a.body)
				}
			}
		})
	}
	work.Wait()
}

func TestResourceUpdates(t *testing.T) {
	h := newHouse(t)
	url := h.serve(t)
	session := open(t, url)
	stream := listen(t, http.DefaultTransport, url, legacyHeaders(session), "")
	defer stream.close()
	modern := listen(t, http.DefaultTransport, url, modernHeaders("subscriptions/listen"),
		`{"jsonrpc":"2.0","id":3,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["lab://note","lab://none"]},`+meta+`}}`)
	defer modern.close()
	if got := modern.next(); !strings.Contains(got, `"resourceSubscriptions":["lab://note"]}`) {
		t.Errorf("acknowledgement: %s", got)
	}
	for method, want := range map[string]string{
		`"resources/subscribe","params":{"uri":"lab://none"}`: `"error":{"code":-32002`,
		`"resources/subscribe","params":{"uri":5}`:            `-32602`,
		`"resources/subscribe","params":{"uri":"lab://note"}`: `"result":{}`,
	} {
		if a := post(t, url, legacyHeaders(session), `{"jsonrpc":"2.0","id":1,"method":`+method+`}`); !strings.Contains(a.body, want) {
			t.Errorf("%s: %s", method, a.body)
		}
	}
	post(t, url, legacyHeaders(session), callBody("2", "touch", `{}`, ""))
	if got := stream.next(); !strings.Contains(got, `"method":"notifications/resources/updated","params":{`) || strings.Contains(got, "subscriptionId") {
		t.Errorf("legacy: %s", got)
	}
	if got := modern.next(); !strings.Contains(got, `"io.modelcontextprotocol/subscriptionId":3`) || !strings.Contains(got, "lab://note") {
		t.Errorf("modern: %s", got)
	}
	if a := post(t, url, legacyHeaders(session), `{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{"uri":"lab://note"}}`); !strings.Contains(a.body, `"result":{}`) {
		t.Errorf("unsubscribing: %s", a.body)
	}
	post(t, url, legacyHeaders(session), callBody("2", "grow", `{"text":"more"}`, ""))
	post(t, url, legacyHeaders(session), callBody("2", "touch", `{}`, ""))
	if got := stream.next(); !strings.Contains(got, "tools/list_changed") {
		t.Errorf("after unsubscribing: %s", got)
	}
}

func TestOlderTransport(t *testing.T) {
	h := newHouse(t)
	url := strings.TrimSuffix(h.serve(t), "/mcp")
	stream := listen(t, http.DefaultTransport, url+"/sse", nil, "")
	event, data, _ := strings.Cut(stream.next(), "\n")
	endpoint, ok := strings.CutPrefix(data, "data: /messages?sessionId=")
	if event != "event: endpoint" || !ok {
		t.Fatalf("%q %q", event, data)
	}
	endpoint = url + "/messages?sessionId=" + endpoint
	say := func(body string, status int) {
		t.Helper()
		if a := post(t, endpoint, map[string]string{"Accept": ""}, body); a.status != status {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	say(strings.Replace(initialize, "2025-11-25", "2024-11-05", 1), 202)
	if got := stream.next(); !strings.Contains(got, `"protocolVersion":"2024-11-05"`) {
		t.Errorf("%s", got)
	}
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202)
	say(`{"jsonrpc":"2.0","id":0,"method":"logging/setLevel","params":{"level":"debug"}}`, 202)
	stream.next()
	say(callBody("1", "talk", `{"n":2,"text":"b"}`, `,"_meta":{"progressToken":5}`), 202)
	for _, want := range []string{`"progress":1`, "b0", `"progress":2`, "b1", "said b"} {
		if got := stream.next(); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	say(`{"jsonrpc":`, 400)
	say(`{"jsonrpc":"2.0","id":2,"method":"server/discover","params":{`+meta+`}}`, 202)
	if got := stream.next(); !strings.Contains(got, `"id":2,"error":{"code":-32601`) {
		t.Errorf("this transport has no modern era: %s", got)
	}
	say(callBody("3", "wait", `{}`, ""), 202)
	<-h.lab.started
	if a := post(t, url+"/mcp", legacyHeaders(strings.SplitN(endpoint, "=", 2)[1]), `{"jsonrpc":"2.0","id":1,"method":"ping"}`); a.status != 404 {
		t.Errorf("the session at the newer endpoint: %d", a.status)
	}
	stream.close()
	select {
	case <-h.lab.ended:
	case <-time.After(time.Second):
		t.Error("the call outlives its client")
	}
	for deadline := time.Now().Add(5 * time.Second); h.Stats().Sessions > 0 && time.Now().Before(deadline); {
		post(t, url, nil, "x")
	}
	say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, 404)
}

func TestStdioCallsRunSideBySide(t *testing.T) {
	h := newHouse(t, func(c *config.Config) { c.Limits.InFlight = 4 })
	defer h.close(t)
	p := h.servePipe(t)
	p.ask(initialize)
	go p.say(
		callBody(`"w1"`, "wait", `{}`, ""),
		callBody(`"w2"`, "wait", `{}`, ","+meta),
	)
	<-h.lab.started
	<-h.lab.started
	if got := p.ask(callBody(`"w1"`, "echo", `{}`, "")); !strings.Contains(got, `"id":"w1","error":{"code":-32600`) {
		t.Errorf("an id in flight: %s", got)
	}
	if got := p.ask(callBody("1", "talk", `{"n":1,"text":"c"}`, `,"_meta":{"progressToken":"p"}`)); !strings.Contains(got, `"progressToken":"p"`) {
		t.Errorf("%s", got)
	}
	got := p.hear()
	if strings.Contains(got, "notifications/message") { // it may count as one of another call that wants none
		got = p.hear()
	}
	if !strings.HasSuffix(got, `"said c"}]}}`) {
		t.Errorf("%s", got)
	}
	go p.say(callBody("2", "wait", `{}`, ""), callBody("3", "wait", `{}`, ""), callBody("4", "echo", `{}`, ""))
	if got := p.hear(); !strings.Contains(got, `"id":4,"error"`) || !strings.Contains(got, "overloaded") {
		t.Errorf("one too many: %s", got)
	}
	go p.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w2"}}`, `{"jsonrpc":"2.0","id":5,"method":"ping"}`)
	if got := p.hear(); got != `{"jsonrpc":"2.0","id":5,"result":{}}` {
		t.Errorf("a cancelled call is not answered: %s", got)
	}
	if err := <-h.lab.ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	began := time.Now()
	p.stop()
	for range 3 {
		<-h.lab.ended
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the end took %v", took)
	}
}

func TestCloseWaitsForCallsInFlight(t *testing.T) {
	h := newHouse(t)
	url := h.serve(t)
	session := open(t, url)
	stream := listen(t, http.DefaultTransport, url, legacyHeaders(session), "")
	got := make(chan answer, 1)
	go func() { got <- post(t, url, legacyHeaders(session), callBody("1", "wait", `{}`, "")) }()
	<-h.lab.started
	closed := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { h.Close(ctx); close(closed) }()
	if rest, err := io.ReadAll(stream.events); err != nil || len(rest) > 0 {
		t.Errorf("the stream ended with %v, %q", err, rest)
	}
	select {
	case <-closed:
		t.Error("Close did not wait")
	case <-got:
		t.Error("the call was cut off")
	default:
	}
	cancel()
	<-closed
	if a := <-got; a.status != 200 || !strings.Contains(a.body, `"id":1,`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}
