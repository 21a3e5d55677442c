package upstream_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// spawner starts the peers of one server and remembers them. Each start may get
// another behaviour.
type spawner struct {
	peers []*mcptest.Raw // for the first starts; the last one serves all further ones

	mu      sync.Mutex
	started []time.Time
}

func (s *spawner) dial(context.Context, *config.Server) (upstream.Peer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	peer := s.peers[min(len(s.started), len(s.peers)-1)]
	s.started = append(s.started, time.Now())
	return peer.Serve, nil
}

func (s *spawner) starts() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.started)
}

// methods are what all peers received, in order, without the lists.
func (s *spawner) methods() []string {
	var all []string
	seen := map[*mcptest.Raw]bool{}
	for _, p := range s.peers {
		if seen[p] {
			continue
		}
		seen[p] = true
		for _, r := range p.Requests() {
			all = append(all, r.Method)
		}
	}
	return all
}

const (
	discover    = "server/discover"
	initialize  = "initialize"
	initialized = "notifications/initialized"
)

func rpcError(code int, data string) mcptest.Answer {
	e := fmt.Sprintf(`{"code":%d,"message":"no"}`, code)
	if data != "" {
		e = fmt.Sprintf(`{"code":%d,"message":"no","data":%s}`, code, data)
	}
	return mcptest.Answer{Error: e}
}

func on(method string, a mcptest.Answer) *mcptest.Raw {
	return &mcptest.Raw{Era: mcptest.Legacy, Answer: mcptest.On(method, a)}
}

// refusesOnce is a modern server that refuses the first question and names what it speaks.
func refusesOnce() *mcptest.Raw {
	first := true // requests are answered one after the other
	refused := rpcError(-32022, `{"supported":["2026-07-28"],"requested":"2026-07-28"}`)
	return &mcptest.Raw{Era: mcptest.Modern, Answer: func(q *mcptest.Request) *mcptest.Answer {
		if q.Method != discover || !first {
			return nil
		}
		first = false
		return &refused
	}}
}

// legacyServer answers the modern question as -32601.
func legacyServer() *mcptest.Raw { return &mcptest.Raw{Era: mcptest.Legacy} }

