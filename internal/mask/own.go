package mask

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
)

// Bounds on own patterns. The size is in instructions of the compiled program: each
// byte of a text costs at worst that many steps.
const (
	maxPatterns = 200
	maxPattern  = 1 << 10
	maxSize     = 2000
	maxSizes    = 20000
)

var patternName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// An own pattern looks at a whole text.
type own struct {
	re   *regexp.Regexp
	kind int
}

// addOwn enters patterns of one's own. Those which cannot match without a plain
// stretch of text are tried only where that text is.
func (m *Masker) addOwn(own []Pattern) error {
	if len(own) > maxPatterns {
		return fmt.Errorf("%d patterns: at most %d are allowed", len(own), maxPatterns)
	}
	var problems []error
	sum := 0
	for i, p := range own {
		size, err := m.addPattern(p)
		if err != nil {
			problems = append(problems, fmt.Errorf("pattern %d (%.70q): %w", i+1, p.Name, err))
		}
		sum += size
	}
	if sum > maxSizes {
		problems = append(problems, fmt.Errorf("the patterns are too expensive together: %d steps, at most %d are allowed", sum, maxSizes))
	}
	return errors.Join(problems...)
}

func (m *Masker) addPattern(p Pattern) (size int, err error) {
	if !patternName.MatchString(p.Name) {
		return 0, errors.New("a name has 1 to 64 letters, digits, dots, hyphens and underscores")
	}
	if p.Regexp == "" || len(p.Regexp) > maxPattern {
		return 0, fmt.Errorf("a regular expression has 1 to %d bytes", maxPattern)
	}
	parsed, err := syntax.Parse(p.Regexp, syntax.Perl)
	if err != nil {
		return 0, err
	}
	parsed = parsed.Simplify()
	prog, err := syntax.Compile(parsed)
	if err != nil {
		return 0, err
	}
	if size = len(prog.Inst); size > maxSize {
		return 0, fmt.Errorf("too expensive: %d steps, at most %d are allowed", size, maxSize)
	}
	re, err := regexp.Compile(p.Regexp)
	if err != nil {
		return 0, err
	}
	o := &own{re, m.kind(p.Name)}
	if need := needed(parsed); len(need) >= minAnchor {
		if m.net.add(anchor{at: need, rule: len(m.rules)}) == nil {
			m.rules = append(m.rules, rule{own: o})
			return size, nil
		}
	}
	m.always = append(m.always, o)
	return size, nil
}

// needed returns the longest text that every match of re contains, of bytes that no
// escape changes.
func needed(re *syntax.Regexp) []class {
	switch re.Op {
	case syntax.OpLiteral:
		var best, run []class
		for _, r := range re.Rune {
			if r >= 0x80 || !inWord(byte(r)) || re.Flags&syntax.FoldCase != 0 && (r|0x20 == 'k' || r|0x20 == 's') {
				run = nil // k and s are also written outside of ASCII
				continue
			}
			run = append(run, literal(string(r), re.Flags&syntax.FoldCase != 0)...)
			if len(run) > len(best) {
				best = slices.Clone(run)
			}
		}
		return best
	case syntax.OpCapture, syntax.OpPlus:
		return needed(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return needed(re.Sub[0])
		}
	case syntax.OpConcat:
		var best []class
		for _, sub := range re.Sub {
			if n := needed(sub); len(n) > len(best) {
				best = n
			}
		}
		return best
	}
	return nil
}

// own masks the matches of a pattern.
func (f *finder) own(o *own) {
	for _, at := range o.re.FindAllSubmatchIndex(f.b, -1) {
		if len(at) > 2 && at[2] >= 0 {
			at = at[2:]
		}
		f.add(at[0], at[1], o.kind)
	}
}
