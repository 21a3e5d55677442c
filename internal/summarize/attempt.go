package summarize

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"mcp-aggregator/internal/breaker"
)

// A job is a request made ready: nothing in it is shared with the caller.
type job struct {
	prompt Prompt
	turns  []turn
	whose  string // the calling client, for the circuit of its own model
	in     int    // tokens of the prompt, estimated
}

func (s *Summarizer) job(r Request, turns []turn) job {
	p := Build(r)
	rest := len(p.System) + len(p.User) - len(r.Text)
	return job{
		prompt: p, turns: turns, whose: r.Owner + "/" + r.Session,
		in: s.o.Estimate(r.Text) + max(0, rest)/4,
	}
}

// ask asks one model after the other until one writes a summary. Each gets an equal
// share of the time that is left, so that one which hangs leaves some for the others.
func (s *Summarizer) ask(f *flight, j job) (Answer, Outcome, error) {
	var reasons []string
	var failed, passed *Error // the last that was asked, the first that was not
	for i, t := range j.turns {
		a, e := s.observed(f, t, j, len(j.turns)-i)
		switch {
		case e == nil:
			return a, OK, nil
		case e.Outcome != Open && e.Outcome != Busy && e.Outcome != Budget:
			failed = e
		case passed == nil:
			passed = e
		}
		reasons = append(reasons, e.Error())
		if f.ctx.Err() != nil {
			break
		}
	}
	why := failed
	if why == nil {
		why = passed
	}
	if len(reasons) > 1 {
		why = &Error{Outcome: why.Outcome, Reason: strings.Join(reasons, "; "), RetryAfter: why.RetryAfter}
	}
	return ended(why)
}

// observed is an attempt within its share of the time, one n-th of what is left, that
// is told of.
func (s *Summarizer) observed(f *flight, t turn, j job, n int) (Answer, *Error) {
	began := time.Now()
	ctx, cancel := share(f.ctx, n)
	defer cancel()
	f.anew()
	a, e := s.attempt(ctx, t, j, f.tell)
	told := Attempt{Model: t.Name(), Outcome: OK, In: a.In, Out: a.Out, Took: time.Since(began)}
	if e != nil {
		told.Outcome, told.Err = e.Outcome, e
	}
	s.o.Attempted(told)
	return a, e
}

// share bounds a context to its n-th part.
func share(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	deadline, _ := ctx.Deadline() // flights have one
	return context.WithTimeout(ctx, time.Until(deadline)/time.Duration(n))
}

// attempt asks a model once if that is allowed. Only those of the configuration take
// places and tokens: the client's own model costs its client, and it may ask a person,
// who would keep everybody else waiting.
func (s *Summarizer) attempt(ctx context.Context, t turn, j job, chunk func(string)) (a Answer, e *Error) {
	name, whose := t.Name(), ""
	if t.own {
		whose = j.whose
	} else if wait := s.rests.of(name); wait > 0 {
		return a, &Error{Outcome: Open, Model: name, Reason: "asked to be left alone for a while", RetryAfter: wait}
	}
	ticket, refusal := s.breaker.Allow(name, whose)
	if refusal != nil {
		return a, resting(name, refusal)
	}
	if t.own {
		a, e = s.write(ctx, t, j, chunk)
		ticket.Done(verdict(e), 0)
		return a, e
	}
	return s.guarded(ctx, t, j, chunk, ticket)
}

func resting(model string, r *breaker.Refusal) *Error {
	return &Error{Outcome: Open, Model: model, Reason: "failed several times and rests", RetryAfter: r.RetryAfter}
}

// guarded asks a model when there is a place and a budget for it. Its circuit is told how
// that ended before the place is given to the next, who looks at it then.
func (s *Summarizer) guarded(ctx context.Context, m Model, j job, chunk func(string), ticket breaker.Ticket) (a Answer, e *Error) {
	name := m.Name()
	if e = s.enter(ctx, name); e == nil {
		defer s.places.Leave()
	}
	defer func() { ticket.Done(verdict(e), 0) }()
	if e != nil {
		return Answer{}, e
	}
	if refusal := ticket.Stands(); refusal != nil {
		return Answer{}, resting(name, refusal)
	}
	worth := j.in + j.prompt.MaxTokens
	if !s.budget.take(worth) {
		return Answer{}, &Error{Outcome: Budget, Model: name, Reason: "the budget of tokens for this minute is spent"}
	}
	a, e = s.write(ctx, m, j, chunk)
	s.budget.settle(worth, a.In+a.Out)
	if e != nil && e.RetryAfter > 0 {
		s.rests.until(name, e.RetryAfter)
	}
	return a, e
}

// enter waits for a place.
func (s *Summarizer) enter(ctx context.Context, model string) *Error {
	switch err := s.places.Enter(ctx); {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return &Error{Outcome: Cancelled, Model: model, Reason: "nobody waits for the summary any more"}
	}
	return &Error{Outcome: Busy, Model: model, Reason: "as many summaries are being written as may be"}
}

// write asks a model, and sees to it that the answer is one and that its cost is known.
func (s *Summarizer) write(ctx context.Context, m Model, j job, chunk func(string)) (Answer, *Error) {
	a, err := m.Summarize(ctx, j.prompt, chunk)
	var e *Error
	if err != nil {
		e = asError(ctx, m.Name(), err)
	}
	if e != nil && !e.Spent {
		return Answer{}, e
	}
	if a.In <= 0 {
		a.In = j.in
	}
	if a.Out <= 0 {
		a.Out = s.o.Estimate([]byte(a.Text))
	}
	if e != nil {
		return Answer{In: a.In, Out: a.Out}, e
	}
	a.Model = m.Name()
	if a.Text = tidy(a.Text, j.prompt.mark); a.Text == "" {
		return Answer{In: a.In, Out: a.Out}, &Error{Outcome: Empty, Model: a.Model, Reason: "the answer has no text", Spent: true}
	}
	var cut bool
	a.Text, cut = cutTo(a.Text, j.prompt.MaxTokens, s.o.Estimate)
	a.Incomplete = a.Incomplete || cut
	return a, nil
}

// verdict is what an attempt says about a model.
func verdict(e *Error) breaker.Result {
	switch {
	case e == nil:
		return breaker.Worked
	case e.Away:
		return breaker.Away
	case e.Outcome == Timeout, e.Outcome == Empty, e.Outcome == Failed:
		return breaker.Failed
	}
	return breaker.Ignored
}

// rests are the models that asked to be left alone. There are no more than are
// configured.
type rests struct {
	mu   sync.Mutex
	ends map[string]time.Time // name of a model → when it may be asked again
}

func (r *rests) of(model string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.ends[model])
}

func (r *rests) until(model string, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ends == nil {
		r.ends = map[string]time.Time{}
	}
	r.ends[model] = time.Now().Add(wait)
}
