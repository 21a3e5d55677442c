package upstream

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/mcptest"
)

// A server that refuses a call can name the credentials it was sent; whoever made the
// call must not read them.
func TestTheErrorOfACallHoldsNoSecret(t *testing.T) {
	raw := &mcptest.Raw{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Refuse") != "" {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+r.Header.Get("Authorization")+`"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		raw.ServeHTTP(w, r)
	}))
	defer web.Close()
	s := config.DefaultServer("beta")
	s.Type, s.URL, s.BearerToken = config.TypeHTTP, web.URL, "SEKRET-token-1234"
	set := New(Options{Limits: config.Default().Limits})
	defer set.Close(context.Background())
	set.Apply([]*config.Server{s})
	<-set.Settled()
	err := set.Use(t.Context(), "beta", "", func(c Conn) error {
		_, err := c.Call(t.Context(), &Request{ID: NextID(), Method: "tools/call", Header: http.Header{"X-Refuse": {"1"}}})
		return err
	})
	if err == nil || strings.Contains(err.Error(), "SEKRET") || !strings.Contains(err.Error(), "***") {
		t.Errorf("got %v", err)
	}
}
