package mask

import (
	"bytes"
	"slices"
	"strings"
)

// A form says what values a secret's name promises.
type form uint8

const (
	asPassword form = iota // any word
	asToken                // something no person made up
	asHeader               // the credentials behind the scheme of an Authorization header
	asCookie               // the values in a Cookie or Set-Cookie header
	asBasic                // base64 of user:password
	asBase64               // long base64
)

// A named kind is known by the name that stands in front of it. Of those that fit the
// first counts.
type named struct {
	set, kind string
	form      form
	words     []string // all of them are in the name, which is in lower case, without separators
	exact     bool     // the first word is the whole name
}

var names = []named{
	{set: "cloud", kind: "aws_secret_key", form: asToken, words: []string{"secretaccesskey"}},
	{set: "cloud", kind: "aws_secret_key", form: asToken, words: []string{"aws", "secret"}},
	{set: "cloud", kind: "aws_session_token", form: asToken, words: []string{"aws", "token"}},
	{set: "cloud", kind: "aws_session_token", form: asToken, words: []string{"amzsecuritytoken"}},
	{set: "cloud", kind: "aws_session_token", form: asBase64, words: []string{"sessiontoken"}},
	{set: "cloud", kind: "azure_key", form: asBase64, words: []string{"accountkey"}},
	{set: "cloud", kind: "azure_key", form: asBase64, words: []string{"sharedaccesskey"}},
	{set: "cloud", kind: "azure_key", form: asBase64, words: []string{"storagekey"}},
	{set: "cloud", kind: "azure_key", form: asToken, words: []string{"azure"}},
	{set: "cloud", kind: "heroku_api_key", form: asToken, words: []string{"heroku"}},
	{set: "cloud", kind: "cloudflare_key", form: asToken, words: []string{"cloudflare"}},
	{set: "cloud", kind: "vault_token", form: asToken, words: []string{"vault"}},
	{set: "cloud", kind: "terraform_token", form: asToken, words: []string{"terraform"}},
	{set: "mail", kind: "twilio_auth_token", form: asToken, words: []string{"twilio"}},
	{set: "mail", kind: "mailgun_key", form: asToken, words: []string{"mailgun"}},
	{set: "chat", kind: "discord_token", form: asToken, words: []string{"discord"}},
	{set: "saas", kind: "datadog_key", form: asToken, words: []string{"datadog"}},
	{set: "saas", kind: "datadog_key", form: asToken, words: []string{"ddapikey"}},
	{set: "saas", kind: "datadog_key", form: asToken, words: []string{"ddappkey"}},
	{set: "saas", kind: "okta_token", form: asToken, words: []string{"okta"}},
	{set: "saas", kind: "snyk_token", form: asToken, words: []string{"snyk"}},
	{set: "packages", kind: "npmrc_auth", form: asToken, words: []string{"authtoken"}, exact: true},
	{set: "packages", kind: "docker_auth", form: asBasic, words: []string{"auth"}, exact: true},
	{set: "packages", kind: "docker_identity_token", form: asToken, words: []string{"identitytoken"}},
	{set: "kubernetes", kind: "kubeconfig_client_key", form: asBase64, words: []string{"clientkeydata"}},
	{set: "web", kind: "authorization", form: asHeader, words: []string{"authorization"}},
	{set: "web", kind: "cookie", form: asCookie, words: []string{"setcookie"}, exact: true},
	{set: "web", kind: "cookie", form: asCookie, words: []string{"cookie"}, exact: true},
	{set: "web", kind: "auth_header", form: asToken, words: []string{"xapikey"}},
	{set: "web", kind: "auth_header", form: asToken, words: []string{"xauthtoken"}},
	{set: "web", kind: "auth_header", form: asToken, words: []string{"privatetoken"}},
	{set: "web", kind: "oauth_client_secret", form: asToken, words: []string{"clientsecret"}},
	{set: "web", kind: "oauth_token", form: asToken, words: []string{"accesstoken"}},
	{set: "web", kind: "oauth_token", form: asToken, words: []string{"refreshtoken"}},
	{set: "web", kind: "oauth_token", form: asToken, words: []string{"idtoken"}, exact: true},
	{set: "database", kind: "database_password", form: asPassword, words: []string{"pgpassword"}},
	{set: "database", kind: "database_password", form: asPassword, words: []string{"mysql", "pass"}},
	{set: "database", kind: "database_password", form: asPassword, words: []string{"postgres", "pass"}},
	{set: "database", kind: "database_password", form: asPassword, words: []string{"mongo", "pass"}},
	{set: "database", kind: "database_password", form: asPassword, words: []string{"redis", "pass"}},
	{set: "database", kind: "database_password", form: asPassword, words: []string{"dbpass"}},
	{set: "generic", kind: "password", form: asPassword, words: []string{"pass"}},
	{set: "generic", kind: "password", form: asPassword, words: []string{"pwd"}},
	{set: "generic", kind: "api_key", form: asToken, words: []string{"apikey"}},
	{set: "generic", kind: "secret", form: asToken, words: []string{"secret"}},
	{set: "generic", kind: "secret", form: asToken, words: []string{"credential"}},
	{set: "generic", kind: "token", form: asToken, words: []string{"token"}},
	{set: "generic", kind: "secret_key", form: asToken, words: []string{"key"}},
}

