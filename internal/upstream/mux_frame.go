package upstream

import (
	"math/bits"
	"sync"
)

// A frame is a pooled buffer with one message. It has one owner at a time, who
// calls put when done with it, or forgets it to the garbage collector.
type frame struct {
	b []byte

	// put gives the frame back. It is made once, so that a reply can carry it away
	// without allocating a closure for each call.
	put func()
}

// Frames are pooled by capacity, in powers of two between these. Without classes a
// few small answers would pin large buffers, and large ones would find only small.
const (
	minFrameBits = 9  // 512 bytes
	maxFrameBits = 21 // 2 MiB; larger frames are not kept
)

var framePools [maxFrameBits - minFrameBits + 1]sync.Pool

// newFrame returns an empty frame with room for size bytes.
func newFrame(size int) *frame {
	class := max(bits.Len(uint(max(size, 1)-1)), minFrameBits) - minFrameBits
	if class >= len(framePools) {
		return &frame{b: make([]byte, 0, size), put: func() {}}
	}
	if f, ok := framePools[class].Get().(*frame); ok {
		return f
	}
	f := &frame{b: make([]byte, 0, 1<<(class+minFrameBits))}
	f.put = func() {
		f.b = f.b[:0]
		// The owner may have let the buffer grow beyond its class.
		if at := bits.Len(uint(cap(f.b))) - 1 - minFrameBits; at >= 0 && at < len(framePools) {
			framePools[at].Put(f)
		}
	}
	return f
}

// frameOf returns a frame with a copy of b.
func frameOf(b []byte) *frame {
	f := newFrame(len(b))
	f.b = append(f.b, b...)
	return f
}

// grown returns a frame with the same bytes and room for at least size, and gives
// f back.
func (f *frame) grown(size int) *frame {
	g := newFrame(size)
	g.b = append(g.b, f.b...)
	f.put()
	return g
}
