//go:build e2e && linux

package e2e_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// Stdio servers that are none.

func serveGarbage() {
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); os.Exit(0) }()
	for range 200 {
		fmt.Println("}{ this is not JSON \x00\x01")
	}
	fmt.Fprintln(os.Stderr, "garbage: I am a cat")
	select {}
}

func serveNothing() { _, _ = io.Copy(io.Discard, os.Stdin) }

func serveAndExit() {
	fmt.Fprintln(os.Stderr, "fatal: LICENSE_KEY is not set")
	os.Exit(3)
}

// serveNoise is a working server that also writes what does not belong on its
// standard output: before the opening, between and before answers.
func serveNoise() {
	fmt.Println("Server v1.0 starting on stdio...")
	fmt.Println(`{"level":"info","msg":"ready"}`)
	fmt.Println("42")
	fmt.Println()
	raw := &mcptest.Raw{Tools: []string{echoTool}, Answer: func(q *mcptest.Request) *mcptest.Answer {
		return &mcptest.Answer{Before: []string{"handling " + q.Method, `{"level":"debug"}`, "[1,2]", "", "null"}}
	}}
	mcptest.Stdio(func() *mcptest.Raw { return raw })()
}

// serveStubbornly answers, and stays when its input ends and on SIGTERM.
func serveStubbornly() {
	ignoreTermination()
	mcptest.Stdio(func() *mcptest.Raw { return &mcptest.Raw{Tools: []string{echoTool}} })()
	select {}
}

// badServer is a server that cannot work, and the words its one message must have.
type badServer struct {
	name  string
	setup func(t *testing.T) harness.Config
	words []string // all of them; a|b is one of them; case does not matter
}

var badServers = []badServer{
	{"missing", func(*testing.T) harness.Config { return harness.Config{"command": "/nonexistent/mcp-server"} },
		[]string{"/nonexistent/mcp-server", "not found|no such file|does not exist", "command|path|install"}},
	{"notinpath", func(*testing.T) harness.Config { return harness.Config{"command": "mcp-server-nobody-has"} },
		[]string{"mcp-server-nobody-has", "not found|PATH", "command|PATH|install"}},
	{"refused", func(t *testing.T) harness.Config {
		return harness.Config{"url": "http://" + harness.FreeAddr(t) + "/mcp"}
	},
		[]string{"refused", "127.0.0.1", "url|running|started|port"}},
	{"html", func(t *testing.T) harness.Config { return answering(t, mcptest.HTML) },
		[]string{"html", "url|endpoint|path"}},
	{"login", func(t *testing.T) harness.Config { return answering(t, mcptest.Unauthorized) },
		[]string{"401|unauthorized", "bearer_token|headers"}},
	{"garbled", func(t *testing.T) harness.Config { return answering(t, mcptest.Garbage) },
		[]string{"json|not an mcp message", "url|endpoint"}},
	{"teapot", func(t *testing.T) harness.Config {
		return answering(t, &mcptest.HTTPAnswer{Status: 500, Body: "database is on fire"})
	}, []string{"500"}},
	{"notfound", func(t *testing.T) harness.Config {
		return answering(t, &mcptest.HTTPAnswer{Status: 404, Body: "404 page not found"})
	}, []string{"404", "url|endpoint|path"}},
	{"mute", func(t *testing.T) harness.Config {
		return listen(t, &mcptest.Raw{Answer: mcptest.Always(mcptest.Answer{Silent: true})}).With("init_timeout", "2s")
	}, []string{"2s", "answer|respond|time", "init_timeout|running|reachable"}},
	{"garbage", func(t *testing.T) harness.Config { return harness.Child(t, "garbage").With("init_timeout", "2s") },
		[]string{"2s", "answer|respond|time", "stdout|standard output|not json|junk|skipped"}},
	{"silent", func(t *testing.T) harness.Config { return harness.Child(t, "silent").With("init_timeout", "2s") },
		[]string{"2s", "answer|respond|time", "init_timeout|stdio|mcp server"}},
	{"exits", func(t *testing.T) harness.Config { return harness.Child(t, "exits") },
		[]string{"exit|ended", "3", "LICENSE_KEY"}},
}