// nameAnchors are the parts of names that promise a secret.
var nameAnchors = []string{
	`(?i)passw`, `(?i)passphrase`, `(?i)[_-]pass`, `[a-z]Pass`, `(?i)pwd[=:"' \r\n,\]\\]`, `(?i)secret`, `(?i)token`,
	`(?i)credential`, `(?i)key["'=: \t\r\n,\]_\-0-9\\%><)BbVD.]`, `(?i)auth["'=\r\n\\]`, `(?i)authoriz`, `(?i)cookie["': \r\n\\=]`,
}

// notBefore and notAfter are what makes a name one of something that is no secret,
// in front of the telling part and behind it: next_page_token, secretName.
var notBefore = []string{"next", "page", "continuation", "continue", "sync", "progress", "cancel", "bos", "eos", "pad", "unk", "cls", "sep", "special", "paging", "pagination", "max", "public", "pub", "num", "total", "skip", "resume", "cursor", "csrfheader"}

var notAfter = []string{"name", "ref", "url", "uri", "file", "path", "dir", "type", "kind", "count", "len", "size", "id", "expir", "exp", "ttl", "age", "polic", "endpoint", "host", "field", "param", "version", "namespace", "provider", "class", "enabled", "disabled", "required", "min", "max", "limit", "used", "usage", "time", "date", "at", "by", "second", "status", "state", "prefix", "suffix", "format", "pattern", "regex", "label", "hint", "prompt", "strength", "store", "manager", "mode", "method", "arn", "volume", "mount", "index", "position", "rotat", "reset", "change", "list", "map", "set", "is", "has", "per", "s", "ized", "ize", "izer", "review", "request", "response", "error", "auth", "valid", "source", "scope", "audience", "issuer", "algorithm", "alg", "header", "rule", "engine", "interval", "duration", "budget", "from", "for", "info", "desc", "comment", "mask", "metadata"}

// keyOf are what a key is of if it is a secret.
var keyOf = []string{"api", "access", "secret", "private", "account", "auth", "encryption", "encrypt", "signing", "signature", "sign", "master", "shared", "license", "service", "hmac", "session", "app", "application", "deploy", "admin", "storage", "webhook", "ingest", "integration", "subscription", "jwt"}

// goesOn are what can follow the telling part of a name without a separator.
var goesOn = []string{"value", "data", "string", "text", "plain", "plaintext", "base64", "b64", "key", "raw", "hash", "old", "new", "current", "confirm", "confirmation", "again"}

// endings are what the telling parts of names can be written out to, longest first.
var endings = map[string][]string{
	"passw": {"ords", "ord", "d", ""}, "pass": {"words", "word", "phrase", "wd", ""}, "secret": {"accesskey", "access_key", "key", ""},
	"authoriz": {"ation"}, "credential": {"s", ""}, "passphrase": {""}, "pwd": {""}, "token": {""}, "key": {""}, "auth": {""}, "cookie": {""},
}

