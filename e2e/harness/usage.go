//go:build linux

package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Usage is what a process uses at one moment.
type Usage struct {
	RSS  int64 // resident memory, bytes
	Peak int64 // highest RSS since ResetPeak
	FDs  int
	CPU  time.Duration // used so far
}

const mega = 1 << 20

func (u Usage) String() string {
	return fmt.Sprintf("%d MB (peak %d MB), %d fds, %s of CPU", u.RSS/mega, u.Peak/mega, u.FDs, u.CPU)
}

// Usage reads what the process uses from /proc.
func (p *Process) Usage(t testing.TB) Usage {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(p.Cmd.Process.Pid))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		t.Fatalf("reading the usage of %s: %v", p.Cmd.Path, err)
	}
	fds, _ := os.ReadDir(filepath.Join(dir, "fd"))
	u := Usage{FDs: len(fds)}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			u.RSS = kb << 10
		case "VmHWM":
			u.Peak = kb << 10
		}
	}
	stat := statOf(p.Cmd.Process.Pid)
	if len(stat) > 12 {
		user, _ := strconv.ParseInt(stat[11], 10, 64)
		system, _ := strconv.ParseInt(stat[12], 10, 64)
		u.CPU = time.Duration(user+system) * 10 * time.Millisecond // the kernel counts in 1/100 s
	}
	return u
}

// ResetPeak makes the present memory of the process its highest.
func (p *Process) ResetPeak(t testing.TB) {
	t.Helper()
	path := filepath.Join("/proc", strconv.Itoa(p.Cmd.Process.Pid), "clear_refs")
	if err := os.WriteFile(path, []byte("5"), 0o200); err != nil {
		t.Fatal(err)
	}
}

// statOf returns the fields of /proc/pid/stat behind the name: state, parent, …
func statOf(pid int) []string {
	b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
}

// Zombies lists the children of the process that have ended and were not reaped.
func (p *Process) Zombies() []string {
	var found []string
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		pid := filepath.Base(filepath.Dir(path))
		n, _ := strconv.Atoi(pid)
		if f := statOf(n); len(f) > 1 && f[0] == "Z" && f[1] == strconv.Itoa(p.Cmd.Process.Pid) {
			found = append(found, pid)
		}
	}
	return found
}

// Running reports whether a process exists and is no zombie.
func Running(pid int) bool {
	f := statOf(pid)
	return len(f) > 0 && f[0] != "Z" && f[0] != "X"
}
