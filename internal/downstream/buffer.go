package downstream

import "sync"

// A buffer is a byte slice that is used again. Small and large ones are kept apart,
// so that a small request does not sit on megabytes.
type buffer struct{ bytes []byte }

const (
	smallBuffer = 16 << 10
	largeBuffer = 4 << 20 // larger ones are not kept
)

var smallBuffers, largeBuffers = sync.Pool{New: func() any { return new(buffer) }}, sync.Pool{New: func() any { return new(buffer) }}

// getBuffer returns an empty buffer, likely with room for n bytes.
func getBuffer(n int) *buffer {
	pool := &smallBuffers
	if n > smallBuffer {
		pool = &largeBuffers
	}
	b := pool.Get().(*buffer)
	if cap(b.bytes) < n {
		b.bytes = make([]byte, 0, max(n, 1<<10))
	}
	b.bytes = b.bytes[:0]
	return b
}

// getScratch returns a buffer for composing a message.
func getScratch() *buffer { return getBuffer(1 << 10) }

// free gives the buffer back; nothing of it may be touched afterwards.
func (b *buffer) free() {
	switch n := cap(b.bytes); {
	case n <= smallBuffer:
		smallBuffers.Put(b)
	case n <= largeBuffer:
		largeBuffers.Put(b)
	}
}
