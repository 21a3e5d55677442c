package mask

import (
	"bytes"
	"encoding/base64"
	"regexp"
	"slices"
)

// A finder looks for secrets in one view of a text.
type finder struct {
	m      *Masker
	b      []byte
	spans  []span
	done   map[int]int // rule → up to where it has dealt with the text
	kube   bool        // there may be Kubernetes Secrets
	owns   []*own
	header int // up to where headers were read
}

// A hit is an anchor that may belong to a secret.
type hit struct{ rule, lo, hi int }

// hits finds the anchors that are worth a closer look.
func (m *Masker) hits(b []byte) []hit {
	var hits []hit
	m.net.scan(b, func(rule, lo, hi int) {
		if near := m.rules[rule].near; near == nil || near(b, lo, hi) {
			hits = append(hits, hit{rule, lo, hi})
		}
	})
	return hits
}

// maxViews bounds how many levels of escapes are taken away: JSON inside of JSON
// inside of a JSON string is two.
const maxViews = 4

// find appends the secrets of a text, looked at as it is and with its escapes taken
// away.
func (m *Masker) find(b []byte, depth int, spans []span) []span {
	hits := m.hits(b)
	if len(hits) == 0 && len(m.always) == 0 {
		return spans
	}
	slices.SortFunc(hits, func(a, b hit) int { return a.lo - b.lo })
	f := finder{m: m, b: b, done: map[int]int{}, owns: m.always}
	for _, h := range hits {
		r := &m.rules[h.rule]
		switch {
		case r.own != nil:
			if !slices.Contains(f.owns, r.own) {
				f.owns = append(slices.Clip(f.owns), r.own)
			}
		case r.find != nil && h.lo >= f.done[h.rule]:
			r.find(&f, h.lo, h.hi)
		}
	}
	for _, o := range f.owns {
		f.own(o)
	}
	if f.kube {
		f.kubernetes(depth)
	}
	spans = append(spans, f.spans...)
	if depth < maxViews {
		spans = m.through(unescape(b), depth, spans)
	}
	if depth < 2 { // URLs are not nested as JSON is
		spans = m.through(unpercent(b), depth, spans)
	}
	return spans
}

// through appends the secrets seen through a view.
func (m *Masker) through(v *view, depth int, spans []span) []span {
	if v == nil {
		return spans
	}
	from := len(spans)
	spans = m.find(v.text, depth+1, spans)
	for i := range spans[from:] {
		s := &spans[from+i]
		s.lo, s.hi = v.source(s.lo, s.hi)
	}
	return spans
}

func (f *finder) add(lo, hi, kind int) {
	if lo < hi {
		f.spans = append(f.spans, span{lo, hi, kind})
	}
}

// addTokens enters the kinds that are known by their form.
func (m *Masker) addTokens(enabled map[string]bool) {
	for i := range tokens {
		t := &tokens[i]
		if !enabled[t.kind] {
			continue
		}
		kind, id := m.kind(t.kind), len(m.rules)
		m.addRule(rule{
			near: t.near,
			find: func(f *finder, lo, hi int) {
				f.done[id] = max(f.done[id], f.token(t, kind, lo))
			},
		}, t.anchors...)
	}
}

// patterns are the compiled patterns of tokens.
var patterns = func() map[*token]*regexp.Regexp {
	all := map[*token]*regexp.Regexp{}
	for i := range tokens {
		all[&tokens[i]] = regexp.MustCompile(`^(?:` + tokens[i].pattern + `)`)
	}
	return all
}()

// near tells whether the word goes on long enough behind an anchor.
func (t *token) near(b []byte, lo, hi int) bool {
	if t.word && !wordStart(b, lo) || t.notAfter != nil && lo > 0 && t.notAfter(b[lo-1]) {
		return false
	}
	run := t.run
	if run == 0 {
		run = 8
	}
	for i := range max(run, 0) {
		if hi+i >= len(b) || !inWord(b[hi+i]) && bytes.IndexByte([]byte(`\+/=.%~`), b[hi+i]) < 0 {
			return false
		}
	}
	return true
}

// token masks the token whose anchor is at lo and returns where it ends.
func (f *finder) token(t *token, kind, lo int) int {
	from := lo - t.back
	if t.walk != nil {
		for from = lo; from > 0 && lo-from < t.back && t.walk(f.b[from-1]); {
			from--
		}
	}
	if from < 0 {
		return 0
	}
	at := patterns[t].FindSubmatchIndex(f.b[from:min(len(f.b), lo+window)])
	if at == nil {
		return 0
	}
	s, e := from+at[0], from+at[1]
	if len(at) > 2 && at[2] >= 0 {
		s, e = from+at[2], from+at[3]
	}
	if from+at[1] <= lo || t.check != nil && !t.check(f.b[s:e]) {
		return 0
	}
	e = wordEnd(f.b, e)
	f.add(s, e, kind)
	if t.kind == "aws_access_key_id" {
		f.awsPair(e)
	}
	return e
}

// awsPair masks the secret key that follows its id, as in a table of credentials.
func (f *finder) awsPair(at int) {
	i := at
	for i < len(f.b) && i-at < 8 && bytes.IndexByte([]byte(" \t,;:|\"'"), f.b[i]) >= 0 {
		i++
	}
	end := i
	for end < len(f.b) && (inWord(f.b[end]) || f.b[end] == '/' || f.b[end] == '+') {
		end++
	}
	if i > at && end-i == 40 {
		f.add(i, end, f.m.kindOf["aws_secret_key"])
	}
}

func inWord(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// wordStart tells whether a word can begin at b[i]. An escape is no part of a word.
func wordStart(b []byte, i int) bool {
	return i == 0 || !inWord(b[i-1]) || b[i-1] == '-' ||
		i >= 2 && b[i-2] == '\\' ||
		i >= 3 && b[i-3] == '%' ||
		i >= 6 && b[i-6] == '\\' && b[i-5] == 'u'
}

// wordEnd returns the end of the word that b[i] is in. What hangs on a secret goes
// with it.
func wordEnd(b []byte, i int) int {
	for i < len(b) && inWord(b[i]) && i > 0 && inWord(b[i-1]) {
		i++
	}
	return i
}

func isCapital(c byte) bool { return 'A' <= c && c <= 'Z' || isDigit(c) }

func digit(b []byte) bool { return bytes.ContainsAny(b, "0123456789") }

// userAndPassword tells whether b is the base64 of user:password.
func userAndPassword(b []byte) bool {
	text, err := base64.RawStdEncoding.DecodeString(string(bytes.TrimRight(b, "=")))
	if err != nil {
		return false
	}
	for _, c := range text {
		if c < 0x20 || c == 0x7f {
			return false
		}
	}
	return bytes.IndexByte(text, ':') >= 0
}
