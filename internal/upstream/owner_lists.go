package upstream

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"mcp-aggregator/internal/catalog"
)

// lists is the part of an owner that keeps the picture of a server's lists
// current. It reads each list on its own, so that one that hangs or fails does not
// hold up the others, and makes one listing of what there is. Its methods run on
// the owner's goroutine; the reading goes on in goroutines of serve.
type lists struct {
	o       *owner
	kinds   [listKinds]kindState
	results chan fetched // one place for each kind: a reader never waits
	timer   *time.Timer  // fires when a kind becomes due or grace is over

	conn    transport
	changed bool      // something differs from what was published
	grace   time.Time // when to publish without the kinds still running; zero: no result waits
}

// A kindState is what is known about one list.
type kindState struct {
	offered bool
	running bool
	wanted  bool      // to be read again
	due     time.Time // and not before
	first   bool      // the running or next reading is the first on this connection
	fails   int       // in a row

	fetched // the last usable one, kept over connections
}

// publishGrace is how long a list that has arrived waits for its slower sisters,
// so that a start makes one change and not four.
const publishGrace = 250 * time.Millisecond

// begin takes a new connection: everything it offers is to be read.
func (ls *lists) begin(conn transport, caps capabilities) {
	ls.conn = conn
	ls.results = make(chan fetched, listKinds)
	ls.timer = time.NewTimer(time.Hour)
	ls.changed, ls.grace = true, time.Time{} // instructions and capabilities are new
	for i := range ls.kinds {
		k := &ls.kinds[i]
		kept := k.fetched
		if !caps.offers[i] {
			kept = fetched{kind: catalog.Kind(i)}
		}
		*k = kindState{offered: caps.offers[i], wanted: caps.offers[i], first: true, fetched: kept}
	}
}

// again has everything read again on the same connection, by capabilities that may
// have changed.
func (ls *lists) again(caps capabilities) {
	ls.changed = true
	for i := range ls.kinds {
		k := &ls.kinds[i]
		if k.offered, k.wanted = caps.offers[i], caps.offers[i]; !k.offered {
			k.fetched = fetched{kind: catalog.Kind(i)}
		}
	}
}

// end leaves the connection; the lists stay as they are.
func (ls *lists) end() { ls.timer.Stop() }

// mark notes announced changes.
func (ls *lists) mark(kinds uint32) {
	for i := range ls.kinds {
		if k := &ls.kinds[i]; kinds&(1<<i) != 0 && k.offered {
			k.wanted = true
		}
	}
}

// start reads what is wanted and due, and sets the timer for the rest.
func (ls *lists) start(ctx context.Context, work *sync.WaitGroup) {
	now := time.Now()
	next := ls.grace
	for i := range ls.kinds {
		k := &ls.kinds[i]
		switch {
		case !k.wanted || k.running:
		case now.Before(k.due):
			if next.IsZero() || k.due.Before(next) {
				next = k.due
			}
		default:
			k.running, k.wanted = true, false
			work.Go(func() { ls.read(ctx, catalog.Kind(i)) })
		}
	}
	if !next.IsZero() {
		ls.timer.Reset(time.Until(next))
	}
}

// read fetches one list; it is the body of a goroutine of serve.
func (ls *lists) read(ctx context.Context, kind catalog.Kind) {
	var f fetched
	err := ls.o.guard("reading "+kind.Method(), func() error {
		f = fetch(ctx, ls.conn, ls.o.opts, kind)
		return nil
	})
	if err != nil {
		f = fetched{kind: kind, problem: kind.Method() + " failed: " + ls.o.plain(err)}
	}
	f.problem = ls.o.masked(f.problem)
	ls.results <- f
}

