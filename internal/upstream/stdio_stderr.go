package upstream

import (
	"bytes"
	"os"
	"strings"
	"sync"
)

// maxStderrLines bounds what lines returns.
const maxStderrLines = 200

// A stderrTail keeps the last part of what a process writes to its standard error.
// It reads as fast as the process writes, so the process is never blocked. What a
// process writes when it dies becomes part of errors that clients and logs see:
// the secrets of its configuration are taken out here, where the text comes in.
type stderrTail struct {
	from    *os.File
	max     int
	secrets *strings.Replacer // takes them out; nil if there are none
	done    chan struct{}     // closed when reading has ended

	mu   sync.Mutex // guards kept
	kept []byte     // up to twice max, so that most writes need no copying
}

func newStderrTail(from *os.File, max int, secrets *strings.Replacer) *stderrTail {
	return &stderrTail{from: from, max: max, secrets: secrets, done: make(chan struct{})}
}

// read is the goroutine; it ends when all writers have closed the pipe, or when a
// deadline cuts them off.
func (t *stderrTail) read() {
	defer close(t.done)
	defer t.from.Close()
	buf := make([]byte, 4<<10)
	for {
		n, err := t.from.Read(buf)
		t.add(buf[:n])
		if err != nil {
			return
		}
		if n == len(buf) && n < fullReadBuffer {
			buf = make([]byte, 2*n)
		}
	}
}

func (t *stderrTail) add(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b = b[max(0, len(b)-t.max):]
	if over := len(t.kept) + len(b) - t.max; over > t.max {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	t.kept = append(t.kept, b...)
}

// lines returns the last lines, oldest first.
func (t *stderrTail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := bytes.ToValidUTF8(t.kept[max(0, len(t.kept)-t.max):], []byte("?"))
	var lines []string
	text := string(last)
	if t.secrets != nil {
		text = t.secrets.Replace(text)
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			lines = append(lines, line)
		}
	}
	return lines[max(0, len(lines)-maxStderrLines):]
}
