package builtin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	indexURI   = "notes://index"
	notePrefix = "notes://note/"

	maxNotes = 1000     // notes kept at a time
	maxTitle = 200      // characters of a title
	maxNote  = 64 << 10 // characters of a note
)

// note is one entry. It never changes.
type note struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

func (n note) uri() string { return notePrefix + n.ID }

// notebook keeps notes in the order they were written. Ids are not used twice, so a
// stale id never shows another note.
type notebook struct {
	mu    sync.Mutex
	last  int // the newest id
	notes []note
}

// add writes a note. It fails when the book is full.
func (b *notebook) add(title, body string) (note, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.notes) >= maxNotes {
		return note{}, fmt.Errorf("the notebook is full (%d notes); delete one first", maxNotes)
	}
	b.last++
	n := note{ID: strconv.Itoa(b.last), Title: title, Text: body}
	b.notes = append(b.notes, n)
	return n, nil
}

func (b *notebook) find(id string) (note, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.positionLocked(id)
	if i < 0 {
		return note{}, false
	}
	return b.notes[i], true
}

func (b *notebook) remove(id string) (note, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.positionLocked(id)
	if i < 0 {
		return note{}, false
	}
	n := b.notes[i]
	b.notes = slices.Delete(b.notes, i, i+1)
	return n, true
}

func (b *notebook) positionLocked(id string) int {
	return slices.IndexFunc(b.notes, func(n note) bool { return n.ID == id })
}

// all returns a copy of the notes.
func (b *notebook) all() []note {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.notes)
}

// index lists ids and titles, one a line.
func (b *notebook) index() string {
	all := b.all()
	if len(all) == 0 {
		return "There are no notes yet."
	}
	lines := make([]string, len(all))
	for i, n := range all {
		lines[i] = n.ID + ": " + n.Title
	}
	return strings.Join(lines, "\n")
}
