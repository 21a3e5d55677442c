//go:build linux

package harness

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"mcp-aggregator/internal/mcptest"
)

// Config is a configuration, or a part of one, as the file has it.
type Config map[string]any

// Write puts the configuration into a file. JSON is YAML, as far as it is used here.
func (c Config) Write(t testing.TB) string {
	t.Helper()
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Replace puts the configuration in place of a file, as editors do: with a rename.
func (c Config) Replace(t testing.TB, path string) {
	t.Helper()
	if err := os.Rename(c.Write(t), path); err != nil {
		t.Error(err)
	}
}

// Servers is a configuration of these servers.
func Servers(servers map[string]Config) Config { return Config{"servers": servers} }

// Child is a stdio server that is this test binary again, see [mcptest.Children].
func Child(t testing.TB, name string) Config {
	t.Helper()
	path, env, err := mcptest.Command(name)
	if err != nil {
		t.Fatal(err)
	}
	return Config{"command": path, "env": env}
}

// With returns the configuration with one setting more.
func (c Config) With(key string, value any) Config {
	out := Config{key: value}
	for k, v := range c {
		if k != key {
			out[k] = v
		}
	}
	return out
}

// Aggregator is the program under test, serving HTTP.
type Aggregator struct {
	*Process
	Addr string
	URL  string // of the MCP endpoint
}

// Serve starts the aggregator on a configuration and waits until it listens.
func Serve(t testing.TB, config Config, flags ...string) *Aggregator {
	t.Helper()
	return ServeFile(t, config.Write(t), flags...)
}

// ServeFile is Serve on a file that the test may change.
func ServeFile(t testing.TB, path string, flags ...string) *Aggregator {
	t.Helper()
	addr := FreeAddr(t)
	args := append([]string{"serve", "--config", path, "--http", addr}, flags...)
	p := Start(t, exec.Command(Binary(t), args...))
	p.AwaitListening(t, addr, 10*time.Second)
	return &Aggregator{p, addr, "http://" + addr + "/mcp"}
}

// Connect opens a client of the aggregator.
func (a *Aggregator) Connect(t testing.TB, era mcptest.Era) *mcptest.Client {
	t.Helper()
	c, err := mcptest.ConnectHTTP(Context(t, 30*time.Second), a.URL, era, &mcptest.Options{Own: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ServeStdio starts the aggregator on pipes and opens a client of it.
func ServeStdio(t testing.TB, config Config, era mcptest.Era) (*Process, *mcptest.Client) {
	t.Helper()
	p, in, out := StartStdio(t, config)
	c, err := mcptest.ConnectPipes(Context(t, 30*time.Second), out, in, era, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return p, c
}

// StartStdio starts the aggregator on pipes.
func StartStdio(t testing.TB, config Config) (p *Process, in io.WriteCloser, out io.Reader) {
	t.Helper()
	cmd := exec.Command(Binary(t), "serve", "--config", config.Write(t), "--stdio")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	// A pipe of our own: Wait would close the command's before all is read.
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	p = Start(t, cmd)
	w.Close()
	return p, in, out
}
