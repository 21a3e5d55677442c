package filter

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What a pattern can be malformed by.
var (
	errEmpty  = errors.New("an empty pattern matches nothing")
	errClass  = errors.New("a [ needs characters and its ]")
	errEscape = errors.New("a \\ needs a character after it")
)

// A Pattern is a compiled glob: * stands for any text (also across / and .), ? for
// any one character, [a-z] for one of a set, [^a-z] or [!a-z] for one not in it, \x
// for x itself. The word "any" alone is the same as *. Letters match in either case.
//
// It is an automaton whose states are bits: bit i is set when the first i parts
// have matched what was read. A star is no part but a loop on the state in front of
// the next part, so a character moves all states at once: next = (states & parts
// that match it) << 1 | states & loops. Going back to the last star instead is
// simpler and never exponential, but took 1.4 ms on the hostile pairs of the test.
type Pattern struct {
	parts []part
	words int      // uint64s for len(parts)+1 states
	loops []uint64 // states that stay whatever comes
	ascii []uint64 // per ASCII character the parts that match it, words each
	wide  []int    // parts that have to be asked about other characters
	other []uint64 // parts that match all of those
}

// A part stands for one character.
type part struct {
	any    bool
	negate bool
	ranges []span // when not any
}

type span struct{ lo, hi rune }

// Compile reads a glob. It accepts everything that path.Match accepts.
func Compile(glob string) (*Pattern, error) {
	if glob == "" {
		return nil, errEmpty
	}
	if strings.EqualFold(glob, "any") {
		glob = "*"
	}
	p := &Pattern{}
	stars := []int{} // a star in front of part i
	rest := []rune(glob)
	for len(rest) > 0 {
		var next part
		var err error
		r := rest[0]
		switch rest = rest[1:]; r {
		case '*':
			stars = append(stars, len(p.parts))
			continue
		case '?':
			next.any = true
		case '[':
			next, rest, err = class(rest)
		case '\\':
			if r, rest, err = escaped(rest); err == nil {
				next.ranges = []span{{r, r}}
			}
		default:
			next.ranges = []span{{r, r}}
		}
		if err != nil {
			return nil, err
		}
		p.parts = append(p.parts, next)
	}
	p.compile(stars)
	return p, nil
}

// compile fills the tables of the automaton.
func (p *Pattern) compile(stars []int) {
	p.words = len(p.parts)/64 + 1
	p.loops = make([]uint64, p.words)
	for _, i := range stars {
		p.loops[i/64] |= 1 << (i % 64)
	}
	p.ascii = make([]uint64, utf8.RuneSelf*p.words)
	p.other = make([]uint64, p.words)
	for i := range p.parts {
		at, bit := i/64, uint64(1)<<(i%64)
		wide := p.parts[i].negate || p.parts[i].matches('\u212a') || p.parts[i].matches('\u017f') // K and ſ have ASCII cases
		for _, s := range p.parts[i].ranges {
			wide = wide || s.hi >= utf8.RuneSelf
		}
		switch {
		case p.parts[i].any:
			p.other[at] |= bit
		case wide:
			p.wide = append(p.wide, i)
		}
		for c := range utf8.RuneSelf {
			if p.parts[i].matches(rune(c)) {
				p.ascii[c*p.words+at] |= bit
			}
		}
	}
}

// class reads a set of characters behind its opening bracket.
func class(s []rune) (part, []rune, error) {
	var c part
	if len(s) > 0 && (s[0] == '^' || s[0] == '!' && (len(s) == 1 || s[1] != ']')) { // [!] is a set of one
		c.negate, s = true, s[1:]
	}
	for {
		if len(s) == 0 || s[0] == ']' && len(c.ranges) == 0 {
			return c, nil, errClass
		}
		if s[0] == ']' {
			return c, s[1:], nil
		}
		lo, rest, err := classRune(s)
		if err != nil {
			return c, nil, err
		}
		hi := lo
		if len(rest) > 1 && rest[0] == '-' && rest[1] != ']' {
			if hi, rest, err = classRune(rest[1:]); err != nil {
				return c, nil, err
			}
		}
		c.ranges, s = append(c.ranges, span{lo, hi}), rest
	}
}

func classRune(s []rune) (rune, []rune, error) {
	if s[0] == '\\' {
		return escaped(s[1:])
	}
	return s[0], s[1:], nil
}

func escaped(s []rune) (rune, []rune, error) {
	if len(s) == 0 {
		return 0, nil, errEscape
	}
	return s[0], s[1:], nil
}

// Match reports whether the whole name matches.
func (p *Pattern) Match(name string) bool {
	var buf [2][4]uint64
	now, masks := buf[0][:], buf[1][:]
	if p.words > len(now) {
		now, masks = make([]uint64, p.words), make([]uint64, p.words)
	}
	now, masks = now[:p.words], masks[:p.words]
	now[0] = 1
	for i := 0; i < len(name); {
		match, n := masks, 1
		if c := name[i]; c < utf8.RuneSelf {
			match = p.ascii[int(c)*p.words:][:p.words]
		} else {
			var r rune
			r, n = utf8.DecodeRuneInString(name[i:])
			p.ask(r, masks)
		}
		i += n
		var carry, alive uint64
		for w := range now {
			moved := now[w] & match[w]
			now[w] = moved<<1 | carry | now[w]&p.loops[w]
			carry = moved >> 63
			alive |= now[w]
		}
		if alive == 0 {
			return false
		}
	}
	end := len(p.parts)
	return now[end/64]>>(end%64)&1 == 1
}

// ask finds the parts that match a character beyond ASCII.
func (p *Pattern) ask(r rune, into []uint64) {
	copy(into, p.other)
	for _, i := range p.wide {
		if p.parts[i].matches(r) {
			into[i/64] |= 1 << (i % 64)
		}
	}
}

// matches reports whether the part stands for r.
func (p *part) matches(r rune) bool {
	if p.any {
		return true
	}
	for c := r; ; { // all cases of r, such as k, K and the Kelvin sign
		for _, s := range p.ranges {
			if s.lo <= c && c <= s.hi {
				return !p.negate
			}
		}
		if c = unicode.SimpleFold(c); c == r {
			return p.negate
		}
	}
}
