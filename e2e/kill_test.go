//go:build e2e && linux

package e2e_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

func init() {
	children["clan"] = serveClan
	children["heir"] = func() {
		ignoreTermination()
		signal.Ignore(syscall.SIGHUP)
		select {}
	}
	children["mortal"] = mcptest.Stdio(func() *mcptest.Raw {
		return &mcptest.Raw{Tools: []string{echoTool}, Answer: func(q *mcptest.Request) *mcptest.Answer {
			if q.Method == "tools/call" {
				os.Exit(7)
			}
			return nil
		}}
	})
}

// serveClan is a server that ignores the end of its input and SIGTERM, and has
// children that do the same: one beside it, one in a session of its own. They hold
// all its pipes.
func serveClan() {
	path, env, err := mcptest.Command("heir")
	if err != nil {
		panic(err)
	}
	for _, own := range []bool{false, true} {
		cmd := exec.Command(path)
		cmd.Env = os.Environ()
		for k, v := range env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: own}
		if err := cmd.Start(); err != nil {
			panic(err)
		}
	}
	serveStubbornly()
}

// clans are two servers that behave well and two that have families and do not: eight
// processes.
func clans(t *testing.T) harness.Config {
	return harness.Servers(map[string]harness.Config{
		"good": harness.Child(t, "echo"), "well": harness.Child(t, "lively legacy"),
		"bad": harness.Child(t, "clan"), "evil": harness.Child(t, "clan"),
	})
}

const clanTools, clanProcesses = 3 + 5, 2 + 2*3 // echo thrice and what lively has; two alone and two of three

// servers are the processes behind an aggregator, keepers left out.
func serversOf(p *harness.Process) []string {
	return slices.DeleteFunc(p.Children(), func(child string) bool {
		pid, _, _ := strings.Cut(child, " ")
		line, err := os.ReadFile("/proc/" + pid + "/cmdline")
		return err != nil || strings.HasPrefix(string(line), "mcp-keeper\x00")
	})
}

// awaitProcesses waits until that many processes run behind an aggregator.
func awaitProcesses(t *testing.T, p *harness.Process, n int) {
	t.Helper()
	harness.Eventually(t, 10*time.Second, fmt.Sprintf("%d servers run, not %s", n, serversOf(p)), func() bool { return len(serversOf(p)) == n })
}

func TestKillLeavesNothingOfStubbornFamilies(t *testing.T) {
	var least, most time.Duration
	for i := range 20 {
		a := harness.Serve(t, clans(t))
		awaitTools(t, a.Connect(t, mcptest.Legacy), clanTools)
		awaitProcesses(t, a.Process, clanProcesses)
		began := time.Now()
		_ = a.Cmd.Process.Kill()
		<-a.Done
		if left := a.Leftovers(3 * time.Second); len(left) > 0 {
			t.Fatalf("round %d: 3 s after SIGKILL these still run: %s", i, left)
		}
		took := time.Since(began)
		if most = max(most, took); least == 0 || took < least {
			least = took
		}
	}
	t.Logf("nothing is left after %v to %v", least.Round(time.Millisecond), most.Round(time.Millisecond))
}

// An aggregator that is killed at any moment of its start, and just when its first
// server is there.
func TestKillDuringTheStartLeavesNothing(t *testing.T) {
	path := clans(t).Write(t)
	serve := func() *harness.Process {
		return harness.Start(t, exec.Command(harness.Binary(t), "serve", "--config", path, "--http", harness.FreeAddr(t)))
	}
	var takes time.Duration // to the first server
	var after []int         // servers at the moment of the kill
	for i := range 12 {
		start := time.Now()
		p := serve()
		if i%2 == 0 {
			seen := func() bool { return len(serversOf(p)) > 0 }
			for end := start.Add(10 * time.Second); !seen(); runtime.Gosched() {
				if time.Now().After(end) {
					t.Fatalf("no server runs\n%s", p.Log())
				}
			}
			takes = time.Since(start)
		} else {
			<-time.After(rand.N(takes * 3 / 2))
		}
		_ = p.Cmd.Process.Kill()
		after = append(after, len(serversOf(p)))
		<-p.Done
		if left := p.Leftovers(3 * time.Second); len(left) > 0 {
			t.Errorf("round %d: 3 s after SIGKILL these still run: %s", i, left)
		}
	}
	t.Logf("the first server was there after %v; servers at the kill: %v", takes.Round(time.Millisecond), after)
}

