package downstream_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/downstream"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(lastly{m}) }

// lastly lets go of the connections that tests have left idle.
type lastly struct{ *testing.M }

func (m lastly) Run() int {
	idle := http.DefaultTransport.(*http.Transport)
	defer func() {
		idle.CloseIdleConnections()
		// One that was dialled for a request which found another comes late.
		time.AfterFunc(100*time.Millisecond, idle.CloseIdleConnections)
	}()
	return m.M.Run()
}

// bare is a face with a catalogue and no upstreams behind it: enough for everything
// but calls.
type bare struct {
	*downstream.Server
	cfg *config.Config
	rt  *router.Router
}

// newBare makes a face that offers these tools, prompts and resources.
func newBare(t testing.TB, in catalog.Input, change ...func(*config.Config)) *bare {
	t.Helper()
	b := newStarting(t, change...)
	b.rt.Publish(b.generation(in))
	b.rt.MarkReady()
	return b
}

// newStarting makes a face whose server has not offered anything yet.
func newStarting(t testing.TB, change ...func(*config.Config)) *bare {
	t.Helper()
	cfg := config.Default()
	cfg.Servers = []*config.Server{config.DefaultServer("lab")}
	for _, f := range change {
		f(cfg)
	}
	b := &bare{cfg: cfg}
	nothing := upstream.New(upstream.Options{Limits: cfg.Limits}) // knows no server
	snapshot, _ := catalog.Build(nil, catalog.Rules{Servers: cfg.Servers, Catalog: cfg.Catalog, Pending: true})
	b.rt = router.New(router.Options{Upstreams: nothing, Identity: bridge.NewIdentity("mcp-aggregator", "9.9.9")},
		&router.Generation{Config: cfg, Catalog: snapshot, Starting: true})
	b.Server = downstream.New(b.rt, downstream.Options{Config: cfg, Version: "9.9.9"})
	return b
}

// generation is what clients see of one server with these definitions.
func (b *bare) generation(in catalog.Input) *router.Generation {
	in.Server = b.cfg.Servers[0]
	snapshot, _ := catalog.Build([]*catalog.Listing{catalog.NewListing(in)}, catalog.Rules{Servers: b.cfg.Servers, Catalog: b.cfg.Catalog})
	return &router.Generation{Config: b.cfg, Catalog: snapshot, Servers: map[string]*config.Server{"lab": b.cfg.Servers[0]}}
}

// fail makes it look as if the server had never started.
func (b *bare) fail() {
	g := *b.rt.Generation()
	g.Catalog, _ = catalog.Build(nil, catalog.Rules{Servers: b.cfg.Servers})
	b.rt.Publish(&g)
}

// offer replaces what clients see and tells them.
func (b *bare) offer(in catalog.Input) {
	old, next := b.rt.Generation(), b.generation(in)
	b.rt.Publish(next)
	b.Publish(catalog.Diff(old.Catalog, next.Catalog))
}

// tools are definitions of tools with these names.
func tools(names ...string) catalog.Input {
	in := catalog.Input{Capabilities: []byte(`{"tools":{"listChanged":true}}`)}
	for _, name := range names {
		in.Tools = append(in.Tools, []byte(`{"name":"`+name+`","inputSchema":{"type":"object"}}`))
	}
	return in
}

// serve puts the face on a loopback port for the length of the test.
func (b *bare) serve(t testing.TB) (url string) {
	t.Helper()
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = b.HTTPServer()
	srv.Start()
	t.Cleanup(func() {
		b.shut(t)
		srv.Close()
	})
	return srv.URL + b.cfg.HTTP.Path
}

func (b *bare) shut(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	b.Close(ctx)
}

// headers of a well-behaved client of each era.
func legacyHeaders(session string) map[string]string {
	h := map[string]string{"Mcp-Protocol-Version": "2025-11-25"}
	if session != "" {
		h["Mcp-Session-Id"] = session
	}
	return h
}

func modernHeaders(method string) map[string]string {
	return map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method}
}

func with(h map[string]string, more ...string) map[string]string {
	out := map[string]string{}
	for k, v := range h {
		out[k] = v
	}
	for i := 0; i < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`

// An answer is what came back over HTTP.
type answer struct {
	status int
	header http.Header
	body   string
}

// send makes one request. A header with the value "" is left out, Host is the host.
func send(t testing.TB, method, url string, header map[string]string, body string) answer {
	t.Helper()
	req := newRequest(t, method, url, header, strings.NewReader(body))
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

func newRequest(t testing.TB, method, url string, header map[string]string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequest(method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
	}
	for k, v := range header {
		switch {
		case k == "Host":
			req.Host = v
		case v == "":
			req.Header.Del(k)
		default:
			req.Header.Set(k, v)
		}
	}
	return req
}

func post(t testing.TB, url string, header map[string]string, body string) answer {
	t.Helper()
	return send(t, http.MethodPost, url, header, body)
}

// open begins a legacy session and returns its id.
func open(t testing.TB, url string) string {
	t.Helper()
	a := post(t, url, nil, initialize)
	id := a.header.Get("Mcp-Session-Id")
	if a.status != http.StatusOK || id == "" {
		t.Fatalf("initialize: %d %s", a.status, a.body)
	}
	return id
}

// A feed is an open event stream.
type feed struct {
	resp   *http.Response
	events *bufio.Reader
}

// listen opens an event stream, with a GET when body is empty.
func listen(t testing.TB, client http.RoundTripper, url string, header map[string]string, body string) *feed {
	t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
		header = with(header, "Accept", "text/event-stream")
	}
	resp, err := client.RoundTrip(newRequest(t, method, url, header, strings.NewReader(body)))
	if err != nil {
		t.Fatal(err)
	}
	if ct := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || ct != "text/event-stream" {
		b, _ := io.ReadAll(resp.Body)
		t.Fatalf("status %d, %s: %s", resp.StatusCode, ct, b)
	}
	return &feed{resp, bufio.NewReader(resp.Body)}
}

// next returns the lines of the next event or comment, "" at the end of the stream.
func (f *feed) next() string {
	var b bytes.Buffer
	for {
		line, err := f.events.ReadString('\n')
		if err != nil || line == "\n" {
			return strings.TrimSpace(b.String())
		}
		b.WriteString(line)
	}
}

func (f *feed) close() { f.resp.Body.Close() }

// pipes is a network of in-memory connections, for tests in a synctest bubble.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// servePipes serves the face on pipes; the returned function ends it.
func (b *bare) servePipes(t testing.TB) (*pipes, *http.Transport, func()) {
	p := newPipes()
	srv := b.HTTPServer()
	ended := make(chan struct{})
	go func() { srv.Serve(p); close(ended) }()
	client := &http.Transport{DialContext: p.dial}
	return p, client, func() {
		b.shut(t)
		client.CloseIdleConnections()
		srv.Close()
		<-ended
	}
}
