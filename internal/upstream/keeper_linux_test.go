package upstream_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
)

func init() { children["aggregator"] = holdServers }

// holdServers is a program with servers of all sorts. It says when they have been
// started, and holds them until it is killed.
func holdServers() {
	for _, child := range []string{"scripted", "family", "stubborn", "escaping"} {
		path, env, err := mcptest.Command(child)
		if err != nil {
			panic(err)
		}
		s := &config.Server{Name: child, Command: path, Env: env}
		if _, err := upstream.OpenStdio(context.Background(), s, &upstream.Options{Limits: limits()}, nil); err != nil {
			panic(err)
		}
	}
	fmt.Println("started")
	select {}
}

const familyMark = "KEEPER_TEST_MARK"

// aggregator starts the program aggregator, waits until all its processes are there,
// and kills what is left of them in the end.
func aggregator(t *testing.T, files ...*os.File) (cmd *exec.Cmd, mark string, keeper int) {
	t.Helper()
	path, env, err := mcptest.Command("aggregator")
	if err != nil {
		t.Fatal(err)
	}
	mark = familyMark + "=" + rand.Text()
	cmd = exec.Command(path)
	cmd.Env, cmd.ExtraFiles, cmd.Stderr = append(os.Environ(), mark), files, os.Stderr
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, pid := range carrying(mark) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "started\n" {
		t.Fatalf("the program says %q, %v", line, err)
	}
	within(t, 20*time.Second, "all processes are there", func() bool {
		keepers := keepersOf(cmd.Process.Pid)
		if len(keepers) == 1 {
			keeper = keepers[0]
		}
		return len(carrying(mark)) == family && len(keepers) == 1 && ignores(keeper, syscall.SIGTERM)
	})
	return cmd, mark, keeper
}

// family is how many processes the program aggregator is: itself, its keeper, four
// servers and three grandchildren.
const family = 9

// ignores reports whether a process ignores a signal.
func ignores(pid int, s syscall.Signal) bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(b), "SigIgn:")
	line, _, _ := strings.Cut(after, "\n")
	set, _ := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	return set>>(s-1)&1 == 1
}

// carrying returns the living processes with an assignment in their environment.
func carrying(assignment string) []int {
	var found []int
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range paths {
		if env, err := os.ReadFile(path); err == nil && bytes.Contains(env, []byte(assignment+"\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			found = append(found, pid)
		}
	}
	return found
}

// keepersOf returns the living keepers of a process.
func keepersOf(pid int) []int {
	var found []int
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		if line, err := os.ReadFile(path); err == nil && string(line) == fmt.Sprintf("mcp-keeper\x00of\x00%d\x00", pid) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			found = append(found, pid)
		}
	}
	return found
}

func TestNothingOutlivesAKilledAggregator(t *testing.T) {
	cmd, mark, keeper := aggregator(t)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		_ = syscall.Kill(keeper, s) // it does not listen to those
	}
	_ = cmd.Process.Kill()
	within(t, 3*time.Second, "all processes have ended", func() bool { return len(carrying(mark)) == 0 })
}

// An aggregator behind another one, which looks for its processes by marks of its own.
func TestTheKeeperIsFoundByTheMarksOfOthers(t *testing.T) {
	_, mark, keeper := aggregator(t)
	if found := carrying(mark); !slices.Contains(found, keeper) {
		t.Errorf("the keeper %d is not among %v", keeper, found)
	}
}

func TestTheKeeperHoldsNothingOpen(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	_, _, keeper := aggregator(t, w)
	var open []string
	foreign := func() bool {
		open = nil
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", keeper))
		for _, link := range links {
			to, _ := os.Readlink(link)
			// 0 is the keeper's own pipe; the runtime looks at its cgroup.
			if filepath.Base(link) != "0" && to != "/dev/null" && !strings.HasPrefix(to, "anon_inode:[event") && !strings.HasPrefix(to, "/sys/fs/cgroup/") {
				open = append(open, filepath.Base(link)+" "+to)
			}
		}
		return len(open) > 0
	}
	for end := time.Now().Add(5 * time.Second); foreign(); runtime.Gosched() { // it has been started a moment ago
		if time.Now().After(end) {
			t.Fatalf("the keeper holds %v", open)
		}
	}
}