// The inner aggregator is a server of the outer one. Whichever is killed, what is
// behind it ends.
func TestKillOfAnAggregatorBehindAnother(t *testing.T) {
	inner := harness.Config{"command": harness.Binary(t), "args": []string{"serve", "--stdio", "--config", clans(t).Write(t)}}
	for _, victim := range []string{"outer", "inner"} {
		t.Run(victim, func(t *testing.T) {
			a := harness.Serve(t, harness.Servers(map[string]harness.Config{"inner": inner}))
			awaitTools(t, a.Connect(t, mcptest.Legacy), clanTools)
			before := serversOf(a.Process)
			if victim == "outer" {
				_ = a.Cmd.Process.Kill()
				<-a.Done
				if left := a.Leftovers(3 * time.Second); len(left) > 0 {
					t.Errorf("3 s after SIGKILL these still run: %s", left)
				}
				return
			}
			for _, child := range before {
				if pid, name, _ := strings.Cut(child, " "); name == "mcp-aggregator" {
					_ = syscall.Kill(atoi(t, pid), syscall.SIGKILL)
				}
			}
			harness.Eventually(t, 5*time.Second, "what was behind the inner one ends", func() bool {
				return !shareMember(before, serversOf(a.Process))
			})
		})
	}
}

func TestSIGTERMEndsStubbornFamilies(t *testing.T) {
	a := harness.Serve(t, clans(t))
	awaitTools(t, a.Connect(t, mcptest.Legacy), clanTools)
	if err := a.Stop(15 * time.Second); err != nil {
		t.Error(err)
	}
	if code := a.Cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d, want 0\n%s", code, a.Log())
	}
	if left := a.Leftovers(0); len(left) > 0 {
		t.Errorf("still running: %s", left)
	}
}

func TestCrashesInTheMiddleOfCallsLeakNothing(t *testing.T) {
	const servers, rounds = 10, 2
	config := map[string]harness.Config{}
	for i := range servers {
		config[fmt.Sprint("m", i)] = harness.Child(t, "mortal")
	}
	a := harness.Serve(t, harness.Servers(config))
	c := a.Connect(t, mcptest.Legacy)
	awaitTools(t, c, servers)
	awaitProcesses(t, a.Process, servers)
	files := openFiles(t, a.Process)
	for range rounds {
		before := serversOf(a.Process)
		for i := range servers {
			began := time.Now()
			x, err := c.Call(harness.Context(t, 10*time.Second), "tools/call", fmt.Sprintf(`{"name":"m%d__echo","arguments":{}}`, i))
			if err != nil {
				t.Fatalf("the call that kills m%d: %v", i, err)
			}
			if !strings.Contains(string(x.Raw), "lost") && !strings.Contains(string(x.Raw), "may have been executed") {
				t.Errorf("the call that kills m%d is answered with %s", i, show(x))
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("the call that kills m%d took %v", i, took)
			}
		}
		harness.Eventually(t, 10*time.Second, "all servers are back", func() bool {
			now := serversOf(a.Process)
			return len(now) == servers && !shareMember(before, now)
		})
	}
	if dead := zombiesOf(a.Cmd.Process.Pid); len(dead) > 0 {
		t.Errorf("zombies: %s", dead)
	}
	harness.Eventually(t, 5*time.Second, fmt.Sprintf("no more than %d files are open", files+5), func() bool { return openFiles(t, a.Process) <= files+5 })
}

// openFiles counts the open descriptors of a process.
func openFiles(t *testing.T, p *harness.Process) int {
	t.Helper()
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// zombiesOf lists the children of a process that it has not reaped.
func zombiesOf(parent int) []string {
	var found []string
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		b, _ := os.ReadFile(path)
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(f) > 1 && f[0] == "Z" && f[1] == fmt.Sprint(parent) {
			found = append(found, string(b[:bytes.LastIndexByte(b, ')')+1]))
		}
	}
	return found
}

func shareMember(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool { return slices.Contains(b, x) })
}

func atoi(t testing.TB, s string) (n int) {
	t.Helper()
	if _, err := fmt.Sscan(s, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
