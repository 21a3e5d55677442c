package upstream_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
)

// askingOverHTTP makes a set with one server, which is connected when it returns.
func askingOverHTTP(t *testing.T, peer *mcptest.Raw) *upstream.Set {
	t.Helper()
	web := httptest.NewServer(peer)
	t.Cleanup(web.Close)
	server := config.DefaultServer("beta")
	server.Type, server.URL = config.TypeHTTP, web.URL
	s := upstream.New(options())
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("closing the set: %v", err)
		}
	})
	s.Apply([]*config.Server{server})
	<-s.Settled()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := peer.Await(ctx, "GET", 1); err != nil {
		t.Fatal(err)
	}
	return s
}

// On the stream of a POST it is clear whose a request is, however many run.
func TestOverHTTPARequestBelongsToTheCallOnWhoseStreamItComes(t *testing.T) {
	s := askingOverHTTP(t, askingServer(nil))
	slots := make(chan struct{}, 16)
	var all sync.WaitGroup
	for n := range 500 {
		c := &client{t: t, set: s, session: string(rune('a' + n%5))}
		slots <- struct{}{}
		all.Go(func() {
			c.mustAsk(n)
			<-slots
		})
	}
	all.Wait()
	if st := statusOf(t, s, "beta"); st.Asked != 500 || st.Refused != 0 || st.Asks || st.Connections != 1 {
		t.Errorf("%d asked, %d refused, marked %t, %d connections", st.Asked, st.Refused, st.Asks, st.Connections)
	}
}

// On the stream that belongs to no call it is not, so sessions get connections of their own.
func TestOverHTTPAServerThatAsksAsideServesEachSessionApart(t *testing.T) {
	peers := &sessionPeers{make: func() *mcptest.Raw {
		return askingServer(func(a *mcptest.Answer) { a.Aside = true })
	}}
	web := httptest.NewServer(peers)
	t.Cleanup(web.Close)
	server := config.DefaultServer("beta")
	server.Type, server.URL, server.Protocol = config.TypeHTTP, web.URL, "legacy"
	s := upstream.New(options())
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	s.Apply([]*config.Server{server})
	<-s.Settled()
	one, two := &client{t: t, set: s, session: "one"}, &client{t: t, set: s, session: "two"}
	for limit := time.Now().Add(10 * time.Second); ; { // the stream of the shared connection opens beside the lists
		if got := one.ask(0); got == one.want(0) {
			break
		} else if time.Now().After(limit) {
			t.Fatal(got)
		}
	}
	var all sync.WaitGroup
	for n := range 32 { // at a time; 64 would be the limit of open requests
		for _, c := range []*client{one, two} {
			all.Go(func() {
				for i := range 10 {
					c.mustAsk(100*i + n)
				}
			})
		}
	}
	all.Wait()
	if st := statusOf(t, s, "beta"); !st.Asks || st.Connections != 3 {
		t.Errorf("marked %t, %d connections", st.Asks, st.Connections)
	}
}

func TestOverHTTPTheServerIsToldThatNobodyAnswersAnyMore(t *testing.T) {
	peer := askingServer(nil)
	s := askingOverHTTP(t, peer)
	c := &client{t: t, set: s, session: "one"}
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan upstream.Ask, 1)
	go func() {
		a := <-asked
		cancel()
		<-a.Done
		a.Answer([]byte(`{}`), nil)
		asked <- a
	}()
	if got := c.call(ctx, "ask", "1", func(a upstream.Ask) { asked <- a }); !strings.Contains(got, "cancel") {
		t.Errorf("got %s", got)
	}
	<-asked
	limit, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	answers, err := peer.Await(limit, "", 1)
	if err != nil || len(answers) != 1 || !strings.Contains(string(answers[0].Raw), "has ended") {
		t.Errorf("the server got %d answers, %v", len(answers), err)
	}
}

// sessionPeers is an HTTP server that has a peer for each session.
type sessionPeers struct {
	make func() *mcptest.Raw

	mu        sync.Mutex
	bySession map[string]*mcptest.Raw
}

func (p *sessionPeers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Mcp-Session-Id")
	if id == "" { // an initialize
		peer := p.make()
		rec := httptest.NewRecorder()
		peer.ServeHTTP(rec, r)
		p.mu.Lock()
		if p.bySession == nil {
			p.bySession = map[string]*mcptest.Raw{}
		}
		name := fmt.Sprint("s", len(p.bySession))
		p.bySession[name] = peer
		p.mu.Unlock()
		w.Header().Set("Mcp-Session-Id", name)
		w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
		return
	}
	p.mu.Lock()
	peer := p.bySession[id]
	p.mu.Unlock()
	if peer == nil {
		http.NotFound(w, r)
		return
	}
	r.Header.Set("Mcp-Session-Id", "raw-session-1") // as the peer knows it
	peer.ServeHTTP(w, r)
}
