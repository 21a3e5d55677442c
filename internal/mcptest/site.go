package mcptest

import (
	"net"
	"net/http"
	"time"
)

// A Site is an HTTP server that can be taken down and put up again at the same
// address, as a process that is killed and started again.
type Site struct {
	Addr string
	URL  string

	handler http.Handler
	server  *http.Server
	done    chan struct{} // closed when the server that is up has ended
}

// NewSite puts up a server on a free address of loopback.
func NewSite(h http.Handler) (*Site, error) {
	s := &Site{Addr: "127.0.0.1:0", handler: h}
	if err := s.Up(); err != nil {
		return nil, err
	}
	s.URL = "http://" + s.Addr + "/mcp"
	return s, nil
}

// Up puts the server up. If it is a Raw it has forgotten its sessions.
func (s *Site) Up() error {
	l, err := listenAgain(s.Addr)
	if err != nil {
		return err
	}
	if raw, ok := s.handler.(*Raw); ok {
		raw.ForgetSessions()
	}
	s.Addr = l.Addr().String()
	s.server = &http.Server{Handler: s.handler, ReadHeaderTimeout: time.Minute}
	s.done = make(chan struct{})
	go s.serve(l, s.server, s.done)
	return nil
}

func (s *Site) serve(l net.Listener, server *http.Server, done chan<- struct{}) {
	defer close(done)
	_ = server.Serve(l)
}

// listenAgain listens on an address that was in use a moment ago.
func listenAgain(addr string) (net.Listener, error) {
	for end := time.Now().Add(2 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		l, err := net.Listen("tcp", addr)
		if err == nil || time.Now().After(end) {
			return l, err
		}
	}
}

// Down takes the server down: it stops listening and drops every connection.
func (s *Site) Down() {
	_ = s.server.Close()
	<-s.done
}
