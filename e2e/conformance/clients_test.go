//go:build e2e && linux

package conformance_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// clientCells are the ways the Go SDK's client for the suite reaches the suite's server of
// a scenario: by itself, and with the aggregator between. The names stand in expected.txt.
var clientCells = []string{"client direct", "client http"}

// clientRevisions says how many scenarios each revision requires of clients.
var clientRevisions = []struct {
	name     string
	required int
}{{"2025-11-25", 4}, {"2026-07-28", 7}}

// notScored is what the suite runs for clients but does not count, authorization left out.
var notScored = []string{"json-schema-2020-12-preservation"}

// TestConformanceOfClients judges the side that the aggregator shows to servers. Here the
// suite is the server, and its verdict is on the messages that reach it.
func TestConformanceOfClients(t *testing.T) {
	expected := expectedFailures(t)
	client := buildClient(t)
	for _, rev := range clientRevisions {
		revision, required := rev.name, rev.required
		t.Run(revision, func(t *testing.T) {
			scenarios := append(clientScenarios(t, revision), notScored...)
			results := map[string]*verdicts{}
			for _, cell := range clientCells {
				results[cell] = runClients(t, cell, client, revision, scenarios)
			}
			t.Logf("\n%s", table(revision, clientCells, results))
			if passed, of := results["client direct"].score(); passed != required || of != required {
				t.Fatalf("without the aggregator %d of %d scenarios pass, want %d of %[3]d\n%s",
					passed, of, required, results["client direct"].output)
			}
			for _, c := range complaints(results["client http"], expected[revision+" client http"]) {
				name, _, _ := strings.Cut(c, " ")
				t.Errorf("%s: %s\n%s", revision, c, results["client http"].excerpt(name))
			}
		})
	}
}

// buildClient builds the Go SDK's client for the suite.
func buildClient(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "everything-client")
	out, err := exec.Command("go", "build", "-o", path, "github.com/modelcontextprotocol/go-sdk/conformance/everything-client").CombinedOutput()
	if err != nil {
		t.Fatalf("building the conformance client: %v\n%s", err, out)
	}
	return path
}

// clientScenarios reads what the suite requires of clients of a revision. Authorization is
// left out: between a client and a server that wants tokens an aggregator is the client.
func clientScenarios(t *testing.T, revision string) (names []string) {
	t.Helper()
	f, err := os.Open(harness.Peer(t, "@modelcontextprotocol", "conformance", "requirements", revision+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	section := ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if strings.HasSuffix(line, ":") && !strings.HasPrefix(line, " ") {
			section = line
		}
		name, is := strings.CutPrefix(line, "  - ")
		if is && section == "client:" && !strings.HasPrefix(name, "auth/") {
			names = append(names, name)
		}
	}
	return names
}

var passedChecks = regexp.MustCompile(`Passed: (\d+)/(\d+), (\d+) failed`)

// runClients runs scenarios one by one, since the suite runs either one or a set that
// includes authorization.
func runClients(t *testing.T, cell, client, revision string, scenarios []string) *verdicts {
	t.Helper()
	v := &verdicts{order: scenarios, passed: map[string]bool{}, unscored: map[string]bool{}}
	for _, name := range notScored {
		v.unscored[name] = true
	}
	for _, name := range scenarios {
		results := t.TempDir()
		cmd := exec.CommandContext(harness.Context(t, time.Minute), harness.Node(t),
			harness.Peer(t, "@modelcontextprotocol", "conformance", "dist", "index.js"),
			"client", "--command", client, "--scenario", name, "--spec-version", revision, "--timeout", "30000", "-o", results)
		cmd.Dir = results
		if cell != "client direct" {
			cmd.Args[slices.Index(cmd.Args, "--command")+1] = asClientBehind(t, cmd, client)
		}
		began := time.Now()
		out, err := cmd.CombinedOutput()
		checks := passedChecks.FindSubmatch(out)
		// A run in which nothing was checked proves nothing.
		v.passed[name] = err == nil && checks != nil && string(checks[1]) != "0"
		t.Logf("%s, %s: %s in %s", cell, name, checks, time.Since(began).Round(time.Millisecond))
		v.output += fmt.Sprintf("=== Running scenario: %s ===\n%s\n", name, out)
		if !v.passed[name] {
			v.output += said(results)
		}
	}
	return v
}

// said is what the client, and the aggregator before it, wrote during a scenario.
func said(results string) string {
	files, _ := filepath.Glob(filepath.Join(results, "*", "std*.txt"))
	text := ""
	for _, f := range files {
		b, _ := os.ReadFile(f)
		text += filepath.Base(f) + ":\n" + string(b[max(0, len(b)-6000):])
	}
	return text
}

// asClientBehind makes this test binary the client that the suite starts.
func asClientBehind(t *testing.T, suite *exec.Cmd, client string) (command string) {
	t.Helper()
	command, env, err := mcptest.Command("client behind")
	if err != nil {
		t.Fatal(err)
	}
	suite.Env = append(os.Environ(), aggregatorEnv+"="+harness.Binary(t), clientEnv+"="+client)
	for k, v := range env {
		suite.Env = append(suite.Env, k+"="+v)
	}
	return command
}
