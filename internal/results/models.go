package results

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/digest"
	"mcp-aggregator/internal/summarize"
	"mcp-aggregator/internal/tokens"
	"mcp-aggregator/internal/wire"
)

// models are those of the configuration in force. They are replaced as a whole; those
// before finish what they have begun.
type models struct {
	log    *slog.Logger
	now    atomic.Pointer[summarize.Summarizer] // nil: none was ever configured
	config *config.Config                       // what now was made of; owned by whoever configures
}

// Configure takes up the models and their bounds. One goroutine does that. The error
// names the models that cannot be used; the others work.
func (r *Reducer) Configure(c *config.Config) error {
	m := &r.models
	if old := m.config; old != nil && sameModels(old, c) {
		return nil
	}
	m.config = c
	o := summarize.Options{
		Concurrency: c.Results.Summary.Concurrency, Timeout: c.Results.Summary.Timeout, TokensPerMinute: c.Results.Summary.TokensPerMinute,
		Cache: summarize.CacheOptions{Entries: c.Results.Summary.Cache}, Attempted: r.attempted,
	}
	if o.Cache.Entries == 0 {
		o.Cache.Entries = -1
	}
	rule, _ := tokens.Parse(c.Results.Estimate)
	o.Estimate = rule.Text
	var failed error
	for _, name := range slices.Sorted(maps.Keys(c.Summarizers)) {
		model, err := newModel(name, c.Summarizers[name])
		if err != nil {
			failed = fmt.Errorf("summarizer %q: %w", name, err)
			continue
		}
		o.Models = append(o.Models, model)
	}
	if old := m.now.Swap(summarize.New(o)); old != nil {
		go old.Retire()
	}
	return failed
}

// Hurry ends summaries, those being written and those to come: before the aggregator
// stops, clients get at once what they get when a model fails.
func (r *Reducer) Hurry() { r.hurry() }

// Close ends what models are writing, and drops what is kept.
func (r *Reducer) Close() {
	defer r.store.Close()
	r.hurry()
	if s := r.models.now.Load(); s != nil {
		s.Close()
	}
}

func sameModels(a, b *config.Config) bool {
	return a.Results.Summary == b.Results.Summary && a.Results.Estimate == b.Results.Estimate &&
		maps.EqualFunc(a.Summarizers, b.Summarizers, func(x, y *config.Summarizer) bool {
			return x.Type == y.Type && x.URL == y.URL && x.Model == y.Model && x.APIKey == y.APIKey && x.Timeout == y.Timeout && maps.Equal(x.Headers, y.Headers)
		})
}

func newModel(name string, s *config.Summarizer) (summarize.Model, error) {
	remote := summarize.Remote{Name: name, Model: s.Model, URL: s.URL, Key: s.APIKey, Headers: s.Headers}
	var model summarize.Model
	var err error
	if s.Type == "anthropic" {
		model, err = summarize.NewAnthropic(remote)
	} else {
		model, err = summarize.NewOpenAI(remote)
	}
	if err != nil {
		return nil, err
	}
	if s.Timeout > 0 {
		model = impatient{model, s.Timeout}
	}
	return model, nil
}

// impatient gives a model less time than a summary has, so that the next one gets a
// turn.
type impatient struct {
	summarize.Model
	most time.Duration
}

func (m impatient) Summarize(ctx context.Context, p summarize.Prompt, chunk func(string)) (summarize.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, m.most)
	defer cancel()
	return m.Model.Summarize(ctx, p, chunk)
}

func (m impatient) Close() {
	if c, ok := m.Model.(interface{ Close() }); ok {
		c.Close()
	}
}

// Step is how a summary goes on, for events.
type Step struct {
	ID           int64 // of the summary
	Call         int64 // whose result it is of, see Job
	What         string
	Server, Tool string
	Model        string
	Outcome      summarize.Outcome
	In, Out      int    // tokens
	Bytes        int    // of the summary so far
	Reason       string // of a failure
	Took         time.Duration
}

