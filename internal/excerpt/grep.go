package excerpt

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// leastChars is what an answer may have at least, so that the shortest piece of a line
// fits and reading on gets somewhere.
const leastChars = 200

// search is one run of grep. Its output looks like that of grep -n: "N:" before a line
// that matches, "N-" before one of context, "--" between groups. Of a long line it shows
// pieces, "N:@OFFSET:" before each.
type search struct {
	t        *Text
	q        Query // as asked
	pattern  *pattern
	budget   *budget
	chars    int // the answer may have
	longLine int // bytes; longer lines are not shown whole
	around   int // bytes shown before and after a match in a long line

	linesBefore, linesAfter int // of context

	out         []byte
	used        int  // characters in out
	shown       int  // matches
	pieces      bool // of long lines
	lastLine    int  // the last line shown
	pending     int  // lines of context still to show
	counted     int  // matches not shown
	stop        int  // where the first match that is not shown begins, or the search stopped; -1: none
	outOfBudget bool
}

func (r *Reader) grep(ctx context.Context, t *Text, q Query) (Excerpt, error) {
	p, err := compile(q)
	if err != nil {
		return Excerpt{}, err
	}
	where := Query{From: q.From, To: q.To, Offset: q.Offset}
	if where, err = r.plain(t, where); err != nil {
		return Excerpt{}, err
	}
	start := where.Offset
	if where.From > 0 {
		start = t.begin(where.From)
	}
	start = border(t.data, start)
	left := r.budget(ctx)
	defer left.leave()
	s := &search{t: t, q: q, pattern: p, budget: left, chars: max(r.limits.Chars, leastChars), stop: -1}
	s.longLine = min(2000, s.chars/4)
	s.around = s.longLine / 10
	s.linesBefore, s.linesAfter = min(max(q.Before, q.Context), t.lines), min(max(q.After, q.Context), t.lines)
	end := r.end(t, where, start)
	s.run(start, end)
	if err := ctx.Err(); err != nil {
		return Excerpt{}, err
	}
	if s.outOfBudget && s.shown == 0 && s.stop == start {
		return Excerpt{}, fmt.Errorf("%w: grep: nothing was found within %v; use a simpler pattern or literal", ErrLimit, r.limits.Time)
	}
	return s.excerpt(start, end, r.limits.Time), nil
}

// run looks at all lines. Matches behind the first that does not fit are only counted.
func (s *search) run(start, end int) {
	line := s.t.lineAt(start)
	for at := start; at < end; line++ {
		next := lineEnd(s.t.data[:end], at)
		if s.budget.spent() || !s.look(line, at, next) {
			s.outOfBudget = true
			if s.stop < 0 {
				s.stop = at
			}
			return
		}
		at = next
	}
}

// look searches one line; false means that the budget was spent meanwhile.
func (s *search) look(number, at, next int) bool {
	content := bytes.TrimSuffix(bytes.TrimSuffix(s.t.data[at:next], []byte{'\n'}), []byte{'\r'})
	from := 0
	if !s.t.atLineStart(at) { // the search goes on inside of a line
		begin := bytes.LastIndexByte(s.t.data[:at], '\n') + 1
		content, from, at = s.t.data[begin:at+len(content)], at-begin, begin
	}
	if len(content) > s.longLine {
		return s.lookLong(number, at, content, from)
	}
	loc, ok := s.pattern.find(content, from, s.budget)
	switch {
	case !ok:
		return false
	case loc != nil:
		s.match(number, at, func() bool { return s.add(number, ':', content) })
	case s.pending > 0 && s.stop < 0:
		if s.pending--; s.add(number, '-', content) {
			s.lastLine = number
		} else {
			s.pending = 0
		}
	}
	return true
}

