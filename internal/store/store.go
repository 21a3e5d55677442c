// Package store keeps small records over restarts of the aggregator: the last lists
// of each server, open breakers. A record is a file of its own in one folder, replaced
// as a whole, so that several aggregators of one user may share the folder and a crash
// leaves either the old record or the new one. Everything in it can be deleted at any
// time; what is lost is learnt anew. What nobody has asked for in 30 days goes.
//
// Concurrency: a Store is safe for concurrent use. Put notes what to write and returns;
// one goroutine, started by Open and ended by Close, writes.
package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// MaxRecord is the largest record that is kept, in bytes.
const MaxRecord = 64 << 20

// A Store is one folder of records. The nil Store keeps nothing.
type Store struct {
	dir  string
	log  *slog.Logger
	wake chan struct{} // buffered 1: there is something to write
	done chan struct{} // closed when the writer has ended

	mu      sync.Mutex
	pending map[string][]byte // file name → what to write, nil to delete
	closed  bool
}

// Open makes the folder if need be, readable for its owner only, and starts the writer.
// A folder in which nothing can be written is an error.
func Open(dir string, log *slog.Logger) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the state folder: %w", err)
	}
	probe, err := os.CreateTemp(dir, fileName("probe", "")+tmp+"*")
	if err != nil {
		return nil, fmt.Errorf("writing in the state folder: %w", err)
	}
	probe.Close()
	os.Remove(probe.Name())
	removeOld(dir, leftBehind, maxTemporary)
	s := &Store{dir: dir, log: log, wake: make(chan struct{}, 1), done: make(chan struct{}), pending: map[string][]byte{}}
	go s.write()
	return s, nil
}

// Get returns the record that kind and key name, nil if there is none or it cannot be
// read. What was Put before and is not written yet is seen.
func (s *Store) Get(kind, key string) []byte {
	if s == nil {
		return nil
	}
	name := fileName(kind, key)
	s.mu.Lock()
	waiting, ok := s.pending[name]
	s.mu.Unlock()
	if ok {
		return waiting
	}
	data, err := read(filepath.Join(s.dir, name), time.Now())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("record not read", "kind", kind, "err", err)
	}
	return data
}

// read reads a record and notes that somebody wants it. Only regular files are opened: a
// pipe would never end. Files are replaced and never written in place, so the size stays.
func read(path string, now time.Time) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", filepath.Base(path))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, err
	}
	if info.Size() > MaxRecord {
		return nil, fmt.Errorf("%s is larger than %d bytes", filepath.Base(path), MaxRecord)
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("reading %s: %w", filepath.Base(path), err)
	}
	if now.Sub(info.ModTime()) > noteUse {
		_ = os.Chtimes(path, now, now) // else it is removed some day, and learnt anew
	}
	return data, nil
}

// Put replaces a record; nil data deletes it. It does not wait for the disk: of several
// records under one name only the last needs writing. A record that is too large is
// deleted instead, so that no older one stands for it.
func (s *Store) Put(kind, key string, data []byte) {
	if s == nil {
		return
	}
	if len(data) > MaxRecord {
		data = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.pending[fileName(kind, key)] = data
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Close writes what is waiting and ends the writer.
func (s *Store) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.wake)
	}
	s.mu.Unlock()
	<-s.done
}

// write is the writer's goroutine.
func (s *Store) write() {
	defer close(s.done)
	failed, tidied := false, false
	for range s.wake {
		s.mu.Lock()
		batch := maps.Clone(s.pending)
		s.mu.Unlock()
		for name, data := range batch {
			err := s.replace(name, data)
			if err != nil && !failed {
				s.log.Warn("state is not kept", "err", err)
			}
			failed = err != nil
			s.written(name, data)
		}
		if !tidied {
			// Not at once: what this process uses it has asked for before it writes.
			removeOld(s.dir, record, maxUnused)
			tidied = true
		}
	}
}

// written forgets what was waiting, unless something newer waits by now.
func (s *Store) written(name string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, ok := s.pending[name]
	if ok && len(now) == len(data) && (len(now) == 0 || &now[0] == &data[0]) {
		delete(s.pending, name)
	}
}

// replace writes a file beside the old one and renames it.
func (s *Store) replace(name string, data []byte) error {
	path := filepath.Join(s.dir, name)
	if data == nil {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	f, err := os.CreateTemp(s.dir, name+tmp+"*") // for its owner only
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// fileName makes a name that any file system takes and that no other key has: a part
// of the key for people, and its hash.
func fileName(kind, key string) string {
	plain, _, _ := strings.Cut(key, "\n")
	plain = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, plain)
	sum := sha256.Sum256([]byte(key))
	return kind + "-" + plain[:min(len(plain), 40)] + "-" + hex.EncodeToString(sum[:8]) + ".json"
}
