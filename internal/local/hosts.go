// Package local tells requests to this machine under names of its own from those under
// a name that somebody has made to point here.
package local

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Hosts are the names under which a listener is reached. When the name of a web page has
// been made to point here (DNS rebinding), the browser sends that name as the Host. Hosts
// are never modified.
type Hosts struct {
	allowed []string // besides loopback, lower case, with or without port
	own     string   // the host of the configured address
}

// NewHosts returns the names of a listener on addr, host:port, for which the configuration
// allows these hosts as well. A host without a port is allowed with every port.
func NewHosts(addr string, allowed []string) Hosts {
	h := Hosts{own: Name(addr)}
	for _, a := range allowed {
		h.allowed = append(h.allowed, strings.ToLower(a))
	}
	return h
}

// Serve reports whether a request is for us by its Host. That is checked where it
// matters: on connections to a loopback address, and wherever the configuration names
// hosts.
func (h *Hosts) Serve(r *http.Request) bool {
	if Loopback(r.Host) {
		return true
	}
	to, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if len(h.allowed) == 0 && (to == nil || !to.IP.IsLoopback()) {
		return true
	}
	name := Name(r.Host)
	return h.Allow(r.Host) || name != "" && name == h.own || to != nil && name == to.IP.String()
}

// Allow reports whether the configuration allows a host by name.
func (h *Hosts) Allow(host string) bool {
	return slices.Contains(h.allowed, strings.ToLower(host)) || slices.Contains(h.allowed, Name(host))
}

// Name returns a host without its port, in lower case and without brackets.
func Name(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
}

// Loopback reports whether a host, with or without port, is this machine by name or
// address.
func Loopback(host string) bool {
	name := Name(host)
	if name == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback()
}
