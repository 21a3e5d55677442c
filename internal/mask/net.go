package mask

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"math/bits"
	"regexp/syntax"
	"slices"
	"strings"
)

// A class is a set of bytes.
type class [4]uint64

func (c *class) add(b byte)      { c[b>>6] |= 1 << (b & 63) }
func (c *class) has(b byte) bool { return c[b>>6]>>(b&63)&1 != 0 }

// all yields the members.
func (c *class) all() iter.Seq[byte] {
	return func(yield func(byte) bool) {
		for i, w := range c {
			for ; w != 0; w &= w - 1 {
				if !yield(byte(i<<6 + bits.TrailingZeros64(w))) {
					return
				}
			}
		}
	}
}

// setOf makes the set of some bytes and of those that f accepts.
func setOf(these string, f func(byte) bool) class {
	var c class
	for b := range 256 {
		if f != nil && f(byte(b)) || strings.IndexByte(these, byte(b)) >= 0 {
			c.add(byte(b))
		}
	}
	return c
}

// An anchor is a short sequence of byte classes that everything of one rule
// contains. Finding anchors is all that is done for text without secrets.
type anchor struct {
	at   []class
	text string // instead of at: these very bytes
	rule int
}

func (a *anchor) len() int { return len(a.at) + len(a.text) }

// minAnchor is the shortest anchor: three bytes can then be looked at in every
// second place of a text without missing one.
const minAnchor = 4

// A net finds all anchors in one pass over a text. In every second place it looks up
// a hash of three bytes, letters folded, in a table that stays in the processor's
// first cache; each anchor has two such triples in it, one for even and one for odd
// places. An automaton of one step per byte ran at a third of the speed.
type net struct {
	bits    [netBits / 64]uint64
	heads   [buckets + 1]uint32 // bucket → its first triple
	triples []triple            // by bucket
	anchors []anchor
}

type triple struct {
	bytes  uint32 // folded
	anchor uint32
	offset uint32 // of the triple in the anchor
}

// buckets hold the triples whose hashes begin alike.
const buckets = 1 << 12

func (t triple) bucket() uint32 { return t.bytes * hashPrime >> (32 - 12) }

const (
	netBits   = 1 << 17
	netShift  = 32 - 17
	hashPrime = 0x9E3779B1
	fold      = 0x20202020 // maps upper-case letters to lower case, and some others too: a hit is looked at again
	foldWide  = fold<<32 | fold
)

// add enters an anchor. The triples are taken from where they are rarest.
func (n *net) add(a anchor) error {
	if a.len() < minAnchor {
		return fmt.Errorf("anchor of %d bytes", a.len())
	}
	best, least := 0, -1
	for i := 0; i+minAnchor <= a.len(); i++ {
		sum := 0
		for _, c := range a.classes(i, minAnchor) {
			for b := range c.all() {
				sum += weight(b)
			}
		}
		if least < 0 || sum < least {
			best, least = i, sum
		}
	}
	id := uint32(len(n.anchors))
	n.anchors = append(n.anchors, a)
	for offset := best; offset < best+2; offset++ {
		seen := map[uint32]bool{}
		each(a.classes(offset, 3), 0, 0, func(t uint32) {
			if seen[t] {
				return
			}
			seen[t] = true
			n.triples = append(n.triples, triple{t, id, uint32(offset)})
			h := t * hashPrime >> netShift
			n.bits[h>>6] |= 1 << (h & 63)
		})
	}
	return nil
}

// ready must be called once, after all anchors were added.
func (n *net) ready() {
	slices.SortStableFunc(n.triples, func(a, b triple) int { return cmp.Compare(a.bucket(), b.bucket()) })
	for _, t := range n.triples {
		n.heads[t.bucket()+1]++
	}
	for i := range buckets {
		n.heads[i+1] += n.heads[i]
	}
}

// classes returns n classes of an anchor.
func (a *anchor) classes(i, n int) []class {
	if a.text != "" {
		return literal(a.text[i:i+n], false)
	}
	return a.at[i : i+n]
}

