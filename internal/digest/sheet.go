package digest

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// sheet collects the lines of a digest in the order they will be read in, each
// with a rank. fill keeps what fits, lower ranks first: it decides last, when
// everything is known, what is worth the space.
type sheet struct {
	max   int
	count func([]byte) int
	width int // of quoted lines, in bytes
	items []item
	lists []list
	under int // index of the last title, -1 behind a head
}

// The ranks. What is in between is said first come, first served.
const (
	must   = 0
	should = 100
	could  = 200
	might  = 300
)

// item is a line of the digest.
type item struct {
	text   string
	rank   int
	list   int // index into lists, -1 for none
	weight int // how many lines of the text it stands for
	under  int // index of the title it stands under, -1 for none
	title  bool
}

// list is a row of items of which some may be left out; then it says so.
type list struct {
	more      func(left, weight int) string
	last      int // index of the item behind which the note stands
	n, weight int // of everything in it, also what never became an item
}

// tried is how many lines in a row may fail to fit before fill gives up; it
// bounds the work where thousands of lines compete for nothing.
const tried = 64

// headMost is how long the program's own lines may be, in bytes.
const headMost = 1000

// head adds a line of the program's own words, which may quote names.
func (s *sheet) head(rank int, text string) {
	s.under = -1
	s.items = append(s.items, item{text: clip(text, headMost), rank: rank, list: -1, under: -1})
}

// title adds a line that is left out unless something is left that was added
// behind it.
func (s *sheet) title(rank int, text string) {
	s.head(rank, text)
	s.under = len(s.items) - 1
	s.items[s.under].title = true
}

// add adds a line that quotes the text.
func (s *sheet) add(rank int, text string) {
	s.items = append(s.items, item{text: clip(text, s.width), rank: rank, list: -1, under: s.under})
}

// list begins a list; more says how many items, standing for how many lines,
// were left out.
func (s *sheet) list(more func(left, weight int) string) int {
	s.lists = append(s.lists, list{more: more, last: len(s.items) - 1})
	return len(s.lists) - 1
}

// entry adds a line to a list.
func (s *sheet) entry(list, rank, weight int, text string) {
	s.items = append(s.items, item{text: clip(text, s.width), rank: rank, list: list, weight: weight, under: s.under})
	s.lists[list].last = len(s.items) - 1
	s.unlisted(list, 1, weight)
}

// unlisted counts what is in a list without being a line of it.
func (s *sheet) unlisted(list, n, weight int) {
	s.lists[list].n += n
	s.lists[list].weight += weight
}

// fill returns the digest.
func (s *sheet) fill() string {
	order := make([]int, len(s.items))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return s.items[a].rank - s.items[b].rank })
	left, misses := s.max, 0
	noted := make([]bool, len(s.lists))
	taken := make([]int, 0, len(order))
	for _, i := range order {
		it := s.items[i]
		cost := s.cost(it.text)
		if it.list >= 0 && !noted[it.list] {
			cost += s.cost(s.lists[it.list].more(s.lists[it.list].n, s.lists[it.list].weight))
		}
		if cost > left {
			if misses++; misses > tried {
				break
			}
			continue
		}
		misses = 0
		left -= cost
		if it.list >= 0 {
			noted[it.list] = true
		}
		taken = append(taken, i)
	}
	// Tokens of lines need not add up to the tokens of the whole.
	for n := len(taken); n > 0; n -= 1 + n/32 {
		if text := s.render(taken[:n]); s.fits(text) {
			return text
		}
	}
	return s.stub()
}

// render writes the taken items in reading order.
func (s *sheet) render(taken []int) string {
	in := make([]bool, len(s.items))
	left := slices.Clone(s.lists)
	for _, i := range taken {
		in[i] = !s.items[i].title
		if l := s.items[i].list; l >= 0 {
			left[l].n--
			left[l].weight -= s.items[i].weight
		}
	}
	for _, i := range taken {
		if t := s.items[i].under; t >= 0 && in[i] {
			in[t] = true
		}
	}
	var b strings.Builder
	for i, it := range s.items {
		if in[i] {
			b.WriteString(it.text)
			b.WriteByte('\n')
		}
		if l := it.list; l >= 0 && left[l].last == i && left[l].n > 0 && left[l].n < s.lists[l].n {
			b.WriteString(left[l].more(left[l].n, left[l].weight))
			b.WriteByte('\n')
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// stub is what fits of the first line, where nothing else does.
func (s *sheet) stub() string {
	if len(s.items) == 0 {
		return ""
	}
	for width := len(s.items[0].text); width > 4; width = width * 3 / 4 {
		if text := clip(s.items[0].text, width); s.fits(text) {
			return text
		}
	}
	return ""
}

func (s *sheet) cost(line string) int  { return s.count([]byte(line + "\n")) }
func (s *sheet) fits(text string) bool { return s.count([]byte(text)) <= s.max }

// clip is text on one line, valid UTF-8 and at most width bytes long, but for
// the mark that something is missing.
func clip(text string, width int) string {
	cut := len(text) > width
	if cut {
		end := width
		for end > 0 && end > width-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	text = strings.Map(func(r rune) rune {
		if r == '\t' || r >= ' ' && r != 0x7f {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "\ufffd"))
	text = strings.TrimRight(text, " \t")
	if cut {
		text += "…"
	}
	return text
}
