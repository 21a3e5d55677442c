package mcptest

import (
	"io"
	"net"
	"sync"
	"time"
)

// A Fault is what a [Cable] does to the connections through it.
type Fault uint8

// The faults.
const (
	Whole     Fault = iota // nothing
	Blackhole              // swallows everything, connecting still succeeds; what was swallowed stays lost
	Stall                  // holds everything back until it is whole again
	Reset                  // resets all connections, and every new one as soon as it is made
	Cut                    // passes half of the next piece of an answer, then closes the connection
	Slow                   // passes 1 KiB every 20 ms
	Refuse                 // closes every new connection at once
)

// A Cable is an address on loopback behind which, most of the time, another one is.
// It owns two goroutines per connection, which end with it or with Close.
type Cable struct {
	Addr string // host:port to connect to

	target   string
	listener net.Listener

	mu      sync.Mutex
	fault   Fault
	changed chan struct{} // closed and replaced when fault changes
	conns   map[net.Conn]bool
	closed  bool
	wg      sync.WaitGroup
}

// NewCable makes a whole cable to an address.
func NewCable(target string) (*Cable, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &Cable{Addr: l.Addr().String(), target: target, listener: l,
		changed: make(chan struct{}), conns: make(map[net.Conn]bool)}
	c.wg.Go(c.accept)
	return c, nil
}

// Set makes the cable faulty, or whole again.
func (c *Cable) Set(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
	close(c.changed)
	c.changed = make(chan struct{})
	if f == Reset {
		c.resetLocked()
	}
}

// Close ends everything.
func (c *Cable) Close() {
	c.mu.Lock()
	c.closed = true
	c.listener.Close()
	c.resetLocked()
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
	c.wg.Wait()
}

func (c *Cable) resetLocked() {
	// All are marked first: when one end is closed, whoever carries closes the other.
	for conn := range c.conns {
		resetOnClose(conn)
	}
	for conn := range c.conns {
		conn.Close()
	}
}

// abort closes a connection with a reset.
func abort(conn net.Conn) {
	resetOnClose(conn)
	conn.Close()
}

func resetOnClose(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

func (c *Cable) state() (Fault, <-chan struct{}, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fault, c.changed, c.closed
}

func (c *Cable) accept() {
	for {
		near, err := c.listener.Accept()
		if err != nil {
			return
		}
		c.wg.Go(func() { c.join(near) })
	}
}

// join connects one client with the target.
func (c *Cable) join(near net.Conn) {
	switch f, _, _ := c.state(); f {
	case Reset:
		abort(near)
		return
	case Refuse:
		near.Close()
		return
	}
	far, err := net.Dial("tcp", c.target)
	if err != nil {
		abort(near)
		return
	}
	c.keep(near, far)
	defer c.drop(near, far)
	var wg sync.WaitGroup
	wg.Go(func() { c.carry(far, near, false) })
	wg.Go(func() { c.carry(near, far, true) })
	wg.Wait()
}

func (c *Cable) keep(conns ...net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range conns {
		c.conns[conn] = true
		if c.closed {
			abort(conn)
		}
	}
}

func (c *Cable) drop(conns ...net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range conns {
		conn.Close()
		delete(c.conns, conn)
	}
}

// carry copies one direction. A connection that has lost bytes carries nothing
// more, as when the way to a machine leads past it after a repair.
func (c *Cable) carry(to, from net.Conn, answers bool) {
	defer to.Close()
	lost := false
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !lost {
			var ok bool
			if lost, ok = c.pass(to, buf[:n], answers); !ok {
				from.Close()
				return
			}
		}
		if err != nil {
			// A lost connection hears nothing of the other end's going either.
			for f, changed, closed := c.state(); (lost || f == Blackhole) && !closed && f != Reset; f, changed, closed = c.state() {
				<-changed
				if f, _, _ := c.state(); f == Whole {
					return
				}
			}
			return
		}
	}
}

// pass hands one piece on. lost says that it was swallowed, !ok that the connection is over.
func (c *Cable) pass(to io.WriteCloser, piece []byte, answers bool) (lost, ok bool) {
	for {
		f, changed, closed := c.state()
		switch {
		case closed || f == Reset:
			return false, false
		case f == Blackhole:
			return true, true
		case f == Stall:
			<-changed
		case f == Cut && answers:
			_, _ = to.Write(piece[:len(piece)/2])
			return false, false
		case f == Slow:
			k := min(len(piece), 1<<10)
			if _, err := to.Write(piece[:k]); err != nil {
				return false, false
			}
			if piece = piece[k:]; len(piece) == 0 {
				return false, true
			}
			time.Sleep(20 * time.Millisecond)
		default:
			_, err := to.Write(piece)
			return false, err == nil
		}
	}
}
