// Package keep holds the full text of results that were made small for a client, so
// that nothing is lost: each under a handle that cannot be guessed, for the owner who
// caused it and nobody else, until it has not been read for a while.
//
// What was used last stays in memory. What falls out of memory goes to files in a
// folder of this process, if there is one, and from there the oldest goes for good.
// Every bound (bytes in memory, bytes on disk, entries, the share of one owner) holds
// at all times; only texts on their way to a file are in memory beside it.
//
// Concurrency: all methods may be called at once. One mutex guards the bookkeeping;
// files are written, read (one at a time) and removed outside of it. There is no goroutine: a timer
// frees what has expired when nobody calls.
package keep

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrNotFound is the answer for every handle that is not the owner's: never given
	// out, expired, pushed out, or somebody else's. Which of them is not told.
	ErrNotFound = errors.New("nothing is kept under this handle (any more)")
	// ErrTooLarge says that a text is larger than one may be, or than its owner's share.
	ErrTooLarge = errors.New("the text is too large to be kept")
	// ErrClosed says that the store keeps nothing any more.
	ErrClosed = errors.New("the store of kept texts is closed")
)

// Options are the bounds of a store. Sizes are in bytes and count the bookkeeping too.
type Options struct {
	Memory   int64         // 0: 64 MiB
	Disk     int64         // 0: 512 MiB; counts only if Dir is set
	Each     int64         // the largest entry; 0: 32 MiB
	PerOwner int64         // what one owner may have in memory and on disk together; 0: half of both
	Entries  int           // in memory and on disk; 0: 10,000. One owner may have half of them
	TTL      time.Duration // since an entry was put or last read; 0: 30 minutes
	Dir      string        // where texts go that fall out of memory; "": nowhere, they are dropped
	Log      *slog.Logger  // nil: silent
}

