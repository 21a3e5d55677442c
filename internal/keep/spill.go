package keep

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// outline is what stays in memory of a text in a file.
type outline struct {
	meta  Meta
	since time.Time
	parts []outlinePart
	sum   uint32
}

type outlinePart struct {
	mime string
	size int
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func outlineOf(k *Kept) outline {
	o := outline{meta: k.Meta, since: k.Since, parts: make([]outlinePart, len(k.Parts))}
	for i, p := range k.Parts {
		o.parts[i] = outlinePart{p.MIME, len(p.Text)}
		o.sum = crc32.Update(o.sum, castagnoli, p.Text)
	}
	return o
}

// act does with files what was decided under the lock.
func (s *Store) act(out outcome) {
	for _, it := range out.spill {
		s.spill(it)
	}
	s.remove(out.remove)
}

func (s *Store) remove(files []uint64) {
	for _, file := range files {
		if err := s.folder.remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.warn("removing a kept text", err)
		}
	}
}

// spill writes an entry that stands in the disk tier already. Whoever takes it out
// of the tier meanwhile knows of no file, so the file goes here.
func (s *Store) spill(it *item) {
	defer s.writers.Done()
	kept := s.spilling(it)
	if kept == nil {
		return
	}
	outline := outlineOf(kept)
	file, err := s.folder.write(kept.Parts)
	if err != nil {
		s.lose(it, 0, "writing a kept text", err)
		return
	}
	s.mu.Lock()
	gone := it.tier != &s.disk
	if !gone {
		it.place = place{file: file, outline: outline}
		s.stats.Spilled++
	}
	s.mu.Unlock()
	if gone {
		s.remove([]uint64{file})
	}
}

// spilling returns the text to be written, or nil if its entry is gone.
func (s *Store) spilling(it *item) *Kept {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it.tier != &s.disk {
		return nil
	}
	return it.kept
}

// lose drops an entry whose file failed, 0 being the file that could not be written.
// It reports false, and does nothing, if the entry has moved meanwhile.
func (s *Store) lose(it *item, file uint64, doing string, err error) bool {
	s.mu.Lock()
	lost := it.tier == &s.disk && it.file == file
	var out outcome
	if lost {
		s.dropLocked(it, &out)
		s.stats.Lost++
	}
	s.mu.Unlock()
	if lost {
		s.warn(doing, err)
		s.act(out)
	}
	return lost
}

// warn logs the first failure and then one a minute: a full disk fails every write.
func (s *Store) warn(doing string, err error) {
	s.mu.Lock()
	if !s.warned.IsZero() && time.Since(s.warned) < time.Minute {
		s.silence++
		s.mu.Unlock()
		return
	}
	silence := s.silence
	s.warned, s.silence = time.Now(), 0
	s.mu.Unlock()
	s.o.Log.Warn("a kept text is lost or left behind", "doing", doing, "err", err, "unlogged", silence)
}

// write puts the texts into a new file and returns its number.
func (f *folder) write(parts []Part) (uint64, error) {
	number := f.last.Add(1)
	file, err := f.root.OpenFile(fileName(number), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	for _, p := range parts {
		if _, err = file.Write(p.Text); err != nil {
			break
		}
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, errors.Join(err, f.remove(number))
	}
	return number, nil
}

// read returns the text that is in a file. A file that is not exactly what was
// written is an error.
func (f *folder) read(from place) (*Kept, error) {
	o := from.outline
	size := 0
	for _, p := range o.parts {
		size += p.size
	}
	file, err := f.root.Open(fileName(from.file))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() != int64(size) {
		return nil, errors.Join(errors.New("the file was replaced or cut"), err)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(file, text); err != nil {
		return nil, err
	}
	if crc32.Checksum(text, castagnoli) != o.sum {
		return nil, errors.New("the file was changed")
	}
	kept := &Kept{Meta: o.meta, Since: o.since, Parts: make([]Part, len(o.parts)), memos: make([]atomic.Value, len(o.parts))}
	for i, p := range o.parts {
		kept.Parts[i] = Part{MIME: p.mime, Text: text[:p.size:p.size]}
		text = text[p.size:]
	}
	return kept, nil
}

func (f *folder) remove(number uint64) error { return f.root.Remove(fileName(number)) }

// fileName tells nothing about the handle, so that no handle ever becomes a path and
// a listing of the folder gives none away.
func fileName(number uint64) string { return fmt.Sprintf("%016x", number) }
