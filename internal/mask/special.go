package mask

import (
	"bytes"
	"encoding/base64"
)

// A special is a rule whose secrets no pattern of bounded length describes.
type special struct {
	set     string
	kinds   []string
	anchors []string
	near    func(b []byte, lo, hi int) bool
	find    func(f *finder, lo, hi int, kinds []int) (end int)
}

var specials = []special{
	{"keys", []string{"private_key"}, []string{`-----BEGIN`, `---- BEGIN`}, nearPEM, (*finder).pem},
	{"keys", []string{"private_key"}, []string{`LS0tLS1CRUdJTi`}, nil, (*finder).pemBase64},
	{"keys", []string{"private_key"}, []string{`Private-Lines:`}, nil, (*finder).putty},
	{"web", []string{"jwt"}, []string{`eyJ[A-Za-z0-9]`, `eyAi`, `ewog`, `ewoi`}, nearJWT, (*finder).jwt},
	{"web", []string{"url_password"}, []string{`[a-zA-Z0-9]://`, `[a-zA-Z0-9]:\\/`, `[a-zA-Z0-9]:\\\\`, `(?i)%3A%2F`}, nearURL, (*finder).url},
}

// addSpecial enters the specials.
func (m *Masker) addSpecial(enabled map[string]bool) {
	for i := range specials {
		s := &specials[i]
		if !enabled[s.kinds[0]] {
			continue
		}
		id := len(m.rules)
		kinds := make([]int, len(s.kinds))
		for i, k := range s.kinds {
			kinds[i] = m.kind(k)
		}
		m.addRule(rule{
			near: s.near,
			find: func(f *finder, lo, hi int) { f.done[id] = max(f.done[id], s.find(f, lo, hi, kinds)) },
		}, s.anchors...)
	}
}

// addHidden makes escapes that hide letters reason enough for a closer look.
func (m *Masker) addHidden() {
	if len(m.rules) > 0 {
		m.addRule(rule{near: nearHidden}, `\\u00[2-7]`)
	}
}

// nearHidden tells whether an escape \u00XX hides a character that could be part of
// an anchor. Quotes and the characters that HTML-safe encoders escape cannot.
func nearHidden(b []byte, lo, hi int) bool {
	if hi >= len(b) {
		return false
	}
	high, low := unhex(b[hi-1]), unhex(b[hi])
	if low < 0 {
		return false
	}
	switch c := byte(high<<4 | low); c {
	case '"', '\'', '&', '<', '>', 0x7f:
		return false
	}
	return true
}

// maxPEM is how far the end of a key is looked for.
const maxPEM = 64 << 10

func nearPEM(b []byte, _, hi int) bool {
	return bytes.Contains(b[hi:min(len(b), hi+60)], []byte("PRIVATE KEY"))
}

// pem masks a private key from its first line to its last. A key that was cut off
// ends where it stops looking like one.
func (f *finder) pem(lo, hi int, kinds []int) int {
	if !nearPEM(f.b, lo, hi) {
		return 0
	}
	from := hi + bytes.Index(f.b[hi:], []byte("PRIVATE KEY")) + len("PRIVATE KEY")
	rest := f.b[from:min(len(f.b), from+maxPEM)]
	if i := bytes.Index(rest, []byte("-BEGIN")); i >= 0 {
		rest = rest[:i] // so that no text is walked over twice
	}
	end := 0
	for end < len(rest) && armor.has(rest[end]) && !bytes.HasPrefix(rest[end:], []byte("-END")) && !bytes.HasPrefix(rest[end:], []byte("- END")) {
		end++
	}
	tail := rest[end:min(len(rest), end+100)]
	if i := bytes.Index(tail, []byte("END")); i >= 0 {
		i += max(0, bytes.Index(tail[i:], []byte("--")))
		for i < len(tail) && tail[i] == '-' {
			i++
		}
		if longWord(rest[:end]) < 16 {
			return from + end + i // an example
		}
		end += i
	} else if end = cutOff(rest[:end]); end == 0 {
		return from
	}
	f.add(lo, from+end, kinds[0])
	return from + end
}

