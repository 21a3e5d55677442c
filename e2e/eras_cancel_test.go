//go:build e2e && linux

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// A call that its client cancels, in whatever era either side is, ends at its server
// within 100 ms, which is the median of some tries, and gives back what it has taken:
// its place in a queue of one, its share of the connection, its ticket of the breaker.
func TestCancellingEndsTheWorkAndFreesItsPlaces(t *testing.T) {
	servers := map[string]harness.Config{
		"hl": serveCurious(t, mcptest.Legacy), "hm": servePatient(t),
		"sl": harness.Child(t, "curious").With("protocol", "legacy"), "sm": harness.Child(t, "curious").With("protocol", "modern"),
	}
	queues := map[string]any{}
	for name, s := range servers {
		servers[name] = s.With("queue", name)
		queues[name] = map[string]any{"slots": 1, "waiting": 0}
	}
	config := func() (c harness.Config, admin string) {
		admin = harness.FreeAddr(t)
		return harness.Servers(servers).With("queues", queues).With("admin", map[string]any{"addr": admin}), admin
	}
	onHTTP, admin := config()
	a := harness.Serve(t, onHTTP)
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		version := map[mcptest.Era]string{mcptest.Legacy: mcptest.LegacyVersion, mcptest.Modern: mcptest.ModernVersion}[era]
		onStdio, stdioAdmin := config()
		command := exec.Command(harness.Binary(t), "serve", "--config", onStdio.Write(t), "--stdio")
		for _, front := range []struct {
			name, admin string
			way         mcp.Transport
		}{
			{"HTTP", admin, overHTTP(t, a.URL)},
			{"stdio", stdioAdmin, &mcp.CommandTransport{Command: command}},
		} {
			p := meet(t, "ann", version, front.way)
			p.awaitCurious(t, "hl", "hm", "sl", "sm")
			for _, server := range []string{"hl", "hm", "sl", "sm"} {
				t.Run(fmt.Sprintf("%s client on %s, server %s", era, front.name, server), func(t *testing.T) {
					p.cancels(t, server, front.admin)
				})
			}
		}
	}
}

// cancels cancels calls of a server, one after the other.
func (p *person) cancels(t *testing.T, server, admin string) {
	const tries, limit = 9, 100 * time.Millisecond
	var work, places []time.Duration
	for range tries {
		ctx, cancel := context.WithCancel(harness.Context(t, 10*time.Second))
		mark := filepath.Join(t.TempDir(), "call")
		done := make(chan error, 1)
		go func() {
			_, err := p.call(ctx, server+"__hang", mark)
			done <- err
		}()
		soon(t, "the call arrives", func() bool {
			select {
			case err := <-done:
				t.Fatalf("the call ended: %v", err)
			default:
			}
			return marked(mark, "hung")
		})
		began := time.Now()
		cancel()
		soon(t, "the server's work ends", func() bool { return marked(mark, "ended") })
		work = append(work, time.Since(began).Round(100*time.Microsecond))
		soon(t, "nothing is in use", func() bool { return users(t, admin, server) == 0 })
		places = append(places, time.Since(began).Round(100*time.Microsecond))
		<-done
	}
	slices.Sort(work)
	slices.Sort(places)
	t.Logf("the work ended after %v to %v, its places were free after %v to %v (medians %v, %v)",
		work[0], work[tries-1], places[0], places[tries-1], work[tries/2], places[tries/2])
	if work[tries/2] > limit || places[tries/2] > limit {
		t.Errorf("want medians of at most %v: %v, %v", limit, work, places)
	}
	var open struct {
		All []json.RawMessage `json:"circuit_breakers"`
	}
	getJSON(t, "http://"+admin+"/api/v1/mcp/circuit-breakers", &open)
	if len(open.All) > 0 {
		t.Errorf("cancelled calls count as failures: %s", open.All)
	}
	if text, err := p.call(harness.Context(t, 5*time.Second), server+"__talk", "x"); err != nil {
		t.Errorf("the next call: %s, %v", text, err)
	}
}

// soon is harness.Eventually with a finer eye.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !harness.Poll(5*time.Second, time.Millisecond, ok) {
		t.Fatalf("not within 5s: %s", what)
	}
}

func marked(mark, what string) bool {
	_, err := os.Stat(mark + "." + what)
	return err == nil
}

// users returns how many callers use the connections of a server.
func users(t *testing.T, admin, server string) int {
	t.Helper()
	var s struct {
		Refs     int
		InFlight int `json:"in_flight"`
	}
	getJSON(t, "http://"+admin+"/api/v1/mcp/servers/"+server, &s)
	return s.Refs + s.InFlight
}

func getJSON(t *testing.T, url string, into any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, resp.Status, err)
	}
}

// servePatient is the curious server in the modern era on HTTP, whose tool hang ends with
// its request: the SDK's server lets the work of a client go on that went away.
func servePatient(t *testing.T) harness.Config {
	t.Helper()
	others := mcptest.ServeSDK(curious(), true)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		q, err := mcptest.ParseRequest(body)
		if err != nil || q.Name != "hang" {
			r.Body = io.NopCloser(bytes.NewReader(body))
			others.ServeHTTP(w, r)
			return
		}
		var mark string
		_ = json.Unmarshal(mcptest.Field(mcptest.Field(q.Params, "arguments"), "text"), &mark)
		_ = os.WriteFile(mark+".hung", nil, 0o600)
		<-r.Context().Done()
		_ = os.WriteFile(mark+".ended", nil, 0o600)
	}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return harness.Config{"url": srv.URL, "protocol": "modern"}
}
