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
	names, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	for _, n := range names {
		if n.Name()[0] < '0' || n.Name()[0] > '9' {
			continue
		}
		stat, err := os.ReadFile("/proc/" + n.Name() + "/stat")
		if err != nil {
			continue // it has gone meanwhile
		}
		// pid (name) state parent group ...; the name can contain anything.
		rest := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(rest) > 2 && string(rest[2]) == strconv.Itoa(group) && rest[0][0] != 'Z' && rest[0][0] != 'X' {
			return false
		}
	}
	return true
}

// sweepRounds bounds the search for descendants that start others meanwhile.
const sweepRounds = 5

// sweep kills the descendants that left the process group: they still have the
// child's mark in their environment.
func (p *process) sweep() {
	for range sweepRounds {
		found := marked(p.mark)
		if len(found) == 0 {
			return
		}
		for _, pid := range found {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// marked returns the processes that have an assignment in their environment. Those
// of other users cannot be read and are not ours; that of a zombie is empty.
func marked(assignment string) []int {
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []int
	for _, n := range names {
		pid, err := strconv.Atoi(n.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile("/proc/" + n.Name() + "/environ")
		if err != nil {
			continue
		}
		if bytes.Contains(append([]byte{0}, env...), []byte("\x00"+assignment+"\x00")) {
			found = append(found, pid)
		}
	}
	return found
}
