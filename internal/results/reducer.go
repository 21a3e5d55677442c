package results

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"strconv"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/digest"
	"mcp-aggregator/internal/excerpt"
	"mcp-aggregator/internal/keep"
	"mcp-aggregator/internal/summarize"
	"mcp-aggregator/internal/tokens"
	"mcp-aggregator/internal/wire"
)

// A Reducer makes large results small.
type Reducer struct {
	store  *keep.Store
	log    *slog.Logger
	watch  Watch
	reader *excerpt.Reader
	models models
	recent recent
	turns  turns

	ending context.Context // done: models have no more time
	hurry  context.CancelFunc
}

// Options are what a Reducer needs.
type Options struct {
	Store *keep.Store  // where originals are kept
	Log   *slog.Logger // nil discards
	Watch Watch
}

// Watch are hooks for what happens to results, for those who count it. Each may be nil;
// they run on the path of the call and must not block.
type Watch struct {
	// Reduced is told what was done to a large result.
	Reduced func(Done)

	// Summary is told how a summary goes on: "started", "chunk", "completed" or "failed".
	Summary func(Step)

	// Attempted is told of each attempt of a model.
	Attempted func(summarize.Attempt)
}

// Done is what was done to a large result.
type Done struct {
	Server, Tool string
	Policy       string // what the client got: one of the policies of config
	Tokens       int    // estimated, of the original
	Left         int    // estimated, of what the client got
	Bytes        int    // of the whole result
	BytesLeft    int
}

// New returns a Reducer without models; Configure gives it some.
func New(o Options) *Reducer {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &Reducer{store: o.Store, log: o.Log, watch: o.Watch, reader: excerpt.New(excerpt.Limits{}), turns: newTurns()}
	r.ending, r.hurry = context.WithCancel(context.Background())
	r.recent.init()
	r.models.log = o.Log
	return r
}

// A Job is one result and whose it is.
type Job struct {
	Rules config.Results
	Own   bool // the threshold was set for this server or tool

	Call         int64 // number of the call for those who watch, 0 if nobody does
	Server, Tool string
	Exposed      string // what the client calls the tool
	Def          []byte // the definition of the tool; nil if it is not known
	Arguments    []byte // raw JSON, masked; nil if there are none
	HostChars    int    // what the request says of the largest result its host takes, in characters; 0: nothing
	Intent       string // what the client wants with the result, masked; "" if it has not said so
	Session      string
	Owner        string // who may read the original
	Links        bool   // the client knows links to resources

	// Ask has the model of the client's host asked; nil: it offers none.
	Ask func(ctx context.Context, method string, params []byte) (result []byte, err error)

	// Hide hides secrets in what a model has written: it may know some that it was not
	// given here. nil: nothing is hidden.
	Hide func(text string) string

	// Progress tells the client how the summary goes on; nil: it does not want to know.
	Progress func(message string)
}

// Reduce returns a smaller result in the place of a large one, or false if it is fine as it
// is. It is a JSON object, already masked; it is not modified, and not kept.
func (r *Reducer) Reduce(ctx context.Context, j *Job, result wire.Value) ([]byte, bool) {
	limit, size := j.limit(), result.Len()
	if j.Rules.Policy == config.PolicyPass || size <= limit {
		return nil, false
	}
	turn := r.turns.of(size)
	if turn.take(ctx) != nil {
		return nil, false
	}
	defer turn.leave()
	raw := result.Raw
	if len(result.Edits) > 0 {
		raw = result.Bytes() // only now: those who wait should not hold it twice
	}
	b, ok := open(raw)
	if !ok || len(b.texts) == 0 || b.structured.OK() && !j.mayDrop() {
		return nil, false
	}
	rule, _ := tokens.Parse(j.Rules.Estimate)
	n := b.tokens(rule)
	if n <= limit {
		return nil, false
	}
	large := &large{Job: j, body: b, tokens: n, limit: limit, rule: rule, turn: turn}
	if j.Rules.Policy == config.PolicyBlock {
		return r.done(large, config.PolicyBlock, large.blocked()), true
	}
	if err := large.keep(r.store); err != nil {
		r.log.Warn("result passed on whole, its original cannot be kept", "server", j.Server, "tool", j.Tool, "err", err)
		return nil, false
	}
	policy, shown, how := r.reduce(ctx, large)
	small := large.result(policy, shown, how)
	if len(small) >= len(raw) {
		return nil, false // it is hardly above the threshold
	}
	return r.done(large, policy, small), true
}

// reduce makes what the client gets to see, by the policy or, where that fails, the
// beginning of the text.
func (r *Reducer) reduce(ctx context.Context, l *large) (policy string, shown []byte, how string) {
	switch l.Rules.Policy {
	case config.PolicyDigest:
		d := l.digest()
		return config.PolicyDigest, []byte(d.Text), "a digest (" + d.Kind + ")"
	case config.PolicySummarize:
		if text, policy, how, ok := r.summarize(ctx, l); ok {
			return policy, text, how
		}
	}
	page := l.page()
	return config.PolicyPage, page, "its beginning"
}

