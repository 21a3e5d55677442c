package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A shape is one kind of request.
type shape struct {
	tool   string
	modern bool
}

// request is the body for one id, calling the tool by the name the peer knows.
func (s shape) request(id int, name string) string {
	meta := ""
	if s.modern {
		meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"load","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"q":"hello","n":1}%s}}`, id, name, meta)
}

// answer is what must come back for that id, to the byte.
func (s shape) answer(id int) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":%s}`, id, result(s.tool, s.modern))
}

// A sample is what one round of load measured.
type sample struct {
	perSecond float64
	latency   []time.Duration
	cpu       time.Duration // of the measured process, per request
}

func (s sample) percentile(q float64) time.Duration {
	if len(s.latency) == 0 {
		return 0
	}
	return s.latency[min(len(s.latency)-1, int(q*float64(len(s.latency))))]
}

// A caller makes one verified request.
type caller interface {
	call() error
	close()
}

// load lets the callers work for d and counts. The first error ends it.
func load(callers []caller, d time.Duration, p *proc) (sample, error) {
	var stop atomic.Bool
	var wg sync.WaitGroup
	latencies := make([][]time.Duration, len(callers))
	errs := make([]error, len(callers))
	cpu, began := p.cpu(), time.Now()
	for i, c := range callers {
		wg.Go(func() {
			for !stop.Load() {
				t := time.Now()
				if errs[i] = c.call(); errs[i] != nil {
					return
				}
				latencies[i] = append(latencies[i], time.Since(t))
			}
		})
	}
	time.Sleep(d)
	stop.Store(true)
	wg.Wait()
	took := time.Since(began)
	all := slices.Concat(latencies...)
	slices.Sort(all)
	s := sample{perSecond: float64(len(all)) / took.Seconds(), latency: all}
	if len(all) > 0 {
		s.cpu = (p.cpu() - cpu) / time.Duration(len(all))
	}
	return s, errors.Join(errs...)
}

// httpCaller is one keep-alive connection with one request that it repeats.
type httpCaller struct {
	conn    net.Conn
	r       *bufio.Reader
	request []byte
	want    []byte
	buf     []byte
}

// newHTTPCaller connects to an endpoint; name is the tool there, id must be unique
// among the callers of one peer.
func newHTTPCaller(endpoint, name string, s shape, id int, headers string) (*httpCaller, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		return nil, err
	}
	if s.modern {
		headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: " + name + "\r\n"
	}
	return &httpCaller{conn: conn, r: bufio.NewReaderSize(conn, 256<<10), request: post(u, headers, s.request(id, name)), want: s.answer(id)}, nil
}

func post(u *url.URL, headers, body string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n%s\r\n%s",
		u.RequestURI(), u.Host, len(body), headers, body)
}

func (c *httpCaller) call() error {
	status, _, body, err := c.exchange()
	if err != nil {
		return err
	}
	if status != 200 || !bytes.Equal(body, c.want) {
		return fmt.Errorf("wrong answer: status %d, %d bytes (want %d): %.200s", status, len(body), len(c.want), body)
	}
	return nil
}

func (c *httpCaller) close() { c.conn.Close() }

// exchange sends the request and reads one answer.
func (c *httpCaller) exchange() (status int, session string, body []byte, err error) {
	if _, err = c.conn.Write(c.request); err != nil {
		return
	}
	line, err := c.r.ReadSlice('\n')
	if err != nil || len(line) < 12 {
		return 0, "", nil, fmt.Errorf("reading the status line: %w", err)
	}
	status, _ = strconv.Atoi(string(line[9:12]))
	length, chunked := 0, false
	for {
		if line, err = c.r.ReadSlice('\n'); err != nil {
			return
		}
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			break
		}
		key, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case bytes.EqualFold(key, []byte("Content-Length")):
			length, _ = strconv.Atoi(string(value))
		case bytes.EqualFold(key, []byte("Transfer-Encoding")):
			chunked = true
		case bytes.EqualFold(key, []byte("Mcp-Session-Id")):
			session = string(value)
		}
	}
	if chunked {
		body, err = c.readChunks()
		return
	}
	if cap(c.buf) < length {
		c.buf = make([]byte, length)
	}
	body = c.buf[:length]
	_, err = io.ReadFull(c.r, body)
	return
}

func (c *httpCaller) readChunks() ([]byte, error) {
	body := c.buf[:0]
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 64)
		if err != nil {
			return nil, err
		}
		at := len(body)
		body = slices.Grow(body, int(n))[:at+int(n)]
		if _, err := io.ReadFull(c.r, body[at:]); err != nil {
			return nil, err
		}
		if _, err := c.r.Discard(2); err != nil {
			return nil, err
		}
		if c.buf = body; n == 0 {
			return body, nil
		}
	}
}

// openSession makes a legacy session and returns the headers of its requests.
func openSession(endpoint string) (headers string, err error) {
	c, err := newHTTPCaller(endpoint, "", shape{}, 1, "")
	if err != nil {
		return "", err
	}
	defer c.close()
	u, _ := url.Parse(endpoint)
	c.request = post(u, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"load","version":"1"}}}`)
	status, session, body, err := c.exchange()
	if err != nil || status != 200 {
		return "", fmt.Errorf("initialize: status %d %.200s: %w", status, body, err)
	}
	headers = "MCP-Protocol-Version: 2025-11-25\r\n"
	if session != "" {
		headers += "Mcp-Session-Id: " + session + "\r\n"
	}
	c.request = post(u, headers, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	status, _, _, err = c.exchange()
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("initialized: status %d", status)
	}
	return headers, err
}
