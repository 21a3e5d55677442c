package upstream

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A keeper is a small process of this program, beside the one that serves. It holds the end of a
// pipe whose other end only we have, and does nothing until we are gone, however
// that happens: then it ends the process groups that we have told it of, and
// after them everything that carries our mark (treeMark).
//
// The kernel's own means, PR_SET_PDEATHSIG, was rejected. It strikes at the moment of
// our death, so that a server that is writing its data has no chance to end with its
// input; it follows the thread that started the child and not the process; and it
// reaches no grandchildren.
//
// Concurrency: prepare, begin, forgo and end note what the keeper should know, under
// mu; the goroutine run, which exists from the first prepare to rest, is the only one
// that writes to it, and replaces it when it dies.
type keeper struct {
	launch func(first []byte) (*exec.Cmd, *os.File, error) // startKeeper
	wake   chan struct{}                                   // buffered 1: there is news

	mu       sync.Mutex
	starting int            // children between prepare and begin or forgo
	groups   map[int]string // process group → start time of its leader
	news     []byte         // lines that the keeper has not been sent
	ready    chan struct{}  // closed by run when its first keeper has been started, or has failed
	due      time.Time      // when that is waited for no longer
	stop     chan struct{}  // closed to end run; nil while there is none
	done     chan struct{}  // closed by run
}

// theKeeper is the only one: the mark it looks for is that of the process.
var theKeeper = newKeeper(startKeeper)

func newKeeper(launch func(first []byte) (*exec.Cmd, *os.File, error)) *keeper {
	return &keeper{launch: launch, wake: make(chan struct{}, 1), groups: map[int]string{}}
}

// keeperName and keeperOf begin the command line of a keeper, the process id of whom
// it serves ends it. The name must have nothing in common with ours: who kills all
// processes of that name should not hit the keeper, too.
const keeperName, keeperOf = "mcp-keeper", "of"

// The lines of the pipe: a word, then what it is about.
const (
	sayTree  = "tree"  // name of the mark, session of the aggregator
	sayBegin = "begin" // process group, start time of its leader
	sayEnd   = "end"   // process group
)

// keeperArmed says that this program becomes a keeper when it is started as one.
var keeperArmed atomic.Bool

// RunKeeper must be the first thing that main does. In a process that was started to
// be a keeper it does not return. A program that never calls it has no keeper: it
// would not know what it was started for, and do the same as its parent again.
func RunKeeper() {
	if len(os.Args) == 3 && os.Args[0] == keeperName && os.Args[1] == keeperOf {
		keep()
		os.Exit(0)
	}
	keeperArmed.Store(true)
}

// keeperStart is how long children wait for the start of the keeper, which takes 2 ms.
// Only one that hangs, not one that fails, makes them wait so long, and then once: servers
// without a keeper are better than none. Where processors are short it takes longer, but
// then most often the keeper has been forked, and knows the mark when it gets to run.
const keeperStart = 100 * time.Millisecond

// prepare must come before the start of a child, and begin or forgo after it. From then
// on there is a keeper that knows our mark and so finds the child, even if we are killed
// before it has been told of the group. Only the first keeper is waited for, not one
// that replaces another.
func (k *keeper) prepare(log *slog.Logger) {
	if !keeps() {
		return
	}
	k.mu.Lock()
	k.starting++
	if k.stop == nil {
		before := k.done
		k.ready, k.stop, k.done = make(chan struct{}), make(chan struct{}), make(chan struct{})
		k.due = time.Now().Add(keeperStart)
		go k.run(before, k.ready, k.stop, k.done, log)
	}
	ready, due := k.ready, k.due
	k.mu.Unlock()
	limit := time.NewTimer(time.Until(due))
	defer limit.Stop()
	select {
	case <-ready:
	case <-limit.C:
	}
}

// keeps reports whether there can be a keeper.
func keeps() bool { return canKeep && keeperArmed.Load() }

// begin hands the process group of a child to the keeper. It must be called before the
// leader of the group is reaped, and does not wait.
func (k *keeper) begin(group int) {
	if !keeps() {
		return
	}
	started := startTime(group)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.starting--
	k.groups[group] = started
	k.tellLocked(sayBegin, strconv.Itoa(group), started)
}

// forgo says that a child could not be started.
func (k *keeper) forgo() {
	if !keeps() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.starting--
}