// telling returns the kind of secret that a name promises, whose telling part is
// name[lo:hi], or nil.
func (m *Masker) telling(name []byte, lo, hi int) *named {
	if hi-lo > 3 && bytes.EqualFold(name[lo:lo+3], []byte("key")) {
		hi = lo + 3 // the anchor has more than the word
	}
	part := squeeze(name[lo:hi])
	before := squeeze(name[:lo])
	if part == "key" {
		if !anySuffix(before, keyOf) && (before != "client" && !strings.HasSuffix(before, "clusterclient") || !bytes.EqualFold(name[hi:], []byte("-data"))) {
			return nil
		}
	} else if rest, ok := strings.CutSuffix(part, "pass"); ok {
		before, part = before+rest, "pass"
	}
	end := -1
	for _, e := range endings[part] {
		if len(name)-hi >= len(e) && bytes.EqualFold(name[hi:hi+len(e)], []byte(e)) {
			end = hi + len(e)
			break
		}
	}
	if end < 0 || anySuffix(before, notBefore) || !ends(name, end, part) {
		return nil
	}
	whole := squeeze(name)
	for _, n := range m.names {
		if n.exact && whole != n.words[0] {
			continue
		}
		fits := true
		for _, w := range n.words {
			fits = fits && strings.Contains(whole, w)
		}
		if fits {
			return n
		}
	}
	return nil
}

// ends tells whether a name stays one of a secret with what follows name[:end].
func ends(name []byte, end int, part string) bool {
	if end == len(name) {
		return true
	}
	after := squeeze(name[end:])
	switch {
	case after == "" || isDigit(name[end]):
		return true
	case slices.Contains(goesOn, after):
		return true
	case part == "key" || name[end] != '_' && name[end] != '-':
		return false
	}
	return !anyPrefix(after, notAfter)
}

// squeeze takes separators out of a name and makes it lower case.
func squeeze(name []byte) string {
	var buf [64]byte
	out := buf[:0]
	for _, c := range name {
		switch {
		case 'A' <= c && c <= 'Z':
			out = append(out, c|0x20)
		case 'a' <= c && c <= 'z' || isDigit(c):
			out = append(out, c)
		}
	}
	return string(out)
}

func anySuffix(s string, of []string) bool {
	for _, o := range of {
		if strings.HasSuffix(s, o) {
			return true
		}
	}
	return false
}

func anyPrefix(s string, of []string) bool {
	for _, o := range of {
		if strings.HasPrefix(s, o) {
			return true
		}
	}
	return false
}

// maxName bounds how far a name reaches around its telling part.
const maxName = 64

// nameAround returns the name that b[lo:hi] is part of. Words in front of it belong to
// it where people write names as words: "API key: ".
func nameAround(b []byte, lo, hi int) (int, int) {
	from, to := lo, hi
	for to > lo && !inName(b[to-1]) {
		to-- // the anchor can end with what closes a name
	}
	for from > 0 && lo-from < maxName && inName(b[from-1]) && (from < 2 || b[from-2] != '\\') {
		from--
	}
	switch { // what is left of an escape is no part of the name
	case from >= 2 && b[from-1] == 'u' && b[from-2] == '\\' && lo-from >= 4:
		from += 4
	case from >= 1 && b[from-1] == '%' && lo-from >= 2:
		from += 2
	}
	for to < len(b) && to-hi < maxName && (inName(b[to]) && b[to] != '.' || b[to] == '.' && to+1 < len(b) && inName(b[to+1])) {
		to++
	}
	for words := 0; words < 3 && from >= 4 && b[from-1] == ' '; words++ {
		start := from - 1
		for start > 0 && from-start < 12 && inWord(b[start-1]) {
			start--
		}
		switch string(bytes.ToLower(b[start : from-1])) {
		case "api", "access", "secret", "private", "account", "auth", "client", "session", "bearer", "aws", "shared", "set":
			from = start
		default:
			return from, to
		}
	}
	return from, to
}

func inName(c byte) bool { return inWord(c) || c == '.' }
