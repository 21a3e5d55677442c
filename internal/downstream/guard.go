package downstream

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/local"
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
	hosts      local.Hosts
	anyAddr    bool     // the configured address names no host
	origins    []string // allowed besides loopback, lower case
	anyOrigin  bool
	maxHeaders int
}

func newGuard(c *config.Config) guard {
	g := guard{
		hosts:      local.NewHosts(c.HTTP.Addr, c.HTTP.AllowedHosts),
		anyAddr:    local.Name(c.HTTP.Addr) == "",
		maxHeaders: c.Limits.HeaderCount,
	}
	for _, o := range c.HTTP.AllowedOrigins {
		g.anyOrigin = g.anyOrigin || o == "*"
		g.origins = append(g.origins, strings.ToLower(strings.TrimSuffix(o, "/")))
	}
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

// hostAllowed checks the Host. A request that names none comes from no page (HTTP/1.0
// has none), and is served where our address names none either.
func (g *guard) hostAllowed(r *http.Request) bool {
	return g.hosts.Serve(r) || g.anyAddr && local.Name(r.Host) == ""
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
	return local.Loopback(u.Host) && local.Loopback(r.Host) || strings.EqualFold(u.Host, r.Host) && g.hosts.Allow(r.Host)
}
