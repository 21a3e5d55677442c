package upstream

import (
	"bytes"
	"os"
	"strconv"
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
