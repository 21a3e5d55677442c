package upstream_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// An sdkServer is a server of the official SDK. Its tool "steps" reports five steps
// before it answers, "block" waits to be cancelled, "panic" panics.
type sdkServer struct {
	*mcp.Server
	cancelled chan struct{}
}

func newSDKServer() *sdkServer {
	s := &sdkServer{mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil), make(chan struct{}, 1)}
	s.tool("steps", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range 5 {
			err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1)})
			if err != nil {
				return nil, err
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "five"}}}, nil
	})
	s.tool("block", func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		s.cancelled <- struct{}{}
		return nil, ctx.Err()
	})
	s.tool("panic", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("help") })
	return s
}

func (s *sdkServer) tool(name string, h mcp.ToolHandler) {
	s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, h)
}

// The transports by which an sdkServer can be reached. They return the connection to
// it; everything is gone at the end of the test.
var sdkTransports = map[string]func(*testing.T, *sdkServer, func(upstream.Notice)) upstream.Transport{
	"builtin": func(t *testing.T, s *sdkServer, notice func(upstream.Notice)) upstream.Transport {
		o := &upstream.Options{Builtins: map[string]func() *mcp.Server{"sdk": func() *mcp.Server { return s.Server }}}
		return open(t, upstream.OpenBuiltin, &config.Server{Builtin: "sdk"}, o, notice)
	},
	"websocket": func(t *testing.T, s *sdkServer, notice func(upstream.Notice)) upstream.Transport {
		web := serve(t, socketHandler(s.Server))
		return open(t, upstream.OpenWebSocket, &config.Server{URL: "ws" + strings.TrimPrefix(web, "http")}, nil, notice)
	},
	"sse": func(t *testing.T, s *sdkServer, notice func(upstream.Notice)) upstream.Transport {
		web := serve(t, mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return s.Server }, nil))
		return open(t, upstream.OpenSSE, &config.Server{URL: web}, nil, notice)
	},
}

type openFunc = func(context.Context, *config.Server, *upstream.Options, func(upstream.Notice)) (upstream.Transport, error)

// open opens a transport under a context that ends right after, and closes it at the
// end of the test.
func open(t *testing.T, f openFunc, s *config.Server, o *upstream.Options, notice func(upstream.Notice)) upstream.Transport {
	t.Helper()
	if o == nil {
		o = &upstream.Options{}
	}
	s.Name = "beta"
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := f(ctx, s, o, notice)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("closing: %v", err)
		}
		if ctx.Err() != nil {
			t.Error("closing took for ever")
		}
	})
	return c
}

// serve serves until the end of the test, after which no goroutine may be left.
func serve(t *testing.T, h http.Handler) string {
	before := goleak.IgnoreCurrent()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.Close()
		goleak.VerifyNone(t, before)
	})
	return s.URL
}

// socketHandler serves an SDK server over WebSocket.
func socketHandler(s *mcp.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"mcp"}})
		if err != nil {
			return
		}
		c.SetReadLimit(-1)
		conn := websocket.NetConn(r.Context(), c, websocket.MessageText)
		_ = s.Run(r.Context(), &mcp.IOTransport{Reader: conn, Writer: oneWrite{conn}})
	})
}

// oneWrite cuts the line break off each message.
type oneWrite struct{ io.WriteCloser }

func (w oneWrite) Write(b []byte) (int, error) {
	_, err := w.WriteCloser.Write([]byte(strings.TrimSuffix(string(b), "\n")))
	return len(b), err
}

const modernMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`

// handshake opens in the era and returns what _meta of requests must begin with.
func handshake(t *testing.T, c upstream.Transport, era wire.Era) (meta string) {
	t.Helper()
	if era == wire.Modern {
		if o := callOn(t.Context(), c, "server/discover", `{"_meta":{`+modernMeta+`}}`); !strings.Contains(o.Result, "2026-07-28") {
			t.Fatalf("discover: %+v", o)
		}
		upstream.SetInfo(c, &upstream.Info{Era: era, Version: wire.V20260728})
		return modernMeta + ","
	}
	o := callOn(t.Context(), c, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	if !strings.Contains(o.Result, `"2025-11-25"`) {
		t.Fatalf("initialize: %+v", o)
	}
	upstream.SetInfo(c, &upstream.Info{Era: era, Version: wire.V20251125})
	if err := c.Notify(t.Context(), "notifications/initialized", wire.Value{}); err != nil {
		t.Fatal(err)
	}
	return ""
}

func TestServersOfTheSDK(t *testing.T) {
	for name, connect := range sdkTransports {
		for _, era := range []wire.Era{wire.Legacy, wire.Modern} {
			if name == "sse" && era == wire.Modern {
				continue // the older transport has no modern revision
			}
			t.Run(fmt.Sprintf("%s %v", name, era), func(t *testing.T) {
				s := newSDKServer()
				notices := make(chan upstream.Notice, 100)
				c := connect(t, s, func(n upstream.Notice) { notices <- n })
				meta := handshake(t, c, era)
				t.Run("lists its tools", func(t *testing.T) {
					o := callOn(t.Context(), c, "tools/list", `{"_meta":{`+strings.TrimSuffix(meta, ",")+`}}`)
					if strings.Count(o.Result, `"inputSchema"`) != 3 {
						t.Errorf("%+v", o)
					}
				})
				t.Run("reports progress before the answer", func(t *testing.T) { testSteps(t, c, meta) })
				t.Run("is told of a cancellation", func(t *testing.T) { testCancellation(t, c, s, meta) })
				t.Run("announces changes", func(t *testing.T) {
					if era == wire.Modern {
						defer listen(t, c, meta)()
						awaitNotice(t, notices, "notifications/subscriptions/acknowledged")
					}
					s.tool("new", nil)
					awaitNotice(t, notices, "notifications/tools/list_changed")
				})
			})
		}
	}
}

func testSteps(t *testing.T, c upstream.Conn, meta string) {
	var progress []string
	id := upstream.NextID()
	reply, err := c.Call(t.Context(), &upstream.Request{
		ID: id, Method: "tools/call",
		Params: wire.Value{Raw: fmt.Appendf(nil, `{"name":"steps","arguments":{},"_meta":{%s"progressToken":%d}}`, meta, id)},
		Events: func(e upstream.Event) { progress = append(progress, string(e.Params)) },
	})
	if err != nil || reply.Err != nil || !strings.Contains(string(reply.Result.Raw), "five") {
		t.Fatalf("%s %v %v", reply.Result.Raw, reply.Err, err)
	}
	if len(progress) != 5 || !strings.Contains(progress[4], `"progress":5`) {
		t.Errorf("progress %q", progress)
	}
	reply.Release()
}

func testCancellation(t *testing.T, c upstream.Conn, s *sdkServer, meta string) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	o := callOn(ctx, c, "tools/call", `{"name":"block","_meta":{`+strings.TrimSuffix(meta, ",")+`}}`)
	if o.Kind != fault.Timeout {
		t.Errorf("%+v", o)
	}
	select {
	case <-s.cancelled:
	case <-time.After(5 * time.Second):
		t.Error("the server goes on")
	}
}

// listen subscribes to changes of the tools until the returned function is called.
func listen(t *testing.T, c upstream.Conn, meta string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan outcome)
	go func() {
		done <- callOn(ctx, c, "subscriptions/listen", `{"_meta":{`+strings.TrimSuffix(meta, ",")+`},"notifications":{"toolsListChanged":true}}`)
	}()
	return func() {
		cancel()
		if o := <-done; o.Kind != fault.Cancelled {
			t.Errorf("listening ended: %+v", o)
		}
	}
}

func awaitNotice(t *testing.T, notices <-chan upstream.Notice, method string) {
	t.Helper()
	for deadline := time.After(5 * time.Second); ; {
		select {
		case n := <-notices:
			if n.Method == method {
				return
			}
		case <-deadline:
			t.Fatalf("no %s", method)
		}
	}
}

func TestAPanicOfABuiltInServerFailsOneCall(t *testing.T) {
	c := sdkTransports["builtin"](t, newSDKServer(), nil)
	handshake(t, c, wire.Legacy)
	o := callOn(t.Context(), c, "tools/call", `{"name":"panic"}`)
	if o.Code == 0 && !strings.Contains(o.Result, "isError") {
		t.Errorf("%+v", o)
	}
	testSteps(t, c, "")
}

func TestAnUnknownBuiltInServerIsNamed(t *testing.T) {
	o := &upstream.Options{Builtins: map[string]func() *mcp.Server{"b": nil, "a": nil}}
	_, err := upstream.OpenBuiltin(t.Context(), &config.Server{Name: "beta", Builtin: "c"}, o, nil)
	if want := `server "beta": there is no built-in server "c"; known are: a, b`; err == nil || err.Error() != want {
		t.Error(err)
	}
}

// A built-in server that ignores its context does not hold up a close without time.
func TestClosingABuiltInServerInTheMiddleOfACall(t *testing.T) {
	s := newSDKServer()
	started, release := make(chan struct{}), make(chan struct{})
	s.tool("stubborn", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		close(started)
		<-release
		return &mcp.CallToolResult{}, nil
	})
	c := sdkTransports["builtin"](t, s, nil)
	defer close(release)
	handshake(t, c, wire.Legacy)
	done := make(chan outcome)
	go func() { done <- callOn(t.Context(), c, "tools/call", `{"name":"stubborn"}`) }()
	<-started
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := c.Close(ctx); err == nil {
		t.Error("the call has not ended")
	}
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("took %v", d)
	}
	if o := <-done; o.Kind != fault.Lost {
		t.Errorf("%+v", o)
	}
}
