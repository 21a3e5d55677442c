package upstream

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/wire"
)

// sdkServer is a server of the official SDK with a tool that reports progress.
func sdkServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	addTool(s, "work")
	return s
}

func addTool(s *mcp.Server, name string) {
	s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}},
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if token := r.Params.GetProgressToken(); token != nil {
				_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1})
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
		})
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}%s}`

// TestHTTPWithSDK drives the official SDK's server by raw messages, in both eras and
// with both forms of answers.
func TestHTTPWithSDK(t *testing.T) {
	for _, json := range []bool{false, true} {
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("modern=%v,json=%v", modern, json), func(t *testing.T) {
				server := sdkServer()
				handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: modern, JSONResponse: json})
				srv := httptest.NewServer(handler)
				t.Cleanup(srv.Close)
				notices := make(chan Notice, 10)
				conn := connectHTTP(t, srv.URL)
				conn.notice = func(n Notice) { notices <- n }
				if modern {
					sdkModern(t, conn, server, notices, !json)
				} else {
					sdkLegacy(t, conn, server, notices, !json)
				}
			})
		}
	}
}

func raw(format string, args ...any) wire.Value {
	return wire.Value{Raw: fmt.Appendf(nil, format, args...)}
}

func sdkLegacy(t *testing.T, conn *httpConn, server *mcp.Server, notices chan Notice, progress bool) {
	conn.setInfo(&Info{})
	initialize := func(ctx context.Context) error {
		reply, err := conn.Call(ctx, &Request{ID: NextID(), Method: "initialize",
			Params: raw(`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)})
		if err != nil || reply.Err != nil {
			return fmt.Errorf("%v %v", err, reply.Err)
		}
		conn.setInfo(&Info{Version: wire.V20251125})
		return conn.Notify(ctx, "notifications/initialized", wire.Value{})
	}
	if err := initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn.setReinit(initialize)
	first := conn.head.Load().session.id
	sdkWork(t, conn, "", progress)

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- conn.openStream(ctx, func() {}, func() {}) }()
	again := time.NewTicker(10 * time.Millisecond) // what happens before the stream is there is not told
	defer again.Stop()
	for heard := false; !heard; {
		addTool(server, "another")
		select {
		case n := <-notices:
			if heard = true; n.Method != "notifications/tools/list_changed" {
				t.Error(n.Method)
			}
		case <-again.C:
		}
	}
	for s := range server.Sessions() { // the server forgets the session
		_ = s.Close()
	}
	sdkWork(t, conn, "", progress)
	if id := conn.head.Load().session.id; id == first || id == "" {
		t.Errorf("the session is %q", id)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for range server.Sessions() {
		t.Error("the session was not ended")
	}
}

func sdkModern(t *testing.T, conn *httpConn, server *mcp.Server, notices chan Notice, progress bool) {
	conn.setInfo(&Info{Era: wire.Modern, Version: wire.V20260728})
	reply, err := conn.Call(t.Context(), &Request{ID: NextID(), Method: "server/discover", Params: raw("{"+modernMeta+"}", "")})
	if err != nil || reply.Err != nil || !strings.Contains(string(reply.Result.Raw), "2026-07-28") {
		t.Fatal(err, reply.Err)
	}
	sdkWork(t, conn, modernMeta, progress)
	reply, err = conn.Call(t.Context(), &Request{ID: NextID(), Method: "no/such", Params: raw("{"+modernMeta+"}", "")})
	if got := outcome(reply, err); got != "-32601" {
		t.Errorf("an unknown method: got %s (%v)", got, err)
	}
	reply, err = conn.Call(t.Context(), &Request{ID: NextID(), Method: "tools/call", Name: "other", Params: raw(`{"name":"work",`+modernMeta+"}", "")})
	if got := outcome(reply, err); got != fmt.Sprint(wire.CodeHeaderMismatch) {
		t.Errorf("another name in the header: got %s (%v)", got, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- conn.listen(ctx, raw(`{"notifications":{"toolsListChanged":true},`+modernMeta+"}", ""))
	}()
	select {
	case n := <-notices:
		if n.Method != "notifications/subscriptions/acknowledged" {
			t.Error(n.Method)
		}
	case err := <-ended:
		t.Fatal(err)
	}
	addTool(server, "another")
	if n := <-notices; n.Method != "notifications/tools/list_changed" {
		t.Error(n.Method)
	}
	cancel()
	<-ended
}

// sdkWork calls the tool and expects its result, and its progress if answers are
// streams.
func sdkWork(t *testing.T, conn *httpConn, meta string, progress bool) {
	t.Helper()
	id := NextID()
	token := fmt.Sprintf(`,"progressToken":%d`, id)
	params := raw(`{"name":"work","arguments":{},"_meta":{%s}}`, token[1:])
	if meta != "" {
		params = raw(`{"name":"work","arguments":{},`+meta+`}`, token)
	}
	var got []string
	reply, err := conn.Call(t.Context(), &Request{ID: id, Method: "tools/call", Name: "work", Params: params,
		Events: func(ev Event) { got = append(got, ev.Method) }})
	if err != nil || reply.Err != nil || !strings.Contains(string(reply.Result.Raw), `"done"`) {
		t.Fatal(err, reply.Err)
	}
	if d := cmp.Diff([]string{"notifications/progress"}, got); d != "" && progress {
		t.Error(d)
	}
}
