package catalog

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"

	"mcp-aggregator/internal/config"
)

// The names that clients see (CAT-1, CAT-3).
//
// A tool is exposed as prefix__name, where every character that hosts do not take is
// mapped to _ and what is too long is shortened. Two tools can come to the same name
// in this way. Such a name goes to the tool whose own name it is, without mapping,
// and otherwise to nobody or to the server that comes first; the others get a suffix
// made of a hash of their server and name. Whether a name needs the suffix depends
// as little as possible on which servers are connected, since a name that changes
// its owner is a call that goes astray: a name that reads as another configured
// server's, like b of server a__x for x__b of server a, always belongs to the server
// with the longest name, present or not.

const separator = "__"

// safe reports the characters every host takes in a name.
func safe(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// guard replaces the other characters.
func guard(name string) string {
	if !strings.ContainsFunc(name, func(r rune) bool { return !safe(r) }) {
		return name
	}
	return strings.Map(func(r rune) rune {
		if safe(r) {
			return r
		}
		return '_'
	}, name)
}

// A naming knows the names of all servers.
type naming struct {
	limit    int
	servers  nameSet // every configured server
	prefixes nameSet // guarded, without the empty one
}

// A nameSet is what names are split by.
type nameSet struct {
	has     map[string]bool
	longest int
}

func (s *nameSet) add(name string) {
	if s.has == nil {
		s.has = map[string]bool{}
	}
	s.has[name] = true
	s.longest = max(s.longest, len(name))
}

// split splits a name at the first separator behind the longest known one. The order
// of the separators says which wins at the same place.
func (s *nameSet) split(name string, separators ...string) (known, rest string, ok bool) {
	for i := min(len(name)-1, s.longest); i > 0; i-- {
		for _, sep := range separators {
			if strings.HasPrefix(name[i:], sep) && s.has[name[:i]] {
				return name[:i], name[i+len(sep):], true
			}
		}
	}
	return "", "", false
}

func newNaming(servers []*config.Server, listings []*Listing, limit int) *naming {
	n := &naming{limit: limit}
	for _, s := range servers {
		n.add(s.Name, prefixOf(s))
	}
	for _, l := range listings {
		n.add(l.Server, l.Prefix)
	}
	return n
}

func (n *naming) add(server, prefix string) {
	n.servers.add(server)
	if prefix != "" {
		n.prefixes.add(guard(prefix))
	}
}

// join makes the name that a server's tool is exposed under if nothing stands
// against it.
func (n *naming) join(prefix, name string) string {
	if prefix == "" {
		return guard(name)
	}
	return guard(prefix) + separator + guard(name)
}

// owns reports whether an exposed name reads as one of the server with the prefix.
func (n *naming) owns(prefix, exposed string) bool {
	longest, _, _ := n.prefixes.split(exposed, separator)
	return longest == guard(prefix)
}

// suffixed makes a name that belongs to this server and tool alone. Attempts beyond
// 0 are for the case that even that is taken.
func (n *naming) suffixed(exposed, server, name string, attempt int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%s", attempt, server, name))
	hash := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5]))
	return exposed[:min(len(exposed), n.limit-1-len(hash))] + "_" + hash
}

// A claim is one tool or prompt that wants a name.
type claim struct {
	listing *Listing
	item    *Item
	plain   string // the name without suffix
	exposed string // what it gets
	reason  string // why that is not prefix__name
}

// assign gives every claim its name and says why where it is not prefix__name.
func (n *naming) assign(claims []claim) {
	wanted := make(map[string]int32, len(claims)) // plain name → claim that has it, or the first of several
	rivals := map[string][]int32{}                // plain name → all claims, where there are several
	var later []int32                             // claims that get a suffix
	for i := range claims {
		c := &claims[i]
		if c.reason = n.plain(c); c.reason == reasonOwner || c.reason == reasonLong {
			later = append(later, int32(i))
			continue
		}
		if first, ok := wanted[c.plain]; !ok {
			wanted[c.plain] = int32(i)
		} else if rivals[c.plain] == nil {
			rivals[c.plain] = []int32{first, int32(i)}
		} else {
			rivals[c.plain] = append(rivals[c.plain], int32(i))
		}
		c.exposed = c.plain
	}
	for plain, all := range rivals {
		winner := electing(claims, all)
		if winner < 0 {
			delete(wanted, plain)
		} else {
			wanted[plain] = winner
		}
		for _, i := range all {
			if i != winner {
				claims[i].reason = reasonClash
				later = append(later, i)
			}
		}
	}
	slices.Sort(later)
	for _, i := range later {
		c := &claims[i]
		for attempt := 0; ; attempt++ {
			c.exposed = n.suffixed(c.plain, c.listing.Server, c.item.Name, attempt)
			if _, taken := wanted[c.exposed]; !taken {
				break
			}
		}
		wanted[c.exposed] = i
	}
}

// Why a name is not prefix__name.
const (
	reasonGuard = "some characters of its name are not allowed"
	reasonLong  = "its name is too long"
	reasonOwner = "its name reads as one of another server"
	reasonClash = "another one has this name"
)

// plain notes the plain name of a claim and says what changed it.
func (n *naming) plain(c *claim) string {
	c.plain = n.join(c.listing.Prefix, c.item.Name)
	switch {
	case !n.owns(c.listing.Prefix, c.plain):
		return reasonOwner
	case len(c.plain) > n.limit:
		return reasonLong
	case c.mapped() > 0:
		return reasonGuard
	}
	return ""
}

// electing decides which of several claims, in the order of their servers, keeps the
// plain name: an unmapped one before mapped ones, then the earlier server. Two mapped
// names of one server have no better right than each other: then nobody gets it,
// whatever order they come in.
func electing(claims []claim, all []int32) int32 {
	best, tie := all[0], false
	for _, i := range all[1:] {
		a, b := &claims[i], &claims[best]
		if d := a.mapped() - b.mapped(); d < 0 {
			best, tie = i, false
		} else if d == 0 && a.listing == b.listing {
			tie = true
		}
	}
	if tie {
		return -1
	}
	return best
}

// mapped returns how far the plain name is from prefix__name: 0 it is just that, 1
// the prefix was mapped, 2 the name was.
func (c *claim) mapped() int {
	switch {
	case c.item.Name != guard(c.item.Name):
		return 2
	case c.listing.Prefix != guard(c.listing.Prefix):
		return 1
	}
	return 0
}