func TestHandshakeOverAPipe(t *testing.T) {
	tests := []struct {
		name     string
		protocol string // default auto
		peers    []*mcptest.Raw

		version string // agreed
		methods []string
		starts  int
		took    time.Duration
		err     string // part of the message, if the handshake fails
		kind    fault.Kind
	}{
		{
			name:    "a modern server is asked once",
			peers:   []*mcptest.Raw{{Era: mcptest.Modern}},
			version: wire.V20260728, methods: []string{discover}, starts: 1,
		},
		{
			name:    "a server of both eras is spoken to in the modern way",
			peers:   []*mcptest.Raw{{}},
			version: wire.V20260728, methods: []string{discover}, starts: 1,
		},
		{
			name:    "method not found: initialize on the same pipe",
			peers:   []*mcptest.Raw{legacyServer()},
			version: wire.V20251125, methods: []string{discover, initialize, initialized}, starts: 1,
		},
		{
			name:    "invalid params: initialize on the same pipe",
			peers:   []*mcptest.Raw{on(discover, rpcError(-32602, ""))},
			version: wire.V20251125, methods: []string{discover, initialize, initialized}, starts: 1,
		},
		{
			name:    "an error code of its own: initialize on the same pipe",
			peers:   []*mcptest.Raw{on(discover, rpcError(-32000, `"Server not initialized"`))},
			version: wire.V20251125, methods: []string{discover, initialize, initialized}, starts: 1,
		},
		{
			name:    "the modern error code without its data proves nothing",
			peers:   []*mcptest.Raw{on(discover, rpcError(-32022, ""))},
			version: wire.V20251125, methods: []string{discover, initialize, initialized}, starts: 1,
		},
		{
			name:    "a result that is no DiscoverResult: initialize",
			peers:   []*mcptest.Raw{on(discover, mcptest.Answer{Result: `{}`})},
			version: wire.V20251125, methods: []string{discover, initialize, initialized}, starts: 1,
		},
		{
			name:    "a result that is no object: initialize",
			peers:   []*mcptest.Raw{on(discover, mcptest.Answer{Result: `"hello"`})},
			version: wire.V20251125, methods: []string{discover, initialize, initialized}, starts: 1,
		},
		{
			name:    "silence: initialize on a fresh process after the limit",
			peers:   []*mcptest.Raw{on(discover, mcptest.Answer{Silent: true}), legacyServer()},
			version: wire.V20251125, methods: []string{discover, initialize, initialized}, starts: 2, took: 3 * time.Second,
		},
		{
			name:    "garbage and then silence: initialize on a fresh process",
			peers:   []*mcptest.Raw{on(discover, mcptest.Answer{Whole: "what?"}), legacyServer()},
			version: wire.V20251125, methods: []string{discover, initialize, initialized}, starts: 2, took: 3 * time.Second,
		},
		{
			name:    "death on the question: initialize on a fresh process at once",
			peers:   []*mcptest.Raw{on(discover, mcptest.Answer{Close: true}), legacyServer()},
			version: wire.V20251125, methods: []string{discover, initialize, initialized}, starts: 2,
		},
		{
			name: "upset by the question: initialize again on a fresh process",
			peers: []*mcptest.Raw{
				{Era: mcptest.Legacy, Answer: mcptest.On(initialize, rpcError(-32600, ""))},
				legacyServer(),
			},
			version: wire.V20251125, methods: []string{discover, initialize, initialize, initialized}, starts: 2,
		},
		{
			name:    "discover names only legacy revisions: never initialize on that pipe",
			peers:   []*mcptest.Raw{on(discover, mcptest.Answer{Result: `{"supportedVersions":["2025-06-18","2025-03-26"],"capabilities":{}}`}), legacyServer()},
			version: wire.V20250618, methods: []string{discover, initialize, initialized}, starts: 2,
		},
		{
			name:    "the modern error names legacy revisions: the newest of them is used",
			peers:   []*mcptest.Raw{on(discover, rpcError(-32022, `{"supported":["2027-01-01","2025-11-25"],"requested":"2026-07-28"}`)), legacyServer()},
			version: wire.V20251125, methods: []string{discover, initialize, initialized}, starts: 2,
		},
		{
			name:    "the modern error names only newer revisions: no fall-back",
			peers:   []*mcptest.Raw{on(discover, rpcError(-32022, `{"supported":["2027-01-01"]}`))},
			methods: []string{discover}, starts: 1,
			err: "speaks protocol 2027-01-01, we speak 2026-07-28", kind: fault.Protocol,
		},
		{
			name:    "the modern error names our revision all the same: once more, and no fall-back",
			peers:   []*mcptest.Raw{on(discover, rpcError(-32022, `{"supported":["2026-07-28"]}`))},
			methods: []string{discover, discover}, starts: 1, err: "refused server/discover: no (code -32022)", kind: fault.Rejected,
		},
		{
			name:    "the modern error on the first question only: the second one is answered",
			peers:   []*mcptest.Raw{refusesOnce()},
			version: wire.V20260728, methods: []string{discover, discover}, starts: 1,
		},
		{
			name:    "a modern server that wants a capability: no fall-back",
			peers:   []*mcptest.Raw{on(discover, rpcError(-32021, `{"requiredCapabilities":{"sampling":{}}}`))},
			methods: []string{discover}, starts: 1, err: "refused server/discover: no (code -32021)", kind: fault.Rejected,
		},
		{
			name:    "an older answer to initialize is gone on with",
			peers:   []*mcptest.Raw{{Era: mcptest.Legacy, Version: "2024-11-05"}},
			version: wire.V20241105, methods: []string{discover, initialize, initialized}, starts: 1,
		},
		{
			name:    "so is one older than any that we know",
			peers:   []*mcptest.Raw{{Era: mcptest.Legacy, Version: "2024-10-07"}},
			version: "2024-10-07", methods: []string{discover, initialize, initialized}, starts: 1,
		},
		{
			name:    "a newer answer to initialize is named",
			peers:   []*mcptest.Raw{{Era: mcptest.Legacy, Version: "2027-01-01"}},
			methods: []string{discover, initialize}, starts: 1, err: `answered initialize with protocol "2027-01-01"`, kind: fault.Protocol,
		},
		{
			name:    "a word in place of a version is named",
			peers:   []*mcptest.Raw{{Era: mcptest.Legacy, Version: "latest\x1b[31m"}},
			methods: []string{discover, initialize}, starts: 1, err: `answered initialize with protocol "latest[31m"`, kind: fault.Protocol,
		},
		{
			name:    "the modern revision cannot be agreed on by initialize",
			peers:   []*mcptest.Raw{{Era: mcptest.Legacy, Version: wire.V20260728}},
			methods: []string{discover, initialize}, starts: 1, err: `answered initialize with protocol "2026-07-28"`, kind: fault.Protocol,
		},
		{
			name:    "an answer to initialize without a version",
			peers:   []*mcptest.Raw{on(initialize, mcptest.Answer{Result: `{}`})},
			methods: []string{discover, initialize, initialize}, starts: 2, err: "without a protocol version", kind: fault.Protocol,
		},
		{
			name:    "initialize is never answered",
			peers:   []*mcptest.Raw{on(initialize, mcptest.Answer{Silent: true})},
			methods: []string{discover, initialize}, starts: 1, took: 30 * time.Second,
			err: "did not answer initialize within 30s (init_timeout)", kind: fault.Timeout,
		},
		{
			name:    "nothing is ever answered",
			peers:   []*mcptest.Raw{{Answer: mcptest.Always(mcptest.Answer{Silent: true})}},
			methods: []string{discover, initialize}, starts: 2, took: 30 * time.Second,
			err: "did not answer initialize within 30s (init_timeout)", kind: fault.Timeout,
		},
		{
			name:     "protocol legacy asks nothing",
			protocol: "legacy",
			peers:    []*mcptest.Raw{{}},
			version:  wire.V20251125, methods: []string{initialize, initialized}, starts: 1,
		},
		{
			name:     "protocol modern waits longer than the probe",
			protocol: "modern",
			peers:    []*mcptest.Raw{{Answer: mcptest.On(discover, mcptest.Answer{Delay: 10 * time.Second})}},
			version:  wire.V20260728, methods: []string{discover}, starts: 1, took: 10 * time.Second,
		},
		{
			name:     "protocol modern does not fall back",
			protocol: "modern",
			peers:    []*mcptest.Raw{legacyServer()},
			methods:  []string{discover}, starts: 1, err: "does not speak protocol 2026-07-28", kind: fault.Protocol,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spawns := &spawner{peers: tt.peers}
				server := config.DefaultServer("beta")
				server.Type = config.TypeStdio
				if tt.protocol != "" {
					server.Protocol = tt.protocol
				}
				begin := time.Now()
				conn, err := upstream.NewDialer(server, &upstream.Options{Version: "1"}, spawns.dial).Dial(t.Context())
				took := time.Since(begin)
				if err == nil {
					defer conn.Close(t.Context())
				}
				synctest.Wait()

				if tt.err == "" && err != nil {
					t.Fatalf("Dial failed: %v", err)
				}
				if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err) || fault.KindOf(err) != tt.kind) {
					t.Fatalf("Dial returned %v (%v), want %v with %q", err, fault.KindOf(err), tt.kind, tt.err)
				}
				if err == nil && conn.Info().Version != tt.version {
					t.Errorf("agreed on %q, want %q", conn.Info().Version, tt.version)
				}
				if diff := cmp.Diff(tt.methods, spawns.methods()); diff != "" {
					t.Errorf("messages sent (-want +got):\n%s", diff)
				}
				if n := len(spawns.starts()); n != tt.starts {
					t.Errorf("%d processes were started, want %d", n, tt.starts)
				}
				if took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
			})
		})
	}
}

