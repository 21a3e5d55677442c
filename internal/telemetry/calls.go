package telemetry

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// Bounds on the series that names can make. What comes later counts under "other".
const (
	maxTools      = 2000 // tools with counters of their own
	maxHistograms = 300  // of these with latencies of their own; a histogram is 17 series
	maxKinds      = 32
	maxNames      = 500 // queues, servers
	maxLabel      = 128 // bytes
)

const other = "other"

type tool struct{ server, name string }

// calls are the counts of all tools.
type calls struct {
	mu    sync.RWMutex
	tools map[tool]*toolCounts // read-locked on the path of a call
}

// toolCounts are those of one tool.
type toolCounts struct {
	ok          atomic.Int64
	mu          sync.Mutex                   // held while a kind is added
	failures    atomic.Pointer[[]*kindCount] // replaced whole
	retries     atomic.Int64
	transitions [Open + 1]atomic.Int64
	latency     *histogram
	shared      bool // the histogram is that of "other"
}

type kindCount struct {
	kind string
	n    atomic.Int64
}

// of finds the counts of a tool or makes them.
func (c *calls) of(server, name string) *toolCounts {
	c.mu.RLock()
	t := c.tools[tool{server, name}]
	c.mu.RUnlock()
	if t != nil {
		return t
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ofLocked(tool{label(server), label(name)})
}

func (c *calls) ofLocked(k tool) *toolCounts {
	if t := c.tools[k]; t != nil {
		return t
	}
	switch n := len(c.tools); {
	case k.name != other && n >= maxTools:
		return c.ofLocked(tool{k.server, other})
	case k.server != other && n >= maxTools+maxNames:
		return c.ofLocked(tool{other, other})
	}
	t := new(toolCounts)
	if t.shared = k.name != other && len(c.tools) >= maxHistograms; t.shared {
		t.latency = c.ofLocked(tool{k.server, other}).latency
	} else {
		t.latency = new(histogram)
	}
	if c.tools == nil {
		c.tools = make(map[tool]*toolCounts)
	}
	// The keys outlive the call, the text they were cut from need not.
	c.tools[tool{strings.Clone(k.server), strings.Clone(k.name)}] = t
	return t
}

func (c *calls) forget(server string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	server = label(server)
	for k := range c.tools {
		if k.server == server {
			delete(c.tools, k)
		}
	}
}

// all returns the counts of the moment.
func (c *calls) all() map[tool]*toolCounts {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return maps.Clone(c.tools)
}

// count counts a call that ended in a way.
func (t *toolCounts) count(kind string) {
	if kind == OK {
		t.ok.Add(1)
		return
	}
	for _, k := range t.kinds() {
		if k.kind == kind {
			k.n.Add(1)
			return
		}
	}
	t.add(kind).n.Add(1)
}

// add finds or makes the count of a kind that may be new.
func (t *toolCounts) add(kind string) *kindCount {
	t.mu.Lock()
	defer t.mu.Unlock()
	kind = label(kind)
	seen := t.kinds()
	for _, k := range seen {
		if k.kind == kind || k.kind == other && len(seen) >= maxKinds {
			return k
		}
	}
	if len(seen) >= maxKinds-1 {
		kind = other
	}
	k := &kindCount{kind: strings.Clone(kind)}
	more := append(slices.Clip(seen), k) // another array: readers keep theirs
	t.failures.Store(&more)
	return k
}

func (t *toolCounts) kinds() []*kindCount {
	if p := t.failures.Load(); p != nil {
		return *p
	}
	return nil
}

// label makes a name fit for a label; names that are no text, too long or empty are all "other".
func label(s string) string {
	if s == "" || len(s) > maxLabel || !utf8.ValidString(s) {
		return other
	}
	return s
}
