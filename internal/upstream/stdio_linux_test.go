package upstream_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
)

func init() {
	children["stubborn"] = func() {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		serveFamily()
		select {}
	}
	children["family"] = serveFamily
	children["deserter"] = func() { fmt.Fprintln(os.Stderr, startGrandchild()) }
	children["grandchild"] = func() {
		signal.Ignore(syscall.SIGTERM)
		select {}
	}
}

// serveFamily starts a grandchild that ignores SIGTERM and holds all pipes, tells
// its process id in the first answer, and serves until its input is closed.
func serveFamily() {
	pid := startGrandchild()
	mcptest.Stdio(func() *mcptest.Raw {
		return &mcptest.Raw{Answer: func(*mcptest.Request) *mcptest.Answer {
			return &mcptest.Answer{Result: `{"pid":` + pid + `}`}
		}}
	})()
}

func startGrandchild() string {
	path, env, err := mcptest.Command("grandchild")
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(path)
	for k, v := range env {
		cmd.Env = append(os.Environ(), k+"="+v)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return strconv.Itoa(cmd.Process.Pid)
}

// alive reports whether a process runs; a zombie does not.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	state := bytes.TrimSpace(b[bytes.LastIndexByte(b, ')')+1:])
	return state[0] != 'Z' && state[0] != 'X'
}

func TestStoppingLeavesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		child   string
		ctx     time.Duration
		atLeast time.Duration
		atMost  time.Duration
	}{
		"of a child that ends with its input":       {"scripted", time.Minute, 0, 300 * time.Millisecond},
		"of a child with a stubborn grandchild":     {"family", time.Minute, 800 * time.Millisecond, 2 * time.Second},
		"of a stubborn child":                       {"stubborn", time.Minute, 800 * time.Millisecond, 2 * time.Second},
		"of a stubborn child when there is no time": {"stubborn", 100 * time.Millisecond, 100 * time.Millisecond, 700 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, childServer(t, tc.child), limits())
			o := callOn(t.Context(), c, "tools/call", `{"name":"x"}`)
			pids := []int{upstream.Pid(c)}
			if pid, err := strconv.Atoi(string(mcptest.Field([]byte(o.Result), "pid"))); err == nil {
				pids = append(pids, pid)
			}
			ctx, cancel := context.WithTimeout(t.Context(), tc.ctx)
			defer cancel()
			began := time.Now()
			if err := c.Close(ctx); err != nil {
				t.Error(err)
			}
			if d := time.Since(began); d < tc.atLeast || d > tc.atMost {
				t.Errorf("took %v", d)
			}
			for _, pid := range pids {
				if alive(pid) {
					t.Errorf("process %d lives", pid)
				}
			}
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", upstream.Pid(c))); err == nil {
				t.Error("the child is a zombie")
			}
		})
	}
}

// The child is gone although its grandchild holds its output and standard error; the
// grandchild goes too, without being asked for.
func TestAChildThatLeavesAGrandchildBehindIsLost(t *testing.T) {
	s := childServer(t, "deserter")
	began := time.Now()
	c := start(t, s, limits())
	<-c.Done()
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("took %v", d)
	}
	if !strings.Contains(c.Err().Error(), "exit status 0") {
		t.Error(c.Err())
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	said := upstream.Stderr(c)
	if pid, err := strconv.Atoi(said[0]); err != nil || alive(pid) {
		t.Errorf("the grandchild %q lives", said)
	}
}

func TestStartingAndStoppingLeaksNoFiles(t *testing.T) {
	s := childServer(t, "scripted")
	once := func(server *config.Server) {
		c, err := upstream.OpenStdio(t.Context(), server, &upstream.Options{Limits: limits()}, nil)
		if err != nil {
			return
		}
		callOn(t.Context(), c, "tools/call", `{"name":"x"}`)
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	once(s)
	before := openFiles(t)
	for range 50 {
		once(s)
		once(&config.Server{Name: "beta", Command: "/etc/passwd"})
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d open files, %d before", after, before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
