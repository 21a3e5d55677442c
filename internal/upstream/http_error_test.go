package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

func TestHTTPStatus(t *testing.T) {
	rpc := `{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"no"}}`
	for _, c := range []struct {
		name   string
		status int
		form   string
		body   string
		header string // one more, "Name: value"
		want   string
		reason string // part of the reason
		after  time.Duration
	}{
		{"401", 401, "text/plain", "no", `WWW-Authenticate: Bearer realm="https://auth.example.com/x?token=secret", error="secret"`, "unauthorized", "Bearer for auth.example.com", 0},
		{"401 with an error object", 401, "application/json", rpc, "", "unauthorized", "401", 0},
		{"403", 403, "text/plain", "no", "", "unauthorized", "403", 0},
		{"429", 429, "text/plain", "no", "Retry-After: 7", "rate_limited", "slow down", 7 * time.Second},
		{"503, of a proxy perhaps", 503, "text/html", "<html>", "", "protocol", "not available: HTTP status 503", 0},
		{"503 with a time", 503, "text/html", "<html>", "Retry-After: 3", "lost", "503", 3 * time.Second},
		{"503 with an error object", 503, "application/json", rpc, "", "-32602", "", 0},
		{"400 with an error object", 400, "application/json", rpc, "", "-32602", "", 0},
		{"404 with an error object of another id", 404, "application/json", strings.ReplaceAll(rpc, "ID", `"server-error"`), "", "-32602", "", 0},
		{"500 with an error object and no content type", 500, "", rpc, "", "-32602", "", 0},
		{"400 with text", 400, "text/plain; charset=utf-8", "secret", "", "protocol", "400 Bad Request (text/plain; charset=utf-8)", 0},
		{"502 with HTML", 502, "text/html", "<html>secret", "", "protocol", "502 Bad Gateway (text/html)", 0},
		{"200 with HTML", 200, "text/html", "<html>secret", "", "protocol", "200 OK (text/html)", 0},
		{"202", 202, "", "", "", "protocol", "202 Accepted", 0},
		{"204", 204, "", "", "", "protocol", "204 No Content", 0},
		{"201 with an answer", 201, "application/json", okResult, "", okOutcome, "", 0},
		{"303", 303, "text/plain", "", "Location: /elsewhere", "protocol", "303", 0},
		{"a redirect without a target", 307, "text/plain", "", "", "protocol", "307", 0},
		{"a redirect to another origin", 307, "text/plain", "", "Location: https://evil.example.com/mcp?secret", "protocol", "https://evil.example.com,", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := servePeer(t, func(w http.ResponseWriter, _ *http.Request, m *wire.Message) {
				if c.form != "" {
					w.Header().Set("Content-Type", c.form)
				}
				if name, value, ok := strings.Cut(c.header, ": "); ok {
					w.Header().Set(name, value)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, strings.ReplaceAll(c.body, "ID", string(m.ID.Of(m.Raw))))
			})
			reply, err := conn.Call(t.Context(), &Request{ID: NextID(), Method: "tools/call"})
			if got := outcome(reply, err); got != c.want {
				t.Fatalf("got %s (%v), want %s", got, err, c.want)
			}
			if err == nil {
				return
			}
			var f *fault.Error
			if !errors.As(err, &f) || f.Server != "peer" || f.RetryAfter != c.after {
				t.Errorf("got %#v", err)
			}
			if !strings.Contains(f.Reason, c.reason) || strings.Contains(f.Reason, "secret") {
				t.Errorf("reason %q, want %q in it and no secrets", f.Reason, c.reason)
			}
			var status *statusError
			if !errors.As(err, &status) || status.status != c.status {
				t.Errorf("the status is not in the chain of %#v", err)
			}
		})
	}
}

