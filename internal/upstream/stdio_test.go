package upstream_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

func init() {
	children["scripted"] = mcptest.Stdio(func() *mcptest.Raw { return &mcptest.Raw{Answer: script} })
	children["deaf"] = func() { select {} }
	children["not listening"] = func() {
		os.Stdin.Close()
		fmt.Println("ready")
		select {}
	}
	children["not speaking"] = func() {
		os.Stdout.Close()
		select {}
	}
	children["blabbing"] = blab
	children["dying"] = func() {
		fmt.Fprint(os.Stderr, "cannot find the database\n\n")
		os.Exit(3)
	}
}

// blab tells its secret when it dies.
func blab() {
	fmt.Fprintln(os.Stderr, "login failed with", os.Getenv("API_TOKEN"))
	os.Exit(3)
}

// script answers tools/call by the name of the tool; the names say what it does.
func script(q *mcptest.Request) *mcptest.Answer {
	switch q.Name {
	case "noise":
		return &mcptest.Answer{Before: []string{"Server is ready!", `{"level":"warn","id":` + string(q.ID) + `,"msg":"x"}`, "42", ""}, Result: `{"done":"noise"}`}
	case "50 MB on one line":
		return &mcptest.Answer{Result: `{"content":[{"type":"text","text":"` + strings.Repeat("x", 50<<20) + `"}]}`}
	case "300 MB without a newline":
		for range 300 {
			os.Stdout.WriteString(strings.Repeat("y", 1<<20))
		}
		os.Stdout.WriteString("\n")
	case "20 MB on stderr":
		line := strings.Repeat("e", 1023) + "\n"
		for range 20 << 10 {
			os.Stderr.WriteString(line)
		}
		fmt.Fprintln(os.Stderr, "the last line")
	case "exit":
		fmt.Fprintln(os.Stderr, "out of cheese")
		os.Exit(7)
	case "wait":
		return &mcptest.Answer{Silent: true}
	case "where":
		dir, _ := os.Getwd()
		return &mcptest.Answer{Result: `{"dir":` + mcptest.Quote(dir) + `,"env":` + mcptest.Quote(strings.Join(os.Environ(), "\n")) + `}`}
	}
	return &mcptest.Answer{Result: `{"done":` + mcptest.Quote(q.Name) + `}`}
}

// childServer is the configuration of a child of this test binary.
func childServer(t testing.TB, name string) *config.Server {
	t.Helper()
	path, env, err := mcptest.Command(name)
	if err != nil {
		t.Fatal(err)
	}
	env["GORACE"] = "atexit_sleep_ms=0" // else a child under the race detector takes a second to exit
	return &config.Server{Name: "beta", Command: path, Env: env}
}

// limits are the defaults that matter here, with a shorter stop.
func limits() config.Limits {
	return config.Limits{StdioLine: 16 << 20, Stderr: 64 << 10, StopInput: 400 * time.Millisecond, StopTerm: 400 * time.Millisecond}
}

// start starts a child and stops it at the end of the test, after which nothing of
// it may be left in this process.
func start(t *testing.T, s *config.Server, l config.Limits) upstream.Transport {
	t.Helper()
	before := goleak.IgnoreCurrent()
	c, err := upstream.OpenStdio(t.Context(), s, &upstream.Options{Limits: l}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
		upstream.RestKeeper()
		goleak.VerifyNone(t, before)
	})
	return c
}

// tool calls a tool of script.
func tool(ctx context.Context, c upstream.Conn, name string) outcome {
	return callOn(ctx, c, "tools/call", `{"name":`+mcptest.Quote(name)+`}`)
}