// Steps of a summary.
const (
	Started   = "started"
	Chunk     = "chunk"
	Completed = "completed"
	Failed    = "failed"
)

var summaries atomic.Int64 // numbers them

// summarize has a model write what the client gets. It is false if no model could, and
// the client then gets the beginning of the text: never an error (RES-2).
func (r *Reducer) summarize(ctx context.Context, l *large) (text []byte, policy, how string, ok bool) {
	names := l.Rules.Summarizers
	if i := slices.Index(names, config.SummarizerDigest); i >= 0 {
		defer func() {
			if !ok {
				_ = l.turn.take(ctx) // without it nobody wants the digest any more
				d := l.digest()
				text, policy, how, ok = []byte(d.Text), config.PolicyDigest, "a digest ("+d.Kind+")", true
			}
		}()
		if names = names[:i]; i == 0 {
			return nil, "", "", false
		}
	}
	s := r.models.now.Load()
	if s == nil {
		return nil, "", "", false
	}
	var caller summarize.Model
	if l.Ask != nil {
		caller = summarize.Sampling{Ask: l.Ask}
	}
	step := Step{ID: summaries.Add(1), Call: l.Call, What: Started, Server: l.Server, Tool: l.Tool}
	r.step(step)
	if l.Progress != nil {
		l.Progress("summarizing the result of " + l.Exposed)
	}
	began := time.Now()
	request := l.request(names, r.recent.of(l.Session))
	l.turn.leave()
	writing, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ending, cancel)()
	answer, outcome, err := s.Summarize(writing, request, caller, r.chunks(l, step))
	step.Outcome, step.Model, step.In, step.Out, step.Took = outcome, answer.Model, answer.In, answer.Out, time.Since(began)
	if err == nil && answer.Refused {
		err = fmt.Errorf("model %q will not do it", answer.Model)
	}
	if err != nil {
		step.What, step.Reason = Failed, err.Error()
		r.step(step)
		r.log.Warn("no summary, the client gets the beginning of the result", "server", l.Server, "tool", l.Tool, "kind", outcome, "took", step.Took, "err", err)
		return nil, "", "", false
	}
	step.What, step.Bytes = Completed, len(answer.Text)
	r.step(step)
	how = "a summary by " + answer.Model
	if answer.Incomplete {
		how += ", which ends early"
	}
	if l.Hide != nil {
		answer.Text = l.Hide(answer.Text)
	}
	return []byte(answer.Text), config.PolicySummarize, how, true
}

// request is what a model needs to know. What of the text is too much for it is cut off.
func (l *large) request(names, recent []string) summarize.Request {
	description, _ := wire.Unquote(wire.Field(l.Def, wire.Span{Hi: len(l.Def)}, "description").Of(l.Def))
	input := firstTokens(l.text, l.Rules.MaxInputTokens, l.rule)
	if len(input) < len(l.text) {
		input, _ = digest.Cut(l.text, len(input), "")
	}
	return summarize.Request{
		Owner: l.Owner, Session: l.Session, Models: names,
		Server: l.Server, Tool: l.Tool, Description: description, Arguments: l.Arguments, Intent: l.Intent,
		Recent: recent, Text: input, MaxTokens: l.Rules.MaxSummaryTokens,
	}
}

// Progress and events of a summary that is being written come this often at most.
const pace = 500 * time.Millisecond

// chunks tells the client and the events that the model writes.
func (r *Reducer) chunks(l *large, step Step) func(string) {
	step.What = Chunk
	var told time.Time
	return func(piece string) {
		step.Bytes += len(piece)
		if now := time.Now(); now.Sub(told) >= pace {
			told = now
			r.step(step)
			if l.Progress != nil {
				l.Progress(fmt.Sprintf("summarizing the result of %s: %d characters written", l.Exposed, step.Bytes))
			}
		}
	}
}

func (r *Reducer) step(s Step) {
	if r.watch.Summary != nil {
		r.watch.Summary(s)
	}
}

func (r *Reducer) attempted(a summarize.Attempt) {
	if r.watch.Attempted != nil {
		r.watch.Attempted(a)
	}
}
