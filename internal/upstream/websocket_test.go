package upstream_test

import (
	"context"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
)

// socket serves WebSockets whose messages answer makes; "" answers nothing.
func socket(answer func(c *websocket.Conn, q *mcptest.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"mcp"}})
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			_, b, err := c.Read(r.Context())
			if err != nil {
				return
			}
			q, err := mcptest.ParseRequest(b)
			if err != nil {
				return
			}
			if text := answer(c, q); text != "" {
				if err := c.Write(r.Context(), websocket.MessageText, []byte(text)); err != nil {
					return
				}
			}
		}
	})
}

func result(q *mcptest.Request, text string) string {
	return `{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"text":"` + text + `"}}`
}

func wsURL(web string) string { return "ws" + strings.TrimPrefix(web, "http") }

func TestAWebSocketHandshakeCarriesTheHeaders(t *testing.T) {
	got := make(chan *http.Request, 1)
	h := socket(func(_ *websocket.Conn, q *mcptest.Request) string { return result(q, "ok") })
	web := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r
		h.ServeHTTP(w, r)
	}))
	c := open(t, upstream.OpenWebSocket, &config.Server{URL: wsURL(web), BearerToken: "T", Headers: map[string]string{"X-Own": "o", "Host": "other.test"}}, nil, nil)
	if o := callOn(t.Context(), c, "x", "{\n}"); o.Result != `{"text":"ok"}` {
		t.Errorf("%+v", o)
	}
	r := <-got
	if r.Header.Get("Authorization") != "Bearer T" || r.Header.Get("X-Own") != "o" || r.Host != "other.test" ||
		r.Header.Get("Sec-WebSocket-Protocol") != "mcp" || r.Header.Get("Content-Type") != "" {
		t.Errorf("host %s, headers %v", r.Host, r.Header)
	}
}

func TestAWebSocketThatIsNoneIsRefused(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", code) }
	}
	elsewhere := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://elsewhere.test/", http.StatusFound)
	}
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		kind    fault.Kind
		says    string
	}{
		"credentials are wanted": {status(401), fault.Unauthorized, "401"},
		"a page":                 {status(200), fault.Protocol, "200"},
		"nothing there":          {status(404), fault.Protocol, "404"},
		"another origin":         {elsewhere, fault.Protocol, "302"},
	} {
		t.Run(name, func(t *testing.T) {
			web := serve(t, tc.handler)
			_, err := upstream.OpenWebSocket(t.Context(), &config.Server{Name: "beta", URL: wsURL(web)}, &upstream.Options{}, nil)
			if fault.KindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		s := httptest.NewServer(nil)
		s.Close()
		_, err := upstream.OpenWebSocket(t.Context(), &config.Server{Name: "beta", URL: wsURL(s.URL) + "/?token=secret"}, &upstream.Options{}, nil)
		if fault.KindOf(err) != fault.Unreachable || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	})
	t.Run("no answer", func(t *testing.T) {
		web := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := upstream.OpenWebSocket(ctx, &config.Server{Name: "beta", URL: wsURL(web)}, &upstream.Options{}, nil)
		if fault.KindOf(err) != fault.Timeout {
			t.Errorf("%v", err)
		}
	})
}

func TestATooLargeWebSocketMessageFailsOneCall(t *testing.T) {
	web := serve(t, socket(func(_ *websocket.Conn, q *mcptest.Request) string {
		switch q.Method {
		case "large":
			return result(q, strings.Repeat("x", 100<<10))
		case "large, id last":
			return `{"result":{"text":"` + strings.Repeat("x", 100<<10) + `"},"jsonrpc":"2.0","id":` + string(q.ID) + `}`
		}
		return result(q, "ok")
	}))
	c := open(t, upstream.OpenWebSocket, &config.Server{URL: wsURL(web)}, &upstream.Options{Limits: config.Limits{Answer: 64 << 10}}, nil)
	for _, method := range []string{"large", "large, id last"} {
		if o := callOn(t.Context(), c, method, "{}"); o.Kind != fault.Protocol || o.Reason != "the answer exceeds the limit of 65536 bytes" {
			t.Errorf("%s: %+v", method, o)
		}
		if o := callOn(t.Context(), c, "next", "{}"); o.Result != `{"text":"ok"}` {
			t.Errorf("%+v", o)
		}
	}
}

func TestAWebSocketThatIsClosedSaysWhy(t *testing.T) {
	web := serve(t, socket(func(c *websocket.Conn, q *mcptest.Request) string {
		if q.Method == "close" {
			c.Close(websocket.StatusGoingAway, "maintenance\x07")
		} else {
			c.CloseNow()
		}
		return ""
	}))
	for method, want := range map[string]string{
		"close": "the server closed the connection (StatusGoingAway maintenance)",
		"cut":   "the server cut the connection",
	} {
		c := open(t, upstream.OpenWebSocket, &config.Server{URL: wsURL(web)}, nil, nil)
		if o := callOn(t.Context(), c, method, "{}"); o.Kind != fault.Lost {
			t.Errorf("%s: %+v", method, o)
		}
		if <-c.Done(); c.Err().Error() != want {
			t.Errorf("%s: %v", method, c.Err())
		}
	}
}

func TestASilentWebSocketIsGivenUp(t *testing.T) {
	over := make(chan struct{})
	web := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err == nil {
			<-over // it never reads, so no ping is answered
			c.CloseNow()
		}
	}))
	t.Cleanup(func() { close(over) })
	pinged := func(ctx context.Context, s *config.Server, o *upstream.Options, _ func(upstream.Notice)) (upstream.Transport, error) {
		return upstream.OpenPingedWebSocket(ctx, s, o, 20*time.Millisecond, 50*time.Millisecond)
	}
	c := open(t, pinged, &config.Server{URL: wsURL(web)}, nil, nil)
	select {
	case <-c.Done():
		if !strings.Contains(c.Err().Error(), "pings") {
			t.Error(c.Err())
		}
	case <-time.After(5 * time.Second):
		t.Error("still there")
	}
}

func TestAWebSocketOverTLSTrustsTheConfiguredAuthority(t *testing.T) {
	s := httptest.NewUnstartedServer(socket(func(_ *websocket.Conn, q *mcptest.Request) string { return result(q, "ok") }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	c := open(t, upstream.OpenWebSocket, &config.Server{URL: wsURL(s.URL), TLS: config.TLS{CAFile: ca}}, nil, nil)
	if o := callOn(t.Context(), c, "x", "{}"); o.Result != `{"text":"ok"}` {
		t.Errorf("%+v", o)
	}
	_, err := upstream.OpenWebSocket(t.Context(), &config.Server{Name: "beta", URL: wsURL(s.URL)}, &upstream.Options{}, nil)
	if fault.KindOf(err) != fault.Unreachable {
		t.Errorf("without the authority: %v", err)
	}
}
