package summarize

import (
	"context"
	"fmt"
	"sync"
)

// A place is where equal requests meet.
type place struct {
	key
	session string
}

// A flight is one summary being written, for all who asked for it meanwhile.
type flight struct {
	at      place
	ctx     context.Context // of the flight, which only it and its waiters know
	cancel  context.CancelFunc
	waiting int // guarded by the Summarizer's mu

	done    chan struct{} // closed when what follows is there
	answer  Answer
	outcome Outcome
	err     error

	mu     sync.Mutex           // guards what follows, and is held while listeners are told
	told   []byte               // what has been said so far by the model that is being asked
	heard  map[int]func(string) // number of a listener → the listener
	number int
}

// join finds the flight for a request or begins one, which its caller must let fly. It
// returns the answer if it is there already, and nothing at all after Close.
func (s *Summarizer) join(ctx context.Context, at place) (f *flight, leads bool, cached *Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f = s.flights[at]; f != nil {
		f.waiting++
		return f, false, nil
	}
	// A flight keeps its answer before it goes, so here nothing is missed.
	if a, ok := s.cache.get(at.key); ok {
		return nil, false, &a
	}
	if at.session != "" {
		if a, ok := s.cache.get(at.private()); ok {
			return nil, false, &a
		}
	}
	if s.closed {
		return nil, false, nil
	}
	f = &flight{at: at, waiting: 1, done: make(chan struct{}), heard: map[int]func(string){}}
	// It outlives the caller if others wait.
	f.ctx, f.cancel = context.WithTimeout(context.WithoutCancel(ctx), s.o.Timeout)
	s.flights[at] = f
	s.flying.Add(1)
	return f, true, nil
}

// wait returns how a flight ends, or that the caller does not want to know any more.
func (s *Summarizer) wait(ctx context.Context, f *flight, leads bool, chunk func(string)) (Answer, Outcome, error) {
	defer f.listen(chunk)()
	select {
	case <-f.done:
	case <-ctx.Done():
		s.leave(f)
		return ended(stopped(ctx, ""))
	}
	if f.outcome == OK && !leads {
		return f.answer, Cached, nil
	}
	return f.answer, f.outcome, f.err
}

// leave ends a flight that nobody waits for. Who comes later begins another.
func (s *Summarizer) leave(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.waiting--
	if f.waiting == 0 {
		s.removeLocked(f)
		f.cancel()
	}
}

func (s *Summarizer) removeLocked(f *flight) {
	if s.flights[f.at] == f {
		delete(s.flights, f.at)
	}
}

// fly writes the summary.
func (s *Summarizer) fly(f *flight, j job) {
	defer s.flying.Done()
	defer f.cancel()
	f.answer, f.outcome, f.err = s.guardedly(f, j)
	if f.outcome == OK && !f.answer.Refused {
		at := f.at.key
		if f.answer.Model == Caller {
			at = f.at.private()
		}
		s.cache.put(at, f.answer)
	}
	s.mu.Lock()
	s.removeLocked(f)
	s.mu.Unlock()
	close(f.done)
}

// guardedly is ask, whose panics cost this summary alone.
func (s *Summarizer) guardedly(f *flight, j job) (a Answer, o Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			a, o, err = ended(&Error{Outcome: Failed, Reason: short(fmt.Sprintf("panic: %v", p))})
		}
	}()
	return s.ask(f, j)
}

// listen has chunk told what is said, from the beginning, until the function that it
// returns is called.
func (f *flight) listen(chunk func(string)) (forget func()) {
	if chunk == nil {
		return func() {}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.number++
	n := f.number
	f.heard[n] = chunk
	if len(f.told) > 0 {
		chunk(string(f.told))
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.heard, n)
	}
}

// tell tells all who listen.
func (f *flight) tell(said string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, said...)
	for _, chunk := range f.heard {
		chunk(said)
	}
}

// anew forgets what a model said that then failed.
func (f *flight) anew() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = f.told[:0]
}
