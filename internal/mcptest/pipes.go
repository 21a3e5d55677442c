package mcptest

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Pipes is a network of pipes with one listener: HTTP over it works in a bubble of
// testing/synctest, where real sockets do not.
type Pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// NewPipes returns a network that listens.
func NewPipes() *Pipes { return &Pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

// Accept implements net.Listener.
func (l *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener: who dials from now on is refused.
func (l *Pipes) Close() error { l.once.Do(func() { close(l.done) }); return nil }

// Addr implements net.Listener.
func (l *Pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// Dial connects to the listener, whatever the address; it is the DialContext of a
// transport.
func (l *Pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
