package tokens

import "unicode/utf8"

// cents are hundredths of a token.
type cents int

const token cents = 100

// class is what a byte is to the splitting.
type class uint8

const (
	punct class = iota // and control characters: whatever is nothing else
	lower
	upper
	digit
	blank
	newline
	high // part of a character beyond ASCII
)

var classes = func() (t [256]class) {
	for c := range t {
		switch {
		case 'a' <= c && c <= 'z':
			t[c] = lower
		case 'A' <= c && c <= 'Z':
			t[c] = upper
		case '0' <= c && c <= '9':
			t[c] = digit
		case c == ' ' || c == '\t':
			t[c] = blank
		case c == '\n' || c == '\r':
			t[c] = newline
		case c >= utf8.RuneSelf:
			t[c] = high
		}
	}
	return t
}()

// lead is what stands before a word and is merged into it.
type lead uint8

const (
	bare    lead = iota // nothing, or a run of punctuation that is a piece of its own
	spaced              // one space: words of the vocabulary mostly begin with one
	tied                // one punctuation mark, as in .name or (name
	humped              // the end of another word: inCamelCase
	numbers             // how many there are
)

// cost is what text costs. The pieces follow the splitting of o200k_base, whose
// pattern cl100k_base shares but for the case changes.
func cost(text []byte) cents {
	var total cents
	before := bare
	for i := 0; i < len(text); {
		switch classes[text[i]] {
		case lower, upper, digit:
			c, n := run(text[i:], before)
			total += c
			i += n
			before = bare
		case blank:
			n := 1
			for i+n < len(text) && classes[text[i+n]] == blank {
				n++
			}
			i += n
			total += blanks(n, text[i:])
			before = spaced
		case newline:
			n := newlines(text[i:])
			i += n
			total += token + cents(n/16)*token
			before = bare
		case punct:
			n := 1
			for i+n < len(text) && classes[text[i+n]] == punct {
				n++
			}
			if n == 1 && before == bare && i+1 < len(text) && classes[text[i+1]] <= upper {
				before = tied
				i++
				continue
			}
			total += punctuation(text[i : i+n])
			i += n
			before = bare
			// Newlines that follow punctuation are merged into it.
			for i < len(text) && classes[text[i]] == newline {
				i++
			}
		case high:
			r, n := utf8.DecodeRune(text[i:])
			total += wide(r, n)
			i += n
			before = bare
		}
	}
	return total
}

// blanks is what n blanks cost. The last of them belongs to the word or the
// punctuation that follows; a number takes none, and the end of a line takes all.
func blanks(n int, rest []byte) cents {
	c := stretch(n)
	if n > 1 {
		c += token
	}
	if len(rest) == 0 {
		return token + stretch(n)
	}
	switch classes[rest[0]] {
	case digit:
		return c + token
	case newline:
		return stretch(n)
	}
	return c
}

// stretch is what n white space characters cost beyond one piece: vocabularies
// know runs of them up to a length.
func stretch(n int) cents { return cents(n/64) * token }

// newlines is the length of the white space at the start of text up to and with
// its last newline: one piece, however many empty lines there are.
func newlines(text []byte) int {
	end := 1
	for i, b := range text {
		switch classes[b] {
		case newline:
			end = i + 1
		case blank:
		default:
			return end
		}
	}
	return end
}

// punctuation is what the run s costs. Rulers such as ==== are in the
// vocabularies at many lengths; other long runs fall apart into pairs.
func punctuation(s []byte) cents {
	if len(s) < len(mixedPunct) {
		return mixedPunct[len(s)]
	}
	for _, b := range s {
		if b != s[0] {
			return cents(len(s)) * token / 2
		}
	}
	return token + cents(len(s))*token/24
}

// mixedPunct is what runs of punctuation cost, by their length.
var mixedPunct = [...]cents{0, 100, 101, 116, 183}

