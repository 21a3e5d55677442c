//go:build !unix

package upstream

import (
	"os"
	"syscall"
)

// Elsewhere only the child itself is ended, not its descendants.

func groupLeader() *syscall.SysProcAttr { return nil }

// terminate does nothing: there is no signal that asks a process to end.
func (p *process) terminate() {}

func (p *process) kill() { _ = p.cmd.Process.Kill() }

func (p *process) groupLives() bool { return false }

// A pipeSink writes to the standard input of a child.
type pipeSink struct{ file *os.File }

func newPipeSink(f *os.File) *pipeSink { return &pipeSink{f} }

func (s *pipeSink) joins() bool { return true }

func (s *pipeSink) write(b []byte) (int, error) { return s.file.Write(b) }

// tryWrite takes nothing: pipes cannot be written here without blocking.
func (s *pipeSink) tryWrite([]byte) (int, error) { return 0, nil }

// sweep does nothing: what left the process group cannot be found here.
func (p *process) sweep() {}
