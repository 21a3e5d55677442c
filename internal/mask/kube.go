package mask

import "bytes"

// addKubernetes enters the code masker: whatever says that it is a Secret has the
// values of its data masked, in JSON and in YAML, alone or in a list.
func (m *Masker) addKubernetes() {
	m.kind(KubernetesSecret)
	find := func(f *finder, _, _ int) { f.kube = true }
	m.addRule(rule{near: after("kind"), find: find, kube: true}, `Secret`)
	m.addRule(rule{near: after("type"), find: find, kube: true}, `Opaque`)
}

// after tells whether an anchor is the value of a key, however it is quoted.
func after(key string) func(b []byte, lo, hi int) bool {
	return func(b []byte, lo, _ int) bool {
		before := b[max(0, lo-60):lo]
		for {
			n := len(before)
			before = bytes.TrimRight(before, " \t\"'\\:")
			if bytes.HasSuffix(before, []byte("u0022")) {
				before = before[:len(before)-len("u0022")]
			}
			if len(before) == n {
				return bytes.HasSuffix(before, []byte(key))
			}
		}
	}
}

func (f *finder) kubernetes(depth int) {
	s := secrets{m: f.m, b: f.b, depth: depth}
	s.json()
	s.yaml()
	f.spans = append(f.spans, s.found...)
}

// secrets finds the data of Kubernetes Secrets. Text around JSON, and JSON that was
// cut off, must not hide any, so it reads loosely.
type secrets struct {
	m     *Masker
	b     []byte
	depth int // how deep in strings of strings
	found []span
	stack []container
}

// A container is an object or array that is being read.
type container struct {
	object bool
	key    role // of the member being read
	is     role // what the object said about itself
	owner  int  // place in the stack of the object whose data this is part of; -1 if none
	data   []span
	items  []span // data of objects in items, in case this is a SecretList
}

// A role is what a member or a word means for us.
type role uint8

const (
	other role = iota
	keyKind
	keyType
	keyData
	keyItems
	isSecret
	isSecretList
	isOpaque
)

func roleOf(word []byte) role {
	switch string(word) {
	case "kind":
		return keyKind
	case "type":
		return keyType
	case "data", "stringData":
		return keyData
	case "items":
		return keyItems
	case "Secret":
		return isSecret
	case "SecretList":
		return isSecretList
	case "Opaque":
		return isOpaque
	}
	return other
}

// json reads all JSON in the text, however much else there is.
func (s *secrets) json() {
	for i := 0; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '{' || c == '[':
			if len(s.stack) >= maxDepth || c == '{' && (i == 0 || s.b[i-1] == '\n') {
				s.closeAll()
			}
			s.push(c == '{')
		case len(s.stack) == 0: // quotes mean nothing in prose
		case c == '}' || c == ']':
			s.close(c == '}')
		case c == '"':
			if end := s.str(i); end > 0 {
				i = end
			}
		}
	}
	s.closeAll()
}

// maxDepth bounds the nesting that is understood.
const maxDepth = 512

func (s *secrets) push(object bool) {
	c := container{object: object, owner: -1}
	if n := len(s.stack); n > 0 {
		top := &s.stack[n-1]
		c.owner = top.owner
		if top.object && top.key == keyData && top.owner < 0 {
			c.owner = n - 1
		}
	}
	s.stack = append(s.stack, c)
}

// str reads the string that begins at i and returns where it ends, or 0 if a line
// ends first, which no string of JSON does.
func (s *secrets) str(i int) int {
	end, escaped := i+1, false
	for ; end < len(s.b) && s.b[end] != '"'; end++ {
		switch s.b[end] {
		case '\\':
			escaped = true
			end++
		case '\n':
			return 0
		}
	}
	end = min(end, len(s.b))
	word := s.b[i+1 : end]
	top := &s.stack[len(s.stack)-1]
	next := end + 1
	for next < len(s.b) && (s.b[next] == ' ' || s.b[next] == '\t') {
		next++
	}
	if top.object && next < len(s.b) && s.b[next] == ':' {
		top.key = roleOf(word)
		return end
	}
	s.value(top, i+1, end, escaped)
	return end
}

// value notes what a string value says.
func (s *secrets) value(top *container, lo, hi int, escaped bool) {
	word := s.b[lo:hi]
	switch {
	case top.owner >= 0:
		s.stack[top.owner].data = append(s.stack[top.owner].data, span{lo, hi, s.m.kindOf[KubernetesSecret]})
		return
	case !top.object:
	case top.key == keyData:
		top.data = append(top.data, span{lo, hi, s.m.kindOf[KubernetesSecret]})
		return
	case top.key == keyKind:
		top.is = max(roleOf(word), keyItems) // any kind at all outweighs a type
	case top.key == keyType && top.is == other && roleOf(word) == isOpaque:
		top.is = isOpaque
	}
	if escaped && s.depth < maxViews && bytes.Contains(word, []byte("Secret")) {
		s.inside(lo, hi)
	}
}

// inside looks into a string that holds a manifest, as kubectl's annotation
// last-applied-configuration does.
func (s *secrets) inside(lo, hi int) {
	v := unescape(s.b[lo:hi])
	if v == nil {
		return
	}
	sub := secrets{m: s.m, b: v.text, depth: s.depth + 1}
	sub.json()
	sub.yaml()
	for _, f := range sub.found {
		f.lo, f.hi = v.source(f.lo, f.hi)
		s.found = append(s.found, span{f.lo + lo, f.hi + lo, f.kind})
	}
}

func (s *secrets) closeAll() {
	for len(s.stack) > 0 {
		s.pop()
	}
}

// close ends the innermost object or array. One that was left open inside of it ends
// with it.
func (s *secrets) close(object bool) {
	for i := len(s.stack) - 1; i >= 0; i-- {
		if s.stack[i].object == object {
			for len(s.stack) > i {
				s.pop()
			}
			return
		}
	}
}

func (s *secrets) pop() {
	n := len(s.stack) - 1
	c := s.stack[n]
	s.stack = s.stack[:n]
	switch {
	case c.is == isSecret || c.is == isOpaque:
		s.found = append(s.found, c.data...)
		return
	case c.is == isSecretList:
		s.found = append(s.found, c.items...)
		return
	case n == 0:
		return
	}
	switch up := &s.stack[n-1]; {
	case c.object && !up.object:
		up.items = append(up.items, c.data...)
	case !c.object && up.object && up.key == keyItems:
		up.items = append(up.items, c.items...)
	}
}