// take notes a list that has been read. While a server keeps announcing changes
// its lists are read at most once in limits.relist; the first announcement after a
// quiet time is followed at once.
func (ls *lists) take(f fetched) {
	k := &ls.kinds[f.kind]
	k.running = false
	if !k.first {
		k.due = time.Now().Add(ls.o.opts.Limits.Relist)
	}
	k.first = false
	if f.absent && f.kind == catalog.Templates {
		f.problem = "" // a list that many servers with resources do not have
	}
	if k.fails++; f.problem == "" {
		k.fails = 0
	}
	if f.retry {
		k.wanted = true
		k.due = time.Now().Add(restartDelays[min(k.fails, len(restartDelays)-1)])
		if f.denied != nil {
			k.due = time.Now().Add(slowProbe)
		}
	}
	if (f.retry || f.refused) && len(k.defs) > 0 { // better the old list than a part of the new one
		f.defs, f.public = k.defs, k.public
	}
	if !sameList(&k.fetched, &f) {
		ls.changed = true
	}
	k.fetched = f
	if ls.grace.IsZero() {
		ls.grace = time.Now().Add(publishGrace)
	}
}

func sameList(a, b *fetched) bool {
	return a.problem == b.problem && a.public == b.public && slices.EqualFunc(a.defs, b.defs, bytes.Equal)
}

// reading reports whether any list is being read.
func (ls *lists) reading() bool {
	return slices.ContainsFunc(ls.kinds[:], func(k kindState) bool { return k.running })
}

// denied returns an error if the server answered the handshake and then refused
// every list for want of credentials. Servers exist that ask only then.
func (ls *lists) denied() (err error) {
	for _, k := range ls.kinds {
		if k.offered && k.fetched.denied == nil {
			return nil
		}
		err = cmp.Or(err, k.fetched.denied)
	}
	return err
}

// publish makes a listing if there is news and no reason to wait for more. It
// reports whether it did.
func (ls *lists) publish() bool {
	if ls.reading() && (ls.grace.IsZero() || time.Now().Before(ls.grace)) {
		return false
	}
	ls.grace = time.Time{}
	old := ls.o.offers.listing.Load()
	if !ls.changed && old != nil && !old.Stale {
		return false
	}
	ls.changed = false
	ls.o.offers.publish(ls.offer())
	return true
}

// offer puts together what there is. The definitions are checked on the owner's
// goroutine, so that the servers of a start are checked side by side.
func (ls *lists) offer() *catalog.Kept {
	info := ls.conn.Info()
	k := &catalog.Kept{
		Tools:     ls.kinds[catalog.Tools].defs,
		Prompts:   ls.kinds[catalog.Prompts].defs,
		Resources: ls.kinds[catalog.Resources].defs,
		Templates: ls.kinds[catalog.Templates].defs,

		Capabilities: info.Capabilities, ServerInfo: info.ServerInfo, Instructions: info.Instructions,
		Version: info.Version, Public: true, Asks: ls.o.asking.marked.Load(),
	}
	for _, kind := range ls.kinds {
		k.Public = k.Public && (!kind.offered || kind.public)
	}
	return k
}

// recall takes the lists of an earlier connection of another owner or process, to
// be shown until they have been read again.
func (ls *lists) recall(k *catalog.Kept) {
	for kind, defs := range [...][][]byte{catalog.Tools: k.Tools, catalog.Prompts: k.Prompts, catalog.Resources: k.Resources, catalog.Templates: k.Templates} {
		ls.kinds[kind].fetched = fetched{kind: catalog.Kind(kind), defs: defs, public: k.Public}
	}
}

// whole reports whether the picture is worth keeping: nothing of it is still being
// read, or is missing only because the server had some trouble.
func (ls *lists) whole() bool {
	return !slices.ContainsFunc(ls.kinds[:], func(k kindState) bool {
		return k.running || k.retry && len(k.defs) == 0
	})
}

// problems returns what is wrong with whole lists.
func (ls *lists) problems() []string {
	var all []string
	for _, k := range ls.kinds {
		if k.problem != "" {
			all = append(all, k.problem)
		}
	}
	return all
}