// weight is about how many of a thousand bytes of ordinary text are b.
func weight(b byte) int {
	const letters = "etaoinsrhldcumfpgwybvkxjqz"
	switch i := strings.IndexByte(letters, b|0x20); {
	case i >= 0:
		return 4 + (len(letters)-i)*3
	case '0' <= b && b <= '9', b == '-':
		return 30
	case b == ' ' || b == '"' || b == '\\':
		return 80
	}
	return 10
}

// each calls f for every folded triple of the classes.
func each(at []class, shift int, t uint32, f func(uint32)) {
	if len(at) == 0 {
		f(t)
		return
	}
	for b := range at[0].all() {
		each(at[1:], shift+8, t|uint32(b|0x20)<<shift, f)
	}
}

// scan calls hit for every anchor in b, roughly in order. No anchor is missed and
// none is told twice.
func (n *net) scan(b []byte, hit func(rule, lo, hi int)) {
	const three = 0xffffff
	i := 0
	for ; i+8 <= len(b); i += 6 {
		w := binary.LittleEndian.Uint64(b[i:]) | foldWide
		h0 := uint32(w) & three * hashPrime >> netShift
		h1 := uint32(w>>16) & three * hashPrime >> netShift
		h2 := uint32(w>>32) & three * hashPrime >> netShift
		if (n.bits[h0>>6&(netBits/64-1)]>>(h0&63)|n.bits[h1>>6&(netBits/64-1)]>>(h1&63)|n.bits[h2>>6&(netBits/64-1)]>>(h2&63))&1 != 0 {
			n.look(b, i, uint32(w)&three, hit)
			n.look(b, i+2, uint32(w>>16)&three, hit)
			n.look(b, i+4, uint32(w>>32)&three, hit)
		}
	}
	for ; i+3 <= len(b); i += 2 {
		t := uint32(b[i]) | uint32(b[i+1])<<8 | uint32(b[i+2])<<16 | fold&three
		n.look(b, i, t, hit)
	}
}

// look finds the anchors that have the triple t at place i of b.
func (n *net) look(b []byte, i int, t uint32, hit func(rule, lo, hi int)) {
	h := t * hashPrime >> netShift
	if n.bits[h>>6]>>(h&63)&1 == 0 {
		return
	}
	bucket := triple{bytes: t}.bucket()
	for k := n.heads[bucket]; k < n.heads[bucket+1]; k++ {
		c := &n.triples[k]
		if c.bytes != t {
			continue
		}
		a := &n.anchors[c.anchor]
		lo := i - int(c.offset)
		if hi := lo + a.len(); lo >= 0 && hi <= len(b) && a.matches(b[lo:hi]) {
			hit(a.rule, lo, hi)
		}
	}
}

func (a *anchor) matches(b []byte) bool {
	if a.text != "" {
		return string(b) == a.text
	}
	for i := range b {
		if !a.at[i].has(b[i]) {
			return false
		}
	}
	return true
}

// literal makes the classes of a text, in any case if fold is set.
func literal(text string, fold bool) []class {
	at := make([]class, len(text))
	for i := range len(text) {
		c := text[i]
		at[i].add(c)
		if l := c | 0x20; fold && 'a' <= l && l <= 'z' {
			at[i].add(l)
			at[i].add(l &^ 0x20)
		}
	}
	return at
}

// classes reads an anchor written as a regular expression of fixed length.
func classes(expr string) ([]class, error) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	return flatten(re)
}

func flatten(re *syntax.Regexp) ([]class, error) {
	switch re.Op {
	case syntax.OpLiteral:
		return literal(string(re.Rune), re.Flags&syntax.FoldCase != 0), nil
	case syntax.OpCharClass:
		var c class
		for i := 0; i < len(re.Rune); i += 2 {
			for r := re.Rune[i]; r <= min(re.Rune[i+1], 0x7f); r++ {
				c.add(byte(r))
			}
		}
		return []class{c}, nil
	case syntax.OpConcat:
		var all []class
		for _, sub := range re.Sub {
			at, err := flatten(sub)
			if err != nil {
				return nil, err
			}
			all = append(all, at...)
		}
		return all, nil
	}
	return nil, fmt.Errorf("anchor %q is not of fixed length", re)
}
