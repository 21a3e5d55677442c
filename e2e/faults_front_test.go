//go:build e2e && linux

package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

func TestHugeBodiesAreRefused(t *testing.T) {
	r := beside(t, nil)
	load := r.loadAlpha(t)
	before := r.before(t)
	head := "POST /mcp HTTP/1.1\r\nHost: " + r.Addr + "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
	piece := strings.Repeat("x", 1<<16)
	tests := []struct {
		name, head, piece string
		pieces            int
	}{
		{"64 MB", head + "Content-Length: 67108864\r\n\r\n{\"a\":\"", piece, 1 << 10},
		{"64 MB that wait for leave", head + "Expect: 100-continue\r\nContent-Length: 67108864\r\n\r\n", piece, 1 << 10},
		{"endless chunks", head + "Transfer-Encoding: chunked\r\n\r\n", "10000\r\n" + piece + "\r\n", 1 << 20},
		{"endless chunks of a byte", head + "Transfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n", 1 << 30},
		{"an endless size of a chunk", head + "Transfer-Encoding: chunked\r\n\r\n", "0000", 1 << 30},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for range 4 {
				status, took := flood(t, r.Addr, tt.head, tt.piece, tt.pieces)
				t.Logf("status %d after %s", status, took.Round(time.Millisecond))
				if status != 0 && (status < 400 || status > 499) || took > 10*time.Second {
					t.Errorf("status %d after %s, want a client error or a closed connection", status, took)
				}
			}
		})
	}
	r.memoryAtMost(t, before, 64)
	unhurt(t, load, 200*time.Millisecond)
}

// flood writes a head and then pieces until the server has had enough, and returns
// the status it answered, 0 if it only closed the connection.
func flood(t *testing.T, addr, head, piece string, pieces int) (status int, took time.Duration) {
	began := time.Now()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(began.Add(20 * time.Second))
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		w := bufio.NewWriterSize(conn, 1<<16)
		_, err := io.WriteString(w, head)
		for i := 0; i < pieces && err == nil; i++ {
			_, err = io.WriteString(w, piece)
		}
		_ = w.Flush()
	})
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	took = time.Since(began)
	conn.Close()
	if err != nil {
		return 0, took
	}
	return resp.StatusCode, took
}

// With default limits.
func TestSlowRequestsAreCutAndHoldNobody(t *testing.T) {
	t.Parallel()
	r := beside(t, nil)
	load := r.loadAlpha(t)
	before := r.before(t)
	began := time.Now()
	open := func(n int, text string, dribble bool) <-chan time.Duration {
		cut := make(chan time.Duration, n)
		for range n {
			go func() { cut <- until(r.Addr, text, dribble) }()
		}
		return cut
	}
	head := "POST /mcp HTTP/1.1\r\nHost: " + r.Addr + "\r\nContent-Type: application/json\r\n"
	heads := open(300, head+"X-Slow: ", true)
	bodies := open(100, head+"Accept: application/json, text/event-stream\r\nContent-Length: 1000\r\n\r\n{\"jsonrpc\"", false)
	worst := func(n int, cut <-chan time.Duration) (most time.Duration) {
		for range n {
			most = max(most, <-cut)
		}
		return most
	}
	slowHead, slowBody := worst(300, heads), worst(100, bodies)
	t.Logf("heads were cut after %s, bodies after %s at most", slowHead, slowBody)
	if time.Since(began) > 35*time.Second {
		t.Errorf("heads were cut after %s, bodies after %s, want 35s at most", slowHead, slowBody)
	}
	r.memoryAtMost(t, before, 64)
	unhurt(t, load, 200*time.Millisecond)
}

// until sends text, then perhaps a byte each second, until the server ends the
// connection, at most a minute.
func until(addr, text string, dribble bool) time.Duration {
	began := time.Now()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return time.Hour
	}
	defer conn.Close()
	_ = conn.SetDeadline(began.Add(time.Minute))
	_, _ = io.WriteString(conn, text)
	done := make(chan struct{})
	go func() {
		for tick := time.NewTicker(time.Second); dribble; {
			select {
			case <-tick.C:
				_, _ = io.WriteString(conn, "x")
			case <-done:
				return
			}
		}
	}()
	_, _ = io.Copy(io.Discard, conn)
	close(done)
	return time.Since(began)
}

func TestClientsThatReadAtACrawlHoldNobody(t *testing.T) {
	r := betaBeside(t, harness.Chaos(t, mcptest.Chaos{}))
	load := r.loadAlpha(t)
	before := r.before(t)
	params := mcptest.ModernParams(`{"name":"beta__big","arguments":{"bytes":8000000}}`, "{}")
	body := rpc("tools/call", params)
	var request strings.Builder
	fmt.Fprintf(&request, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n", r.Addr, len(body))
	for k, v := range headersFor(body, nil) {
		fmt.Fprintf(&request, "%s: %s\r\n", k, v)
	}
	request.WriteString("\r\n" + body)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	got := make([]int, 20)
	for i := range got {
		wg.Go(func() { got[i] = crawl(ctx, r.Addr, request.String()) })
	}
	pause(t, 8*time.Second)
	stop()
	wg.Wait()
	for i, n := range got {
		if n == 0 {
			t.Errorf("crawler %d has got nothing", i)
		}
	}
	r.memoryAtMost(t, before, 20*8+64)
	unhurt(t, load, 500*time.Millisecond)
}

// crawl sends a request and reads 1 kB of the answer every 50 ms.
func crawl(ctx context.Context, addr, request string) (got int) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 0
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	if _, err := io.WriteString(conn, request); err != nil {
		return 0
	}
	buf := make([]byte, 1<<10)
	for ctx.Err() == nil {
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		n, err := conn.Read(buf)
		got += n
		if err != nil {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	return got
}
