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
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

func echoConfig(t *testing.T) harness.Config {
	return harness.Servers(map[string]harness.Config{"echo": harness.Child(t, "echo")})
}

func TestMalformedRequestsInALegacySession(t *testing.T) {
	a := harness.Serve(t, echoConfig(t))
	c := a.Connect(t, mcptest.Legacy)
	awaitTools(t, c, 1)
	fix := func(m malformed, status int) malformed {
		if m.status == 0 {
			m.status = status
		}
		h := map[string]string{"Mcp-Session-Id": c.Session(), "Mcp-Protocol-Version": mcptest.LegacyVersion}
		for k, v := range m.header {
			h[k] = strings.ReplaceAll(v, "SESSION-HALF", c.Session()[:len(c.Session())/2])
		}
		m.header = h
		return m
	}
	var all []malformed
	for _, m := range brokenMessages {
		all = append(all, fix(m, 400))
	}
	for _, m := range wrongRequests {
		all = append(all, fix(m, 200))
	}
	for _, m := range append(legacyRequests, transportRequests...) {
		all = append(all, fix(m, 0))
	}
	postAll(t, a, all, c)
}

func TestMalformedModernRequests(t *testing.T) {
	a := harness.Serve(t, echoConfig(t))
	c := a.Connect(t, mcptest.Modern)
	awaitTools(t, c, 1)
	var all []malformed
	for _, m := range brokenMessages {
		if m.status == 0 {
			m.status = 400
		}
		m.header = headersFor(m.body, m.header)
		all = append(all, m)
	}
	for _, m := range wrongRequests {
		m = m.asModern()
		m.header = headersFor(m.body, m.header)
		all = append(all, m)
	}
	for _, m := range append(modernRequests(), transportRequests...) {
		m.header = headersFor(m.body, m.header)
		all = append(all, m)
	}
	postAll(t, a, all, c)
}

// postAll posts each request and then sees whether the client still works.
func postAll(t *testing.T, a *harness.Aggregator, all []malformed, c *mcptest.Client) {
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			x, err := mcptest.Post(ctx, a.URL, m.header, m.body)
			if err != nil {
				t.Fatal(err)
			}
			if p := m.problem(x); p != "" {
				t.Errorf("%s\nsent %s\n got status %d, %s", p, clip(m.body), x.Status, show(x))
			}
			stillWorks(t, c)
		})
	}
	if !a.Alive() {
		t.Error("the aggregator has ended")
	}
}

// stillWorks calls the tool the aggregator must not lose.
func stillWorks(t *testing.T, c *mcptest.Client) {
	t.Helper()
	x, err := c.Call(harness.Context(t, 5*time.Second), "tools/call", `{"name":"echo__echo","arguments":{"a":1}}`)
	if err != nil || !strings.Contains(string(x.Result), `{\"a\":1}`) {
		t.Fatalf("the next call fails: %v, %s", err, show(x))
	}
}

func TestMalformedLinesOnStdio(t *testing.T) {
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			p, in, out := harness.StartStdio(t, echoConfig(t))
			lines := &lineConn{in: in, out: bufio.NewReader(out), errors: make(chan *mcptest.Exchange, 1000)}
			c, err := mcptest.ConnectPipes(harness.Context(t, 10*time.Second), lines, lines, era, nil)
			if err != nil {
				t.Fatal(err)
			}
			awaitTools(t, c, 1)
			all := append([]malformed{}, brokenMessages...)
			for _, m := range wrongRequests {
				if era == mcptest.Modern {
					m = m.asModern()
				}
				all = append(all, m)
			}
			for _, m := range all {
				t.Run(m.name, func(t *testing.T) { lines.check(t, m); stillWorks(t, c) })
			}
			if !p.Alive() {
				t.Error("the aggregator has ended")
			}
		})
	}
}

// lineConn passes lines on to a client, except errors, which the table waits for.
type lineConn struct {
	in     io.WriteCloser
	out    *bufio.Reader
	rest   []byte // of the line that is being read
	errors chan *mcptest.Exchange
}

func (l *lineConn) Write(b []byte) (int, error) { return l.in.Write(b) }
func (l *lineConn) Close() error                { return l.in.Close() }

