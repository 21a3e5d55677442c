package upstream

import (
	"maps"
	"os"
	"strconv"
	"time"
)

// descriptors is the folder of the open descriptors of a process.
const descriptors = "/proc/self/fd"

// ownProgram is a path of this very program, even if its file has been replaced or
// removed meanwhile.
func ownProgram() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err == nil {
		return self, nil
	}
	return os.Executable()
}

// nameProcess sets the name that tools show, which is "exe" after a start by way of
// /proc/self/exe.
func nameProcess(name string) { _ = os.WriteFile("/proc/self/comm", []byte(name), 0) }

// startTime is when a process was started; "" if that is not known.
func startTime(pid int) string {
	p, _ := readStat(strconv.Itoa(pid))
	return p.started
}

// ownSession is the session we are in, 0 if that is not known.
func ownSession() int {
	p, _ := readStat("self")
	return p.session
}

// confirm forgets the groups whose number belongs to somebody else by now: their
// leader was started at another time or, where it has ended before its group, the
// group is in another session than ours, which a group cannot leave.
func (w *watch) confirm() {
	led := map[int]string{} // group → start time of its leader
	where := map[int]int{}  // group → session
	known := eachProcess(func(p procStat) {
		if where[p.group] = p.session; p.group == p.pid {
			led[p.group] = p.started
		}
	})
	if !known {
		return
	}
	maps.DeleteFunc(w.groups, func(group int, started string) bool {
		if now, ok := led[group]; ok {
			return started != "" && now != started
		}
		session, exists := where[group]
		return !exists || w.session > 0 && session != w.session
	})
}

// forgetEmpty forgets the groups that have no members but dead ones.
func (w *watch) forgetEmpty() {
	live, known := liveGroups()
	maps.DeleteFunc(w.groups, func(group int, _ string) bool {
		return known && !live[group] || !groupExists(group)
	})
}

// sweep kills what carries the mark of the aggregator, until several looks in a row find
// nothing: those killed may have started others meanwhile, and a process that is just
// about to run a program shows no environment for a moment.
func (w *watch) sweep() {
	if w.tree == "" {
		return
	}
	end := time.Now().Add(keepSweep)
	for clean := 0; time.Now().Before(end); time.Sleep(keepPoll) {
		if clean++; killMarked(w.tree+"=") > 0 {
			clean = 0
		}
		if clean == keepLooks {
			return
		}
	}
}
