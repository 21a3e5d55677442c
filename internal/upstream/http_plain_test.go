package upstream

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/wire"
)

// A rawServer answers each request on a connection with the text that script returns
// for it, ID replaced; it closes the connection after a text that ends in "CLOSE".
type rawServer struct {
	net.Listener
	conns atomic.Int32
}

func serveRaw(t *testing.T, script func(conn, request int32) string) *rawServer {
	t.Helper()
	s := &rawServer{Listener: listenOn(t, "127.0.0.1:0")}
	t.Cleanup(func() { _ = s.Close() })
	go func() {
		for {
			c, err := s.Accept()
			if err != nil {
				return
			}
			go s.serve(c, s.conns.Add(1), script)
		}
	}()
	return s
}

func (s *rawServer) serve(c net.Conn, conn int32, script func(conn, request int32) string) {
	defer c.Close()
	r := bufio.NewReader(c)
	for n := int32(1); ; n++ {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		m, _ := wire.Scan(body)
		text, end := strings.CutSuffix(script(conn, n), "CLOSE")
		_, _ = io.WriteString(c, strings.ReplaceAll(text, "ID", string(m.ID.Of(body))))
		if end {
			return
		}
	}
}

// sized is an answer with a length that fits ids of any length.
func sized(head string) string {
	body := okResult + strings.Repeat(" ", 20)
	return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + head + "Content-Length: LEN\r\n\r\n" + body
}

func TestPlainFraming(t *testing.T) {
	chunked := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, c := range []struct {
		name  string
		text  string
		want  string
		conns int32 // for three calls
	}{
		{"a length", sized(""), okOutcome, 1},
		{"chunks and a trailer", chunked + "1\r\n{\r\nHEX\r\nREST\r\n0\r\nX-Trailer: 1\r\n\r\n", okOutcome, 1},
		{"up to the end of the connection", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + okResult + "CLOSE", okOutcome, 3},
		{"HTTP/1.0", strings.Replace(sized(""), "1.1", "1.0", 1), okOutcome, 3},
		{"a server that closes", sized("Connection: close\r\n") + "CLOSE", okOutcome, 3},
		{"informational responses first", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + sized(""), okOutcome, 1},
		{"informational responses for ever", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 20), "protocol", 3},
		{"another protocol", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "protocol", 3},
		{"a second answer that nobody asked for", sized("") + sized(""), okOutcome, 3},
		{"a head without an end", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Long: "+strings.Repeat("x", 1000)+"\r\n", 300), "protocol", 3},
		{"no HTTP", "hello\r\n\r\n", "protocol", 3},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\nContent-Length: 50\r\n\r\n{}", "protocol", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := serveRaw(t, func(int32, int32) string {
				// The id has as many digits as NextID has reached.
				id := fmt.Sprint(NextID() - 1)
				full := strings.ReplaceAll(okResult, "ID", id)
				text := strings.ReplaceAll(c.text, "LEN", fmt.Sprint(len(full)+20))
				text = strings.ReplaceAll(text, "HEX", fmt.Sprintf("%x", len(full)-1))
				return strings.ReplaceAll(text, "REST", full[1:])
			})
			conn := connectHTTP(t, "http://"+srv.Addr().String())
			for range 3 {
				if got := call(t.Context(), conn, "tools/call"); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
			}
			if n := srv.conns.Load(); n != c.conns {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// What a server says on an idle connection is never taken for an answer.
func TestPlainDesynchronized(t *testing.T) {
	var open net.Conn
	l := listenOn(t, "127.0.0.1:0")
	conns := make(chan net.Conn, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns <- c
		}
	}()
	defer l.Close()
	answer := func(c net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			t.Error(err)
			return
		}
		body, _ := io.ReadAll(req.Body)
		m, _ := wire.Scan(body)
		text := strings.ReplaceAll(okResult, "ID", string(m.ID.Of(body)))
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	}
	conn := connectHTTP(t, "http://"+l.Addr().String())
	for i := range 3 {
		done := make(chan string)
		go func() { done <- call(t.Context(), conn, "tools/call") }()
		c := <-conns // each call needs a connection of its own
		answer(c)
		if got := <-done; got != okOutcome {
			t.Errorf("call %d: got %s", i, got)
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
		if open != nil {
			_ = open.Close()
		}
		open = c
	}
	_ = open.Close()
}

