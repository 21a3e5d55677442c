package upstream_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// An sseServer is an HTTP+SSE server with one session that does what a test wants.
type sseServer struct {
	*httptest.Server
	begin string                                                           // the stream's first bytes; URL stands for the server's address
	post  func(w http.ResponseWriter, r *http.Request, q *mcptest.Request) // answers a POST

	mu       sync.Mutex
	requests []*http.Request
	stream   chan string // written to the stream; closing it ends the stream
}

// newSSEServer serves until the end of the test. Answer posts back a result.
func newSSEServer(t *testing.T, begin string) *sseServer {
	s := &sseServer{begin: begin, stream: make(chan string, 100)}
	s.post = func(w http.ResponseWriter, _ *http.Request, q *mcptest.Request) {
		w.WriteHeader(http.StatusAccepted)
		s.answer(q)
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

const endpoint = "event: endpoint\ndata: /post?session=1\n\n"

func (s *sseServer) answer(q *mcptest.Request) {
	if q.ID != nil && q.Method != "" {
		s.stream <- `data: {"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"method":"` + q.Method + `"}}` + "\n\n"
	}
}

func (s *sseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r)
	s.mu.Unlock()
	if r.Method == http.MethodPost {
		b, _ := io.ReadAll(r.Body)
		q, err := mcptest.ParseRequest(b)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.post(w, r, q)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, strings.ReplaceAll(s.begin, "URL", s.URL))
	w.(http.Flusher).Flush()
	for {
		select {
		case text, ok := <-s.stream:
			if !ok {
				return
			}
			io.WriteString(w, text)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// paths are the requests received so far.
func (s *sseServer) paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var paths []string
	for _, r := range s.requests {
		paths = append(paths, r.Method+" "+r.URL.RequestURI())
	}
	return paths
}

func TestAnSSEServerNamesWhereToPost(t *testing.T) {
	for name, begin := range map[string]string{
		"as a path":                "event: endpoint\ndata: /post?session=1\n\n",
		"relative to the stream":   "event: endpoint\ndata: ../post?session=1\n\n",
		"as an address":            "event: endpoint\ndata: URL/post?session=1\n\n",
		"with CRLF":                "event: endpoint\r\ndata: /post?session=1\r\n\r\n",
		"after other events":       ": hello\n\nevent: ping\ndata: 1\n\nretry: 10\n\nevent: endpoint\ndata: /post?session=1\n\n",
		"with a byte order mark":   "\xef\xbb\xbfevent: endpoint\ndata: /post?session=1\n\n",
		"followed by other events": "event: endpoint\ndata: /post?session=1\n\nevent: ping\ndata: {}\n\ndata:\n\n: comment\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := newSSEServer(t, begin)
			c := open(t, upstream.OpenSSE, &config.Server{URL: s.URL + "/sub/sse"}, nil, nil)
			if o := callOn(t.Context(), c, "tools/list", "{}"); o.Result != `{"method":"tools/list"}` {
				t.Errorf("%+v", o)
			}
			if got := fmt.Sprint(s.paths()); got != "[GET /sub/sse POST /post?session=1]" {
				t.Errorf("requests %s", got)
			}
		})
	}
}

func TestAnSSEStreamThatIsNoneIsRefused(t *testing.T) {
	status := func(code int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
			io.WriteString(w, body)
		}
	}
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		kind    fault.Kind
		says    string
	}{
		"another origin":         {status(200, "text/event-stream", "event: endpoint\ndata: http://elsewhere.test/post\n\n"), fault.Protocol, "http://elsewhere.test, which would get its credentials"},
		"another scheme":         {status(200, "text/event-stream", "event: endpoint\ndata: ftp:/post\n\n"), fault.Protocol, "credentials"},
		"no endpoint":            {status(200, "text/event-stream", "data: {}\n\n"), fault.Protocol, "ended before it named an endpoint"},
		"a page":                 {status(200, "text/html", "<html>"), fault.Protocol, "text/html"},
		"credentials are wanted": {status(401, "text/plain", "no"), fault.Unauthorized, "401"},
		"nothing there":          {status(404, "text/plain", "no"), fault.Protocol, "404"},
	} {
		t.Run(name, func(t *testing.T) {
			web := serve(t, tc.handler)
			_, err := upstream.OpenSSE(t.Context(), &config.Server{Name: "beta", URL: web}, &upstream.Options{}, nil)
			if fault.KindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("never an endpoint", func(t *testing.T) {
		s := newSSEServer(t, ": wait\n\n")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := upstream.OpenSSE(ctx, &config.Server{Name: "beta", URL: s.URL}, &upstream.Options{}, nil)
		if fault.KindOf(err) != fault.Timeout {
			t.Errorf("%v", err)
		}
	})
	t.Run("nobody listens", func(t *testing.T) {
		s := httptest.NewServer(nil)
		s.Close()
		_, err := upstream.OpenSSE(t.Context(), &config.Server{Name: "beta", URL: s.URL + "/?token=secret"}, &upstream.Options{}, nil)
		if fault.KindOf(err) != fault.Unreachable || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	})
}

func TestAnSSECallFailsAlone(t *testing.T) {
	s := newSSEServer(t, endpoint)
	usual := s.post
	released := make(chan struct{})
	s.post = func(w http.ResponseWriter, r *http.Request, q *mcptest.Request) {
		switch q.Method {
		case "broken":
			http.Error(w, "boom", http.StatusInternalServerError)
		case "busy":
			w.Header().Set("Retry-After", "7")
			http.Error(w, "later", http.StatusTooManyRequests)
		case "held":
			s.answer(q)
			select {
			case <-released:
			case <-r.Context().Done():
			}
		default:
			usual(w, r, q)
		}
	}
	c := open(t, upstream.OpenSSE, &config.Server{URL: s.URL}, nil, nil)
	defer close(released)
	var wg sync.WaitGroup
	for method, want := range map[string]outcome{
		"broken": {Kind: fault.Protocol, Reason: "the server answered HTTP status 500 Internal Server Error (text/plain; charset=utf-8) instead of an MCP message"},
		"busy":   {Kind: fault.RateLimited, Reason: "the server asks to slow down: HTTP status 429 Too Many Requests"},
		"held":   {Result: `{"method":"held"}`},
		"usual":  {Result: `{"method":"usual"}`},
	} {
		wg.Go(func() {
			if o := callOn(t.Context(), c, method, "{}"); o.Result != want.Result || o.Kind != want.Kind || o.Reason != want.Reason {
				t.Errorf("%s: %+v", method, o)
			}
		})
	}
	wg.Wait()
	select {
	case <-c.Done():
		t.Errorf("lost: %v", c.Err())
	default:
	}
}

func TestAnSSEConnectionIsLost(t *testing.T) {
	t.Run("with its session", func(t *testing.T) {
		s := newSSEServer(t, endpoint)
		s.post = func(w http.ResponseWriter, _ *http.Request, _ *mcptest.Request) {
			http.Error(w, "?", http.StatusNotFound)
		}
		c := open(t, upstream.OpenSSE, &config.Server{URL: s.URL}, nil, nil)
		if o := callOn(t.Context(), c, "x", "{}"); o.Kind != fault.Unreachable {
			t.Errorf("%+v", o)
		}
		<-c.Done()
	})
	t.Run("with its stream", func(t *testing.T) {
		s := newSSEServer(t, endpoint)
		s.post = func(w http.ResponseWriter, _ *http.Request, _ *mcptest.Request) {
			w.WriteHeader(http.StatusAccepted)
			close(s.stream)
		}
		c := open(t, upstream.OpenSSE, &config.Server{URL: s.URL}, nil, nil)
		if o := callOn(t.Context(), c, "x", "{}"); o.Kind != fault.Lost {
			t.Errorf("%+v", o)
		}
		if <-c.Done(); !strings.Contains(c.Err().Error(), "ended the event stream") {
			t.Error(c.Err())
		}
	})
}

func TestSSERequestsCarryTheirHeaders(t *testing.T) {
	s := newSSEServer(t, endpoint)
	c := open(t, upstream.OpenSSE, &config.Server{URL: s.URL, BearerToken: "T", Headers: map[string]string{"X-Own": "o"}}, nil, nil)
	upstream.SetInfo(c, &upstream.Info{Version: wire.V20241105})
	_, err := c.Call(t.Context(), &upstream.Request{ID: upstream.NextID(), Method: "x", Header: http.Header{"X-Client": {"c"}}})
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if r.Header.Get("Authorization") != "Bearer T" || r.Header.Get("X-Own") != "o" {
			t.Errorf("%s: %v", r.Method, r.Header)
		}
		if r.Method == http.MethodPost && (r.Header.Get("X-Client") != "c" || r.Header.Get("Content-Type") != "application/json") {
			t.Errorf("%s: %v", r.Method, r.Header)
		}
	}
}