// end takes a group back that has no members any more.
func (k *keeper) end(group int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.groups[group]; known {
		delete(k.groups, group)
		k.tellLocked(sayEnd, strconv.Itoa(group))
	}
}

// rest ends the keeper if there is nothing left to be kept, and waits for its end.
func (k *keeper) rest() {
	k.mu.Lock()
	if k.stop == nil || k.starting+len(k.groups) > 0 {
		k.mu.Unlock()
		return
	}
	done := k.done
	close(k.stop)
	k.stop = nil
	k.mu.Unlock()
	<-done
}

func (k *keeper) tellLocked(words ...string) {
	k.news = keeperLine(k.news, words...)
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func keeperLine(b []byte, words ...string) []byte {
	for i, w := range words {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(b, w...)
	}
	return append(b, '\n')
}

// recite replaces the news by everything that has happened before a keeper was started.
func (k *keeper) recite() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.news = nil
	for group, started := range k.groups {
		k.tellLocked(sayBegin, strconv.Itoa(group), started)
	}
}

// take returns the news and leaves none.
func (k *keeper) take() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	b := k.news
	k.news = nil
	return b
}

// run sees to it that there is a keeper until stop is closed. Before is closed when the
// goroutine before it has ended; nil if there was none.
func (k *keeper) run(before <-chan struct{}, ready chan<- struct{}, stop <-chan struct{}, done chan<- struct{}, log *slog.Logger) {
	defer close(done)
	if before != nil {
		<-before
	}
	announce := sync.OnceFunc(func() { close(ready) })
	for wait := (backoff{}); ; {
		began := time.Now()
		err := k.serve(stop, announce)
		if err == nil {
			return
		}
		announce()
		k.take() // the next one is told everything
		wait.lost(time.Since(began))
		delay := wait.next(err)
		log.Warn("the keeper, which ends the servers should this program be killed, is missing",
			"err", err, "next", delay.Round(time.Millisecond))
		select {
		case <-time.After(delay):
		case <-stop:
			return
		}
	}
}

// keeperPatience is how long the keeper may take to read what it is told.
const keeperPatience = 2 * time.Second

// serve starts one keeper and tells it the news until stop is closed. It calls announce
// when there is one. The error says why it is no longer of use.
func (k *keeper) serve(stop <-chan struct{}, announce func()) error {
	cmd, pipe, err := k.launch(keeperLine(nil, sayTree, treeMark(), strconv.Itoa(ownSession())))
	if err != nil {
		return fmt.Errorf("starting it: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	announce()
	k.recite()
	for {
		select {
		case <-k.wake:
			_ = pipe.SetWriteDeadline(time.Now().Add(keeperPatience))
			if _, err := pipe.Write(k.take()); err != nil {
				dismiss(cmd, pipe, ended)
				return fmt.Errorf("telling it: %w", err)
			}
		case <-ended:
			_ = pipe.Close()
			return fmt.Errorf("it ended with %v", cmd.ProcessState)
		case <-stop:
			dismiss(cmd, pipe, ended)
			return nil
		}
	}
}

// dismiss ends a keeper. It is killed, which needs no patience with one that has only
// begun to start, and before its pipe is closed: it must not take that for our death.
func dismiss(cmd *exec.Cmd, pipe *os.File, ended <-chan error) {
	_ = cmd.Process.Kill()
	<-ended
	_ = pipe.Close()
}

// startKeeper starts a keeper and returns our end of its pipe. The first lines are in the
// pipe before anything is started: a keeper that gets to run only when we are gone reads
// them all the same.
func startKeeper(first []byte) (*exec.Cmd, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	path, err := ownProgram()
	if err != nil {
		_ = w.Close()
		return nil, nil, err
	}
	cmd := &exec.Cmd{
		Path:        path,
		Args:        []string{keeperName, keeperOf, strconv.Itoa(os.Getpid())},
		Dir:         "/",
		Stdin:       r,
		SysProcAttr: ownSessionLeader(),
		// Our whole environment, because whoever looks for our processes by a mark of
		// his own must find it; our own mark is not in it.
		Env: append(os.Environ(), "GOMAXPROCS=1"),
	}
	if _, err = w.Write(first); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		_ = w.Close()
		return nil, nil, err
	}
	return cmd, w, nil
}