func TestPlainRefusesHeaders(t *testing.T) {
	conn := servePeer(t, func(w http.ResponseWriter, r *http.Request, m *wire.Message) {
		if r.Header.Get("X-Injected") != "" {
			t.Error("a header was injected")
		}
		reply(w, m, okResult)
	})
	for _, h := range []http.Header{
		{"X-A": {"1\r\nX-Injected: 1"}},
		{"X-A\r\nX-Injected": {"1"}},
		{"X-Injected: 1\r\nX-A": {"1"}},
		{"": {"1"}},
	} {
		reply, err := conn.Call(t.Context(), &Request{ID: NextID(), Method: "tools/call", Header: h})
		if got := outcome(reply, err); got != "unreachable" {
			t.Errorf("%q: got %s", h, got)
		}
	}
	h := http.Header{"Content-Length": {"1"}, "Transfer-Encoding": {"chunked"}, "Host": {"x"}}
	reply, err := conn.Call(t.Context(), &Request{ID: NextID(), Method: "tools/call", Header: h})
	if got := outcome(reply, err); got != okOutcome {
		t.Errorf("got %s", got)
	}
}

// Large requests are written while the response is awaited: a server may refuse one
// without reading it.
func TestPlainLeavesLargeRequests(t *testing.T) {
	conn := servePeer(t, func(w http.ResponseWriter, _ *http.Request, m *wire.Message) {
		reply(w, m, strings.Replace(okResult, "true", fmt.Sprint(len(m.Raw) > 8<<20), 1))
	})
	params := wire.Value{Raw: []byte(`{"a":"` + strings.Repeat("x", 8<<20) + `"}`)}
	r, err := conn.Call(t.Context(), &Request{ID: NextID(), Method: "tools/call", Params: params})
	if got := outcome(r, err); got != okOutcome {
		t.Errorf("got %s", got)
	}
	l := listenOn(t, "127.0.0.1:0")
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.ReadFull(c, make([]byte, 1<<10))
		_, _ = io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
		<-t.Context().Done() // reads no more
		_ = c.Close()
	}()
	conn = connectHTTP(t, "http://"+l.Addr().String())
	r, err = conn.Call(t.Context(), &Request{ID: NextID(), Method: "tools/call", Params: params})
	if got := outcome(r, err); got != "protocol" || !strings.Contains(err.Error(), "413") {
		t.Errorf("got %s: %v", got, err)
	}
}

func TestPlainGivesUpIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		conn := pipePeer(t, func(w http.ResponseWriter, _ *http.Request, m *wire.Message) {
			<-hold
			reply(w, m, okResult)
		}, nil)
		const many = maxIdle + 10
		done := make(chan string, many)
		for range many {
			go func() { done <- call(context.Background(), conn, "tools/call") }()
		}
		synctest.Wait()
		close(hold)
		for range many {
			if got := <-done; got != okOutcome {
				t.Error(got)
			}
		}
		open := func() int {
			synctest.Wait()
			conn.network.mu.Lock()
			defer conn.network.mu.Unlock()
			return len(conn.network.conns)
		}
		if n := open(); n != maxIdle {
			t.Errorf("%d connections are kept", n)
		}
		time.Sleep(idleTimeout / 2)
		call(t.Context(), conn, "tools/call") // renews one of them
		time.Sleep(idleTimeout/2 + time.Second)
		if n := open(); n != 1 {
			t.Errorf("%d connections are kept", n)
		}
		time.Sleep(idleTimeout)
		if n := open(); n != 0 {
			t.Errorf("%d connections are kept", n)
		}
	})
}

// After a call that got no answer in time no idle connection is trusted: the network
// may have swallowed them all.
func TestPlainDistrustsConnectionsAfterATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := make(chan struct{}, 2)
		conn := pipePeer(t, func(w http.ResponseWriter, r *http.Request, m *wire.Message) {
			if m.Method == "hang" {
				<-r.Context().Done()
				return
			}
			begun <- struct{}{}
			for len(begun) < cap(begun) { // until both calls are there, each on a connection
				time.Sleep(time.Millisecond)
			}
			reply(w, m, okResult)
		}, nil)
		conn.setInfo(&Info{Era: wire.Modern, Version: wire.V20260728}) // no notification of the cancellation
		done := make(chan string)
		for range 2 {
			go func() { done <- call(context.Background(), conn, "tools/call") }()
		}
		if a, b := <-done, <-done; a != okOutcome || b != okOutcome {
			t.Fatal(a, b)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := call(ctx, conn, "hang"); got != "timeout" {
			t.Error(got)
		}
		synctest.Wait()
		conn.network.mu.Lock()
		defer conn.network.mu.Unlock()
		if n := len(conn.network.conns); n != 0 {
			t.Errorf("%d connections are kept", n)
		}
	})
}
