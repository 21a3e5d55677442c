package downstream

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/wire"
)

// A refusal is an HTTP answer to a request that is not carried out.
type refusal struct {
	status int
	id     []byte // raw id of the request, nil if it is unknown
	err    *wire.RPCError
	allow  string // for 405
	close  bool   // the connection is of no more use
}

// A guard keeps web pages from reaching a local server: a browser sends the Origin
// of the page, and when a page's name has been made to point here (DNS rebinding),
// that name as the Host (specification 2025-11-25, transports: Security Warning).
type guard struct {
	hosts      []string // allowed besides loopback, lower case, with or without port
	own        string   // the host of the configured address
	origins    []string // allowed besides loopback, lower case
	anyOrigin  bool
	maxHeaders int
}

func newGuard(c *config.Config) guard {
	g := guard{maxHeaders: c.Limits.HeaderCount}
	for _, h := range c.HTTP.AllowedHosts {
		g.hosts = append(g.hosts, strings.ToLower(h))
	}
	for _, o := range c.HTTP.AllowedOrigins {
		g.anyOrigin = g.anyOrigin || o == "*"
		g.origins = append(g.origins, strings.ToLower(strings.TrimSuffix(o, "/")))
	}
	g.own = hostname(c.HTTP.Addr)
	return g
}

// check returns why a request must not be served, nil if it may.
func (g *guard) check(r *http.Request) *refusal {
	n := 0
	for _, v := range r.Header {
		n += len(v)
	}
	switch {
	case n > g.maxHeaders:
		return &refusal{status: http.StatusRequestHeaderFieldsTooLarge, err: invalidRequest("too many request headers"), close: true}
	case !g.hostAllowed(r):
		return &refusal{status: http.StatusForbidden, err: invalidRequest("Forbidden: this Host is not served; if it is yours, add it to http.allowed_hosts")}
	case !g.originAllowed(r):
		return &refusal{status: http.StatusForbidden, err: invalidRequest("Forbidden: pages of this Origin may not connect; if it is yours, add it to http.allowed_origins")}
	}
	return nil
}

// hostAllowed checks the Host where it matters: on connections to a loopback
// address, and wherever the configuration names hosts.
func (g *guard) hostAllowed(r *http.Request) bool {
	if isLoopback(r.Host) {
		return true
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if len(g.hosts) == 0 && (local == nil || !local.IP.IsLoopback()) {
		return true
	}
	name := hostname(r.Host)
	return g.named(r.Host) || name == g.own || local != nil && name == local.IP.String()
}

// named reports whether the configuration allows a host by name.
func (g *guard) named(host string) bool {
	return slices.Contains(g.hosts, strings.ToLower(host)) || slices.Contains(g.hosts, hostname(host))
}

// originAllowed lets through requests of no page at all, of pages that the
// configuration allows, of local pages where the request came to a local name, and
// of our own pages where they came from a host that the configuration allows: any
// other host could be a page's name that was made to point here.
func (g *guard) originAllowed(r *http.Request) bool {
	origins := r.Header["Origin"]
	switch {
	case len(origins) == 0 || g.anyOrigin:
		return true
	case len(origins) > 1:
		return false
	}
	origin := strings.ToLower(origins[0])
	if slices.Contains(g.origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	return isLoopback(u.Host) && isLoopback(r.Host) || strings.EqualFold(u.Host, r.Host) && g.named(r.Host)
}

// hostname returns a host without its port, in lower case and without brackets.
func hostname(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
}

// isLoopback reports whether a host, with or without port, is this machine by name
// or address.
func isLoopback(host string) bool {
	name := hostname(host)
	if name == "localhost" || name == "127.0.0.1" {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback()
}
