package upstream

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// listenOn listens on a port of our own, or on one that was just given up.
func listenOn(t *testing.T, addr string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestHTTPNeverSent(t *testing.T) {
	l := listenOn(t, "127.0.0.1:0")
	free := l.Addr().String()
	_ = l.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	for _, c := range []struct{ name, url, reason string }{
		{"nobody listens", "http://" + free + "/mcp", "connection refused"},
		{"no such host", "http://no-such-host.invalid/mcp", "no-such-host.invalid"},
		{"TLS to a plain server", strings.Replace(plain.URL, "http:", "https:", 1), "first record does not look like a TLS handshake"},
		{"a certificate nobody vouches for", secure.URL, "certificate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := connectHTTP(t, c.url)
			_, err := conn.Call(t.Context(), &Request{ID: NextID(), Method: "tools/call"})
			if fault.KindOf(err) != fault.Unreachable || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestHTTPSentAndLost(t *testing.T) {
	for _, c := range []struct {
		name string
		cut  func(net.Conn)
		want string
	}{
		{"closed without an answer", func(c net.Conn) {}, "lost"},
		{"reset", func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }, "lost"},
		{"cut in the head", func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Ty") }, "protocol"},
		{"cut in the body", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
		}, "lost"},
		{"cut in a chunk", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{")
		}, "lost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := servePeer(t, func(w http.ResponseWriter, _ *http.Request, _ *wire.Message) {
				raw, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				c.cut(raw)
				_ = raw.Close()
			})
			if got := call(t.Context(), conn, "tools/call"); got != c.want {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestHTTPNoHTTP(t *testing.T) {
	l := listenOn(t, "127.0.0.1:0")
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1<<10))
			_, _ = io.WriteString(c, "220 mail.example.com secret\r\n")
			_ = c.Close()
		}
	}()
	conn := connectHTTP(t, "http://"+l.Addr().String())
	_, err := conn.Call(t.Context(), &Request{ID: NextID(), Method: "tools/call"})
	if fault.KindOf(err) != fault.Protocol || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

// A server that is stopped and started again on the same port between calls must not
// be noticed: the pooled connections are dead, but nothing was sent on them.
func TestHTTPServerRestartsBetweenCalls(t *testing.T) {
	l := listenOn(t, "127.0.0.1:0")
	addr := l.Addr().String()
	p := peer(func(w http.ResponseWriter, _ *http.Request, m *wire.Message) { reply(w, m, okResult) })
	srv := &http.Server{Handler: p}
	go func() { _ = srv.Serve(l) }()
	conn := connectHTTP(t, "http://"+addr)
	for range 20 {
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				if got := call(t.Context(), conn, "tools/call"); got != okOutcome {
					t.Errorf("got %s", got)
				}
			})
		}
		group.Wait()
		_ = srv.Close()
		l = listenOn(t, addr)
		srv = &http.Server{Handler: p}
		go func() { _ = srv.Serve(l) }()
	}
	_ = srv.Close()
}

// Under a server that closes idle connections at once, calls cross its closing all
// the time. Whatever comes of it, a call that is reported as never sent was not
// executed, and none is executed twice.
func TestHTTPSentIsAFact(t *testing.T) {
	executed := make([]atomic.Int32, 4000)
	srv := httptest.NewUnstartedServer(peer(func(w http.ResponseWriter, _ *http.Request, m *wire.Message) {
		id, _ := parseID(m.ID.Of(m.Raw))
		executed[id].Add(1)
		reply(w, m, okResult)
	}))
	srv.Config.IdleTimeout = 50 * time.Microsecond
	srv.Start()
	defer srv.Close()
	conn := connectHTTP(t, srv.URL)
	var group sync.WaitGroup
	var failed atomic.Int32
	for worker := range 8 {
		group.Go(func() {
			for i := range len(executed) / 8 {
				id := int64(worker*len(executed)/8 + i)
				_, err := conn.Call(t.Context(), &Request{ID: id, Method: "tools/call"})
				n := executed[id].Load()
				switch {
				case err == nil && n != 1, n > 1, fault.KindOf(err) == fault.Unreachable && err != nil && n != 0:
					t.Errorf("call %d was executed %d times and reported as %v", id, n, err)
				case err != nil:
					failed.Add(1)
				}
			}
		})
	}
	group.Wait()
	t.Logf("%d of %d calls crossed a close on the wire", failed.Load(), len(executed))
}

