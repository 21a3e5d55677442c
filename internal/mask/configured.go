package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"mcp-aggregator/internal/wire"
)

// minValue is the shortest value that is masked wherever it stands.
const minValue = 6

// addValues enters values with their encodings. JSON and URL escapes of any depth are
// also found by looking through views of the text; for that a plain stretch of each
// value, which no escape changes, is an anchor.
func (m *Masker) addValues(values []string) {
	var kind int
	seen := map[string]bool{}
	for _, v := range values {
		if len(v) < minValue || seen[v] {
			continue
		}
		seen[v] = true
		kind = m.kind(Configured)
		for _, form := range forms(v) {
			if len(form) >= minAnchor && !seen["\x00"+form] {
				seen["\x00"+form] = true
				m.literal(form, kind)
			}
		}
		for _, s := range base64Forms(v) {
			m.encoded(s, kind)
		}
		if run := plainRun(v); len(run) >= minAnchor && len(run) < len(v) {
			m.addText(run, rule{near: nearEscape})
		}
	}
}

// forms lists how a value can be written.
func forms(v string) []string {
	all := []string{v, url.QueryEscape(v), url.PathEscape(v), strings.ReplaceAll(url.QueryEscape(v), "+", "%20"), hex.EncodeToString([]byte(v)), strings.ToUpper(hex.EncodeToString([]byte(v)))}
	for _, f := range slices.Clone(all[1:3]) {
		all = append(all, lowerPercent(f))
	}
	once := wire.AppendQuote(nil, v)
	all = append(all, string(once[1:len(once)-1]))
	if html, err := json.Marshal(v); err == nil {
		all = append(all, string(html[1:len(html)-1]))
	}
	all = append(all, strings.ReplaceAll(all[len(all)-2], "/", `\/`))
	twice := wire.AppendQuote(nil, string(once))
	all = append(all, strings.TrimSuffix(strings.TrimPrefix(string(twice[1:len(twice)-1]), `\"`), `\"`))
	return all
}

func lowerPercent(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

// literal masks a text wherever it stands.
func (m *Masker) literal(text string, kind int) {
	m.addText(text, rule{find: func(f *finder, lo, hi int) { f.add(lo, hi, kind) }})
}

// addText enters a rule whose anchor is a text.
func (m *Masker) addText(text string, r rule) {
	if m.net.add(anchor{text: text, rule: len(m.rules)}) == nil {
		m.rules = append(m.rules, r)
	}
}

// An alignment is a value in base64 inside of something longer: what depends on the
// value alone, and how many characters on both sides depend on it in part.
type alignment struct {
	core          string
	before, after int
}

// base64Forms lists the three ways a value can lie in base64, in both alphabets. Text
// of less than eight characters would be found in other data.
func base64Forms(v string) []alignment {
	var all []alignment
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for shift := range 3 {
			text := enc.EncodeToString([]byte(strings.Repeat("\x00", shift) + v))
			a := alignment{before: (shift + 1) / 2}
			if shift > 0 {
				text = text[shift+1:]
				a.before = 1
			}
			if (shift+len(v))%3 != 0 {
				text, a.after = text[:len(text)-1], 1
			}
			a.core = text
			if (len(text) >= 7) && !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	return all
}

// encoded masks a value that lies in base64.
func (m *Masker) encoded(a alignment, kind int) {
	m.addText(a.core, rule{find: func(f *finder, lo, hi int) {
		for n := 0; n < a.before && lo > 0 && inBase64(f.b[lo-1]); n++ {
			lo--
		}
		for n := 0; n < a.after && hi < len(f.b) && inBase64(f.b[hi]); n++ {
			hi++
		}
		f.add(lo, hi, kind)
	}})
}

// plainRun returns the longest stretch of v that is never escaped.
func plainRun(v string) string {
	best, from := "", 0
	for i := 0; i <= len(v); i++ {
		if i < len(v) && inWord(v[i]) {
			continue
		}
		if i-from > len(best) {
			best = v[from:i]
		}
		from = i + 1
	}
	return best
}

// nearEscape tells whether there is an escape around.
func nearEscape(b []byte, lo, hi int) bool {
	return bytes.ContainsAny(b[max(0, lo-256):min(len(b), hi+256)], `\%`)
}
