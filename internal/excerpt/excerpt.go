// Package excerpt reads pieces of a large text: ranges of lines, pages, head, tail,
// bytes, lines that match a pattern (RE2), and what a jq program makes of it. Every
// answer is bounded and says what was left off and how to ask for the rest; following
// Excerpt.Next through lines or bytes gives the text back byte for byte.
//
// Arguments come from models and are not trusted. Patterns are bounded in size and
// time. jq programs run in a child process (see worker.go), since one operation of
// theirs can take for ever, or all memory, without ever looking at a context.
//
// Concurrency: a Reader and a Text are safe for concurrent use.
package excerpt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// What can go wrong, besides the errors of a context. The messages of the errors that
// wrap these are made to be read by a person or a model.
var (
	// ErrQuery says that the arguments make no sense, for any text or for this one.
	ErrQuery = errors.New("invalid arguments")
	// ErrLimit says that answering takes more time or memory than is allowed.
	ErrLimit = errors.New("this takes too much")
	// ErrBusy says that too many jq programs run already.
	ErrBusy = errors.New("too many jq programs are running, try again")
	// ErrUnavailable says that the child process for jq cannot be run.
	ErrUnavailable = errors.New("jq is not available here")
)

// Query says what to read. The zero Query reads from the beginning. One of the groups
// is used at a time.
type Query struct {
	// Lines, counted from 1, both included. To 0 is the end. From may be replaced by
	// Offset, to go on inside of a line.
	From int `json:"from,omitempty"`
	To   int `json:"to,omitempty"`

	// Pages of PageSize lines (0: Limits.PageSize), counted from 1. PageSize may also
	// go with From or Offset.
	Page     int `json:"page,omitempty"`
	PageSize int `json:"page_size,omitempty"`

	// The first or the last lines.
	Head int `json:"head,omitempty"`
	Tail int `json:"tail,omitempty"`

	// Bytes from an offset, counted from 0, both moved to the beginning of a character.
	// Bytes 0 is the end. Offset also goes with Grep, where the search begins there,
	// and with JQ, where it counts in the output.
	Offset int `json:"offset,omitempty"`
	Bytes  int `json:"bytes,omitempty"`

	// Lines that match, between From (or Offset) and To.
	Grep       string `json:"grep,omitempty"`    // RE2
	Literal    bool   `json:"literal,omitempty"` // Grep is a plain text
	IgnoreCase bool   `json:"ignore_case,omitempty"`
	Before     int    `json:"before,omitempty"` // lines of context
	After      int    `json:"after,omitempty"`
	Context    int    `json:"context,omitempty"`     // before and after
	MaxMatches int    `json:"max_matches,omitempty"` // 0: as many as the answer holds

	// A jq program; its results, one a line, are the text to read from.
	JQ  string `json:"jq,omitempty"`
	Raw bool   `json:"raw,omitempty"` // results that are strings come without quotes
}

// Limits bound an answer and what it may cost. Zero fields take defaults.
type Limits struct {
	Chars    int           // of an answer; 0: 20,000
	PageSize int           // lines; 0: 200
	Time     time.Duration // for one search or jq program, waiting for a place not counted; 0: 2 s

	JQInput  int   // bytes of text a jq program may read; 0: 16 MiB
	JQMemory int64 // bytes one jq program may use; 0: 256 MiB
	JQAtOnce int   // jq programs running at the same time; 0: 2
}

func (l Limits) withDefaults() Limits {
	l.Chars = or(l.Chars, 20_000)
	l.PageSize = or(l.PageSize, 200)
	l.Time = or(l.Time, 2*time.Second)
	l.JQInput = or(l.JQInput, 16<<20)
	l.JQMemory = or(l.JQMemory, 256<<20)
	l.JQAtOnce = or(l.JQAtOnce, 2)
	return l
}

func or[N int | int64 | time.Duration](n, otherwise N) N {
	if n <= 0 {
		return otherwise
	}
	return n
}

// Excerpt is an answer. Text holds what was asked for and nothing else; whatever there
// is to say about it is in Note.
type Excerpt struct {
	Text []byte // of lines and bytes, a piece of the original: do not modify
	Note string // what the text is, what was left off, how to go on

	// The piece: lines From to To of Total, bytes Start to End (excluded) of Size. For
	// Grep: what was searched. For JQ: Start and End count in the output, Size is 0.
	From, To, Total  int
	Start, End, Size int

	Matches int    // Grep: shown; JQ: results shown, also in part
	Next    *Query // reads on from here; nil at the end of what was asked for
}