func TestAMisbehavingChildIsSurvived(t *testing.T) {
	for name, tc := range map[string]struct {
		want  outcome
		junk  int64
		bound time.Duration
	}{
		"noise": {outcome{Result: `{"done":"noise"}`}, 4, 5 * time.Second},
		"50 MB on one line": {outcome{Kind: fault.Protocol,
			Reason: "the answer exceeds the limit of 16777216 bytes"}, 1, 20 * time.Second},
		"300 MB without a newline": {outcome{Result: `{"done":"300 MB without a newline"}`}, 1, 20 * time.Second},
		"20 MB on stderr":          {outcome{Result: `{"done":"20 MB on stderr"}`}, 0, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := childServer(t, "scripted")
			c := start(t, s, limits())
			if o := tool(t.Context(), c, "warm up"); o.Result == "" {
				t.Fatalf("%+v", o)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			got := tool(t.Context(), c, name)
			if got.Result != tc.want.Result || got.Kind != tc.want.Kind || got.Reason != tc.want.Reason {
				t.Errorf("%.300v, want %v", got, tc.want)
			}
			if d := time.Since(began); d > tc.bound {
				t.Errorf("took %v", d)
			}
			runtime.ReadMemStats(&after)
			if grown := int64(after.Sys) - int64(before.Sys); grown > 128<<20 {
				t.Errorf("memory grew by %d MiB", grown>>20)
			}
			if o := tool(t.Context(), c, "next"); o.Result != `{"done":"next"}` {
				t.Errorf("the next call: %+v", o)
			}
			if n := upstream.Skipped(c); n != tc.junk {
				t.Errorf("%d lines skipped, want %d", n, tc.junk)
			}
		})
	}
}

func TestOnlyTheLastOfStderrIsKept(t *testing.T) {
	c := start(t, childServer(t, "scripted"), limits())
	tool(t.Context(), c, "20 MB on stderr")
	// The pipes are read by different goroutines: the answer can be first.
	deadline := time.After(5 * time.Second)
	for {
		lines := upstream.Stderr(c)
		if n := len(lines); n > 0 && lines[n-1] == "the last line" {
			if size := len(strings.Join(lines, "\n")); size > 64<<10 || n < 60 {
				t.Errorf("%d bytes in %d lines", size, n)
			}
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%d lines", len(lines))
		case <-time.After(time.Millisecond):
		}
	}
}

func TestAChildThatDiesFailsItsCallsWithItsLastWords(t *testing.T) {
	c := start(t, childServer(t, "scripted"), limits())
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			o := tool(t.Context(), c, "wait")
			// One that starts late finds the connection lost.
			if (o.Kind != fault.Lost && o.Kind != fault.Unreachable) || !strings.Contains(o.Reason, "exit status 7") || !strings.Contains(o.Reason, "out of cheese") {
				t.Errorf("%+v", o)
			}
		})
	}
	began := time.Now()
	tool(t.Context(), c, "exit")
	wg.Wait()
	<-c.Done()
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("took %v", d)
	}
	if o := tool(t.Context(), c, "after"); o.Kind != fault.Unreachable {
		t.Errorf("%+v", o)
	}
}

