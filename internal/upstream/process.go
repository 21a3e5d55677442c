package upstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
)

// Waits that need no setting: all of them are over at once unless something odd
// happens.
const (
	outputGrace = time.Second            // for output that others hold open after the child has ended
	exitGrace   = 500 * time.Millisecond // for the end of a child that has closed its output
	killGrace   = 5 * time.Second        // for the kernel to end a killed process

	firstPoll = 5 * time.Millisecond  // between looks whether a process group is empty,
	lastPoll  = 80 * time.Millisecond // growing from the first to the last
)

// A process is a child process with everything that belongs to it: its process
// group, its pipes, and the goroutines that read its standard error, reap it, and
// end what is left of it.
//
// The child gets pipes of ours, not those of package exec, so that reaping it never
// waits for a grandchild that holds one of them open.
type process struct {
	cmd    *exec.Cmd
	mark   string // in the environment of the child and its descendants
	stdin  *os.File
	stdout *os.File
	stderr *stderrTail

	stopInput, stopTerm time.Duration

	exited   chan struct{} // closed when the child has been reaped
	stopping chan struct{} // closed to end it in an orderly way
	hurried  chan struct{} // closed to end it now
	gone     chan struct{} // closed when nothing is left

	stopOnce, hurryOnce sync.Once
	why                 error       // why it was asked to stop, written before stopping is closed
	forced              atomic.Bool // it did not end by itself
}

// startProcess starts the server's command.
func startProcess(s *config.Server, o *Options) (*process, error) {
	cmd, err := command(s)
	if err != nil {
		return nil, err
	}
	p := &process{
		cmd:       cmd,
		mark:      newMark(),
		stopInput: o.Limits.StopInput,
		stopTerm:  o.Limits.StopTerm,
		exited:    make(chan struct{}),
		stopping:  make(chan struct{}),
		hurried:   make(chan struct{}),
		gone:      make(chan struct{}),
	}
	cmd.Env = append(cmd.Env, p.mark)
	theKeeper.prepare(o.log())
	errOut, err := p.start()
	if err != nil {
		theKeeper.forgo()
		return nil, fault.Of(fault.Unreachable, s.Name, "command %q cannot be started: %w", s.Command, err)
	}
	theKeeper.begin(p.pid())
	p.stderr = newStderrTail(errOut, o.Limits.Stderr, secretsOf(s))
	go p.stderr.read()
	go p.reap()
	go p.supervise()
	return p, nil
}

// start makes the pipes and starts the child; it returns our end of its standard error.
func (p *process) start() (errOut *os.File, err error) {
	var ours, theirs [3]*os.File
	defer func() {
		closeFiles(theirs[:])
		if err != nil {
			closeFiles(ours[:])
		}
	}()
	for i := range ours {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		if ours[i], theirs[i] = r, w; i == 0 {
			ours[i], theirs[i] = w, r
		}
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirs[0], theirs[1], theirs[2]
	p.stdin, p.stdout = ours[0], ours[1]
	return ours[2], p.cmd.Start()
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// reap waits for the child alone. What it has written is still read after its end;
// only where a grandchild holds the pipes that has to be cut off.
func (p *process) reap() {
	_ = p.cmd.Wait() // its outcome is in cmd.ProcessState
	p.cutOutput(time.Now().Add(outputGrace))
	close(p.exited)
}

// requestStop begins the orderly end; why is shown if nothing better is known.
func (p *process) requestStop(why error) {
	p.stopOnce.Do(func() {
		p.why = why
		close(p.stopping)
	})
}

// stop ends the process and waits until nothing is left of it. When ctx ends it is
// killed.
func (p *process) stop(ctx context.Context) error {
	p.requestStop(errClosed)
	select {
	case <-p.gone:
	case <-ctx.Done():
		p.hurryOnce.Do(func() { close(p.hurried) })
		<-p.gone
	}
	if !p.ended() {
		return fmt.Errorf("process %d did not end although it was killed", p.pid())
	}
	return nil
}

// ended reports whether the child has been reaped.
func (p *process) ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// supervise sees to it that nothing is left: it waits until the child has ended or
// is to be stopped, closes its input, and after the times allowed ends the process
// group, first politely. The group counts even if the child itself ended long ago.
// Last it kills what left the group.
//
// Our ends of the output pipes belong to their readers, who close them.
func (p *process) supervise() {
	defer close(p.gone)
	select {
	case <-p.exited:
	case <-p.stopping:
	}
	_ = p.stdin.Close()
	if !p.await(p.stopInput, p.hurried) {
		p.forced.Store(!p.ended())
		p.terminate()
		if !p.await(p.stopTerm, p.hurried) {
			p.kill()
			p.await(killGrace, nil)
		}
	}
	p.sweep()
	if p.ended() && !p.groupLives() {
		theKeeper.end(p.pid())
	}
	if !p.ended() || p.closed() {
		p.cutOutput(time.Now())
	}
	<-p.stderr.done
}

// closed reports whether the end is our own wish. Then nobody wants to hear the last
// words, and an escaped descendant that holds the pipes must not delay us; otherwise
// the readers see the end by themselves, after these words.
func (p *process) closed() bool {
	select {
	case <-p.stopping:
		return p.why == errClosed
	default:
		return false
	}
}

// cutOutput ends the reading of the child's output at a time.
func (p *process) cutOutput(at time.Time) {
	_ = p.stdout.SetReadDeadline(at)
	_ = p.stderr.from.SetReadDeadline(at)
}

// await waits until the child has been reaped and its group is empty. It returns
// false when d has passed or hurried is closed before.
func (p *process) await(d time.Duration, hurried <-chan struct{}) bool {
	limit := time.NewTimer(d)
	defer limit.Stop()
	select {
	case <-p.exited:
	case <-limit.C:
		return false
	case <-hurried:
		return false
	}
	for poll := firstPoll; p.groupLives(); poll = min(2*poll, lastPoll) {
		select {
		case <-time.After(poll):
		case <-limit.C:
			return false
		case <-hurried:
			return false
		}
	}
	return true
}

// cause says why the output of the child ended.
func (p *process) cause() error {
	select {
	case <-p.exited:
	case <-time.After(exitGrace):
		return errOutputClosed
	}
	<-p.stderr.done
	if p.forced.Load() { // then why has been written
		return fmt.Errorf("%w, and had to be ended%s", p.why, p.lastWords())
	}
	return fmt.Errorf("the process ended with %v%s", p.cmd.ProcessState, p.lastWords())
}

// lastWords is the last line of the child's standard error as part of a sentence.
func (p *process) lastWords() string {
	if lines := p.stderr.lines(); len(lines) > 0 {
		return "; its last line on standard error: " + printable([]byte(lines[len(lines)-1]))
	}
	return ""
}

var (
	errInputClosed  = errors.New("the process closed its standard input")
	errOutputClosed = errors.New("the process closed its standard output")
)