// longWord returns the length of the longest run of base64 in b.
func longWord(b []byte) int {
	longest, run := 0, 0
	for _, c := range b {
		if run++; !inBase64(c) {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}

// cutOff returns how much of b belongs to a key whose end is missing: its lines, and
// one short piece behind them.
func cutOff(b []byte) int {
	end := 0
	for i, lines := 0, 0; i < len(b); {
		from := i
		for i < len(b) && inBase64(b[i]) {
			i++
		}
		switch n := i - from; {
		case n >= 32:
			lines++
			end = i
		case n > 1 && lines > 0:
			return i
		case from > 200 && lines == 0:
			return 0
		}
		if i == from {
			i++
		}
	}
	return end
}

// armor holds the bytes that can be inside of an armored key: headers, quotes of
// source code and escapes included.
var armor = setOf("=-:,. \t\r\n\\\"'`>|#;()%*", inBase64)

func inBase64(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '+' || c == '/'
}

// inDSN tells whether a byte can be in the user or password of a data source name.
func inDSN(c byte) bool { return c > ' ' && c != '"' && c != '\'' && c != '=' && c != '\\' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// pemBase64 masks a private key whose PEM form is encoded once more.
func (f *finder) pemBase64(lo, _ int, kinds []int) int {
	head := f.b[lo:min(len(f.b), lo+96)]
	head = head[:len(head)&^3]
	var text [72]byte
	n, _ := base64.StdEncoding.Decode(text[:], head)
	if !bytes.Contains(text[:n], []byte("PRIVATE KEY")) {
		return 0
	}
	end := lo
	for end < len(f.b) && (inBase64(f.b[end]) || f.b[end] == '=') {
		end++
	}
	f.add(lo, end, kinds[0])
	return end
}

// putty masks the private lines of a PuTTY key.
func (f *finder) putty(_, hi int, kinds []int) int {
	i := bytes.IndexByte(f.b[hi:min(len(f.b), hi+16)], '\n')
	if i < 0 {
		return 0
	}
	lo := hi + i + 1
	end := lo
	for end < len(f.b) && (inBase64(f.b[end]) || bytes.IndexByte([]byte("=\r\n"), f.b[end]) >= 0) {
		end++
	}
	f.add(lo, end, kinds[0])
	return end
}

func nearJWT(b []byte, lo, hi int) bool {
	if !wordStart(b, lo) {
		return false
	}
	for i := range 12 {
		if hi+i >= len(b) || !inWord(b[hi+i]) && b[hi+i] != '\\' && b[hi+i] != '%' {
			return false
		}
	}
	return true
}

// jwt masks a JSON Web Token, signed or encrypted: a header that names an algorithm,
// and one to four parts more. What only looks like a header is left.
func (f *finder) jwt(lo, _ int, kinds []int) int {
	end, parts := lo, 0
	var header []byte
	for parts < 5 {
		from := end
		for end < len(f.b) && inWord(f.b[end]) {
			end++
		}
		if parts == 0 {
			header = f.b[from:end]
		}
		parts++
		if end >= len(f.b) || f.b[end] != '.' || end+1 < len(f.b) && !inWord(f.b[end+1]) && parts < 2 {
			break
		}
		end++
	}
	text := make([]byte, base64.RawURLEncoding.DecodedLen(min(len(header), 4096)))
	n, _ := base64.RawURLEncoding.Decode(text, header[:min(len(header), 4096)])
	if parts < 2 || !bytes.Contains(text[:n], []byte(`"alg"`)) && !bytes.Contains(text[:n], []byte(`"typ"`)) && !bytes.Contains(text[:n], []byte(`"enc"`)) {
		return end
	}
	if f.b[end-1] == '.' && parts < 3 {
		end--
	}
	f.add(lo, end, kinds[0])
	return end
}

// maxURL is how far the host is looked for behind a URL's scheme.
const maxURL = 512

func nearURL(b []byte, _, hi int) bool {
	for i := hi; i < min(len(b), hi+maxURL); i++ {
		switch b[i] {
		case '@':
			return i > hi
		case '%':
			if i+2 < len(b) && b[i+1] == '4' && b[i+2] == '0' {
				return true
			}
		case ' ', '\n', '\t', '"', '\'', '<', '>', '`', '?', '#', '(', ')', '{':
			return b[i] == '{' || b[i] == '#' || b[i] == '?' || b[i] == '('
		case '/':
			if i > hi+2 && b[i-1] != '\\' && b[i-1] != '/' && b[i-1] != 'F' {
				return false
			}
		}
	}
	return false
}

// url masks the password in a URL, and a user alone that looks like a token.
func (f *finder) url(_, hi int, kinds []int) int {
	if f.b[hi-1] != '/' || f.b[hi-2] != '/' {
		return 0 // still escaped
	}
	rest := f.b[hi:min(len(f.b), hi+maxURL)]
	colon, at := -1, -1
loop:
	for i, c := range rest {
		switch c {
		case '@':
			at = i
		case ':':
			if colon < 0 {
				colon = i
			}
		case '/', ' ', '\n', '\r', '\t', '"', '\'', '<', '>', '`', '\\', ',':
			if c != ',' || at >= 0 {
				break loop
			}
		}
	}
	switch {
	case at < 0:
		return 0
	case colon >= 0 && colon < at:
		if secret := rest[colon+1 : at]; !placeholder(secret) {
			f.add(hi+colon+1, hi+at, kinds[0])
		}
	case at >= 20 && digit(rest[:at]) && !placeholder(rest[:at]) && bytes.IndexByte(rest[:at], '.') < 0:
		f.add(hi, hi+at, kinds[0])
	}
	return hi + at
}
