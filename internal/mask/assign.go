package mask

import "bytes"

// addAssignments enters the kinds that are known by the name in front of them.
func (m *Masker) addAssignments(enabled map[string]bool) {
	for i := range names {
		if n := &names[i]; enabled[n.kind] {
			m.kind(n.kind)
			m.names = append(m.names, n)
		}
	}
	if len(m.names) == 0 {
		return
	}
	m.assign = len(m.rules)
	m.addRule(rule{near: m.nearAssignment, find: (*finder).assignment}, nameAnchors...)
}

// nearAssignment tells whether b[lo:hi] is part of a telling name with something
// behind it that can assign a value.
func (m *Masker) nearAssignment(b []byte, lo, hi int) bool {
	from, to := nameAround(b, lo, hi)
	s := assigned(b, from, to, true)
	if s.at == 0 {
		return false
	}
	for s.at < len(b) && (b[s.at] == '\\' || b[s.at] == '"' || b[s.at] == ' ') {
		s.at++
	}
	if s.at < len(b) && b[s.at] == '{' && objectValue(b, s.at) == 0 {
		return false
	}
	return s.at < len(b) && m.telling(b[from:to], lo-from, min(hi, to)-from) != nil
}

// An assignment is how a value follows a name.
type assignment struct {
	at    int  // where the value begins; 0 if none does
	op    byte // ':', '=', '>', ' ', or 'w' for :=
	tight bool // nothing stands between name, sign and value
	named bool // the name is in quotes or tags of its own
}

// assigned reads what is between a name at b[from:to] and its value. Loose, it takes
// escapes of any depth for what they stand for.
func assigned(b []byte, from, to int, loose bool) assignment {
	i := skipAny(b, to, "\"'`])", loose)
	a := assignment{named: i > to}
	j := skipAny(b, i, " \t", loose)
	if j >= len(b) {
		return assignment{}
	}
	switch c := b[j]; {
	case c == '>' && from > 0 && b[from-1] == '<':
		a.op, j = '>', j+1
	case c == ':' && j+1 < len(b) && b[j+1] == '=':
		a.op, j = 'w', j+2
	case c == ',' && bytes.HasPrefix(b[from:], []byte("--")) && i > to, // "--token", "x"
		j > i && from >= 4 && string(b[from-4:from]) == "ENV ":
		a.op = ' '
		if c == ',' {
			j++
		}
	case c == '=' || c == ':':
		a.op, j = c, j+1
		for j < len(b) && (b[j] == '>' || b[j] == '=') {
			j++
		}
	case loose && c == '%' && j+3 < len(b):
		a.op, j = '=', j+3
	case loose || a.named || c == '\n' || c == '\r':
		if at := pairValue(b, i); at > 0 {
			return assignment{at: at, op: ':', named: true}
		}
		tag := from >= 6 && bytes.EqualFold(b[from-6:from], []byte(`\u003c`))
		if !loose || !tag && !bytes.HasPrefix(b[from:], []byte("--")) && !bytes.Contains(b[max(0, from-200):from], []byte("login")) {
			return assignment{}
		}
		a.op = ' '
	case j > i && bytes.HasPrefix(b[from:], []byte("--")):
		a.op = ' '
	case j > i && string(b[from:to]) == "password" && bytes.Contains(b[max(0, from-200):from], []byte("login ")):
		a.op = ' ' // .netrc
	default:
		return assignment{}
	}
	a.at = skipAny(b, j, " \t", loose)
	a.tight = a.at == j && i == to && a.op == '='
	return a
}

// maxSkip is how much white space and punctuation is looked over.
const maxSkip = 64

// skipAny steps over the given bytes; loose, also over escapes.
func skipAny(b []byte, i int, these string, loose bool) int {
	for end := min(len(b), i+maxSkip); i < end; i++ {
		switch c := b[i]; {
		case bytes.IndexByte([]byte(these), c) >= 0:
		case loose && c == '\\':
			if i+5 < len(b) && b[i+1] == 'u' && b[i+2] == '0' {
				i += 5
			}
		case loose && c == '%' && i+2 < len(b) && unhex(b[i+1]) >= 0:
			if b[i+1] == '3' && (b[i+2]|0x20 == 'd' || b[i+2]|0x20 == 'a') {
				return i // an escaped sign is one
			}
			i += 2
		default:
			return i
		}
	}
	return i
}

