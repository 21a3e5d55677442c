package excerpt

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"time"
	"unicode/utf8"
)

// RE2 is linear in the text, but also in the size of the pattern, which counted
// repetitions make large: a thousand bytes can mean a million states, each of which is
// looked at for each character.
const (
	maxPattern = 1000 // bytes
	maxStates  = 2000
)

// pattern is a bounded regular expression.
type pattern struct {
	re *regexp.Regexp
	// behind is set if what stands before a place matters (^, \b): then a search that
	// begins in the middle of a line could find what is none.
	behind bool
	// anchored is set if it can match at the beginning of a line only.
	anchored bool
}

func compile(q Query) (*pattern, error) {
	expr := q.Grep
	if len(expr) > maxPattern {
		return nil, fmt.Errorf("%w: grep is %d bytes long, at most %d are allowed", ErrQuery, len(expr), maxPattern)
	}
	if q.Literal {
		expr = regexp.QuoteMeta(expr)
	}
	if q.IgnoreCase {
		expr = "(?i:" + expr + ")"
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("%w: grep: %v; to search for the text as it is, set literal", ErrQuery, err)
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, fmt.Errorf("%w: grep: %v", ErrQuery, err)
	}
	if len(prog.Inst) > maxStates {
		return nil, fmt.Errorf("%w: grep: the pattern means %d states, at most %d are allowed; use smaller counts in {}", ErrQuery, len(prog.Inst), maxStates)
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, fmt.Errorf("%w: grep: %v", ErrQuery, err)
	}
	p := &pattern{re: re, anchored: prog.StartCond()&(syntax.EmptyBeginText|syntax.EmptyBeginLine) != 0}
	for _, inst := range prog.Inst {
		if inst.Op == syntax.InstEmptyWidth && syntax.EmptyOp(inst.Arg)&^(syntax.EmptyEndLine|syntax.EmptyEndText) != 0 {
			p.behind = true
		}
	}
	return p, nil
}

// budget is the time for one search. One that is over quickly runs at once; what takes
// longer needs one of a few places, or many hard searches at a time would keep all
// processors from everything else. It belongs to one goroutine.
type budget struct {
	ctx    context.Context
	limit  time.Duration // of the search, and of the waiting for a place
	quick  time.Time     // until then no place is needed
	until  time.Time
	places chan struct{}
	has    bool
}

// quick is for how long a search runs without a place.
const quick = 50 * time.Millisecond

func (r *Reader) budget(ctx context.Context) *budget {
	now := time.Now()
	return &budget{ctx: ctx, limit: r.limits.Time, quick: now.Add(quick), until: now.Add(r.limits.Time), places: r.searching}
}

// spent tells whether the search has to end. It may wait for a place.
func (b *budget) spent() bool {
	now := time.Now()
	if b.ctx.Err() != nil || now.After(b.until) {
		return true
	}
	return !b.has && now.After(b.quick) && !b.enter(now)
}

// enter waits for a place; the time of the search stands still meanwhile.
func (b *budget) enter(now time.Time) bool {
	timer := time.NewTimer(b.limit)
	defer timer.Stop()
	select {
	case b.places <- struct{}{}:
		b.has = true
		b.until = b.until.Add(time.Since(now))
		return true
	case <-timer.C:
		b.until = now // it has been spent with waiting
	case <-b.ctx.Done():
	}
	return false
}

// leave gives the place to the next.
func (b *budget) leave() {
	if b.has {
		b.has = false
		<-b.places
	}
}

// direct is the longest line that is searched in one go, in bytes: with the largest
// pattern that takes a fraction of a second.
const direct = 8 << 10

// find returns where the first match in a line is, searching from an offset on; ok is
// false if the budget was spent before the answer was known.
func (p *pattern) find(line []byte, from int, b *budget) (loc []int, ok bool) {
	if p.anchored && from > 0 {
		return nil, true
	}
	rest := line[from:]
	for {
		if len(rest) <= direct {
			loc, ok = p.re.FindIndex(rest), true
		} else {
			reader := &clocked{text: rest, budget: b}
			loc = p.re.FindReaderIndex(reader)
			ok = !reader.stopped
		}
		base := len(line) - len(rest)
		switch {
		case !ok || loc == nil:
			return nil, ok
		case base == 0 || !p.behind || loc[0] > 0:
			return []int{base + loc[0], base + loc[1]}, true
		case b.spent():
			return nil, false
		}
		// It may match only because the search began here.
		_, size := utf8.DecodeRune(rest)
		if rest = rest[max(size, 1):]; len(rest) == 0 {
			return nil, true
		}
	}
}

// clocked gives a text to a search until the budget is spent: a search cannot be
// cancelled, but it can run out of text.
type clocked struct {
	text    []byte
	at      int
	reads   int
	budget  *budget
	stopped bool
}

func (c *clocked) ReadRune() (rune, int, error) {
	if c.reads++; c.reads%512 == 0 && c.budget.spent() {
		c.stopped = true
	}
	if c.stopped || c.at == len(c.text) {
		return 0, 0, io.EOF
	}
	r, size := utf8.DecodeRune(c.text[c.at:])
	c.at += size
	return r, size, nil
}
