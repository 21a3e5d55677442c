package downstream

import "sync"

// A crew is a group of goroutines with one owner, who waits for all of them in the
// end. The zero value is ready.
type crew struct {
	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup
}

// start runs f on a goroutine of the crew, unless its owner is already waiting.
func (c *crew) start(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.wg.Go(f)
	return true
}

// finish lets nobody more start and waits for the others.
func (c *crew) finish() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.wg.Wait()
}