// answering is a server that answers everything with one HTTP answer.
func answering(t *testing.T, h *mcptest.HTTPAnswer) harness.Config {
	return listen(t, &mcptest.Raw{Answer: mcptest.Always(mcptest.Answer{HTTP: h})})
}

func configureBadServers(t *testing.T) harness.Config {
	servers := map[string]harness.Config{"echo": harness.Child(t, "echo"), "noisy": harness.Child(t, "noisy")}
	for _, b := range badServers {
		servers[b.name] = b.setup(t)
	}
	return harness.Servers(servers)
}

func TestBadServersHurtOnlyThemselves(t *testing.T) {
	a := harness.Serve(t, configureBadServers(t))
	started := time.Now()
	c := a.Connect(t, mcptest.Legacy)
	awaitTools(t, c, 2)
	if took := time.Since(started); took > 5*time.Second {
		t.Errorf("the good servers are listed after %s, want within 5s", took)
	}
	stillWorks(t, c)
	t.Run("junk on standard output is skipped", func(t *testing.T) {
		x, err := c.Call(harness.Context(t, 5*time.Second), "tools/call", `{"name":"noisy__echo","arguments":{"n":1.0}}`)
		if err != nil || !strings.Contains(string(x.Result), `{\"n\":1.0}`) {
			t.Errorf("%v, %s", err, show(x))
		}
	})
	for _, b := range badServers {
		t.Run(b.name, func(t *testing.T) {
			var line string
			harness.Eventually(t, 10*time.Second, "a line of the log says what is wrong", func() bool {
				line = complaintAbout(a.Log(), b.name)
				return line != ""
			})
			if missing := lacks(line, b.words); missing != "" {
				t.Errorf("the message has no %s: %s", missing, line)
			}
			x, err := c.Call(harness.Context(t, 5*time.Second), "tools/call", `{"name":"`+b.name+`__echo","arguments":{}}`)
			if err != nil || x.Error == nil && !strings.Contains(string(x.Result), `"isError":true`) {
				t.Errorf("a call of its tool: %v, %s", err, show(x))
			}
		})
	}
	stillWorks(t, c)
}

func TestValidateConnectNamesServerAndRemedy(t *testing.T) {
	path := configureBadServers(t).Write(t)
	cmd := exec.Command(harness.Binary(t), "validate", "--connect", "--config", path)
	var out harness.Log
	cmd.Stdout = &out
	p := harness.Start(t, cmd)
	code, err := p.Wait(60 * time.Second)
	if err != nil || code != 1 {
		t.Errorf("exit code %d, %v; want 1", code, err)
	}
	said := out.String() + p.Log()
	for _, b := range badServers {
		t.Run(b.name, func(t *testing.T) {
			line := complaintAbout(said, b.name)
			if missing := lacks(line, b.words); missing != "" {
				t.Errorf("the message has no %s: %q", missing, line)
			}
		})
	}
}

// complaintAbout finds the first line that names the server as one that failed:
// a warning of the log, or a sentence of a command.
func complaintAbout(log, server string) string {
	for line := range strings.Lines(log) {
		warning := strings.Contains(line, "server="+server+" ") && !strings.Contains(line, "level=DEBUG") && !strings.Contains(line, "level=INFO")
		if warning || strings.Contains(line, `server "`+server+`"`) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// lacks returns the first of the words that a message does not have.
func lacks(message string, words []string) string {
	lower := strings.ToLower(message)
	for _, choice := range words {
		found := false
		for word := range strings.SplitSeq(strings.ToLower(choice), "|") {
			found = found || strings.Contains(lower, word)
		}
		if !found {
			return choice
		}
	}
	return ""
}
