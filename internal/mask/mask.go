package mask

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// A Pattern is a kind of secret of one's own. The first capturing group is masked, or
// the whole match if there is none.
type Pattern struct{ Name, Regexp string }

// Options says what is masked. The zero value masks nothing.
type Options struct {
	Sets     []string  // names of built-in sets, see [Sets]
	Patterns []Pattern // at most 200, each of at most 1 KiB
	Code     []string  // "kubernetes_secret"
	// Values are masked wherever they stand, as they are and in base64, hexadecimal,
	// URL and JSON encodings. Those below six bytes are left out: masking each "1"
	// would blank out ordinary text.
	Values []string
}

// Count is told how many secrets of a kind were masked. It may be nil.
type Count func(kind string, n int)

// KubernetesSecret is the name of the code masker for Kubernetes Secrets and the kind
// of what it masks.
const KubernetesSecret = "kubernetes_secret"

// Configured is the kind of the values given as Options.Values.
const Configured = "configured"

// A Masker replaces secrets in texts. It is never changed and can be used by any
// number of goroutines. A nil Masker changes nothing.
type Masker struct {
	net     net
	rules   []rule
	kinds   []string       // what a piece can be masked as; of two that overlap the earlier one names it
	kindOf  map[string]int // kind → index in kinds
	names   []*named       // those enabled
	always  []*own         // own patterns without an anchor
	markers [][]byte
	longest int // of the markers
	assign  int // the rule of names; -1 if there is none
}

// A rule is what is done about an anchor.
type rule struct {
	// near tells from the bytes around an anchor at b[lo:hi] whether a secret can be
	// there, escapes in b taken into account. It must be quick and never wrong when it
	// says no.
	near func(b []byte, lo, hi int) bool
	find func(f *finder, lo, hi int)
	own  *own // a pattern that looks at the whole text
	kube bool
}

// New makes a masker.
func New(o Options) (*Masker, error) {
	m := &Masker{kindOf: map[string]int{}, assign: -1}
	var problems []error
	enabled, err := enabledKinds(o.Sets)
	if err != nil {
		problems = append(problems, err)
	}
	m.addValues(o.Values)
	for _, code := range o.Code {
		if code != KubernetesSecret {
			problems = append(problems, fmt.Errorf("unknown code masker %q: the only one is %s", code, KubernetesSecret))
			continue
		}
		m.addKubernetes()
	}
	m.addTokens(enabled)
	m.addSpecial(enabled)
	m.addAssignments(enabled)
	if err := m.addOwn(o.Patterns); err != nil {
		problems = append(problems, err)
	}
	m.addHidden()
	m.net.ready()
	for _, k := range m.kinds {
		marker := []byte("[masked:" + k + "]")
		m.markers = append(m.markers, marker)
		m.longest = max(m.longest, len(marker))
	}
	return m, errors.Join(problems...)
}

// IsZero reports whether nothing is masked.
func (m *Masker) IsZero() bool {
	return m == nil || len(m.rules) == 0 && len(m.always) == 0
}

// Text masks a text. Without a secret in it the very same slice comes back.
func (m *Masker) Text(text []byte, count Count) []byte {
	if m.IsZero() {
		return text
	}
	// A secret can be in sight only after another one has gone; that is rare, and
	// few rounds end it.
	for range rounds {
		spans := m.spans(text)
		if len(spans) == 0 {
			break
		}
		m.tell(spans, count)
		text = m.replace(text, spans)
	}
	return text
}

// rounds bounds how often a text is looked at again.
const rounds = 4

// A span is a piece to mask.
type span struct{ lo, hi, kind int }

// spans finds what is to be masked, in order and without overlaps.
func (m *Masker) spans(text []byte) []span {
	return m.settle(text, m.find(text, 0, nil))
}

// kind returns the index of a kind, a new one if need be.
func (m *Masker) kind(name string) int {
	if i, ok := m.kindOf[name]; ok {
		return i
	}
	m.kinds = append(m.kinds, name)
	m.kindOf[name] = len(m.kinds) - 1
	return len(m.kinds) - 1
}

// addRule enters a rule with its anchors, which are regular expressions of fixed
// length that this package has written.
func (m *Masker) addRule(r rule, anchors ...string) {
	for _, expr := range anchors {
		at, err := classes(expr)
		if err == nil {
			err = m.net.add(anchor{at: at, rule: len(m.rules)})
		}
		if err != nil {
			panic(fmt.Sprintf("mask: anchor %q: %v", expr, err))
		}
	}
	m.rules = append(m.rules, r)
}

// settle puts spans in order, joins those that overlap, and leaves out what has been
// masked already.
func (m *Masker) settle(text []byte, spans []span) []span {
	if len(spans) == 0 {
		return nil
	}
	spans = m.outside(text, spans)
	slices.SortFunc(spans, func(a, b span) int { return cmp.Or(a.lo-b.lo, a.kind-b.kind, b.hi-a.hi) })
	out := spans[:0]
	for _, s := range spans {
		if s.lo >= s.hi {
			continue
		}
		if n := len(out); n > 0 {
			last := &out[n-1]
			if s.lo < last.hi || s.lo == last.hi && s.kind == last.kind {
				last.hi = max(last.hi, s.hi)
				last.kind = min(last.kind, s.kind)
				continue
			}
		}
		out = append(out, s)
	}
	return out
}

// outside cuts the markers of earlier masking out of spans. Nothing but the exact
// marker of a kind counts as one: a forged marker hides nothing but the kind's name.
func (m *Masker) outside(text []byte, spans []span) []span {
	if !bytes.Contains(text, markerHead) {
		return spans
	}
	var out []span
	for _, s := range spans {
		lo := s.lo
		for at := max(0, s.lo-m.longest); at < s.hi; {
			i := bytes.Index(text[at:min(len(text), s.hi+m.longest)], markerHead)
			if i < 0 || at+i >= s.hi {
				break
			}
			at += i
			n := m.marker(text[at:])
			if n == 0 {
				at++
				continue
			}
			if at > lo {
				out = append(out, span{lo, at, s.kind})
			}
			at += n
			lo = max(lo, at)
		}
		if lo < s.hi {
			out = append(out, span{lo, s.hi, s.kind})
		}
	}
	return out
}

var markerHead = []byte("[masked:")

// marker returns the length of the marker at the beginning of b, 0 if there is none.
func (m *Masker) marker(b []byte) int {
	end := bytes.IndexByte(b[:min(len(b), m.longest)], ']')
	if end < len(markerHead) {
		return 0
	}
	if _, ok := m.kindOf[string(b[len(markerHead):end])]; !ok {
		return 0
	}
	return end + 1
}

func (m *Masker) replace(text []byte, spans []span) []byte {
	n := len(text)
	for _, s := range spans {
		n += len(m.markers[s.kind]) - (s.hi - s.lo)
	}
	out, at := make([]byte, 0, n), 0
	for _, s := range spans {
		out = append(append(out, text[at:s.lo]...), m.markers[s.kind]...)
		at = s.hi
	}
	return append(out, text[at:]...)
}

func (m *Masker) tell(spans []span, count Count) {
	if count == nil {
		return
	}
	found := make(map[int]int)
	for _, s := range spans {
		found[s.kind]++
	}
	for kind, n := range found {
		count(m.kinds[kind], n)
	}
}
