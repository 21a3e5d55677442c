package upstream_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

func status(code int, body string) *mcptest.Answer {
	return &mcptest.Answer{HTTP: &mcptest.HTTPAnswer{Status: code, Body: body}}
}

// bothEras is a server that is not refused the modern question by the kit itself.
func bothEras(method string, a mcptest.Answer) *mcptest.Raw {
	return &mcptest.Raw{Answer: mcptest.On(method, a)}
}

// overHTTP dials a server over HTTP with short limits.
func overHTTP(t *testing.T, h http.Handler, change func(*config.Server)) (upstream.Conn, error) {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	server := config.DefaultServer("beta")
	server.Type, server.URL = config.TypeHTTP, web.URL
	server.InitTimeout = 5 * time.Second
	if change != nil {
		change(server)
	}
	opts := &upstream.Options{Limits: config.Limits{Discover: 200 * time.Millisecond}}
	conn, err := upstream.NewDialer(server, opts, nil).Dial(t.Context())
	if err == nil {
		t.Cleanup(func() { conn.Close(t.Context()) })
	}
	return conn, err
}

func TestHandshakeOverHTTP(t *testing.T) {
	both := []string{discover, initialize, initialized}
	tests := []struct {
		name    string
		peer    *mcptest.Raw
		version string
		methods []string // of POST requests
		err     string
		kind    fault.Kind
	}{
		{name: "modern", peer: &mcptest.Raw{Era: mcptest.Modern}, version: wire.V20260728, methods: []string{discover}},
		{name: "no session: 400", peer: legacyServer(), version: wire.V20251125, methods: both},
		{name: "400 with nothing", peer: on(discover, *status(400, "")), version: wire.V20251125, methods: both},
		{name: "404", peer: on(discover, *status(404, "not found")), version: wire.V20251125, methods: both},
		{name: "405", peer: on(discover, *status(405, "")), version: wire.V20251125, methods: both},
		{name: "500", peer: on(discover, *status(500, "oops")), version: wire.V20251125, methods: both},
		{name: "503", peer: on(discover, *status(503, "busy")), version: wire.V20251125, methods: both},
		{name: "a page", peer: on(discover, mcptest.Answer{HTTP: mcptest.HTML}), version: wire.V20251125, methods: both},
		{name: "garbage", peer: on(discover, mcptest.Answer{HTTP: mcptest.Garbage}), version: wire.V20251125, methods: both},
		{name: "an accepted notification", peer: on(discover, *status(202, "")), version: wire.V20251125, methods: both},
		{name: "a JSON-RPC error with 404", peer: on(discover, *status(404, `{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no"}}`)), version: wire.V20251125, methods: both},
		{name: "silence", peer: bothEras(discover, mcptest.Answer{Silent: true}), version: wire.V20251125, methods: both},
		{name: "a connection that is closed", peer: bothEras(discover, mcptest.Answer{Close: true}), version: wire.V20251125, methods: both},
		{
			name:    "the modern error with legacy revisions",
			peer:    on(discover, *status(400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no","data":{"supported":["2025-06-18"]}}}`)),
			version: wire.V20250618, methods: both,
		},
		{
			name:    "discover names only legacy revisions",
			peer:    bothEras(discover, mcptest.Answer{Result: `{"supportedVersions":["2025-03-26"],"capabilities":{}}`}),
			version: wire.V20250326, methods: both,
		},
		{
			name:    "a modern error about headers",
			peer:    on(discover, *status(400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"Mcp-Method is missing"}}`)),
			methods: []string{discover}, err: "Mcp-Method is missing", kind: fault.Rejected,
		},
		{
			name:    "401 is not a question of era",
			peer:    &mcptest.Raw{Answer: mcptest.Always(mcptest.Answer{HTTP: mcptest.Unauthorized})},
			methods: []string{discover}, err: "check headers and bearer_token", kind: fault.Unauthorized,
		},
		{
			name:    "403 is not a question of era",
			peer:    &mcptest.Raw{Answer: mcptest.Always(*status(403, ""))},
			methods: []string{discover}, err: "403", kind: fault.Unauthorized,
		},
		{
			name:    "429 is not a question of era",
			peer:    &mcptest.Raw{Answer: mcptest.Always(*status(429, ""))},
			methods: []string{discover}, err: "429", kind: fault.RateLimited,
		},
		{
			name:    "a wrong address that answers HTML",
			peer:    &mcptest.Raw{Answer: mcptest.Always(mcptest.Answer{HTTP: mcptest.HTML})},
			methods: []string{discover, initialize}, err: "text/html) instead of an MCP message; check url", kind: fault.Protocol,
		},
		{
			name:    "a wrong address that answers 404",
			peer:    &mcptest.Raw{Answer: mcptest.Always(*status(404, ""))},
			methods: []string{discover, initialize}, err: "older HTTP+SSE transport either; check url", kind: fault.Protocol,
		},
		{
			name:    "initialized is refused and it works all the same",
			peer:    on(initialized, *status(400, "")),
			version: wire.V20251125, methods: both,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			conn, err := overHTTP(t, tt.peer, nil)
			switch {
			case tt.err == "" && err != nil:
				t.Fatalf("Dial failed: %v", err)
			case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err) || fault.KindOf(err) != tt.kind):
				t.Fatalf("Dial returned %v (%v), want %v with %q", err, fault.KindOf(err), tt.kind, tt.err)
			case err == nil && conn.Info().Version != tt.version:
				t.Errorf("agreed on %q, want %q", conn.Info().Version, tt.version)
			}
			var methods []string
			for _, r := range tt.peer.Requests() {
				if r.Method != http.MethodGet && r.Method != "disconnect" {
					methods = append(methods, r.Method)
				}
			}
			if diff := cmp.Diff(tt.methods, methods); diff != "" {
				t.Errorf("messages sent (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHandshakeWithServersOfTheSDK(t *testing.T) {
	server := func() *mcp.Server {
		s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
		s.AddPrompt(&mcp.Prompt{Name: "p"}, nil)
		return s
	}
	tests := []struct {
		name    string
		handler http.Handler
		version string
	}{
		{"stateful", mcptest.ServeSDK(server(), false), wire.V20251125},
		{"stateless", mcptest.ServeSDK(server(), true), wire.V20260728},
		{"HTTP+SSE at the address of Streamable HTTP", mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server() }, nil), wire.V20251125},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conn, err := overHTTP(t, tt.handler, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := conn.Info().Version; got != tt.version {
				t.Errorf("agreed on %q, want %q", got, tt.version)
			}
			params := wire.Value{}
			if conn.Info().Era == wire.Modern {
				params = upstream.ModernParams(&upstream.Options{}, "")
			}
			reply, err := conn.Call(t.Context(), &upstream.Request{ID: upstream.NextID(), Method: "prompts/list", Params: params})
			if err != nil || reply.Err != nil || !strings.Contains(string(reply.Result.Raw), `"p"`) {
				t.Errorf("prompts/list brought %s, %v, %v", reply.Result.Raw, reply.Err, err)
			}
		})
	}
}

func TestHandshakeRemembersTheOlderTransport(t *testing.T) {
	var posts, gets int
	sse := mcp.NewSSEHandler(func(*http.Request) *mcp.Server {
		return mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	}, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			gets++
		case r.URL.RawQuery == "":
			posts++
		}
		sse.ServeHTTP(w, r)
	}))
	defer web.Close()
	server := config.DefaultServer("beta")
	server.Type, server.URL = config.TypeHTTP, web.URL
	d := upstream.NewDialer(server, &upstream.Options{}, nil)
	for range 2 {
		conn, err := d.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conn.Close(t.Context())
	}
	if posts != 2 || gets != 2 {
		t.Errorf("%d POST requests and %d streams for two connections, want 2 (both of the first) and 2", posts, gets)
	}
}

func TestHandshakeNobodyThere(t *testing.T) {
	web := httptest.NewServer(nil)
	web.Close()
	server := config.DefaultServer("beta")
	server.Type, server.URL = config.TypeHTTP, web.URL
	_, err := upstream.NewDialer(server, &upstream.Options{}, nil).Dial(t.Context())
	if fault.KindOf(err) != fault.Unreachable || !strings.Contains(err.Error(), "cannot connect") {
		t.Errorf("Dial returned %v (%v), want unreachable", err, fault.KindOf(err))
	}
}