// run is what the letters and digits at the start of text cost, and how many
// they are. A run that changes between letters and digits more than once is an
// identifier no vocabulary knows, and costs by its length.
func run(text []byte, before lead) (cents, int) {
	var words, noise cents
	changes := 0
	if before == tied {
		noise = token / 2
	}
	i := 0
	for i < len(text) {
		start := i
		c := classes[text[i]]
		if c == digit {
			for i++; i < len(text) && classes[text[i]] == digit; i++ {
			}
			groups := cents(uint(i-start+2)/3) * token
			words += groups
			noise += groups
			before = bare
			changes++
			continue
		}
		shape := small
		if c == upper {
			for i++; i < len(text) && classes[text[i]] == upper; i++ {
			}
			shape = capital
		}
		capitals := i
		for i < len(text) && classes[text[i]] == lower {
			i++
		}
		if i == start {
			break
		}
		if shape == capital && i > capitals {
			shape = title
		}
		known, unknown := word(shape, before, i-start)
		words += known
		noise += unknown
		before = humped
		if i == len(text) || classes[text[i]] != upper {
			changes++
		}
	}
	if changes > 2 {
		return noise, i
	}
	return words, i
}

// word is what a word of n letters costs: as a word, and as a part of an
// identifier nobody has seen.
func word(shape int, before lead, n int) (known, unknown cents) {
	if n <= longest {
		return cents(wordCosts[shape][before][n]), cents(noiseCosts[n])
	}
	more := cents(n - longest)
	return cents(wordCosts[shape][before][longest]) + more*30, cents(noiseCosts[longest]) + more*45
}

// The shapes of words.
const (
	small = iota
	title
	capital
	shapes
)

// longest is the longest word the tables know; longer ones cost by the letter.
const longest = 16

// wordCosts is what words cost, in hundredths of a token, by shape, what stands
// before them and the number of letters: averages over logs, code, manifests and prose.
var wordCosts = [shapes][numbers][longest + 1]uint16{
	small: {
		bare:   {0, 100, 100, 108, 106, 104, 105, 118, 118, 132, 150, 190, 200, 210, 260, 290, 320},
		spaced: {0, 100, 100, 102, 108, 108, 104, 108, 108, 110, 115, 120, 130, 140, 160, 215, 230},
		tied:   {0, 105, 115, 131, 141, 146, 140, 157, 161, 171, 219, 226, 260, 268, 330, 360, 380},
		humped: {0, 100, 100, 108, 106, 104, 105, 118, 118, 132, 150, 190, 200, 210, 260, 290, 320},
	},
	title: {
		bare:   {0, 100, 103, 104, 106, 107, 112, 111, 140, 170, 150, 183, 250, 260, 296, 320, 340},
		spaced: {0, 100, 101, 102, 101, 103, 118, 107, 126, 150, 135, 140, 190, 256, 280, 300, 320},
		tied:   {0, 100, 183, 177, 157, 190, 204, 188, 202, 238, 246, 287, 350, 350, 390, 400, 420},
		humped: {0, 100, 108, 115, 115, 115, 113, 116, 117, 124, 120, 157, 190, 200, 220, 240, 260},
	},
	capital: {
		bare:   {0, 100, 100, 133, 115, 120, 160, 130, 170, 190, 200, 220, 240, 260, 280, 300, 320},
		spaced: {0, 100, 100, 132, 108, 131, 180, 177, 168, 220, 190, 200, 250, 260, 280, 300, 320},
		tied:   {0, 101, 181, 188, 178, 176, 209, 190, 203, 300, 320, 330, 340, 350, 360, 370, 380},
		humped: {0, 100, 105, 172, 179, 200, 220, 240, 260, 280, 300, 320, 340, 360, 380, 400, 420},
	},
}

// noiseCosts is what letters between digits cost, by their number.
var noiseCosts = [longest + 1]uint16{0, 100, 110, 180, 225, 275, 320, 370, 420, 465, 510, 555, 600, 645, 690, 735, 780}
