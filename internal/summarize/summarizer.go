package summarize

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"mcp-aggregator/internal/breaker"
	"mcp-aggregator/internal/limit"
)

// Options are how summaries are made.
type Options struct {
	Models          []Model       // in the order in which they are tried
	Concurrency     int           // requests to them at the same time; 0 means 4
	Wait            time.Duration // for a place among those; 0 means 2 s
	Timeout         time.Duration // of a summary, whichever models are asked; 0 means 30 s
	TokensPerMinute int           // in and out, of all Models; 0 means no bound
	Breaker         breaker.Settings
	Cache           CacheOptions
	Estimate        func(text []byte) int // tokens of a text; nil means characters/4

	// Attempted is told of each attempt, on the goroutine that made it; it must not
	// block. It may be nil.
	Attempted func(Attempt)
	// Circuit is told when a model is given a rest, and when that ends. The same.
	Circuit func(breaker.Change)
}

// CacheOptions bound the summaries that are kept.
type CacheOptions struct {
	Entries int           // 0 means 256, less keeps none
	Bytes   int           // 0 means 4 MiB
	TTL     time.Duration // 0 means 10 minutes
}

// An Attempt is a model asked once, or passed over. The costs of summaries are the sum
// of theirs: one summary may take several, and one may serve several callers.
type Attempt struct {
	Model   string
	Outcome Outcome
	In, Out int // tokens, estimated where the model did not say
	Took    time.Duration
	Err     error // nil if it was ok
}

func (o Options) withDefaults() Options {
	o.Concurrency = defaultTo(o.Concurrency, 4)
	o.Wait = defaultTo(o.Wait, 2*time.Second)
	o.Timeout = defaultTo(o.Timeout, 30*time.Second)
	o.Breaker.Failures = defaultTo(o.Breaker.Failures, 5)
	o.Breaker.Cooldown = defaultTo(o.Breaker.Cooldown, time.Minute)
	o.Breaker.HalfOpen = defaultTo(o.Breaker.HalfOpen, 1)
	if o.Cache.Entries == 0 {
		o.Cache.Entries = 256
	}
	o.Cache.Bytes = defaultTo(o.Cache.Bytes, 4<<20)
	o.Cache.TTL = defaultTo(o.Cache.TTL, 10*time.Minute)
	if o.Estimate == nil {
		o.Estimate = perFour
	}
	if o.Attempted == nil {
		o.Attempted = func(Attempt) {}
	}
	return o
}

func defaultTo[T int | time.Duration](value, standard T) T {
	if value <= 0 {
		return standard
	}
	return value
}

// A Summarizer has summaries written.
type Summarizer struct {
	o       Options
	breaker *breaker.Set
	places  *limit.Queue
	budget  *budget
	cache   *cache
	rests   rests

	flying  sync.WaitGroup
	mu      sync.Mutex        // guards flights, who waits in them, and closed
	flights map[place]*flight // what is asked for now
	closed  bool
}

// waitingPerPlace is how many may wait for a place, for each that there is. A model
// takes seconds, so more would wait in vain.
const waitingPerPlace = 4

// New returns a Summarizer, which is to be closed.
func New(o Options) *Summarizer {
	o = o.withDefaults()
	s := &Summarizer{
		o:       o,
		breaker: breaker.New(o.Circuit),
		budget:  newBudget(o.TokensPerMinute),
		cache:   newCache(o.Cache),
		flights: map[place]*flight{},
	}
	s.breaker.Configure(o.Breaker)
	const summaries = "summaries"
	q := limit.NewQueues()
	q.Apply(map[string]limit.Settings{summaries: {
		Slots: o.Concurrency, Waiting: waitingPerPlace * o.Concurrency, Timeout: o.Wait,
	}})
	s.places = q.Named(summaries)
	return s
}

// Summarize returns a summary of at most r.MaxTokens. Caller is the calling client's
// own model, nil if it offers none. Pieces of the text go to chunk, which may be nil,
// as they come; after a failure in the middle another model begins anew. The error is
// an *Error, nil exactly if the outcome is OK or Cached.
func (s *Summarizer) Summarize(ctx context.Context, r Request, caller Model, chunk func(string)) (Answer, Outcome, error) {
	if ctx.Err() != nil {
		return ended(stopped(ctx, ""))
	}
	turns := s.order(r.Models, caller)
	if len(turns) == 0 {
		return ended(&Error{Outcome: Failed, Reason: "there is no model to write a summary"})
	}
	at := place{key: keyOf(&r, turns)}
	if slices.ContainsFunc(turns, func(t turn) bool { return t.own }) {
		at.session = r.Session // two clients' own models are two models
		if r.Session == "" {   // and these cannot be told apart
			at.session = rand.Text()
		}
	}
	f, leads, cached := s.join(ctx, at)
	switch {
	case cached != nil:
		return *cached, Cached, nil
	case f == nil:
		return ended(&Error{Outcome: Cancelled, Reason: "no more summaries are written"})
	case leads:
		go s.fly(f, s.job(r, turns))
	}
	return s.wait(ctx, f, leads, chunk)
}

func ended(e *Error) (Answer, Outcome, error) { return Answer{}, e.Outcome, e }

// A turn is a model that is to be tried.
type turn struct {
	Model
	own bool // the calling client's own
}

// order returns the models to try. Names of no model are passed over.
func (s *Summarizer) order(names []string, caller Model) []turn {
	var turns []turn
	own := func() {
		if caller != nil {
			turns = append(turns, turn{caller, true})
		}
	}
	if names == nil {
		for _, m := range s.o.Models {
			turns = append(turns, turn{m, false})
		}
		own()
	}
	for _, name := range names {
		i := slices.IndexFunc(s.o.Models, func(m Model) bool { return m.Name() == name })
		switch {
		case name == Caller:
			own()
		case i >= 0:
			turns = append(turns, turn{s.o.Models[i], false})
		}
	}
	return turns
}

// Stats are what a Summarizer holds at the moment.
type Stats struct {
	Running    int `json:"running"`     // summaries being written
	Cached     int `json:"cached"`      // summaries kept
	CacheBytes int `json:"cache_bytes"` // what they take
	BudgetLeft int `json:"budget_left"` // tokens; 0 without a bound
}

// Stats returns the state of the moment.
func (s *Summarizer) Stats() Stats {
	st := Stats{BudgetLeft: s.budget.left()}
	st.Cached, st.CacheBytes = s.cache.size()
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Running = len(s.flights)
	return st
}

// Circuits returns the models that failed lately. The Server of each is its name; the
// Tool is empty, or tells whose own model it is.
func (s *Summarizer) Circuits() []breaker.State { return s.breaker.States() }

// Close ends all that is being written, waits for it and closes idle connections.
func (s *Summarizer) Close() { s.end(true) }

// Retire is Close for a Summarizer that another one replaces: what is being written is
// finished, within its time limit. Close may be called meanwhile.
func (s *Summarizer) Retire() { s.end(false) }

func (s *Summarizer) end(now bool) {
	s.mu.Lock()
	s.closed = true
	if now {
		for _, f := range s.flights {
			f.cancel()
		}
	}
	s.mu.Unlock()
	s.flying.Wait()
	for _, m := range s.o.Models {
		if c, ok := m.(interface{ Close() }); ok {
			c.Close()
		}
	}
}
