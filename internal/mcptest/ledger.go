package mcptest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// A Ledger is the path of a file in which servers note what they did. It outlives
// them, so a test can prove that something was executed, and how often, after the
// server that did it has died. Notes of several processes do not mix.
type Ledger string

// A Note is one line of a ledger.
type Note struct {
	At    time.Time
	PID   int
	Event string
}

// Add notes an event. An event is one line.
func (l Ledger) Add(event string) {
	if l == "" {
		return
	}
	f, err := os.OpenFile(string(l), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, "ledger:", err)
		return
	}
	defer f.Close()
	// One write: the kernel does not interleave those of files opened to append.
	_, _ = f.WriteString(fmt.Sprintf("%d %d %s\n", time.Now().UnixNano(), os.Getpid(), event))
}

// Notes returns the notes of one event, all of them for "".
func (l Ledger) Notes(event string) []Note {
	text, _ := os.ReadFile(string(l))
	var notes []Note
	for line := range strings.Lines(string(text)) {
		at, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		pid, what, _ := strings.Cut(rest, " ")
		var ns int64
		var n Note
		if _, err := fmt.Sscan(at+" "+pid, &ns, &n.PID); err != nil || event != "" && what != event {
			continue
		}
		n.At, n.Event = time.Unix(0, ns), what
		notes = append(notes, n)
	}
	return notes
}

// Count returns how often an event was noted.
func (l Ledger) Count(event string) int { return len(l.Notes(event)) }

// PIDs returns the processes that noted the event, each once, in order.
func (l Ledger) PIDs(event string) []int {
	var pids []int
	for _, n := range l.Notes(event) {
		if !slices.Contains(pids, n.PID) {
			pids = append(pids, n.PID)
		}
	}
	return pids
}

// Ail makes the tools ail and ail2 of every chaos server with this ledger fail, or
// work again.
func (l Ledger) Ail(ailing bool) error {
	if ailing {
		return os.WriteFile(string(l)+".ailing", nil, 0o600)
	}
	return os.Remove(string(l) + ".ailing")
}

func (l Ledger) ailing() bool {
	_, err := os.Stat(string(l) + ".ailing")
	return err == nil
}
