package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// A proc is a part of the bench that runs beside it.
type proc struct {
	cmd *exec.Cmd
	url string
	in  io.WriteCloser
	out *bufio.Reader
}

// role starts this binary again in one of its roles and waits for its URL.
func (b *bench) role(name string, args ...string) (*proc, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p, err := b.start(self, append([]string{name}, args...)...)
	if err != nil {
		return nil, err
	}
	line, err := p.out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p.url = strings.TrimSpace(line)
	return p, nil
}

// start runs a command whose standard streams are pipes.
func (b *bench) start(bin string, args ...string) (*proc, error) {
	p := &proc{cmd: exec.Command(bin, args...)}
	p.cmd.Stderr = b.stderr()
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out = in, bufio.NewReaderSize(out, 256<<10)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	b.procs = append(b.procs, p)
	return p, nil
}

func (b *bench) stderr() io.Writer {
	if os.Getenv("BENCH_VERBOSE") != "" {
		return os.Stderr
	}
	return nil
}

// stop ends everything that was started.
func (b *bench) stop() {
	for _, p := range b.procs {
		p.end()
	}
	b.procs = nil
}

func (p *proc) end() {
	p.in.Close()
	p.cmd.Process.Signal(os.Interrupt)
	done := make(chan struct{})
	go func() {
		p.cmd.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		p.cmd.Process.Kill()
		<-done
	}
}

// cpu is the processor time the process has used so far, in the kernel's ticks of
// 10 ms.
func (p *proc) cpu() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+2:]))
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// rss is the resident memory of the process in bytes.
func (p *proc) rss() int {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.Atoi(strings.Fields(rest)[0])
			return kb << 10
		}
	}
	return 0
}
