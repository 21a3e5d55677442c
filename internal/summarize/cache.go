package summarize

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// A key stands for all that shapes a summary, and for its owner.
type key [sha256.Size]byte

// keyOf hashes a request. Parts carry their length, so that none can pass for another.
func keyOf(r *Request, turns []turn) key {
	h := sha256.New()
	writeNumber(h, len(r.Recent))
	texts := []string{r.Owner, r.Server, r.Tool, r.Description, r.Intent}
	for _, s := range append(texts, r.Recent...) {
		writePart(h, []byte(s))
	}
	writePart(h, r.Arguments)
	writePart(h, r.Text)
	writeNumber(h, r.maxTokens())
	for _, m := range turns {
		writePart(h, []byte(m.Name()))
	}
	return key(h.Sum(nil))
}

// private is the key of what the own model of one session's client has written.
func (at place) private() key {
	h := sha256.New()
	writePart(h, at.key[:])
	writePart(h, []byte(at.session))
	return key(h.Sum(nil))
}

func writePart(h hash.Hash, b []byte) {
	writeNumber(h, len(b))
	h.Write(b)
}

func writeNumber(w io.Writer, n int) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	w.Write(b[:])
}

// A cache holds the latest summaries, bounded in number, bytes and age. (The
// library's expirable cache has no bound of bytes, and a goroutine that never ends.)
type cache struct {
	maxBytes int
	ttl      time.Duration

	mu    sync.Mutex
	lru   *simplelru.LRU[key, entry] // nil: nothing is kept
	bytes int
}

type entry struct {
	answer Answer
	at     time.Time
}

func (e entry) size() int { return len(e.answer.Text) + 256 }

func newCache(o CacheOptions) *cache {
	c := &cache{maxBytes: o.Bytes, ttl: o.TTL}
	if o.Entries > 0 {
		c.lru, _ = simplelru.NewLRU(o.Entries, func(_ key, e entry) { c.bytes -= e.size() }) // fails only for sizes below 1
	}
	return c
}

func (c *cache) get(k key) (Answer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lru == nil {
		return Answer{}, false
	}
	e, ok := c.lru.Get(k)
	if ok && time.Since(e.at) > c.ttl {
		c.lru.Remove(k)
		return Answer{}, false
	}
	return e.answer, ok
}

func (c *cache) put(k key, a Answer) {
	e := entry{a, time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lru == nil || e.size() > c.maxBytes {
		return
	}
	c.lru.Remove(k) // what is replaced in place is not reported as evicted
	for {
		if _, oldest, ok := c.lru.GetOldest(); !ok || time.Since(oldest.at) <= c.ttl {
			break
		}
		c.lru.RemoveOldest()
	}
	c.lru.Add(k, e)
	c.bytes += e.size()
	for c.bytes > c.maxBytes {
		c.lru.RemoveOldest()
	}
}

func (c *cache) size() (entries, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lru == nil {
		return 0, 0
	}
	return c.lru.Len(), c.bytes
}
