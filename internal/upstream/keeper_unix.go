//go:build unix

package upstream

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/signal"

	"strconv"
	"strings"
	"syscall"
	"time"
)

// canKeep says that there are process groups here, which a keeper could end.
const canKeep = true

// ownSessionLeader puts a process into a session of its own, where the signals of our
// terminal and of our group do not reach it.
func ownSessionLeader() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// How a keeper ends what is left, from the moment our end of the pipe is closed. The
// servers have seen the end of their input at the same moment.
const (
	keepInput = 500 * time.Millisecond // for those that end with their input, then SIGTERM
	keepTerm  = 300 * time.Millisecond // for those that end when they are told to, then SIGKILL
	keepPoll  = 10 * time.Millisecond  // between looks for what left its group
	keepLooks = 3                      // that must find nothing of that sort
	keepSweep = 10 * time.Second       // for the search of what left its group; longer only for the unkillable
)

// A watch is what a keeper knows.
type watch struct {
	tree    string         // name of the mark
	session int            // of the aggregator
	groups  map[int]string // process group → start time of its leader, "" if that is not known
}

// keep is the whole life of a keeper.
func keep() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP)
	closeInherited()
	nameProcess(keeperName)
	w := watch{groups: map[int]string{}}
	w.listen(os.Stdin)
	w.endAll()
}

// closeInherited closes what our parent's parents left open. Everything that this process
// has opened by itself, the runtime included, is closed on exec, and only what came through
// an exec is not.
func closeInherited() {
	names, err := os.ReadDir(descriptors)
	if err != nil {
		return
	}
	for _, n := range names {
		fd, err := strconv.Atoi(n.Name())
		if err != nil || fd <= 2 {
			continue
		}
		flags, _, failed := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
		if failed == 0 && flags&syscall.FD_CLOEXEC == 0 {
			_ = syscall.Close(fd)
		}
	}
}

// listen notes what the aggregator says until it is gone.
func (w *watch) listen(in io.Reader) {
	for r := bufio.NewReaderSize(in, 512); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		words := append(strings.Split(strings.TrimSuffix(line, "\n"), " "), "", "")
		n, _ := strconv.Atoi(words[1])
		switch words[0] {
		case sayTree:
			w.tree = words[1]
			w.session, _ = strconv.Atoi(words[2])
		case sayBegin:
			w.groups[n] = words[2]
		case sayEnd:
			delete(w.groups, n)
		}
	}
}

// endAll ends what the aggregator has left behind.
func (w *watch) endAll() {
	w.confirm()
	if !w.await(keepInput) {
		w.signal(syscall.SIGTERM)
		w.await(keepTerm)
	}
	w.signal(syscall.SIGKILL)
	w.sweep()
}

// signal sends a signal to all groups. The number 1 is no group of ours and would
// mean everybody.
func (w *watch) signal(s syscall.Signal) {
	for group := range w.groups {
		if group > 1 {
			_ = syscall.Kill(-group, s)
		}
	}
}

// await forgets the groups that are gone until there are none, or d has passed. The
// number of a group belongs to it as long as it has members, so one that is seen at
// every look is still the one that was confirmed.
func (w *watch) await(d time.Duration) bool {
	end := time.Now().Add(d)
	for poll := firstPoll; ; poll = min(2*poll, lastPoll) {
		w.forgetEmpty()
		left := time.Until(end)
		if len(w.groups) == 0 || left <= 0 {
			return len(w.groups) == 0
		}
		time.Sleep(min(poll, left))
	}
}

// groupExists reports whether a group has members, be they dead.
func groupExists(group int) bool {
	err := syscall.Kill(-group, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
