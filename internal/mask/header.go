package mask

import "bytes"

// inside returns the spans of what is secret in the value of a header.
func inside(as form, text []byte) [][2]int {
	if as == asCookie {
		return cookies(text)
	}
	return credentials(text)
}

var schemes = []string{"bearer", "basic", "token", "bot", "apikey", "negotiate", "digest", "hawk", "sharedkey", "sharedaccesssignature", "aws4-hmac-sha256", "splunk", "genie", "key", "dpop"}

// credentials finds what follows the scheme of an Authorization header. What has no
// known scheme must look like a token.
func credentials(text []byte) [][2]int {
	lo := skipAny(text, 0, " \t\"'", false)
	end := lo
	for end < len(text) && inWord(text[end]) {
		end++
	}
	scheme := string(bytes.ToLower(text[lo:end]))
	known := false
	for _, s := range schemes {
		known = known || s == scheme
	}
	hi := len(text)
	for hi > lo && bytes.IndexByte([]byte(" \t\"',;"), text[hi-1]) >= 0 {
		hi--
	}
	if known && end < len(text) && (text[end] == ' ' || text[end] == '\t') {
		lo = skipAny(text, end, " \t", false)
		if lo >= hi {
			return nil
		}
		if word := firstWord(text[lo:hi]); placeholder(word) || word[0] == '$' || word[0] == '"' || word[0] == '\'' || (!digit(word) && len(word) < 20 && hi-lo > len(word)) {
			return nil
		}
		if scheme != "digest" && scheme != "hawk" && scheme != "aws4-hmac-sha256" {
			hi = lo + len(firstWord(text[lo:hi]))
		}
		return [][2]int{{lo, hi}}
	}
	if word := firstWord(text[lo:hi]); len(word) >= 16 && (value{quoted: true}).token(word) {
		return [][2]int{{lo, lo + len(word)}}
	}
	return nil
}

// firstWord returns what b has up to a blank or quote, without the brackets that it is
// in.
func firstWord(b []byte) []byte {
	if i := bytes.IndexAny(b, " \t\"'`,;"); i > 0 {
		b = b[:i]
	}
	if word := bytes.TrimRight(b, ")]}>"); len(word) > 0 {
		return word
	}
	return b
}

// minCookie is the shortest value of a cookie that is masked: theme=dark stays.
const minCookie = 8

// cookies finds the values of cookies; attributes like Path and Expires stay.
func cookies(text []byte) [][2]int {
	var spans [][2]int
	for at := 0; at < len(text); {
		end := at + len(text[at:])
		if i := bytes.IndexByte(text[at:], ';'); i >= 0 {
			end = at + i
		}
		if eq := bytes.IndexByte(text[at:end], '='); eq > 0 {
			name := string(bytes.ToLower(bytes.TrimSpace(text[at : at+eq])))
			v := text[at+eq+1 : end]
			if i := bytes.IndexAny(v, " \t"); i >= 0 {
				v = v[:i]
			}
			switch name {
			case "path", "expires", "domain", "max-age", "samesite", "priority", "version", "comment":
			default:
				if len(v) >= minCookie && !placeholder(v) {
					spans = append(spans, [2]int{at + eq + 1, at + eq + 1 + len(v)})
				}
			}
		}
		at = end + 1
	}
	return spans
}