func (o Options) withDefaults() Options {
	o.Memory = or(o.Memory, 64<<20)
	o.Disk = or(o.Disk, 512<<20)
	if o.Dir == "" {
		o.Disk = 0
	}
	o.Each = or(o.Each, 32<<20)
	o.PerOwner = or(o.PerOwner, (o.Memory+o.Disk)/2)
	o.Entries = or(o.Entries, 10_000)
	o.TTL = or(o.TTL, 30*time.Minute)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func or[N int | int64 | time.Duration](n, otherwise N) N {
	if n <= 0 {
		return otherwise
	}
	return n
}

// Part is one content block of a result.
type Part struct {
	MIME string
	Text []byte // never modified once it is kept
}

// Meta says where a text comes from.
type Meta struct {
	Server, Tool string
	Tokens       int // of all parts, as estimated
}

// Kept is an entry as it was put. It is shared: nobody modifies it.
type Kept struct {
	Meta
	Parts []Part
	Since time.Time // when it was put

	memos []atomic.Value
}

// Memo returns what build makes of the text of a part, and remembers it as long as
// the text stays in memory: a place for an index. It must be small against the text,
// and must always be of the same type. Two callers at once may both build.
func (k *Kept) Memo(part int, build func(text []byte) any) any {
	memo := &k.memos[part]
	if made := memo.Load(); made != nil {
		return made
	}
	memo.CompareAndSwap(nil, build(k.Parts[part].Text))
	return memo.Load()
}

// Stats is what a store holds now and what became of the rest.
type Stats struct {
	Entries, Owners     int
	MemoryBytes         int64
	DiskEntries         int
	DiskBytes           int64
	Spilled, Restored   int64 // moved to a file; brought back into memory
	Expired             int64 // not read for the TTL
	Evicted, OwnEvicted int64 // pushed out by others or by their own owner
	Lost                int64 // files that could not be written or read
}

// Store keeps texts. Open makes one; Close ends it.
type Store struct {
	o       Options
	folder  *folder // nil: memory only
	writers sync.WaitGroup
	reading sync.Mutex // held while a file is read: who comes second finds the text

	mu      sync.Mutex
	closed  bool
	items   map[string]*item  // handle → entry
	owners  map[string]*owner // owner → its entries
	memory  tier              // recently used first
	disk    tier
	timer   *time.Timer // nil: nothing to expire
	stats   Stats
	warned  time.Time // of the last warning about files
	silence int64     // warnings swallowed since
}

// Open makes a store and removes what dead processes have left in o.Dir.
func Open(o Options) (*Store, error) {
	o = o.withDefaults()
	s := &Store{o: o, items: map[string]*item{}, owners: map[string]*owner{}}
	if o.Dir == "" {
		return s, nil
	}
	folder, left, err := openFolder(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("opening the folder for kept texts: %w", err)
	}
	if left > 0 {
		o.Log.Info("removed kept texts of a dead process", "folders", left)
	}
	s.folder = folder
	return s, nil
}

// Put keeps the parts for owner and returns the handle to get them by. The texts
// belong to the store from then on. Older entries go to disk or away to make room.
func (s *Store) Put(owner string, m Meta, parts []Part) (string, error) {
	it := newItem(owner, m, parts)
	if it.size > s.o.Each || it.size > s.o.PerOwner || it.size > max(s.o.Memory, s.o.Disk) {
		return "", fmt.Errorf("%w: %d bytes with overhead", ErrTooLarge, it.size)
	}
	out, err := s.add(it)
	if err != nil {
		return "", err
	}
	s.act(out)
	return it.handle, nil
}

// Get returns what owner has put under the handle. A text on disk comes back into
// memory only if there is room: reading never pushes another text out. However many
// read it at once, there is one copy of it.
func (s *Store) Get(owner, handle string) (*Kept, error) {
	if it, place := s.find(owner, handle); it == nil {
		return nil, ErrNotFound
	} else if place.kept != nil {
		return s.got(it, place), nil
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	for {
		it, place := s.find(owner, handle)
		switch {
		case it == nil:
			return nil, ErrNotFound
		case place.kept != nil:
			return s.got(it, place), nil
		}
		kept, err := s.folder.read(place)
		if err == nil {
			place.kept = kept
			return s.got(it, place), nil
		}
		// It may have been dropped while its file was read: look again.
		if s.lose(it, place.file, "reading a kept text", err) {
			return nil, ErrNotFound
		}
	}
}

// got returns the text of an entry; if it was read from a file, it may come back.
func (s *Store) got(it *item, at place) *Kept {
	if at.file != 0 {
		s.act(s.restore(it, at))
	}
	return at.kept
}

// Stats returns figures for metrics and status.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Entries, st.Owners = len(s.items), len(s.owners)
	st.MemoryBytes = s.memory.bytes
	st.DiskEntries, st.DiskBytes = s.disk.list.Len(), s.disk.bytes
	return st
}

// Close forgets everything and removes the files. It waits for files being written.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	for _, it := range s.items {
		s.dropLocked(it, new(outcome)) // the files go with the folder
	}
	s.mu.Unlock()
	s.writers.Wait()
	if s.folder == nil {
		return nil
	}
	return s.folder.close()
}

// overhead is what an entry costs beside its text: the entry, its places in three
// lists and two maps, the handle, the slice of parts.
const overhead = 720

// partOverhead is what each part costs beside its text.
const partOverhead = 64

func newItem(owner string, m Meta, parts []Part) *item {
	kept := &Kept{Meta: m, Parts: make([]Part, len(parts)), Since: time.Now(), memos: make([]atomic.Value, len(parts))}
	size := int64(overhead + len(owner) + len(m.Server) + len(m.Tool))
	for i, p := range parts {
		if cap(p.Text) > len(p.Text)+len(p.Text)/4+64 {
			p.Text = bytes.Clone(p.Text) // do not hold on to a buffer of which this is a piece
		}
		kept.Parts[i] = p
		size += int64(partOverhead + len(p.MIME) + cap(p.Text))
	}
	return &item{handle: rand.Text(), owner: owner, size: size, place: place{kept: kept}}
}
