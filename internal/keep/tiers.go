package keep

import (
	"container/list"
	"time"
	"weak"
)

// item is an entry. All but handle, owner and size is guarded by Store.mu.
type item struct {
	handle, owner string
	size          int64
	used          time.Time
	place
	tier            *tier // nil: in none, it is gone
	inTier, inOwner *list.Element
}

// place is where the text of an entry is: in memory, in a file, or, while the file is
// written, in memory though the entry counts as being on disk.
type place struct {
	kept *Kept              // nil: only in the file
	file uint64             // number of the file, 0: none
	held weak.Pointer[Kept] // what was read from the file, as long as a reader holds it
	outline
}

// tier is memory or disk: entries by last use, the latest in front.
type tier struct {
	list  list.List
	bytes int64
}

// push puts an entry where its last use belongs: one that comes from memory may be
// older than some that were read from disk meanwhile.
func (t *tier) push(it *item) {
	older := t.list.Front()
	for older != nil && older.Value.(*item).used.After(it.used) {
		older = older.Next()
	}
	it.tier = t
	if older == nil {
		it.inTier = t.list.PushBack(it)
	} else {
		it.inTier = t.list.InsertBefore(it, older)
	}
	t.bytes += it.size
}

func (t *tier) take(it *item) {
	t.list.Remove(it.inTier)
	t.bytes -= it.size
	it.tier, it.inTier = nil, nil
}

// oldest returns the entry that was not used for the longest time, or nil.
func (t *tier) oldest() *item {
	if e := t.list.Back(); e != nil {
		return e.Value.(*item)
	}
	return nil
}

// owner is who caused entries; it exists while there are any.
type owner struct {
	list  list.List // by last use, the latest in front
	bytes int64
}

// outcome is what is left to do with files after the lock is released.
type outcome struct {
	spill  []*item  // to be written
	remove []uint64 // files of entries that are gone
}

func (s *Store) add(it *item) (outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out outcome
	if s.closed {
		return out, ErrClosed
	}
	s.expireLocked(&out)
	own := s.owners[it.owner]
	for own != nil && own.list.Len() > 0 && (own.bytes+it.size > s.o.PerOwner || own.list.Len() >= max(1, s.o.Entries/2)) {
		s.dropLocked(own.list.Back().Value.(*item), &out)
		s.stats.OwnEvicted++
	}
	for len(s.items) >= s.o.Entries {
		s.dropLocked(s.oldestLocked(), &out)
		s.stats.Evicted++
	}
	if own = s.owners[it.owner]; own == nil { // the last drop may have removed it
		own = &owner{}
		s.owners[it.owner] = own
	}
	s.items[it.handle] = it
	it.used, it.inOwner = time.Now(), own.list.PushFront(it)
	own.bytes += it.size
	if it.size > s.o.Memory {
		s.toDiskLocked(it, &out) // or it would push everything else there first
	} else {
		s.memory.push(it)
		s.shrinkLocked(&out)
	}
	s.armLocked()
	return out, nil
}

// shrinkLocked brings memory under its bound.
func (s *Store) shrinkLocked(out *outcome) {
	for s.memory.bytes > s.o.Memory {
		it := s.memory.oldest()
		if it.size > s.o.Disk {
			s.dropLocked(it, out)
			s.stats.Evicted++
			continue
		}
		s.memory.take(it)
		s.toDiskLocked(it, out)
	}
}

// toDiskLocked puts an entry that fits into the disk tier, which forgets its oldest to
// stay under its bound. The text stays with the entry until the file is written.
func (s *Store) toDiskLocked(it *item, out *outcome) {
	for s.disk.bytes+it.size > s.o.Disk {
		s.dropLocked(s.disk.oldest(), out)
		s.stats.Evicted++
	}
	s.disk.push(it)
	s.writers.Add(1)
	out.spill = append(out.spill, it)
}

func (s *Store) oldestLocked() *item {
	a, b := s.memory.oldest(), s.disk.oldest()
	if a == nil || b != nil && b.used.Before(a.used) {
		return b
	}
	return a
}

func (s *Store) dropLocked(it *item, out *outcome) {
	if it.tier == nil {
		return
	}
	it.tier.take(it)
	delete(s.items, it.handle)
	own := s.owners[it.owner]
	own.list.Remove(it.inOwner)
	if own.bytes -= it.size; own.list.Len() == 0 {
		delete(s.owners, it.owner)
	}
	if it.file != 0 {
		out.remove = append(out.remove, it.file)
	}
}

// find returns the entry, nil if there is none, and where its text is.
func (s *Store) find(owner, handle string) (*item, place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.items[handle]
	if it == nil || it.owner != owner || time.Since(it.used) >= s.o.TTL {
		return nil, place{}
	}
	it.used = time.Now()
	it.tier.list.MoveToFront(it.inTier)
	s.owners[owner].list.MoveToFront(it.inOwner)
	at := it.place
	if at.kept == nil {
		at.kept = at.held.Value()
	}
	return it, at
}

// restore moves an entry that was read from its file back into memory, if there is
// room, and otherwise lets others share what was read.
func (s *Store) restore(it *item, from place) outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out outcome
	if it.tier != &s.disk || it.file != from.file {
		return out
	}
	if s.memory.bytes+it.size > s.o.Memory {
		it.held = weak.Make(from.kept)
		return out
	}
	out.remove = append(out.remove, it.file)
	it.place = place{kept: from.kept}
	s.disk.take(it)
	s.memory.push(it)
	s.stats.Restored++
	return out
}

// expireLocked drops what has not been used for the TTL.
func (s *Store) expireLocked(out *outcome) {
	for it := s.oldestLocked(); it != nil && time.Since(it.used) >= s.o.TTL; it = s.oldestLocked() {
		s.dropLocked(it, out)
		s.stats.Expired++
	}
}

// expire is the timer's.
func (s *Store) expire() {
	s.mu.Lock()
	var out outcome
	s.timer = nil
	if !s.closed {
		s.expireLocked(&out)
		s.armLocked()
	}
	s.mu.Unlock()
	s.act(out)
}

// batch is how late memory is freed at most, so that many entries expire in one go.
// Get never returns an expired entry, however late.
const batch = time.Second

func (s *Store) armLocked() {
	if it := s.oldestLocked(); it != nil && s.timer == nil {
		s.timer = time.AfterFunc(max(batch, time.Until(it.used.Add(s.o.TTL))), s.expire)
	}
}
