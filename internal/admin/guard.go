package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"mcp-aggregator/internal/local"
)

// A guard refuses what a web page can have caused. A browser sends the Origin of the
// page, or says that the page is of another site; and when a page's name has been made
// to point here (DNS rebinding), it sends that name as the Host. Unlike the side of
// MCP clients, this one serves no page of elsewhere, whatever the configuration says.
type guard struct {
	hosts local.Hosts
	cross *http.CrossOriginProtection
}

func newGuard(addr string, allowed []string) guard {
	return guard{local.NewHosts(addr, allowed), http.NewCrossOriginProtection()}
}

// check returns why a request must not be served, nil if it may.
func (g *guard) check(r *http.Request) error {
	switch {
	case !g.hosts.Serve(r):
		return problem(http.StatusForbidden, "this Host is not served; if it is yours, add it to http.allowed_hosts")
	case !ownOrigin(r):
		return problem(http.StatusForbidden, "pages of another origin may not connect")
	case g.cross.Check(r) != nil:
		return problem(http.StatusForbidden, "requests from other sites may change nothing")
	}
	return nil
}

// ownOrigin lets through requests of no page and those of pages that came from here.
// The scheme may differ, since something in front may speak TLS.
func ownOrigin(r *http.Request) bool {
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		return true
	}
	u, err := url.Parse(origins[0])
	return err == nil && len(origins) == 1 && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// admit returns why a request may not see and do everything, nil if it may. Hashes of
// tokens are compared, so that the time tells neither the bytes nor the length.
func (s *server) admit(r *http.Request) error {
	if s.Token == "" {
		switch {
		case !direct(r):
			return errIndirect
		case r.Method != http.MethodGet && r.Method != http.MethodHead && foreign(r):
			return errForeign
		}
		return nil
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	a, b := sha256.Sum256([]byte(strings.TrimSpace(given))), sha256.Sum256([]byte(s.Token))
	if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
		return errNoToken
	}
	return nil
}

// direct reports whether a request looks like one of this machine. One that a reverse
// proxy brings over loopback does not, or whoever reaches the proxy could stop servers:
// most name the client in a header or keep the Host.
func direct(r *http.Request) bool {
	for _, h := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if r.Header[h] != nil {
			return false
		}
	}
	return local.Loopback(r.Host)
}

// foreign reports whether a request comes from a program of another user. Changing the
// servers means running programs as the user of the aggregator.
func foreign(r *http.Request) bool {
	to, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return to != nil && err == nil && foreignUser(to.AddrPort(), from)
}
