//go:build linux

package harness

import (
	"net/http/httptest"
	"path/filepath"
	"testing"

	"mcp-aggregator/internal/mcptest"
)

// Ledger is a new ledger, of no use after the test.
func Ledger(t testing.TB) mcptest.Ledger {
	t.Helper()
	return mcptest.Ledger(filepath.Join(t.TempDir(), "ledger"))
}

// Chaos is a chaos server as a child process.
func Chaos(t testing.TB, c mcptest.Chaos) Config {
	t.Helper()
	_, env, err := mcptest.Command("")
	if err != nil {
		t.Fatal(err)
	}
	own, err := c.Env()
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range own {
		env[k] = v
	}
	config := Child(t, "")
	config["env"] = env
	return config
}

// ChaosHTTP is a chaos server in this process, with its handle.
func ChaosHTTP(t testing.TB, c mcptest.Chaos) (Config, *mcptest.Raw) {
	t.Helper()
	raw := c.Raw()
	srv := httptest.NewServer(raw)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return Config{"url": srv.URL + "/mcp"}, raw
}

// Site puts up a chaos server that can be taken down.
func Site(t testing.TB, c mcptest.Chaos) (Config, *mcptest.Site, *mcptest.Raw) {
	t.Helper()
	raw := c.Raw()
	site, err := mcptest.NewSite(raw)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(site.Down)
	return Config{"url": site.URL}, site, raw
}

// Cable puts a cable in front of a server on HTTP.
func Cable(t testing.TB, c mcptest.Chaos) (Config, *mcptest.Cable, *mcptest.Raw) {
	t.Helper()
	_, site, raw := Site(t, c)
	cable, err := mcptest.NewCable(site.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cable.Close)
	return Config{"url": "http://" + cable.Addr + "/mcp"}, cable, raw
}
