// Package tokens estimates how many tokens of a language model a text is.
//
// It decides what becomes of every result, so it must be cheap and need no
// vocabulary: models differ in theirs, and a table of 200,000 merges costs more
// memory than the program. Instead, it splits a text as byte-pair tokenizers do
// before they merge (words, case changes, groups of three digits, runs of
// punctuation and white space) and charges every piece what such a piece costs
// on average. The averages were measured with o200k_base; docs/results.md has
// the accuracy by kind of text.
//
// Everything here is a pure function: nothing is allocated, and the time is
// linear in the length of the text.
package tokens

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// Rule is how tokens are counted.
type Rule uint8

const (
	Auto  Rule = iota // by the kinds of characters, close to what tokenizers of today count
	Chars             // a quarter of the characters, rounded up
)

// Parse reads the name of a rule: "auto" or "chars".
func Parse(s string) (Rule, error) {
	switch s {
	case "auto":
		return Auto, nil
	case "chars":
		return Chars, nil
	}
	return Auto, fmt.Errorf("unknown rule %q for counting tokens: use auto or chars", s)
}

// String is the name that Parse reads.
func (r Rule) String() string {
	if r == Chars {
		return "chars"
	}
	return "auto"
}

// Text is the estimated number of tokens in text, which is UTF-8; every byte
// that is not counts as a character of its own.
func (r Rule) Text(text []byte) int {
	if r == Chars {
		return quarter(utf8.RuneCount(text))
	}
	return whole(cost(text))
}

// JSON is the estimated number of tokens in raw, which is a JSON value or the
// inside of a JSON string: an escape counts as the character it stands for, so
// that a text costs the same inside a JSON string as outside.
func (r Rule) JSON(raw []byte) int {
	if bytes.IndexByte(raw, '\\') < 0 {
		return r.Text(raw)
	}
	var (
		u     unescaper
		piece []byte
		chars int
		total cents
	)
	for len(raw) > 0 || u.carried > 0 {
		piece, raw = u.next(raw)
		if r == Chars {
			chars += utf8.RuneCount(piece)
		} else {
			total += cost(piece)
		}
		u.carry(piece)
	}
	if r == Chars {
		return quarter(chars)
	}
	return whole(total)
}

func quarter(chars int) int { return (chars + 3) / 4 }

func whole(c cents) int { return int((c + token/2) / token) }