func (l *lineConn) Read(b []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.out.ReadBytes('\n')
		if err != nil {
			return 0, err
		}
		if q, err := mcptest.ParseRequest(line); err == nil && q.Method == "" && q.Error != nil {
			l.errors <- &mcptest.Exchange{Raw: q.Raw, ID: q.ID, Error: q.Error}
			continue
		}
		l.rest = line
	}
	n := copy(b, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// check sends one line and waits for the error it must bring.
func (l *lineConn) check(t *testing.T, m malformed) {
	for len(l.errors) > 0 {
		t.Errorf("an error nobody asked for: %s", (<-l.errors).Raw)
	}
	if _, err := fmt.Fprintf(l.in, "%s\n", strings.ReplaceAll(m.body, "\n", " ")); err != nil {
		t.Fatal(err)
	}
	select {
	case x := <-l.errors:
		x.Status, m.status = 400, 400 // pipes have no status
		if p := m.problem(x); p != "" {
			t.Errorf("%s\nsent %s\n got %s", p, clip(m.body), show(x))
		}
	case <-time.After(5 * time.Second):
		t.Errorf("no answer to %s", clip(m.body))
	}
}

// TestRawHTTP sends what no HTTP library would.
func TestRawHTTP(t *testing.T) {
	a := harness.Serve(t, echoConfig(t))
	c := a.Connect(t, mcptest.Legacy)
	awaitTools(t, c, 1)
	long := strings.Repeat("x", 2<<20)
	var many strings.Builder
	for i := range 10000 {
		fmt.Fprintf(&many, "X-H%d: 1\r\n", i)
	}
	tests := []struct{ name, request string }{
		{"a header of 2 MB", "POST /mcp HTTP/1.1\r\nHost: " + a.Addr + "\r\nX-Long: " + long + "\r\nContent-Length: 2\r\n\r\n{}"},
		{"10,000 headers", "POST /mcp HTTP/1.1\r\nHost: " + a.Addr + "\r\n" + many.String() + "Content-Length: 2\r\n\r\n{}"},
		{"a URL of 1 MB", "POST /mcp?" + long[:1<<20] + " HTTP/1.1\r\nHost: " + a.Addr + "\r\nContent-Length: 2\r\n\r\n{}"},
		{"a method that is none", "BREW /mcp HTTP/1.1\r\nHost: " + a.Addr + "\r\nContent-Length: 0\r\n\r\n"},
		{"PUT", "PUT /mcp HTTP/1.1\r\nHost: " + a.Addr + "\r\nContent-Length: 2\r\n\r\n{}"},
		{"another path", "POST /nope HTTP/1.1\r\nHost: " + a.Addr + "\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"},
		{"no HTTP at all", "\x16\x03\x01hello\r\n\r\n"},
		{"two lengths", "POST /mcp HTTP/1.1\r\nHost: " + a.Addr + "\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}"},
		{"GET without a session", "GET /mcp HTTP/1.1\r\nHost: " + a.Addr + "\r\nAccept: text/event-stream\r\n\r\n"},
		{"GET of an unknown session", "GET /mcp HTTP/1.1\r\nHost: " + a.Addr + "\r\nAccept: text/event-stream\r\nMcp-Session-Id: x\r\n\r\n"},
		{"DELETE of an unknown session", "DELETE /mcp HTTP/1.1\r\nHost: " + a.Addr + "\r\nMcp-Session-Id: x\r\n\r\n"},
		{"DELETE without a session", "DELETE /mcp HTTP/1.1\r\nHost: " + a.Addr + "\r\n\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if status, err := rawStatus(a.Addr, tt.request); err == nil && (status < 400 || status > 499) {
				t.Errorf("status %d, want a client error or a closed connection", status)
			}
			stillWorks(t, c)
		})
	}
}

// rawStatus sends bytes and returns the status that comes back within 5 seconds.
// A connection that is closed without an answer is an error.
func rawStatus(addr, request string) (int, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	go func() { _, _ = io.WriteString(conn, request) }()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err, ok := err.(net.Error); ok && err.Timeout() {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// A session that is deleted is gone; its id is of no use to anybody.
func TestDeletedSessions(t *testing.T) {
	a := harness.Serve(t, echoConfig(t))
	c := a.Connect(t, mcptest.Legacy)
	awaitTools(t, c, 1)
	if len(c.Session()) < 22 {
		t.Errorf("session id %q has less than 128 bits", c.Session())
	}
	if status, err := c.Delete(t.Context()); err != nil || status < 200 || status > 299 {
		t.Errorf("DELETE: status %d, %v", status, err)
	}
	if x, err := c.Call(t.Context(), "tools/list", "{}"); err != nil || x.Status != 404 {
		t.Errorf("the deleted session answers with status %d, %v; want 404", x.Status, err)
	}
	if status, _ := c.Delete(t.Context()); status != 404 {
		t.Errorf("the second DELETE has status %d, want 404", status)
	}
}
