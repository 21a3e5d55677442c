package upstream

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
)

// pending is what can be read from a connection without waiting.
type pending uint8

const (
	pendingNothing pending = iota
	pendingData
	pendingEnd // the peer has closed the connection, or broken it off
)

// An httpSocket is a connection that the network can cut. It knows whether the
// server has closed it, and refuses to begin a request then. net/http finds out as
// well, but on another goroutine: under load that takes milliseconds, and what is
// sent meanwhile must be reported as lost. Refused before anything was written, it
// is repeated on another connection.
type httpSocket struct {
	net.Conn
	n     *httpNetwork
	raw   syscall.RawConn // nil if there is no file descriptor
	look  func(fd uintptr)
	seen  pending // set by look
	byte  [1]byte
	begin atomic.Bool // nothing was written since it was opened or read from
}

var errServerClosed = errors.New("the server has closed the connection")

func newHTTPSocket(conn net.Conn, n *httpNetwork) *httpSocket {
	s := &httpSocket{Conn: conn, n: n}
	if c, ok := conn.(syscall.Conn); ok {
		s.raw, _ = c.SyscallConn()
	}
	s.look = func(fd uintptr) { s.seen = peek(fd, s.byte[:]) }
	s.begin.Store(true)
	return s
}

// pending looks at the connection; only the one who may write may ask.
func (s *httpSocket) pending() pending {
	if s.raw == nil {
		return pendingNothing
	}
	if s.raw.Control(s.look) != nil {
		return pendingEnd
	}
	return s.seen
}

func (s *httpSocket) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if n > 0 {
		s.begin.Store(true)
	}
	return n, err
}

func (s *httpSocket) Write(b []byte) (int, error) {
	if s.begin.Swap(false) && s.pending() == pendingEnd {
		return 0, errServerClosed
	}
	return s.Conn.Write(b)
}

func (s *httpSocket) Close() error {
	s.n.forget(s)
	return s.Conn.Close()
}
