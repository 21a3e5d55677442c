package upstream

import (
	"sync"
	"sync/atomic"
	"time"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
)

// offers is what a server has to offer and how the configuration wants it shown. The
// owner brings the one, Apply the other; mu orders the two, so that a listing is never
// made by a configuration that is not valid any more.
type offers struct {
	limits   config.Limits
	settings atomic.Pointer[settings]
	listing  atomic.Pointer[catalog.Listing] // nil before the first

	mu    sync.Mutex    // guards what follows
	kept  *catalog.Kept // what listing was made of, nil before the first; never modified
	saved *catalog.Kept // what has been stored
}

// recall shows what was known about the server before this process or this owner.
func (f *offers) recall(k *catalog.Kept, stored bool) {
	if k == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept = k
	if stored {
		f.saved = k
	}
	f.composeLocked(true)
}

// adopt shows the offers by another configuration.
func (f *offers) adopt(s *config.Server) {
	next := newSettings(s)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settings.Store(next)
	if f.kept != nil {
		f.composeLocked(f.listing.Load().Stale)
	}
}

// publish shows what the server offers now.
func (f *offers) publish(k *catalog.Kept) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kept.Same(k) {
		f.listing.Store(f.listing.Load().WithStale(false))
		return
	}
	k.Saved = time.Now()
	f.kept = k
	f.composeLocked(false)
}

// composeLocked makes the listing. The definitions are checked here, by the owner or
// by Apply for many servers at once.
func (f *offers) composeLocked(stale bool) {
	in := f.kept.Input(f.settings.Load().Server, f.limits)
	in.Stale = stale
	f.listing.Store(catalog.NewListing(in))
}

// stale marks the last known lists as such.
func (f *offers) stale() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.listing.Load(); l != nil {
		f.listing.Store(l.WithStale(true))
	}
}

// noteAsks notes for the next process that the server asks clients; false if nothing is
// known of it that could be kept.
func (f *offers) noteAsks() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kept == nil {
		return false
	}
	k := *f.kept
	k.Asks = true
	f.kept = &k
	return true
}

// known returns what the listing was made of.
func (f *offers) known() *catalog.Kept {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.kept
}

// unsaved returns what is to be stored, once; nil if it has been.
func (f *offers) unsaved() *catalog.Kept {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.saved.Same(f.kept) {
		return nil
	}
	f.saved = f.kept
	return f.kept
}