func TestHandshakeSlowModernServerIsFoundAfterTheFallBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Each process needs 5 s before it reads anything: longer than the probe waits.
		peer := &mcptest.Raw{Era: mcptest.Modern}
		slow := func(context.Context, *config.Server) (upstream.Peer, error) {
			return func(ctx context.Context, in io.Reader, out io.Writer) error {
				select {
				case <-time.After(5 * time.Second):
				case <-ctx.Done():
				}
				return peer.Serve(ctx, in, out)
			}, nil
		}
		server := config.DefaultServer("beta")
		conn, err := upstream.NewDialer(server, &upstream.Options{}, slow).Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if got := conn.Info().Era; got != wire.Modern {
			t.Errorf("agreed on the %v era, want modern", got)
		}
	})
}

func TestHandshakeTellsTheServerWhoWeAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
			peer := &mcptest.Raw{Era: era, Instructions: "be kind\n", ServerInfo: `{"name":"x","version":"2","icons":[]}`,
				Capabilities: `{"tools":{ },"experimental":{"n":1.0}}`}
			server := config.DefaultServer("beta")
			conn, err := upstream.NewDialer(server, &upstream.Options{Version: "1.2"}, (&spawner{peers: []*mcptest.Raw{peer}}).dial).Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			info := conn.Info()
			got := []string{string(info.Capabilities), string(info.ServerInfo), info.Instructions}
			if diff := cmp.Diff([]string{`{"tools":{ },"experimental":{"n":1.0}}`, `{"name":"x","version":"2","icons":[]}`, "be kind\n"}, got); diff != "" {
				t.Errorf("%v: what the handshake found out (-want +got):\n%s", era, diff)
			}
			wants := map[mcptest.Era]string{
				mcptest.Legacy: `{"protocolVersion":"2025-11-25","capabilities":{"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true}},"clientInfo":{"name":"mcp-aggregator","version":"1.2"}}`,
				mcptest.Modern: `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"mcp-aggregator","version":"1.2"},"io.modelcontextprotocol/clientCapabilities":{}}}`,
			}
			method := map[mcptest.Era]string{mcptest.Legacy: initialize, mcptest.Modern: discover}[era]
			if diff := cmp.Diff(wants[era], string(peer.Received(method)[0].Params)); diff != "" {
				t.Errorf("params of %s (-want +got):\n%s", method, diff)
			}
			conn.Close(t.Context())
		}
	})
}

