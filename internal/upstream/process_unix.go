//go:build unix

package upstream

import (
	"os"
	"syscall"
)

// groupLeader puts the child into a process group of its own, so that signals reach
// its descendants, and those that the terminal sends to us do not.
func groupLeader() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func (p *process) terminate() { _ = syscall.Kill(-p.pid(), syscall.SIGTERM) }

func (p *process) kill() { _ = syscall.Kill(-p.pid(), syscall.SIGKILL) }

// groupLives reports whether the process group has members. It must be called only
// after the child has been reaped: it reaps descendants that were handed to us,
// because we run as process 1 of a container, and must not reap the child itself.
func (p *process) groupLives() bool {
	for {
		pid, err := syscall.Wait4(-p.pid(), nil, syscall.WNOHANG, nil)
		if err == syscall.EINTR || pid > 0 {
			continue
		}
		return syscall.Kill(-p.pid(), 0) == nil && !onlyZombies(p.pid())
	}
}

// A pipeSink writes to the standard input of a child.
type pipeSink struct {
	file *os.File
	raw  syscall.RawConn

	// What attempt, made once, works on.
	attempt func(fd uintptr) bool
	b       []byte
	n       int
	err     error
}

func newPipeSink(f *os.File) *pipeSink {
	s := &pipeSink{file: f}
	s.raw, s.err = f.SyscallConn()
	s.attempt = func(fd uintptr) bool {
		for {
			s.n, s.err = syscall.Write(int(fd), s.b)
			if s.err != syscall.EINTR {
				return true
			}
		}
	}
	return s
}

func (s *pipeSink) joins() bool { return true }

func (s *pipeSink) write(b []byte) (int, error) { return s.file.Write(b) }

// tryWrite makes one attempt. The pipe is in non-blocking mode: a full one takes
// nothing, or what fits.
func (s *pipeSink) tryWrite(b []byte) (int, error) {
	if s.raw == nil {
		return 0, nil
	}
	s.b, s.n, s.err = b, 0, nil
	if err := s.raw.Write(s.attempt); err != nil {
		return 0, err
	}
	s.b = nil
	if s.err == syscall.EAGAIN {
		return 0, nil
	}
	return max(s.n, 0), s.err
}
