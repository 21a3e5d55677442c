//go:build linux

package harness

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const markEnv = "MCP_E2E_MARK"

// Process is a program under test or a peer of it.
type Process struct {
	Cmd  *exec.Cmd
	Done chan struct{} // closed when it has exited

	mark string
	log  *Log
	err  error // of Wait; read after Done
}

// starter starts all processes from one thread that never ends: the kernel ties
// the death signal of a child to the thread that made it.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// Start starts a process and stops it when the test ends. Its standard error,
// and its standard output unless that is taken, are kept as its log.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Cmd: cmd, Done: make(chan struct{}), mark: rand.Text(), log: &Log{}}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	// What outlives a run must not reach another test.
	cmd.Env = append(cmd.Env, markEnv+"="+p.mark, "XDG_STATE_HOME="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 2 * time.Second
	cmd.Stderr = p.log
	started := make(chan error)
	starter() <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		t.Fatalf("starting %s: %v", cmd, err)
	}
	go p.wait()
	t.Cleanup(func() { p.cleanUp(t) })
	return p
}

func (p *Process) wait() {
	p.err = p.Cmd.Wait()
	close(p.Done)
}

func (p *Process) cleanUp(t testing.TB) {
	if err := p.Stop(15 * time.Second); err != nil {
		t.Errorf("stopping %s: %v", filepath.Base(p.Cmd.Path), err)
	}
	if left := p.Leftovers(3 * time.Second); len(left) > 0 {
		t.Errorf("%s left processes behind: %s", filepath.Base(p.Cmd.Path), left)
		p.kill()
	}
	if t.Failed() {
		t.Logf("log of %s:\n%s", filepath.Base(p.Cmd.Path), p.log.Tail(6000))
	}
}

// Stop asks the process to end and kills it if it does not within d. Having
// ended by itself or by the signal is fine.
func (p *Process) Stop(d time.Duration) error {
	_ = p.Cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.Done:
		return nil
	case <-time.After(d):
	}
	_ = p.Cmd.Process.Kill()
	<-p.Done
	return fmt.Errorf("did not end within %s of SIGTERM", d)
}

// Wait waits for the process to end by itself and returns its exit code.
func (p *Process) Wait(d time.Duration) (int, error) {
	select {
	case <-p.Done:
		return p.Cmd.ProcessState.ExitCode(), nil
	case <-time.After(d):
		return -1, fmt.Errorf("still running after %s", d)
	}
}

// Alive reports whether the process has not exited.
func (p *Process) Alive() bool {
	select {
	case <-p.Done:
		return false
	default:
		return true
	}
}

// Log is what the process wrote so far.
func (p *Process) Log() string { return p.log.String() }

// Children lists the living descendants of the process, as "pid name".
func (p *Process) Children() []string {
	var found []string
	own := strconv.Itoa(p.Cmd.Process.Pid)
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		pid := filepath.Base(filepath.Dir(path))
		env, err := os.ReadFile(path)
		if err != nil || pid == own || !bytes.Contains(env, []byte(markEnv+"="+p.mark+"\x00")) {
			continue
		}
		name, _ := os.ReadFile(filepath.Join("/proc", pid, "comm"))
		found = append(found, pid+" "+strings.TrimSpace(string(name)))
	}
	return found
}

// Leftovers waits up to d for the descendants to end and lists those that did not.
func (p *Process) Leftovers(d time.Duration) (left []string) {
	Poll(d, 20*time.Millisecond, func() bool { left = p.Children(); return len(left) == 0 })
	return left
}

func (p *Process) kill() {
	for _, child := range p.Children() {
		pid, _, _ := strings.Cut(child, " ")
		if n, err := strconv.Atoi(pid); err == nil {
			_ = syscall.Kill(n, syscall.SIGKILL)
		}
	}
}

// AwaitListening waits until somebody accepts connections on addr.
func (p *Process) AwaitListening(t testing.TB, addr string, d time.Duration) {
	t.Helper()
	var err error
	Poll(d, 5*time.Millisecond, func() bool {
		var conn net.Conn
		if conn, err = net.DialTimeout("tcp", addr, time.Second); err == nil {
			conn.Close()
		}
		return err == nil || !p.Alive()
	})
	if err != nil {
		t.Fatalf("%s does not listen on %s: %v\n%s", p.Cmd, addr, err, p.log.Tail(4000))
	}
}

// Log keeps what is written to it, up to a bound.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

var _ io.Writer = (*Log)(nil)

func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.buf.Len() < 16<<20 {
		l.buf.Write(b)
	}
	return len(b), nil
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Tail returns the last n bytes.
func (l *Log) Tail(n int) string {
	s := l.String()
	return s[max(0, len(s)-n):]
}
