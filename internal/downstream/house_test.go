package downstream_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/builtin"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/downstream"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// A house is a face with real servers behind it: the built-in ones and a lab whose
// tools do what the tests need.
type house struct {
	*bare
	set  *upstream.Set
	lab  *lab
	quit context.CancelFunc
	done sync.WaitGroup
}

func newHouse(t testing.TB, change ...func(*config.Config)) *house {
	t.Helper()
	cfg := config.Default()
	for _, name := range []string{"lab", "everything"} {
		s := config.DefaultServer(name)
		s.Type, s.Builtin = config.TypeBuiltin, name
		cfg.Servers = append(cfg.Servers, s)
	}
	for _, f := range change {
		f(cfg)
	}
	h := &house{bare: &bare{cfg: cfg}, lab: newLab()}
	builtins := builtin.Servers()
	builtins["lab"] = func() *mcp.Server { return h.lab.server }
	h.set = upstream.New(upstream.Options{Limits: cfg.Limits, Version: "9.9.9", Builtins: builtins, StartConcurrency: 4, Notify: h.notice})
	h.rt = router.New(router.Options{Upstreams: h.set, Identity: bridge.NewIdentity("mcp-aggregator", "9.9.9")}, h.generate())
	h.Server = downstream.New(h.rt, downstream.Options{Config: cfg, Version: "9.9.9"})
	ctx, quit := context.WithCancel(context.Background())
	h.quit = quit
	h.done.Go(func() { h.conduct(ctx) })
	h.set.Apply(cfg.Servers)
	return h
}

// generate is what clients see of the servers now.
func (h *house) generate() *router.Generation {
	var listings []*catalog.Listing
	if h.rt != nil {
		listings = h.set.Listings()
	}
	snapshot, _ := catalog.Build(listings, catalog.Rules{
		Servers: h.cfg.Servers, Catalog: h.cfg.Catalog, Pending: len(listings) < len(h.cfg.Servers),
	})
	servers := map[string]*config.Server{}
	for _, s := range h.cfg.Servers {
		servers[s.Name] = s
	}
	return &router.Generation{Config: h.cfg, Servers: servers, Catalog: snapshot}
}

// conduct publishes what changes.
func (h *house) conduct(ctx context.Context) {
	settled := h.set.Settled()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.set.Changed():
		case <-settled:
			settled = nil
		}
		old, next := h.rt.Generation(), h.generate()
		h.rt.Publish(next)
		h.Publish(catalog.Diff(old.Catalog, next.Catalog))
		if settled = h.set.Settled(); isClosed(settled) {
			h.rt.MarkReady()
			settled = nil
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (h *house) notice(n upstream.Notice) {
	if n.Method == "notifications/resources/updated" {
		uri, _ := wire.Unquote(wire.Field(n.Params, wire.Span{Lo: 0, Hi: len(n.Params)}, "uri").Of(n.Params))
		h.Updated(uri, n.Params)
	}
}

// serve puts the house on a loopback port for the length of the test.
func (h *house) serve(t testing.TB) (url string) {
	t.Helper()
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = h.HTTPServer()
	srv.Start()
	t.Cleanup(srv.Close)
	t.Cleanup(func() { h.close(t) })
	return srv.URL + h.cfg.HTTP.Path
}

func (h *house) close(t testing.TB) {
	h.shut(t)
	h.quit()
	h.done.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := h.set.Close(ctx); err != nil {
		t.Errorf("closing upstreams: %v", err)
	}
}

// A lab is a server whose tools do what the tests need.
type lab struct {
	server  *mcp.Server
	started chan string // the name of each call of wait
	ended   chan error  // why each call of wait ended
}

type labArgs struct {
	N    int    `json:"n,omitempty"`
	Text string `json:"text,omitempty"`
}

func newLab() *lab {
	l := &lab{started: make(chan string, 1000), ended: make(chan error, 1000)}
	l.server = mcp.NewServer(&mcp.Implementation{Name: "lab", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	add := func(name string, f func(context.Context, *mcp.CallToolRequest, labArgs) (string, error)) {
		mcp.AddTool(l.server, &mcp.Tool{Name: name}, func(ctx context.Context, r *mcp.CallToolRequest, a labArgs) (*mcp.CallToolResult, any, error) {
			text, err := f(ctx, r, a)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, err
		})
	}
	add("echo", func(_ context.Context, _ *mcp.CallToolRequest, a labArgs) (string, error) { return a.Text, nil })
	add("big", func(_ context.Context, _ *mcp.CallToolRequest, a labArgs) (string, error) {
		return strings.Repeat("x", a.N), nil
	})
	add("wait", func(ctx context.Context, _ *mcp.CallToolRequest, a labArgs) (string, error) {
		l.started <- a.Text
		<-ctx.Done()
		l.ended <- ctx.Err()
		return "", ctx.Err()
	})
	add("talk", func(ctx context.Context, r *mcp.CallToolRequest, a labArgs) (string, error) {
		for i := range a.N {
			if token := r.Params.GetProgressToken(); token != nil {
				_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(i + 1), Message: a.Text})
			}
			//lint:ignore SA1019 clients and servers of older revisions log this way
			_ = r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: fmt.Sprint(a.Text, i)})
		}
		return "said " + a.Text, nil
	})
	add("grow", func(_ context.Context, _ *mcp.CallToolRequest, a labArgs) (string, error) {
		add(a.Text, func(context.Context, *mcp.CallToolRequest, labArgs) (string, error) { return "new", nil })
		return "grown", nil
	})
	add("touch", func(ctx context.Context, _ *mcp.CallToolRequest, _ labArgs) (string, error) {
		return "touched", l.server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: "lab://note"})
	})
	l.server.AddResource(&mcp.Resource{URI: "lab://note", Name: "note"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "lab://note", Text: "hello"}}}, nil
	})
	return l
}

func callBody(id, tool, args, more string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"lab__` + tool + `","arguments":` + args + more + `}}`
}
