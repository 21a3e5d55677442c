package local_test

import (
	"context"
	"net"
	"net/http"
	"testing"

	"mcp-aggregator/internal/local"
)

func TestAHostIsServedUnderItsOwnNames(t *testing.T) {
	for name, tt := range map[string]struct {
		addr    string
		allowed []string
		to      string // address the connection came to
		host    string
		want    bool
	}{
		"loopback by name":                            {"127.0.0.1:80", nil, "127.0.0.1", "LocalHost:80", true},
		"loopback by another address":                 {"127.0.0.1:80", nil, "127.0.0.1", "127.9.9.9", true},
		"loopback over IPv6":                          {"127.0.0.1:80", nil, "::1", "[::1]:80", true},
		"a foreign name at loopback":                  {"127.0.0.1:80", nil, "127.0.0.1", "evil.example", false},
		"a name that begins like ours":                {"127.0.0.1:80", nil, "127.0.0.1", "localhost.evil.example", false},
		"a foreign name elsewhere":                    {":80", nil, "10.0.0.5", "mcp.example", true},
		"a foreign name where hosts are named":        {":80", []string{"mcp.example"}, "10.0.0.5", "evil.example", false},
		"our address where hosts are named":           {":80", []string{"mcp.example"}, "10.0.0.5", "10.0.0.5:80", true},
		"an allowed name":                             {":80", []string{"MCP.example"}, "127.0.0.1", "mcp.EXAMPLE:8080", true},
		"an allowed name with its port":               {":80", []string{"mcp.example:1"}, "127.0.0.1", "mcp.example:1", true},
		"an allowed name with another port":           {":80", []string{"mcp.example:1"}, "127.0.0.1", "mcp.example:2", false},
		"the host of the configured address":          {"box.example:80", nil, "127.0.0.1", "box.example", true},
		"no name where the address names no host":     {":80", nil, "127.0.0.1", "", false},
		"no name but a port, which the address shows": {":80", nil, "127.0.0.1", ":80", false},
	} {
		t.Run(name, func(t *testing.T) {
			hosts := local.NewHosts(tt.addr, tt.allowed)
			to := &net.TCPAddr{IP: net.ParseIP(tt.to)}
			r := (&http.Request{Host: tt.host}).WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, to))
			if got := hosts.Serve(r); got != tt.want {
				t.Errorf("served: %v, want %v", got, tt.want)
			}
		})
	}
}

func TestNameIsTheHostAlone(t *testing.T) {
	for host, want := range map[string]string{
		"Example.COM:80": "example.com", "example.com": "example.com", "[::1]:80": "::1", "[fe80::1]": "fe80::1", ":80": "", "": "",
	} {
		if got := local.Name(host); got != want {
			t.Errorf("Name(%q) = %q, want %q", host, got, want)
		}
	}
}
