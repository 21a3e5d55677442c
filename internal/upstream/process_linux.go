package upstream

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// onlyZombies reports whether all members of a process group are dead and merely
// not reaped: in many containers process 1 does not reap what it inherits.
func onlyZombies(group int) bool {
	live, ok := liveGroups()
	return ok && !live[group]
}

// liveGroups returns the process groups that have members which are not dead; false
// if that cannot be told.
func liveGroups() (map[int]bool, bool) {
	live := map[int]bool{}
	ok := eachProcess(func(p procStat) {
		if p.state != 'Z' && p.state != 'X' {
			live[p.group] = true
		}
	})
	return live, ok
}

// sweepRounds bounds the search for descendants that start others meanwhile.
const sweepRounds = 5

// sweep kills the descendants that left the process group: they still have the
// child's mark in their environment.
func (p *process) sweep() {
	for range sweepRounds {
		if killMarked(p.mark+"\x00") == 0 {
			return
		}
	}
}

// killMarked kills the processes whose environment has a variable that begins with
// mark, and returns how many it found. Those of other users cannot be read and are
// not ours; that of a zombie is empty.
func killMarked(mark string) (found int) {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, n := range names {
		pid, err := strconv.Atoi(n.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile("/proc/" + n.Name() + "/environ")
		if err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00"+mark)) {
			found++
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return found
}

// A procStat is what /proc/PID/stat says about a process (proc(5)).
type procStat struct {
	pid, group, session int

	state   byte
	started string // tells the process from a later one with its number
}

// readStat reads about one process, "self" or a number.
func readStat(pid string) (p procStat, ok bool) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return p, false // it has gone meanwhile
	}
	open, end := bytes.IndexByte(stat, ' '), bytes.LastIndexByte(stat, ')') // the name between can contain anything
	if open < 0 || end < open {
		return p, false
	}
	f := bytes.Fields(stat[end+1:])
	if len(f) < 20 {
		return p, false
	}
	p.pid, _ = strconv.Atoi(string(stat[:open]))
	p.group, _ = strconv.Atoi(string(f[2]))
	p.session, _ = strconv.Atoi(string(f[3]))
	p.state, p.started = f[0][0], string(f[19])
	return p, true
}

// eachProcess calls f for each process; false if they cannot be listed.
func eachProcess(f func(procStat)) bool {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	listed := false
	for _, n := range names {
		if n.Name()[0] < '0' || n.Name()[0] > '9' {
			continue
		}
		if p, ok := readStat(n.Name()); ok {
			listed = true
			f(p)
		}
	}
	return listed
}
