package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/wire"
)

// A peer is a scripted server: it gets each POST with its message scanned, and other
// requests with a zero message.
type peer func(w http.ResponseWriter, r *http.Request, m *wire.Message)

func (p peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m := wire.Message{}
	if r.Method == http.MethodPost {
		if m, err = wire.Scan(body); err != nil {
			http.Error(w, "the test sent a bad message: "+err.Error(), http.StatusTeapot)
			return
		}
	}
	p(w, r, &m)
}

// reply answers with a JSON text in which ID stands for the id of the request.
func reply(w http.ResponseWriter, m *wire.Message, text string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, strings.ReplaceAll(text, "ID", string(m.ID.Of(m.Raw))))
}

// events answers with a stream of that text, ID replaced, and flushes.
func events(w http.ResponseWriter, m *wire.Message, text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, strings.ReplaceAll(text, "ID", string(m.ID.Of(m.Raw))))
	w.(http.Flusher).Flush()
}

const okResult = `{"jsonrpc":"2.0","id":ID,"result":{"ok":true}}`

// overNetHTTP makes connections use the transport of net/http for everything.
var overNetHTTP bool

// TestHTTPOverNetHTTP repeats what depends on the transport over that of net/http,
// which plain HTTP is not sent over otherwise.
func TestHTTPOverNetHTTP(t *testing.T) {
	overNetHTTP = true
	defer func() { overNetHTTP = false }()
	for name, test := range map[string]func(*testing.T){
		"AnswerInJSON":               TestHTTPAnswerInJSON,
		"AnswerInEvents":             TestHTTPAnswerInEvents,
		"CallsShareConnections":      TestHTTPCallsShareConnections,
		"LargeAnswers":               TestHTTPLargeAnswers,
		"AnswerAboveTheLimit":        TestHTTPAnswerAboveTheLimit,
		"Cancel":                     TestHTTPCancel,
		"CallsAreIsolated":           TestHTTPCallsAreIsolated,
		"Status":                     TestHTTPStatus,
		"Redirect":                   TestHTTPRedirect,
		"Headers":                    TestHTTPHeaders,
		"NeverSent":                  TestHTTPNeverSent,
		"SentAndLost":                TestHTTPSentAndLost,
		"NoHTTP":                     TestHTTPNoHTTP,
		"ServerRestartsBetweenCalls": TestHTTPServerRestartsBetweenCalls,
		"SentIsAFact":                TestHTTPSentIsAFact,
		"HeedsKeepAlive":             TestHTTPHeedsKeepAlive,
		"TimeoutOfTheServer":         TestHTTPTimeoutOfTheServer,
		"Close":                      TestHTTPClose,
		"Resume":                     TestHTTPResume,
		"StreamLeftOpen":             TestHTTPStreamLeftOpen,
		"OpenStream":                 TestHTTPOpenStream,
		"StreamFollowsTheSession":    TestHTTPStreamFollowsTheSession,
		"Listen":                     TestHTTPListen,
		"CloseEndsStreams":           TestHTTPCloseEndsStreams,
		"WithSDK":                    TestHTTPWithSDK,
	} {
		t.Run(name, test)
	}
}

// connectHTTP connects to the address; the connection is closed with the test, and
// nothing of it may be left then.
func connectHTTP(t *testing.T, address string, change ...func(*config.Server, *Options)) *httpConn {
	t.Helper()
	checkLeaks(t)
	s := config.DefaultServer("peer")
	s.URL = address
	o := &Options{}
	for _, f := range change {
		f(s, o)
	}
	conn, err := openHTTP(t.Context(), s, o, o.Notify)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	conn.setInfo(&Info{Version: wire.V20251125})
	if overNetHTTP {
		conn.(*httpConn).network.plain = nil
	}
	return conn.(*httpConn)
}

// leakChecks are the tests that look for goroutines when everything is closed.
var leakChecks sync.Map

func checkLeaks(t *testing.T) {
	if _, again := leakChecks.LoadOrStore(t, true); again {
		return
	}
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// servePeer starts a scripted server and connects to it.
func servePeer(t *testing.T, p peer, change ...func(*config.Server, *Options)) *httpConn {
	t.Helper()
	srv := httptest.NewServer(p)
	t.Cleanup(srv.Close)
	return connectHTTP(t, srv.URL+"/mcp", change...)
}

// pipePeer is servePeer inside a synctest bubble: without sockets.
func pipePeer(t *testing.T, p peer, notice func(Notice), change ...func(*config.Server)) *httpConn {
	t.Helper()
	l := mcptest.NewPipes()
	srv := &http.Server{Handler: p}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	s := config.DefaultServer("peer")
	for _, f := range change {
		f(s)
	}
	u, _ := url.Parse("http://peer.test/mcp")
	n, err := newHTTPNetwork(s, u)
	if err != nil {
		t.Fatal(err)
	}
	n.dial = l.Dial
	if overNetHTTP {
		n.plain = nil
	}
	conn := newHTTPConn(s, &Options{}, u, n, notice)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	conn.setInfo(&Info{Version: wire.V20251125})
	return conn
}

// call makes a call and returns what came of it in one line: the result, the peer's
// error, or the kind of failure.
func call(ctx context.Context, c Conn, method string) string {
	reply, err := c.Call(ctx, &Request{ID: NextID(), Method: method})
	return outcome(reply, err)
}

func outcome(reply Reply, err error) string {
	defer reply.Release()
	switch {
	case err != nil:
		return fault.KindOf(err).String()
	case reply.Err != nil:
		return fmt.Sprint(reply.Err.Code)
	}
	return string(reply.Result.Raw)
}

const okOutcome = `{"ok":true}`

// echoServer answers every call with size bytes of text, as JSON with a length, as
// chunked JSON or as a stream of one event.
func echoServer(tb testing.TB, size int, form string) *httptest.Server {
	text := strings.Repeat("x", size)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, err := wire.Scan(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer := make([]byte, 0, size+200)
		if form == "sse" {
			answer = append(answer, "event: message\ndata: "...)
		}
		answer = append(wire.AppendResultHead(answer, m.ID.Of(body)), `{"content":[{"type":"text","text":"`...)
		answer = append(append(answer, text...), `"}]}}`...)
		switch form {
		case "sse":
			w.Header()["Content-Type"] = []string{"text/event-stream"}
			_, _ = w.Write(append(answer, "\n\n"...))
			w.(http.Flusher).Flush()
		case "chunked":
			w.Header()["Content-Type"] = []string{"application/json"}
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			_, _ = w.Write(answer)
		default:
			w.Header()["Content-Type"] = []string{"application/json"}
			w.Header()["Content-Length"] = []string{fmt.Sprint(len(answer))}
			_, _ = w.Write(answer)
		}
	}))
	tb.Cleanup(srv.Close)
	return srv
}