// dialTwice makes a connection, changes the server and makes another one.
func dialTwice(t *testing.T, peer *mcptest.Raw, change func(*mcptest.Raw)) (first, second []string) {
	t.Helper()
	spawns := &spawner{peers: []*mcptest.Raw{peer}}
	d := upstream.NewDialer(config.DefaultServer("beta"), &upstream.Options{}, spawns.dial)
	for i := range 2 {
		if i == 1 {
			first = spawns.methods()
			peer.Change(change)
		}
		conn, err := d.Dial(t.Context())
		if err != nil {
			t.Fatalf("dial %d: %v", i+1, err)
		}
		synctest.Wait()
		if err := conn.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return first, spawns.methods()[len(first):]
}

func TestHandshakeRemembersTheEra(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, second := dialTwice(t, legacyServer(), func(*mcptest.Raw) {})
		if diff := cmp.Diff([]string{initialize, initialized}, second); diff != "" {
			t.Errorf("second connection to a legacy server (-want +got):\n%s", diff)
		}
		_, second = dialTwice(t, &mcptest.Raw{Era: mcptest.Modern}, func(*mcptest.Raw) {})
		if diff := cmp.Diff([]string{discover}, second); diff != "" {
			t.Errorf("second connection to a modern server (-want +got):\n%s", diff)
		}
	})
}

func TestHandshakeFollowsAServerThatChangesItsEra(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, second := dialTwice(t, legacyServer(), func(r *mcptest.Raw) { r.Era = mcptest.Modern })
		if diff := cmp.Diff([]string{initialize, discover}, second); diff != "" {
			t.Errorf("legacy to modern (-want +got):\n%s", diff)
		}
		_, second = dialTwice(t, &mcptest.Raw{Era: mcptest.Modern}, func(r *mcptest.Raw) { r.Era = mcptest.Legacy })
		if diff := cmp.Diff([]string{discover, initialize, initialized}, second); diff != "" {
			t.Errorf("modern to legacy (-want +got):\n%s", diff)
		}
	})
}
