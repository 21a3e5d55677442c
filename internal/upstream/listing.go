package upstream

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"time"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// listKinds is the number of lists a server can have. They are told apart by
// catalog.Kind, which is also the bit of owner.dirty.
const listKinds = int(catalog.Templates) + 1

// capabilities are the parts of a server's capabilities that decide what we ask
// of it.
type capabilities struct {
	offers    [listKinds]bool // which lists it has
	announces [listKinds]bool // whose changes it announces
	subscribe bool            // resource subscriptions
	logging   bool
}

func parseCapabilities(info *Info) (c capabilities) {
	raw := info.Capabilities
	all := wire.Span{Hi: len(raw)}
	is := func(s wire.Span) bool { return s.OK() && string(s.Of(raw)) != "null" && string(s.Of(raw)) != "false" }
	for kind, name := range [...]string{catalog.Tools: "tools", catalog.Prompts: "prompts", catalog.Resources: "resources"} {
		s := wire.Field(raw, all, name)
		c.offers[kind] = is(s)
		c.announces[kind] = is(s) && is(wire.Field(raw, s, "listChanged"))
		if catalog.Kind(kind) == catalog.Resources {
			c.subscribe = is(s) && is(wire.Field(raw, s, "subscribe"))
		}
	}
	c.offers[catalog.Templates], c.announces[catalog.Templates] = c.offers[catalog.Resources], c.announces[catalog.Resources]
	c.logging = is(wire.Field(raw, all, "logging"))
	return c
}

// announced are the bits of the lists whose changes the server announces.
func (c *capabilities) announced() (kinds uint32) {
	for kind, announced := range c.announces {
		if announced {
			kinds |= 1 << kind
		}
	}
	return kinds
}

// A fetched is one list as a server sent it.
type fetched struct {
	kind   catalog.Kind
	defs   [][]byte // the definitions, parts of pages that hold nothing else
	public bool     // every page may be shown to anybody (modern caching hints)

	problem string // why defs are not the whole list; empty if they are
	retry   bool   // asking again later can bring more
	absent  bool   // the server does not know this list
	denied  error  // it wants other credentials; nil if it does not
	refused bool   // it is no list that could be used, not even in part
}

// A lister reads one list of a server from the first page to the last.
type lister struct {
	conn Conn
	opts *Options
	fetched
	bytes   int             // of all pages
	last    []byte          // the entries of the page before, as text
	cursors map[string]bool // seen before, as raw JSON
}

// fetch reads a list under the limits on time, pages, entries and bytes. What was
// read before an error or a limit is kept, except at the limit of pages: a list that
// reaches it is made up as it is read, so that a thousand pages of it would be no
// better than none. Items keep the bytes of the server.
func fetch(ctx context.Context, conn Conn, opts *Options, kind catalog.Kind) fetched {
	limits := &opts.Limits
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(limits.List, 30*time.Second))
	defer cancel()
	l := &lister{conn: conn, opts: opts, cursors: map[string]bool{}}
	l.kind, l.public = kind, conn.Info().Era == wire.Modern
	var cursor []byte
	for page := 1; ; page++ {
		next, ok := l.page(ctx, cursor)
		switch {
		case !ok || next == nil:
			return l.fetched
		case l.cursors[string(next)]:
			l.cut("repeats a cursor, so it would never end; %d entries were read", len(l.defs))
			return l.fetched
		case page == cmp.Or(limits.Pages, 1000):
			l.refuse("has more than %d pages (limits.pages), as if it never ended; it is not used", page)
			return l.fetched
		}
		cursor = next
		l.cursors[string(cursor)] = true
	}
}

// page reads one page and returns the cursor of the next, raw, nil at the end.
func (l *lister) page(ctx context.Context, cursor []byte) (next []byte, ok bool) {
	reply, err := l.conn.Call(ctx, &Request{ID: NextID(), Method: l.kind.Method(), Params: l.params(cursor)})
	if err != nil {
		if fault.KindOf(err) == fault.Unauthorized {
			l.denied = err
		}
		l.fail("failed: "+clip(reasonOf(err), maxReason), true)
		return nil, false
	}
	defer reply.Release()
	if e := reply.Err; e != nil {
		l.absent = e.Code == wire.CodeMethodNotFound && len(l.defs) == 0
		l.fail("failed: "+clip(e.Error(), maxReason), !l.absent)
		return nil, false
	}
	result := &reply.Result
	array := result.Field(l.kind.Member())
	if !array.OK() || result.Raw[array.Lo] != '[' {
		l.fail(fmt.Sprintf("brought no list of %s", l.kind.Member()), true)
		return nil, false
	}
	if string(result.Field("cacheScope").Of(result.Raw)) != `"public"` {
		l.public = false
	}
	if !l.keep(array.Of(result.Raw)) {
		return nil, false
	}
	return l.next(result)
}

// next reads the cursor. Servers end their lists by leaving it out, by null and by
// an empty string.
func (l *lister) next(result *wire.Object) ([]byte, bool) {
	switch c := result.Field("nextCursor").Of(result.Raw); {
	case len(c) == 0, string(c) == "null", string(c) == `""`:
		return nil, true
	case c[0] != '"':
		l.fail("has a cursor that is not a string; the pages after it were not read", false)
		return nil, false
	default:
		return bytes.Clone(c), true
	}
}

// keep copies the text of a page's array, so that nothing else of the answer stays
// in memory, and notes its entries.
func (l *lister) keep(array []byte) bool {
	limits := &l.opts.Limits
	if len(l.defs) > 0 && len(array) > len("[]") && bytes.Equal(array, l.last) {
		l.cut("has the same page twice in a row, as if it never ended; %d entries were read", len(l.defs))
		return false
	}
	if l.bytes += len(array); l.bytes > cmp.Or(limits.Answer, 64<<20) {
		l.cut("is larger than %d bytes (limits.answer); the first %d entries are used", cmp.Or(limits.Answer, 64<<20), len(l.defs))
		return false
	}
	array = bytes.Clone(array)
	l.last = array
	most := cmp.Or(limits.Tools, 20000)
	for e := range wire.Elements(array, wire.Span{Hi: len(array)}) {
		if len(l.defs) == most {
			l.cut("has more than %d entries (limits.tools); the others are left out", most)
			return false
		}
		l.defs = append(l.defs, e.Of(array))
	}
	return true
}

// params are those of a list request for this server's era.
func (l *lister) params(cursor []byte) wire.Value {
	member := ""
	if cursor != nil {
		member = `"cursor":` + string(cursor)
	}
	switch {
	case l.conn.Info().Era == wire.Modern:
		return modernParams(l.opts, member)
	case cursor == nil:
		return wire.Value{}
	}
	return wire.Value{Raw: []byte("{" + member + "}")}
}

func (l *lister) fail(problem string, retry bool) {
	l.problem, l.retry = l.kind.Method()+" "+problem, retry
}

// refuse is for a list of which even the part that was read makes no sense.
func (l *lister) refuse(format string, args ...any) {
	l.cut(format, args...)
	l.defs, l.refused = nil, true
}

// cut ends a list at a limit. Asking again would end at the same place.
func (l *lister) cut(format string, args ...any) { l.fail(fmt.Sprintf(format, args...), false) }