func TestAKeeperThatDiesIsReplaced(t *testing.T) {
	start(t, childServer(t, "scripted"), limits())
	var first []int
	within(t, 5*time.Second, "there is a keeper", func() bool { first = keepersOf(os.Getpid()); return len(first) == 1 })
	_ = syscall.Kill(first[0], syscall.SIGKILL)
	within(t, 5*time.Second, "there is another one", func() bool {
		now := keepersOf(os.Getpid())
		return len(now) == 1 && now[0] != first[0]
	})
}

func TestTheKeeperEndsWithTheLastServer(t *testing.T) {
	server := childServer(t, "scripted")
	server.Type, server.Enabled = config.TypeStdio, true
	set := upstream.New(options())
	set.Apply([]*config.Server{server})
	<-set.Settled()
	within(t, 5*time.Second, "there is a keeper", func() bool { return len(keepersOf(os.Getpid())) == 1 })
	if err := set.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if left := keepersOf(os.Getpid()); left != nil {
		t.Errorf("keepers are left: %v", left)
	}
}

// The number of a group can belong to somebody else by the time the keeper looks.
func TestTheKeeperKillsOnlyGroupsThatAreStillOurs(t *testing.T) {
	const ours, theirs = 0, 1 // session, start time: the real one, another one
	for name, tc := range map[string]struct {
		child            string
		session, started int
		killed           bool
	}{
		"a group of ours":                                      {"stubborn", theirs, ours, true},
		"a group with the number of one of ours":               {"stubborn", ours, theirs, false},
		"a group of ours whose leader has ended":               {"deserter", ours, theirs, true},
		"a group without a leader with the number of one ours": {"deserter", theirs, ours, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leader, member := startGroup(t, tc.child)
			cmd, tell, gone, err := upstream.NewKeeper()
			if err != nil {
				t.Fatal(err)
			}
			tell("tree", "KEEPER_TEST_NO_SUCH_MARK", strconv.Itoa(leader+tc.session))
			tell("begin", strconv.Itoa(leader), strconv.Itoa(startedAt(leader)+tc.started))
			_ = gone()
			if err := cmd.Wait(); err != nil {
				t.Errorf("the keeper ended with %v", err)
			}
			if tc.killed {
				within(t, 5*time.Second, "the group has ended", func() bool { return !alive(member) })
			} else if !alive(member) {
				t.Error("the group was killed")
			}
		})
	}
}

// startGroup starts a child with a grandchild in a session of their own.
func startGroup(t *testing.T, child string) (leader, member int) {
	t.Helper()
	path, env, err := mcptest.Command(child)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	cmd.Env = os.Environ()
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	leader = cmd.Process.Pid
	t.Cleanup(func() {
		_ = syscall.Kill(-leader, syscall.SIGKILL)
		for _, f := range []*os.File{r, w, in, out} {
			_ = f.Close()
		}
		_ = cmd.Wait()
	})
	if child == "deserter" { // says the number of the grandchild, and ends
		line, _ := bufio.NewReader(r).ReadString('\n')
		member, _ = strconv.Atoi(strings.TrimSpace(line))
		_ = cmd.Wait()
		return leader, member
	}
	within(t, 10*time.Second, "the grandchild is there", func() bool { return len(membersOf(leader)) == 2 })
	return leader, leader
}

// membersOf returns the living members of a process group.
func membersOf(group int) []int {
	var found []int
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		b, _ := os.ReadFile(path)
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path))); len(f) > 2 && f[2] == strconv.Itoa(group) && alive(pid) {
			found = append(found, pid)
		}
	}
	return found
}

// startedAt is the start time of a process in ticks, 0 if it has ended.
func startedAt(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	ticks, _ := strconv.Atoi(strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))[19])
	return ticks
}
