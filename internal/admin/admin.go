package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"mcp-aggregator/internal/breaker"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/limit"
	"mcp-aggregator/internal/telemetry"
	"mcp-aggregator/internal/upstream"
)

// Paths outside of the API.
const (
	PathLive    = "/livez"
	PathReady   = "/readyz"
	PathHealth  = "/healthz"
	PathMetrics = "/metrics"
	PathAPI     = "/api/v1/mcp/"
)

// Owns reports whether a path is served here, for those who serve other things at the
// same address.
func Owns(path string) bool {
	switch path {
	case PathLive, PathReady, PathHealth, PathMetrics:
		return true
	}
	return strings.HasPrefix(path, PathAPI)
}

// ErrConflict is in the chain of an error of an action that cannot be done now, such
// as a reload during another.
var ErrConflict = errors.New("not possible at the moment")

// Actions are what can be asked and done. A nil one answers 404.
type Actions struct {
	Info     func() Info
	Ready    func() []Check
	Servers  func() []*upstream.Status
	Config   func(server string) *config.Server // nil if unknown
	Snapshot func() *catalog.Snapshot
	Problems func() []catalog.Problem

	// These do not wait. An unknown server is a *fault.Error of kind NotFound.
	Connect, Disconnect, Reconnect, Enable, Disable func(server string) error

	Logs func(server string) ([]string, error) // oldest first, masked

	// A configuration that cannot be used is no error, but a plan that is not applied.
	SetServers func(ctx context.Context, body []byte) (Plan, error) // {"servers": {...}} as JSON or YAML
	Reload     func(ctx context.Context) (Plan, error)

	Breakers func() []breaker.State
	Reset    func(server, tool string) bool // no tool: all of the server; false if there is none
	Queues   func() []limit.QueueState
}

// Options are what New needs.
type Options struct {
	Actions  Actions
	Metrics  http.Handler        // nil answers 404
	Warnings *telemetry.Warnings // nil for none
	Events   *telemetry.Events   // nil for none

	Health       bool                // only health checks, without details
	Token        string              // "" lets in whoever is on this machine
	AllowedHosts []string            // Host values besides loopback names, with or without port
	Addr         string              // the configured address, whose host is allowed, too
	Stopping     <-chan struct{}     // closed when event streams must end; nil for never
	Log          *slog.Logger        // nil discards
	Mask         func(string) string // hides secrets in texts of errors; nil leaves them
}

// Bounds on what clients can make grow.
const (
	maxStreams = 64
	maxBody    = 64 << 10
	maxServers = 4 << 20 // body of a set of servers
	heartbeat  = 15 * time.Second
	writeWait  = 10 * time.Second // longest pause of a reader of events
)

// server answers requests.
type server struct {
	Options
	mux     *http.ServeMux
	guard   guard
	streams atomic.Int64
}

// New makes the handler.
func New(o Options) http.Handler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Mask == nil {
		o.Mask = func(s string) string { return s }
	}
	s := &server{Options: o, mux: http.NewServeMux(), guard: newGuard(o.Addr, o.AllowedHosts)}
	s.handle("GET "+PathLive, s.live)
	s.handle("GET "+PathReady, s.ready)
	s.handle("GET "+PathHealth, s.health)
	if !o.Health {
		s.routes()
	}
	return s
}

// A handler answers or returns why it has not.
type handler func(http.ResponseWriter, *http.Request) error

func (s *server) handle(pattern string, h handler) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}

// routes is the API and everything else that wants the token.
func (s *server) routes() {
	for pattern, h := range map[string]handler{
		"GET " + PathMetrics:              s.metrics,
		"GET /servers":                    s.listServers,
		"PUT /servers":                    s.setServers,
		"GET /servers/{name}":             s.getServer,
		"GET /servers/{name}/logs":        s.logs,
		"POST /servers/{name}/connect":    s.control("connect", s.Actions.Connect),
		"POST /servers/{name}/disconnect": s.control("disconnect", s.Actions.Disconnect),
		"POST /servers/{name}/reconnect":  s.control("reconnect", s.Actions.Reconnect),
		"POST /servers/{name}/enable":     s.control("enable", s.Actions.Enable),
		"POST /servers/{name}/disable":    s.control("disable", s.Actions.Disable),
		"GET /tools":                      s.tools,
		"GET /circuit-breakers":           s.breakers,
		"POST /circuit-breakers/reset":    s.reset,
		"GET /queues":                     s.queues,
		"GET /warnings":                   s.warnings,
		"GET /events":                     s.events,
		"POST /reload":                    s.reload,
		"GET /info":                       s.info,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		if path != PathMetrics {
			path = strings.TrimSuffix(PathAPI, "/") + path
		}
		s.handle(method+" "+path, func(w http.ResponseWriter, r *http.Request) error {
			if err := s.admit(r); err != nil {
				return err
			}
			return h(w, r)
		})
	}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	if err := s.guard.check(r); err != nil {
		s.fail(w, r, err)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxServers)
	if _, pattern := s.mux.Handler(r); pattern == "" {
		s.unrouted(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// unrouted answers what no pattern fits: the mux knows whether the path or only the
// method is wrong, but not how errors look here.
func (s *server) unrouted(w http.ResponseWriter, r *http.Request) {
	seen := &glimpse{header: make(http.Header)}
	s.mux.ServeHTTP(seen, r)
	if allow := seen.header.Get("Allow"); allow != "" {
		w.Header().Set("Allow", allow)
		s.fail(w, r, problem(http.StatusMethodNotAllowed, "this path allows %s", allow))
		return
	}
	if s.Options.Health && Owns(r.URL.Path) {
		s.fail(w, r, problem(http.StatusNotFound, "only health checks are answered at this address; admin.addr opens the admin side at another"))
		return
	}
	s.fail(w, r, problem(http.StatusNotFound, "nothing is served at this path"))
}

// glimpse takes an answer of the mux to look at its header.
type glimpse struct{ header http.Header }

func (g *glimpse) Header() http.Header         { return g.header }
func (g *glimpse) Write(p []byte) (int, error) { return len(p), nil }
func (g *glimpse) WriteHeader(int)             {}

func (s *server) metrics(w http.ResponseWriter, r *http.Request) error {
	if s.Metrics == nil {
		return errAbsent
	}
	s.Metrics.ServeHTTP(w, r)
	return nil
}