func TestHTTPNotify(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   fault.Kind
	}{
		{"accepted", 202, "", 0},
		{"200 with a body nobody needs", 200, "{}", 0},
		{"refused", 400, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"no"}}`, fault.Rejected},
		{"failed", 500, "oops", fault.Protocol},
		{"unauthorized", 401, "", fault.Unauthorized},
	} {
		conn := servePeer(t, func(w http.ResponseWriter, _ *http.Request, m *wire.Message) {
			if string(m.Raw) != `{"jsonrpc":"2.0","method":"notifications/x","params":{"a":1}}` {
				t.Errorf("sent %s", m.Raw)
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		})
		err := conn.Notify(t.Context(), "notifications/x", wire.Value{Raw: []byte(`{"a":1}`)})
		if (err == nil) != (c.want == 0) || err != nil && fault.KindOf(err) != c.want {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}

// What is sent follows the address of the server, not the other way around.
func TestHTTPRedirect(t *testing.T) {
	var other int
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { other++ }))
	defer elsewhere.Close()
	var paths []string
	for _, status := range []int{301, 302, 307, 308} {
		paths = nil
		hop := 0
		conn := servePeer(t, func(w http.ResponseWriter, r *http.Request, m *wire.Message) {
			paths = append(paths, r.URL.Path)
			switch {
			case m.Method == "away":
				http.Redirect(w, r, elsewhere.URL, status)
			case m.Method == "loop":
				http.Redirect(w, r, "/mcp/?again", http.StatusTemporaryRedirect)
			case m.Method == "itself":
				http.Redirect(w, r, r.URL.RequestURI(), status)
			case m.Method == "on and on":
				hop++
				http.Redirect(w, r, fmt.Sprint("/mcp/?", hop), http.StatusTemporaryRedirect)
			case r.URL.Path == "/mcp":
				w.Header().Set("Location", "/mcp/")
				w.WriteHeader(status)
			default:
				reply(w, m, okResult)
			}
		}, func(s *config.Server, _ *Options) { s.BearerToken = "secret" })
		for range 2 {
			if got := call(t.Context(), conn, "tools/call"); got != okOutcome {
				t.Errorf("%d: got %s", status, got)
			}
		}
		want := "/mcp /mcp/ /mcp /mcp/"
		if status == 301 || status == 308 {
			want = "/mcp /mcp/ /mcp/" // permanently
		}
		if got := strings.Join(paths, " "); got != want {
			t.Errorf("%d: asked for %s, want %s", status, got, want)
		}
		for method, sent := range map[string]int{"away": 1, "loop": 2, "itself": 1, "on and on": 3} {
			paths = nil
			_, err := conn.Call(t.Context(), &Request{ID: NextID(), Method: method})
			if fault.KindOf(err) != fault.Protocol || !strings.Contains(err.Error(), "url to") || len(paths) != sent {
				t.Errorf("%d, %s: sent %d times, want %d: %v", status, method, len(paths), sent, err)
			}
		}
	}
	if other != 0 {
		t.Error("another origin was asked")
	}
}

func TestSessionGone(t *testing.T) {
	e := func(code int, message string) *wire.RPCError { return &wire.RPCError{Code: code, Message: message} }
	for _, c := range []struct {
		status int
		err    *wire.RPCError
		text   string
		want   bool
	}{
		{404, nil, "404 page not found", true},
		{404, e(-32001, "Session not found"), "", true},
		{404, e(-32600, "Session terminated"), "", true},
		{404, e(-32601, "Method not found"), "", false},
		{404, e(-32002, "Resource not found"), "", false},
		{400, e(-32000, "Bad Request: No valid session ID provided"), "", true},
		{400, e(-32000, "Bad Request: Server not initialized"), "", false},
		{400, nil, "Invalid session id", true},
		{400, nil, "bad request", false},
		{200, e(-32600, "Session not found"), "", true},
		{200, e(-32001, "session expired"), "", true},
		{200, e(-32001, "Request timed out"), "", false},
		{200, e(-32602, "browser session not found"), "", false},
		{500, nil, "session not found", false},
	} {
		if got := sessionGone(c.status, c.err, []byte(c.text)); got != c.want {
			t.Errorf("%d %v %q: got %v", c.status, c.err, c.text, got)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for v, want := range map[string]time.Duration{
		"": 0, "5": 5 * time.Second, "-5": 0, "soon": 0, "99999999999999": 0,
		"Mon, 02 Jan 2006 15:04:05 GMT":                         0,
		time.Now().Add(time.Hour).UTC().Format(http.TimeFormat): time.Hour,
	} {
		got := retryAfter(http.Header{"Retry-After": {v}})
		if got > want || got < want-2*time.Second {
			t.Errorf("%q: got %v, want %v", v, got, want)
		}
	}
}

func TestChallenge(t *testing.T) {
	for v, want := range map[string]string{
		"":                               "",
		"Bearer":                         "; it wants Bearer",
		`Basic realm="The  \u202e Shop"`: `; it wants Basic for The \u202e Shop`,
		`Bearer realm="https://a.example:8/secret"`:       "; it wants Bearer for a.example:8",
		`Bearer resource_metadata="https://a/", realm="x`: "; it wants Bearer",
		"eyJhbGciOiJIUzI1NiJ9.secret":                     "",
	} {
		if got := challenge(v); got != want {
			t.Errorf("%q: got %q, want %q", v, got, want)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add([]byte("a\x00b\u202ec\n\td\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := printable(b)
		if len(s) > 200 || !utf8.ValidString(s) || strings.ContainsAny(s, "\n\r\t\x00\u202e") {
			t.Errorf("%q", s)
		}
		if again := printable([]byte(s)); again != s {
			t.Errorf("%q became %q", s, again)
		}
	})
}

// The classification is total: whatever net/http reports becomes an error of a kind,
// and only failures to connect count as never sent.
func TestHTTPFailure(t *testing.T) {
	conn := connectHTTP(t, "http://peer.test/mcp")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	stopped, stop := context.WithCancelCause(t.Context())
	stop(fault.Of(fault.ShuttingDown, "", "stopping"))
	open := t.Context()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want fault.Kind
	}{
		{open, &connectError{errors.New("refused")}, fault.Unreachable},
		{open, &url.Error{Err: &connectError{context.DeadlineExceeded}}, fault.Unreachable},
		{open, errors.New("http: server closed idle connection"), fault.Unreachable},
		{open, errors.New("net/http: HTTP/1.x transport connection broken: readLoopPeekFailLocked: reset"), fault.Unreachable},
		{open, io.EOF, fault.Lost},
		{open, errors.New("anything"), fault.Lost},
		{open, errors.New(`malformed HTTP response "secret"`), fault.Protocol},
		{open, wire.ErrTooLarge, fault.Protocol},
		{open, context.DeadlineExceeded, fault.Timeout}, // as the wait for the header says
		{ended, &connectError{context.Canceled}, fault.Cancelled},
		{ended, io.EOF, fault.Cancelled},
		{late, io.EOF, fault.Timeout},
		{stopped, io.EOF, fault.ShuttingDown},
	} {
		err := conn.failure(c.ctx, !unsent(c.err), c.err)
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != c.want || f.Server != "peer" || strings.Contains(f.Reason, "secret") {
			t.Errorf("%v: got %#v, want %v", c.err, err, c.want)
		}
	}
}
