//go:build e2e && linux

package e2e_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
)

// adminGet reads from the admin side.
func adminGet(t testing.TB, a *harness.Aggregator, bearer, path string) string {
	t.Helper()
	resp := openAdmin(harness.Context(t, 10*time.Second), t, a, bearer, path, "")
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return string(body)
}

func openAdmin(ctx context.Context, t testing.TB, a *harness.Aggregator, bearer, path, lastEvent string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.Addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	if lastEvent != "" {
		req.Header.Set("Last-Event-ID", lastEvent)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, resp.Status)
	}
	return resp
}

// metric is one line of the metrics, by name and labels as they stand there; 0 if it is
// not there.
func metric(t testing.TB, a *harness.Aggregator, bearer, name string) float64 {
	t.Helper()
	for line := range strings.Lines(adminGet(t, a, bearer, "/metrics")) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			return n
		}
	}
	return 0
}

// An event is one of the admin side's stream.
type event struct {
	ID           int64
	Type, Server string
	Data         struct {
		Call, Summary     int64
		Tool, Kind, Model string
		Outcome, Reason   string
		TokensIn          int `json:"tokens_in"`
		TokensOut         int `json:"tokens_out"`
		Bytes             int
		Errors            []string
		Applied           bool
	}
	raw string
}

// An eventStream is a stream of the admin side's events.
type eventStream struct {
	t     testing.TB
	lines *bufio.Scanner
}

// openEvents opens a stream behind an event ("0" is before the first, "" is now).
func openEvents(t testing.TB, a *harness.Aggregator, bearer, last string) *eventStream {
	t.Helper()
	resp := openAdmin(harness.Context(t, 20*time.Second), t, a, bearer, "/api/v1/mcp/events", last)
	t.Cleanup(func() { resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return &eventStream{t, lines}
}

// until reads events until there are enough.
func (s *eventStream) until(enough func([]event) bool) (events []event) {
	s.t.Helper()
	for !enough(events) {
		if !s.lines.Scan() {
			s.t.Fatalf("the stream has ended after %d events: %v", len(events), s.lines.Err())
		}
		data, ok := strings.CutPrefix(s.lines.Text(), "data: ")
		if !ok || data == "{}" {
			continue
		}
		ev := event{raw: data}
		if err := json.Unmarshal([]byte(data), &ev); err != nil {
			s.t.Fatalf("%q: %v", data, err)
		}
		events = append(events, ev)
	}
	return events
}

// eventsAfter reads events behind one until there are enough.
func eventsAfter(t testing.TB, a *harness.Aggregator, bearer, last string, enough func([]event) bool) []event {
	t.Helper()
	return openEvents(t, a, bearer, last).until(enough)
}

// ended reports whether so many calls of tools have ended.
func ended(n int) func([]event) bool {
	return func(events []event) bool {
		got := 0
		for _, ev := range events {
			if ev.Type == "call.completed" {
				got++
			}
		}
		return got >= n
	}
}

// aggregatorStatus is what the command status prints.
func aggregatorStatus(t testing.TB, a *harness.Aggregator, bearer string, flags ...string) string {
	t.Helper()
	cmd := exec.CommandContext(harness.Context(t, 20*time.Second), harness.Binary(t), append([]string{"status", "--admin", "http://" + a.Addr}, flags...)...)
	cmd.Env = append(cmd.Environ(), "MCP_ADMIN_TOKEN="+bearer)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("status: %v\n%s", err, out)
	}
	return string(out)
}

// A scriptedCall is a call of the script for the TypeScript SDK.
type scriptedCall struct {
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments,omitempty"`
	Read      bool           `json:"read,omitempty"` // the original, too
}

// A scriptedResult is what the script says of one call.
type scriptedResult struct {
	Text, Policy, URI, Link string
	Original, Resource      string // SHA-256
	Answers                 int    // of result_read
	Structured, Schema      bool
	IsError                 bool
}

type scripted struct {
	Results   map[string]scriptedResult
	Questions []struct{ Characters, MaxTokens int }
}

// runResults makes calls with a client of the TypeScript SDK.
func runResults(t *testing.T, generation, url string, calls []scriptedCall) (got scripted) {
	t.Helper()
	wanted, _ := json.Marshal(calls)
	var out, errs harness.Log
	cmd := exec.CommandContext(harness.Context(t, time.Minute), harness.Node(t), harness.Script(t, "results.mjs"), generation, url, string(wanted))
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("the client failed: %v\n%s", err, errs.Tail(4000))
	}
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatalf("the client printed %.2000q: %v", out.String(), err)
	}
	return got
}

// digestOf is how the script shows a text.
func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