// Node.js closes idle connections after 5 s and says so.
func TestHTTPHeedsKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said = "timeout=5, max=100"
		conn := pipePeer(t, func(w http.ResponseWriter, _ *http.Request, m *wire.Message) {
			w.Header().Set("Keep-Alive", said)
			reply(w, m, okResult)
		}, nil)
		open := func() int {
			synctest.Wait()
			conn.network.mu.Lock()
			defer conn.network.mu.Unlock()
			return len(conn.network.conns)
		}
		call(t.Context(), conn, "tools/call") // learns
		call(t.Context(), conn, "tools/call")
		time.Sleep(3900 * time.Millisecond)
		if open() == 0 {
			t.Error("closed too early")
		}
		call(t.Context(), conn, "tools/call")
		time.Sleep(4100 * time.Millisecond)
		if n := open(); n > 1 { // one of net/http's was opened before it knew
			t.Errorf("%d connections are still open", n)
		}
	})
}

func TestHTTPTimeoutOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := pipePeer(t, func(_ http.ResponseWriter, r *http.Request, _ *wire.Message) { <-r.Context().Done() }, nil,
			func(s *config.Server) { s.Timeout = 3 * time.Second })
		began := time.Now()
		if got := call(t.Context(), conn, "tools/call"); got != "timeout" || time.Since(began) != 3*time.Second {
			t.Errorf("got %s after %v", got, time.Since(began))
		}
	})
}

func TestHTTPOverTLS(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		srv := httptest.NewUnstartedServer(peer(func(w http.ResponseWriter, r *http.Request, m *wire.Message) {
			if (r.ProtoMajor == 2) != h2 {
				t.Errorf("came over %s", r.Proto)
			}
			if m.Method == "events" {
				events(w, m, "data: "+okResult+"\n\n")
				return
			}
			reply(w, m, okResult)
		}))
		srv.EnableHTTP2 = h2
		srv.Config.ErrorLog = log.New(io.Discard, "", 0)
		srv.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
		srv.StartTLS()
		ca := filepath.Join(t.TempDir(), "ca.pem")
		data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
		if err := os.WriteFile(ca, data, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, c := range []config.TLS{{CAFile: ca}, {InsecureSkipVerify: true}} {
			conn := connectHTTP(t, srv.URL, func(s *config.Server, _ *Options) { s.TLS = c })
			for _, method := range []string{"tools/call", "events", "events", "tools/call"} {
				if got := call(t.Context(), conn, method); got != okOutcome {
					t.Errorf("got %s", got)
				}
			}
		}
		_, err := openHTTP(t.Context(), &config.Server{Name: "peer", URL: srv.URL, TLS: config.TLS{CAFile: ca + "x"}}, &Options{}, nil)
		if fault.KindOf(err) != fault.Unreachable {
			t.Errorf("a missing ca_file: got %v", err)
		}
		srv.Close()
	}
}

func TestHTTPClose(t *testing.T) {
	begun := make(chan struct{}, 10)
	conn := servePeer(t, func(w http.ResponseWriter, r *http.Request, m *wire.Message) {
		if m.Method == "stream" {
			events(w, m, ": hello\n\n")
		}
		begun <- struct{}{}
		<-r.Context().Done()
	})
	ended := make(chan string, 10)
	for _, method := range []string{"tools/call", "stream"} {
		go func() { ended <- call(context.Background(), conn, method) }()
		<-begun
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for range 2 {
		if got := <-ended; got != "lost" {
			t.Errorf("a call in flight: got %s", got)
		}
	}
	<-conn.Done()
	if !errors.Is(conn.Err(), errHTTPClosed) {
		t.Error(conn.Err())
	}
	if got := call(t.Context(), conn, "tools/call"); got != "unreachable" {
		t.Errorf("a call afterwards: got %s", got)
	}
}