func (r *Reducer) done(l *large, policy string, result []byte) []byte {
	if r.watch.Reduced != nil {
		b, _ := open(result)
		r.watch.Reduced(Done{Server: l.Server, Tool: l.Tool, Policy: policy, Tokens: l.tokens, Left: b.tokens(l.rule), Bytes: len(l.body.raw), BytesLeft: len(result)})
	}
	return result
}

// Least is the size in bytes up to which a result is certainly fine as it is: a token
// has at least one byte.
func Least(j *Job) int { return j.limit() }

// IntentKey is the member of _meta in which a client says what it wants.
const IntentKey = "mcp-aggregator/intent"

// limit is the threshold in tokens.
func (j *Job) limit() int {
	chars := j.HostChars
	if chars == 0 && j.Rules.HostLimit && !j.Own {
		chars = hostChars(wire.Field(j.Def, wire.Span{Hi: len(j.Def)}, "_meta").Of(j.Def))
	}
	if chars > 0 {
		return max((chars+3)/4, 1)
	}
	return j.Rules.ThresholdTokens
}

// HostKey is the member of _meta in which hosts and tools say how many characters of a
// result a host takes before it cuts it off or stores it elsewhere.
const HostKey = "anthropic/maxResultSizeChars"

// maxHostChars bounds what a tool may ask for.
const maxHostChars = 10_000_000

// hostChars reads that member from a raw _meta; 0 if it is not there.
func hostChars(meta []byte) int {
	n, err := strconv.Atoi(string(wire.Field(meta, wire.Span{Hi: len(meta)}, HostKey).Of(meta)))
	if err != nil || n < 1 {
		return 0
	}
	return min(n, maxHostChars)
}

// mayDrop reports whether structuredContent may be left out: nobody has been promised
// it, or the promise is not shown (RES-7).
func (j *Job) mayDrop() bool {
	return j.Rules.Structured == "drop" || j.Def != nil && !wire.Field(j.Def, wire.Span{Hi: len(j.Def)}, "outputSchema").OK()
}

// A large is a result that has to become smaller.
type large struct {
	*Job
	body   body
	tokens int
	limit  int
	rule   tokens.Rule
	turn   *turn

	text   []byte // all texts, one below the other
	lines  int
	handle string
	kept   int  // bytes of the text as it is kept
	short  bool // that is not the whole text
	cut    bool // what is kept is not the whole
}

// keep decodes the texts and puts them away: one below the other, as one text, since
// that is how they are read, and structuredContent, which will be missing, beside it.
func (l *large) keep(store *keep.Store) error {
	mime := "text/plain"
	l.text = make([]byte, 0, l.body.size()+len(l.body.texts))
	for i, t := range l.body.texts {
		if i == 0 {
			mime = cmp.Or(t.mime, mime)
		} else if n := len(l.text); n > 0 && l.text[n-1] != '\n' {
			l.text = append(l.text, '\n')
		}
		l.text = wire.AppendText(l.text, t.at.Of(l.body.raw))
	}
	if len(l.text) < cap(l.text)/2 { // full of escapes: the store counts what is used
		l.text = bytes.Clone(l.text)
	}
	parts := []keep.Part{l.part(mime, l.text)}
	l.kept, l.short = len(parts[0].Text), l.cut
	if l.body.structured.OK() {
		parts = append(parts, l.part("application/json", bytes.Clone(l.body.structured.Of(l.body.raw))))
	}
	l.lines = lines(l.text)
	var err error
	l.handle, err = store.Put(l.Owner, keep.Meta{Server: l.Server, Tool: l.Tool, Tokens: l.tokens}, parts)
	return err
}

// part is one text as it is kept: not longer than the configuration wants (RES-4).
func (l *large) part(mime string, s []byte) keep.Part {
	kept, cut := digest.Cut(s, l.Rules.Keep.Each, "")
	l.cut = l.cut || cut
	return keep.Part{MIME: mime, Text: kept}
}

func (l *large) digest() digest.Result {
	return digest.Make(l.text, digest.Options{MaxTokens: l.Rules.MaxSummaryTokens, Count: l.rule.Text})
}

// page is the beginning of the text: as many whole lines as the threshold allows, with
// what is written above them.
func (l *large) page() []byte { return firstTokens(l.text, max(l.limit-headTokens, l.limit/2), l.rule) }

// headTokens is about what the head of a result takes.
const headTokens = 150

// firstTokens returns as much of a text as has at most that many tokens, whole lines
// if there is one.
func firstTokens(text []byte, most int, rule tokens.Rule) []byte {
	lo, hi := 0, len(text) // the first lo bytes fit
	if max := most * maxBytesPerToken; hi > max {
		hi = max
	}
	if rule.Text(text[:hi]) <= most {
		return wholeLines(text, hi)
	}
	for hi-lo > 16 {
		mid := (lo + hi) / 2
		if rule.Text(text[:mid]) <= most {
			lo = mid
		} else {
			hi = mid
		}
	}
	return wholeLines(text, lo)
}

// maxBytesPerToken bounds how much of a text is looked at: long runs of one character
// have many bytes per token.
const maxBytesPerToken = 64