// pairValue finds the value behind a name that is itself a value, as in
// {"name": "DB_PASSWORD", "value": "x"} and its forms in YAML and XML.
func pairValue(b []byte, i int) int {
	for end := min(len(b), i+2*maxSkip); i < end; i++ {
		switch c := b[i]; {
		case bytes.IndexByte([]byte(" \t\r\n\"',\\"), c) >= 0:
		case c == 'n' && b[i-1] == '\\' || c == 'r' && b[i-1] == '\\':
		case c|0x20 == 'v' && i+5 < len(b) && bytes.EqualFold(b[i:i+5], []byte("value")):
			i += 5
			for i < end && bytes.IndexByte([]byte(" \t\"'\\"), b[i]) >= 0 {
				i++
			}
			if i >= end || b[i] != ':' && b[i] != '=' {
				return 0
			}
			for i++; i < end && (b[i] == ' ' || b[i] == '\t'); i++ {
			}
			return i
		default:
			return 0
		}
	}
	return 0
}

// workingDirectory tells whether a name is that of the variable PWD. In connection
// strings the same name is that of a password.
func workingDirectory(b []byte, from, to int) bool {
	return bytes.HasSuffix(b[from:to], []byte("PWD")) && to-from <= len("OLDPWD") && (from == 0 || b[from-1] != ';')
}

// objectValue finds the value of a name that is an object with a member named value,
// as Terraform writes its outputs.
func objectValue(b []byte, i int) int {
	end := bytes.IndexByte(b[i:min(len(b), i+200)], '}')
	if end < 0 {
		end = min(len(b), i+200) - i
	}
	at := bytes.Index(b[i:i+end], []byte("value"))
	if at < 0 {
		return 0
	}
	return pairValue(b, i+at)
}

// assignment masks the value that is assigned to the name at lo.
func (f *finder) assignment(lo, hi int) {
	from, to := nameAround(f.b, lo, hi)
	a := assigned(f.b, from, to, false)
	if a.at == 0 || a.at >= len(f.b) {
		return
	}
	if from > 0 && (f.b[from-1] == '"' || f.b[from-1] == '\'') && f.b[a.at] == f.b[from-1] && !a.named {
		return // "PASSWORD=" ends before any value
	}
	n := f.m.telling(f.b[from:to], lo-from, min(hi, to)-from)
	if n == nil || workingDirectory(f.b, from, to) {
		return
	}
	if f.b[a.at] == '{' {
		if a.at = objectValue(f.b, a.at); a.at == 0 || a.at >= len(f.b) {
			return
		}
	}
	kind := f.m.kindOf[n.kind]
	header := n.form == asHeader || n.form == asCookie
	if header && from < f.header {
		return
	}
	v := f.valueAt(a, from, n)
	if header {
		f.header = v.hi
		f.parts(n, v, kind)
		return
	}
	for v.hi > v.lo || v.list {
		if v.hi > v.lo && v.secret(f.b[v.lo:v.hi], n.form) {
			for v.stops != nil && v.hi-v.lo >= maxWord && v.hi < len(f.b) && !v.stops.has(f.b[v.hi]) {
				v.hi++
			}
			f.add(v.lo, v.hi, kind)
			f.done[f.m.assign] = max(f.done[f.m.assign], v.hi)
		}
		if !v.list {
			return
		}
		v = f.nextOf(v)
	}
}

// parts masks what is secret inside of the value of a header.
func (f *finder) parts(n *named, v value, kind int) {
	for {
		for _, s := range inside(n.form, f.b[v.lo:v.hi]) {
			f.add(v.lo+s[0], v.lo+s[1], kind)
		}
		if !v.list {
			return
		}
		if v = f.nextOf(v); v.hi == v.lo {
			return
		}
	}
}

// nextOf returns the next element of a list of strings.
func (f *finder) nextOf(v value) value {
	i := skipAny(f.b, v.hi+1, " \t\r\n,", false)
	if i >= len(f.b) || f.b[i] != '"' && f.b[i] != '\'' {
		return value{}
	}
	next := value{quoted: true, list: true, lo: i + 1}
	next.hi = closing(f.b, i)
	return next
}
