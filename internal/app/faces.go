package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"mcp-aggregator/internal/admin"
)

// ServeHTTP adds the HTTP face. The address is bound at once, so that a wrong one is
// reported before anything starts. Anything but a loopback address needs
// http.allow_unauthenticated, since there is no authentication yet. Health checks are
// answered here, too, and the whole admin side if the address is a loopback one and
// admin.addr does not say otherwise.
func (a *App) ServeHTTP(addr string) (net.Listener, error) {
	c := a.config()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("opening the HTTP face: %w", err)
	}
	loopback := isLoopback(ln.Addr())
	if !loopback && !c.HTTP.AllowUnauthenticated {
		ln.Close()
		return nil, fmt.Errorf("refusing to serve %s: everybody who reaches this address could call every tool; "+
			"bind to 127.0.0.1, or set http.allow_unauthenticated: true if the network protects it", addr)
	}
	srv := a.down.HTTPServer()
	clients, people := srv.Handler, a.adminSide(ln.Addr().String(), !loopback || c.Admin.Addr != "")
	endpoint := c.HTTP.Path
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != endpoint && admin.Owns(r.URL.Path) {
			people.ServeHTTP(w, r)
			return
		}
		clients.ServeHTTP(w, r)
	})
	a.addHTTP("http", srv, ln)
	return ln, nil
}

// ServeAdmin adds the admin side at an address of its own.
func (a *App) ServeAdmin(addr string) (net.Listener, error) {
	c := a.config()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("opening the admin side: %w", err)
	}
	if !isLoopback(ln.Addr()) && c.Admin.Token == "" {
		ln.Close()
		return nil, fmt.Errorf("refusing to serve the admin side at %s without admin.token: everybody who reaches it could stop servers", addr)
	}
	srv := a.down.HTTPServer() // for its limits
	srv.Handler = a.adminSide(ln.Addr().String(), false)
	a.addHTTP("admin", srv, ln)
	return ln, nil
}

// adminSide makes the handler for people, probes and commands, or only for health checks.
func (a *App) adminSide(addr string, healthOnly bool) http.Handler {
	c := a.config()
	return admin.New(admin.Options{
		Actions: a.actions(), Metrics: a.metrics.Handler(), Warnings: a.warnings, Events: a.events,
		Health: healthOnly, Token: c.Admin.Token, AllowedHosts: c.HTTP.AllowedHosts, Addr: addr,
		Stopping: a.stopping, Log: a.log, Mask: a.mask,
	})
}

// lastReplies is how long the replies of calls that were cut off may take to be written.
const lastReplies = time.Second

// addHTTP adds an actor that serves HTTP.
func (a *App) addHTTP(name string, srv *http.Server, ln net.Listener) {
	a.add(name, func(context.Context) error { return ignoreClosed(srv.Serve(ln)) }, func(ctx context.Context) {
		if srv.Shutdown(ctx) == nil {
			return
		}
		<-a.drained // calls that were left have been cancelled: their clients are told
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastReplies)
		defer cancel()
		if srv.Shutdown(grace) != nil {
			srv.Close()
		}
	})
}

// ServeStdio adds the stdio face; the end of its input ends Run.
func (a *App) ServeStdio(in io.Reader, out io.Writer) {
	a.add("stdio", func(ctx context.Context) error { return a.down.ServeStdio(ctx, in, out) }, nil)
}

// mask hides the secrets of the configuration in force.
func (a *App) mask(text string) string {
	for _, secret := range a.config().Secrets() {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
