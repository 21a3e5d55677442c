//go:build e2e && linux

package e2e_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/downstream"
	"mcp-aggregator/internal/keep"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/results"
	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/upstream"
)

// whoHeader says who is calling, in the place of an authentication.
const whoHeader = "X-Who"

// serveOwners puts the bulky server behind the parts of the aggregator that handle
// calls, for clients that are told from each other, and returns the address.
func serveOwners(t *testing.T) string {
	t.Helper()
	path, env, err := mcptest.Command("bulky")
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	bulky := config.DefaultServer("bulky")
	bulky.Type, bulky.Command, bulky.Env = config.TypeStdio, path, env
	c.Servers, c.Results.Policy = []*config.Server{bulky}, config.PolicyDigest
	store, err := keep.Open(keep.Options{})
	if err != nil {
		t.Fatal(err)
	}
	reducer := results.New(results.Options{Store: store})
	t.Cleanup(reducer.Close)
	if err := reducer.Configure(c); err != nil {
		t.Fatal(err)
	}
	set := upstream.New(upstream.Options{Limits: c.Limits})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := set.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	set.Apply(c.Servers)
	<-set.Settled()
	gen := &router.Generation{Config: c, Servers: map[string]*config.Server{"bulky": bulky}, Shrinks: true}
	own := catalog.Ours(append(results.Tools(), router.ResourceTools()...), []byte(`{"resources":{}}`))
	gen.Catalog, _ = catalog.Build(set.Listings(), catalog.Rules{Servers: c.Servers, Catalog: c.Catalog, Own: own})
	r := router.New(router.Options{Upstreams: set, Identity: bridge.NewIdentity("mcp-aggregator", "1"), Results: reducer}, gen)
	r.MarkReady()
	front := downstream.New(r, downstream.Options{Config: c, Version: "1"}).Handler()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		front.ServeHTTP(w, q.WithContext(downstream.WithPrincipal(q.Context(), q.Header.Get(whoHeader))))
	}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv.URL + c.HTTP.Path
}

// asWho is a way to an endpoint for somebody.
func asWho(t *testing.T, url, who string) mcp.Transport {
	own := &http.Transport{}
	t.Cleanup(own.CloseIdleConnections)
	return &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: signed{own, who}}}
}

type signed struct {
	http.RoundTripper
	who string
}

func (s signed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(whoHeader, s.who)
	return s.RoundTripper.RoundTrip(r)
}

func TestOriginalsAreForTheirOwnersOnly(t *testing.T) {
	t.Parallel()
	url := serveOwners(t)
	for _, version := range []string{mcptest.LegacyVersion, mcptest.ModernVersion} {
		t.Run(version, func(t *testing.T) {
			ann, bob := readAs(t, asWho(t, url, "ann"), version, nil), readAs(t, asWho(t, url, "bob"), version, nil)
			annAgain := readAs(t, asWho(t, url, "ann"), version, nil)
			ann.await("bulky__diff", true)
			s := ann.call("bulky__diff", nil)
			if s.note.Handle == "" {
				t.Fatalf("got %.300s", s.text)
			}
			notFound(t, bob, s)
			// What a stranger is told is what everybody is told of what never was.
			unknown := shown{}
			unknown.note.Handle, unknown.note.URI = "0000", results.Scheme+"0000"
			notFound(t, ann, unknown)
			for _, tool := range []string{"result_read", "read_resource"} {
				argument := map[string]string{"result_read": "handle", "read_resource": "uri"}[tool]
				stranger := bob.call(tool, map[string]any{argument: s.note.URI})
				nobody := ann.call(tool, map[string]any{argument: results.Scheme + "0000"})
				if !stranger.result.IsError || stranger.text != nobody.text {
					t.Errorf("%s tells a stranger %q, and of what never was %q", tool, stranger.text, nobody.text)
				}
			}
			for _, r := range []*reader{ann, annAgain} {
				got, err := r.resource(s.note.URI)
				if err != nil {
					t.Fatal(err)
				}
				sameText(t, "resources/read of the owner", got, largeDiff(1<<20))
			}
			if got, _ := annAgain.original(s.note.Handle); got != largeDiff(1<<20) {
				t.Errorf("result_read of the owner in another session gives %d bytes", len(got))
			}
		})
	}
}

// Without authentication all clients are one owner: a session that is resumed by another
// process finds its originals.
func TestClientsWithoutNamesShareOriginals(t *testing.T) {
	t.Parallel()
	a := harness.Serve(t, digested(t))
	one, two := readAs(t, overHTTP(t, a.URL), mcptest.LegacyVersion, nil), readAs(t, overHTTP(t, a.URL), mcptest.ModernVersion, nil)
	one.await("bulky__diff", true)
	s := one.call("bulky__diff", nil)
	if got, err := two.resource(s.note.URI); err != nil || got != asMasked(largeDiff(1<<20)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
