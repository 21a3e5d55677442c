package upstream_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
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
	children["patient"] = func() {
		mcptest.Stdio(func() *mcptest.Raw { return &mcptest.Raw{} })()
		select {}
	}
	children["family"] = serveFamily
	children["escaping"] = func() {
		fmt.Fprintln(os.Stderr, startGrandchildAs(&syscall.SysProcAttr{Setsid: true}))
		mcptest.Stdio(func() *mcptest.Raw { return &mcptest.Raw{} })()
	}
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

func startGrandchild() string { return startGrandchildAs(nil) }

func startGrandchildAs(attr *syscall.SysProcAttr) string {
	path, env, err := mcptest.Command("grandchild")
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(path)
	for k, v := range env {
		cmd.Env = append(os.Environ(), k+"="+v)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = os.Stdin, os.Stdout, os.Stderr, attr
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
	const soon, never = 400 * time.Millisecond, time.Hour
	for name, tc := range map[string]struct {
		child       string
		input, term time.Duration // StopInput and StopTerm
		ctx         time.Duration
		atLeast     time.Duration
	}{
		"of a child that ends with its input":            {"scripted", never, never, never, 0},
		"of a child with a stubborn grandchild":          {"family", soon, soon, never, 2 * soon},
		"of a stubborn child":                            {"stubborn", soon, soon, never, 2 * soon},
		"of a child that ends when it is told to":        {"patient", soon, never, never, soon},
		"of a stubborn child when there is no time":      {"stubborn", never, never, soon, soon},
		"of a stubborn grandchild when there is no time": {"family", never, never, soon, soon},
	} {
		t.Run(name, func(t *testing.T) {
			l := limits()
			l.StopInput, l.StopTerm = tc.input, tc.term
			c := start(t, childServer(t, tc.child), l)
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
			if d := time.Since(began); d < tc.atLeast || d > 20*time.Second {
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

// The child is gone although its grandchild holds its output and standard error.
func TestAChildThatLeavesAGrandchildBehindIsLost(t *testing.T) {
	l := limits()
	l.StopInput, l.StopTerm = time.Hour, time.Hour
	c := start(t, childServer(t, "deserter"), l)
	select {
	case <-c.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the loss is not noticed")
	}
	if !strings.Contains(c.Err().Error(), "exit status 0") {
		t.Error(c.Err())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
	said := strings.Join(upstream.Stderr(c), "")
	if pid, err := strconv.Atoi(said); err != nil || alive(pid) {
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
	broken := &config.Server{Name: "beta", Command: filepath.Join(t.TempDir(), "script")}
	if err := os.WriteFile(broken.Command, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	once(s)
	before := openFiles(t)
	for range 50 {
		once(s)
		once(broken)
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

func TestStoppingFindsAGrandchildOutsideTheGroup(t *testing.T) {
	c := start(t, childServer(t, "escaping"), limits())
	var pid int
	for pid == 0 {
		if t.Context().Err() != nil {
			t.Fatal("no grandchild")
		}
		if lines := upstream.Stderr(c); len(lines) > 0 {
			pid, _ = strconv.Atoi(lines[0])
		}
		runtime.Gosched()
	}
	if !alive(pid) {
		t.Fatal("the grandchild is not there")
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(5 * time.Second); alive(pid) && time.Now().Before(deadline); {
		runtime.Gosched() // killed, not yet gone
	}
	if alive(pid) {
		t.Errorf("grandchild %d is left", pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}