// Reader answers queries within limits.
type Reader struct {
	limits    Limits
	running   chan struct{} // holds a token per jq program
	searching chan struct{} // holds a token per search that takes long
}

// New makes a Reader.
func New(l Limits) *Reader {
	l = l.withDefaults()
	return &Reader{limits: l, running: make(chan struct{}, l.JQAtOnce), searching: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
}

// Read answers a query. Its errors wrap one of those above, or are of ctx.
func (r *Reader) Read(ctx context.Context, t *Text, q Query) (Excerpt, error) {
	if err := ctx.Err(); err != nil {
		return Excerpt{}, err
	}
	if err := q.check(); err != nil {
		return Excerpt{}, err
	}
	switch {
	case q.JQ != "":
		return r.jq(ctx, t, q)
	case len(t.data) == 0:
		return Excerpt{Note: "the text is empty"}, nil
	case q.Grep != "":
		return r.grep(ctx, t, q)
	}
	return r.lines(t, q)
}

// argument is an argument as the caller knows it.
type argument struct {
	name  string
	value int
}

// check refuses arguments that contradict each other.
func (q Query) check() error {
	numbers := []argument{{"from", q.From}, {"to", q.To}, {"page", q.Page}, {"page_size", q.PageSize}, {"head", q.Head},
		{"tail", q.Tail}, {"offset", q.Offset}, {"bytes", q.Bytes}, {"before", q.Before}, {"after", q.After},
		{"context", q.Context}, {"max_matches", q.MaxMatches}}
	for _, a := range numbers {
		if a.value < 0 {
			return fmt.Errorf("%w: %s is %d, it must not be negative", ErrQuery, a.name, a.value)
		}
	}
	if q.Page > 0 {
		return q.only("page", "page_size")
	}
	switch {
	case q.JQ != "":
		return q.only("jq", "offset", "raw")
	case q.Grep != "":
		if q.From > 0 && q.Offset > 0 {
			return fmt.Errorf("%w: use from or offset, not both", ErrQuery)
		}
		return q.only("grep", "literal", "ignore_case", "before", "after", "context", "max_matches", "from", "to", "offset")
	case q.Head > 0:
		return q.only("head")
	case q.Tail > 0:
		return q.only("tail")
	case q.Bytes > 0:
		return q.only("bytes", "offset")
	case q.Offset > 0:
		return q.oneEnd("offset", "to", "page_size")
	}
	if q.To > 0 && q.From > q.To {
		return fmt.Errorf("%w: from (%d) is behind to (%d)", ErrQuery, q.From, q.To)
	}
	return q.oneEnd("from", "to", "page_size")
}

func (q Query) oneEnd(names ...string) error {
	if q.To > 0 && q.PageSize > 0 {
		return fmt.Errorf("%w: use to or page_size, not both", ErrQuery)
	}
	return q.only(names...)
}

// only refuses all arguments but these, the first of which leads.
func (q Query) only(names ...string) error {
	allowed := map[string]bool{}
	for _, name := range names {
		allowed[name] = true
	}
	for _, a := range q.set() {
		if !allowed[a] {
			return fmt.Errorf("%w: %s does not go with %s; use one of from/to, page, head, tail, offset/bytes, grep, jq", ErrQuery, a, names[0])
		}
	}
	return nil
}

// set lists the arguments that are given, in order.
func (q Query) set() []string {
	var names []string
	for _, a := range []struct {
		name  string
		given bool
	}{
		{"from", q.From > 0}, {"to", q.To > 0}, {"page", q.Page > 0}, {"page_size", q.PageSize > 0}, {"head", q.Head > 0},
		{"tail", q.Tail > 0}, {"offset", q.Offset > 0}, {"bytes", q.Bytes > 0}, {"grep", q.Grep != ""}, {"literal", q.Literal},
		{"ignore_case", q.IgnoreCase}, {"before", q.Before > 0}, {"after", q.After > 0}, {"context", q.Context > 0},
		{"max_matches", q.MaxMatches > 0}, {"jq", q.JQ != ""}, {"raw", q.Raw},
	} {
		if a.given {
			names = append(names, a.name)
		}
	}
	return names
}

// String is the query as JSON arguments.
func (q Query) String() string {
	text, err := json.Marshal(q)
	if err != nil {
		panic(err) // strings, numbers and booleans
	}
	return string(text)
}

// goOn is the end of a note: how to continue.
func goOn(next *Query) string {
	if next == nil {
		return ""
	}
	return "; continue with " + next.String()
}