// lookLong shows pieces around the matches in a long line.
func (s *search) lookLong(number, at int, content []byte, from int) bool {
	found := false
	for from <= len(content) {
		loc, ok := s.pattern.find(content, from, s.budget)
		if !ok {
			if s.stop < 0 {
				s.stop = at + from
			}
			return false
		}
		if loc == nil {
			break
		}
		found = true
		start, end := border(content, max(from, loc[0]-s.around)), border(content, min(loc[0]+s.longLine/2, loc[1]+s.around, len(content)))
		s.match(number, at+start, func() bool { return s.addPiece(number, at+start, content[start:end]) })
		if from = max(end, loc[1]); loc[0] == loc[1] {
			from = max(from, loc[1]+1) // or it would be found again
		}
		if s.stop >= 0 && s.counted >= 1000 {
			break // one line is enough to see that there is more
		}
	}
	if !found && s.pending > 0 && s.stop < 0 {
		s.pending--
		s.pieces = true
		if s.addPiece(number, at, content[:border(content, s.around)]) {
			s.lastLine = number
		}
	}
	return true
}

// match shows a match, with the lines before it, or counts it when the answer is full.
func (s *search) match(number, at int, show func() bool) {
	if s.stop >= 0 {
		s.counted++
		return
	}
	mark, used := len(s.out), s.used
	fits := s.q.MaxMatches == 0 || s.shown < s.q.MaxMatches
	if fits {
		s.before(number)
		if fits = show(); !fits && s.shown == 0 { // the lines before it take all the room
			s.out, s.used = s.out[:mark], used
			fits = show()
		}
	}
	if !fits {
		s.out, s.used = s.out[:mark], used
		s.stop = at
		s.counted++
		return
	}
	s.shown++
	s.lastLine, s.pending = number, s.linesAfter
}

// before shows the context in front of a match, as far as it was not shown yet.
func (s *search) before(number int) {
	first := max(number-s.linesBefore, s.lastLine+1, 1)
	if s.lastLine > 0 && first > s.lastLine+1 && s.linesBefore+s.linesAfter > 0 {
		s.put("--\n")
	}
	if first >= number {
		return
	}
	for begin := s.t.begin(first); first < number; first++ {
		next := lineEnd(s.t.data, begin)
		content := bytes.TrimSuffix(bytes.TrimSuffix(s.t.data[begin:next], []byte{'\n'}), []byte{'\r'})
		if len(content) > s.longLine {
			s.addPiece(first, begin, content[:border(content, s.around)])
		} else {
			s.add(first, '-', content)
		}
		begin = next
	}
}

func (s *search) add(number int, sign byte, content []byte) bool {
	return s.put(strconv.Itoa(number) + string(sign) + string(content) + "\n")
}

func (s *search) addPiece(number, offset int, piece []byte) bool {
	s.pieces = true
	return s.put(fmt.Sprintf("%d:@%d:%s\n", number, offset, piece))
}

func (s *search) put(line string) bool {
	n := utf8.RuneCountInString(line)
	if s.used+n > s.chars {
		return false
	}
	s.out = append(s.out, line...)
	s.used += n
	return true
}

func (s *search) excerpt(start, end int, limit time.Duration) Excerpt {
	t := s.t
	e := Excerpt{Text: s.out, From: t.lineAt(start), Total: t.lines, Start: start, End: end, Size: len(t.data), Matches: s.shown}
	if s.stop >= 0 {
		e.End = s.stop
		next := s.q
		next.From, next.Offset = 0, 0
		if t.atLineStart(s.stop) {
			next.From = t.lineAt(s.stop)
		} else {
			next.Offset = s.stop
		}
		e.Next = &next
	}
	e.To = t.lineAt(max(start, e.End-1))
	e.Note = fmt.Sprintf("%d matches in lines %d-%d of %d", s.shown, e.From, t.lineAt(max(start, end-1)), t.lines)
	switch {
	case s.counted > 0 && s.outOfBudget:
		e.Note += fmt.Sprintf("; at least %d more are left off, the search stopped after %v", s.counted, limit)
	case s.counted > 0:
		e.Note += fmt.Sprintf("; %d more are left off", s.counted)
	case s.outOfBudget:
		e.Note += fmt.Sprintf("; the search stopped in line %d after %v", e.To, limit)
	}
	if s.pieces {
		e.Note += "; of long lines pieces are shown, LINE:@BYTE OFFSET: before each: read around one with offset and bytes"
	}
	e.Note += goOn(e.Next)
	return e
}