func TestAChildThatCannotStartSaysWhy(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("not a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		server config.Server
		want   string
	}{
		"no such command":             {config.Server{Command: "no-such-command-xyz"}, "command \"no-such-command-xyz\" not found; check `command` and PATH"},
		"none in the PATH it gets":    {config.Server{Command: "sh", Env: map[string]string{"PATH": dir}}, "command \"sh\" not found; check `command` and PATH"},
		"no such path":                {config.Server{Command: "./nothing/here"}, "command \"./nothing/here\" not found; check `command` and PATH"},
		"not executable":              {config.Server{Command: plain}, "command \"" + plain + "\" may not be executed; check its permissions"},
		"no such working directory":   {config.Server{Command: "sh", Cwd: dir + "/gone"}, "working directory \"" + dir + "/gone\" does not exist; check `cwd`"},
		"a file as working directory": {config.Server{Command: "sh", Cwd: plain}, "working directory \"" + plain + "\" does not exist; check `cwd`"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.server.Name = "beta"
			_, err := upstream.OpenStdio(t.Context(), &tc.server, &upstream.Options{}, nil)
			if fault.KindOf(err) != fault.Unreachable || err.Error() != `server "beta": `+tc.want {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestAChildThatDiesAtOnceSaysWhy(t *testing.T) {
	c := start(t, childServer(t, "dying"), limits())
	<-c.Done()
	if want := "the process ended with exit status 3; its last line on standard error: cannot find the database"; c.Err().Error() != want {
		t.Errorf("%v", c.Err())
	}
	if got := upstream.Stderr(c); !slices.Equal(got, []string{"cannot find the database"}) {
		t.Errorf("stderr %q", got)
	}
}

func TestTheLastWordsOfAChildHoldNoSecret(t *testing.T) {
	s := childServer(t, "blabbing")
	s.Env["API_TOKEN"] = "sesame-open-31"
	c := start(t, s, limits())
	<-c.Done()
	o := tool(t.Context(), c, "late")
	for _, said := range append(upstream.Stderr(c), c.Err().Error(), o.Reason) {
		if strings.Contains(said, "sesame") {
			t.Errorf("%q holds the token", said)
		}
	}
	if !strings.Contains(c.Err().Error(), "login failed with ***") {
		t.Errorf("%v", c.Err())
	}
}

func TestAChildThatClosesAPipeIsLost(t *testing.T) {
	for child, want := range map[string]string{
		"not listening": "the process closed its standard input, and had to be ended",
		"not speaking":  "the process closed its standard output",
	} {
		t.Run(child, func(t *testing.T) {
			c := start(t, childServer(t, child), limits())
			began := time.Now()
			for c.Err() == nil { // until the pipe is closed calls are sent
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				if o := tool(ctx, c, "x"); o.Reason == "" {
					t.Errorf("%+v", o)
				}
				cancel()
				if time.Since(began) > 5*time.Second {
					t.Fatal("still there")
				}
			}
			<-c.Done()
			if c.Err().Error() != want {
				t.Error(c.Err())
			}
		})
	}
}

func TestAChildHasItsEnvironmentAndDirectory(t *testing.T) {
	t.Setenv("INHERITED", "yes")
	t.Setenv("REPLACED", "no")
	t.Setenv("MCP_STATE_KEY", "ours")
	t.Setenv("MCP_ADMIN_TOKEN", "ours")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := childServer(t, "scripted")
	s.Cwd = dir
	s.Env["REPLACED"] = "by the configuration"
	s.Env["MCP_ADMIN_TOKEN"] = "its own"
	o := tool(t.Context(), start(t, s, limits()), "where")
	got, _ := wire.Unquote(mcptest.Field([]byte(o.Result), "dir"))
	if got != dir {
		t.Errorf("directory %s, want %s", got, dir)
	}
	env, _ := wire.Unquote(mcptest.Field([]byte(o.Result), "env"))
	vars := strings.Split(env, "\n")
	for _, want := range []string{"INHERITED=yes", "REPLACED=by the configuration", "MCP_ADMIN_TOKEN=its own"} {
		if !slices.Contains(vars, want) {
			t.Errorf("%s is missing", want)
		}
	}
	marked := slices.ContainsFunc(vars, func(v string) bool { return strings.HasPrefix(v, "MCP_AGGREGATOR_TREE_") })
	if slices.ContainsFunc(vars, func(v string) bool { return strings.HasSuffix(v, "=ours") }) {
		t.Errorf("the child has secrets of the aggregator: %q", vars)
	}
	if !marked || slices.Contains(vars, "REPLACED=no") {
		t.Errorf("environment %q", vars)
	}
}

func TestAChildThatDoesNotReadBlocksNobody(t *testing.T) {
	c := start(t, childServer(t, "deaf"), limits())
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	began := time.Now()
	params := `{"name":"x","a":"` + strings.Repeat("x", 64<<10) + `"}`
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			if o := callOn(ctx, c, "tools/call", params); o.Kind != fault.Timeout {
				t.Errorf("%+v", o)
			}
		})
	}
	wg.Wait()
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("took %v", d)
	}
	began = time.Now()
	if err := c.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("closing took %v", d)
	}
}
