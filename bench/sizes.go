package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"mcp-aggregator/internal/wire"
)

// sizes prints start-up times and memory.
func (b *bench) sizes() error {
	for _, c := range []struct {
		servers int
		ready   time.Duration
		memory  int
	}{{20, 80 * time.Millisecond, 25}, {200, 450 * time.Millisecond, 90}} {
		if err := b.startUp(c.servers, 50, c.ready, c.memory); err != nil {
			return err
		}
		b.stop()
	}
	return b.sessions()
}

// farm serves many upstreams in one process: /0/mcp, /1/mcp, ... each with its own
// tools. Its argument is the number of tools.
func farm(args []string) error {
	tools, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	list := []string{}
	for i := range tools {
		list = append(list, fmt.Sprintf(`{"name":"tool_%03d","description":"does something useful with the given arguments and returns a list of results","inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"the search query"},"limit":{"type":"integer","minimum":1,"maximum":100,"default":10},"tags":{"type":"array","items":{"type":"string"}}},"required":["query"],"additionalProperties":false},"annotations":{"readOnlyHint":true}}`, i))
	}
	listing := `{"tools":[` + strings.Join(list, ",") + `]}`
	return serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodPut { // the static server of the comparison
			w.Header()["Content-Type"] = []string{"application/json"}
			w.Header()["Content-Length"] = []string{strconv.Itoa(len(static))}
			w.Write(static)
			return
		}
		m, err := wire.Scan(body)
		if r.Method != http.MethodPost || err != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		result := `{}`
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"farm","version":"1"}}`
		case "tools/list":
			result = listing
		case "server/discover":
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if m.Kind != wire.Request {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header()["Content-Type"] = []string{"application/json"}
		w.Write(wire.AppendResult(nil, m.ID.Of(body), wire.Value{Raw: []byte(result)}))
	}))
}

// static is what the farm answers to PUT: as many bytes as the merged list of 20
// servers has, from memory.
var static = bytes.Repeat([]byte("x"), 420_000)

// startUp measures from the start of the process to the first complete tools/list.
func (b *bench) startUp(servers, tools int, goal time.Duration, memory int) error {
	up, err := b.role("farm", strconv.Itoa(tools))
	if err != nil {
		return err
	}
	conf := "servers:\n"
	for i := range servers {
		conf += fmt.Sprintf("  s%03d: {url: %q}\n", i, strings.Replace(up.url, "/mcp", fmt.Sprintf("/%d/mcp", i), 1))
	}
	var times []time.Duration
	var agg *proc
	for range b.rounds {
		if agg != nil {
			agg.end()
		}
		began := time.Now()
		if agg, err = b.aggregator(conf); err != nil {
			return err
		}
		n, err := countTools(agg.url)
		if err != nil {
			return err
		}
		if n != servers*tools {
			return fmt.Errorf("the first list has %d tools, want %d", n, servers*tools)
		}
		times = append(times, time.Since(began))
	}
	fmt.Printf("%-44s %v (goal %v)\n", fmt.Sprintf("ready with %d upstreams x %d tools", servers, tools), median(times).Round(100*time.Microsecond), goal)
	fmt.Printf("%-44s %.1f MB (goal %d MB)\n", "  resident memory there", float64(agg.rss())/1e6, memory)
	if servers == 20 {
		return b.listing(agg, up)
	}
	return nil
}

// listing compares the merged list with a static answer of about the same bytes.
func (b *bench) listing(agg, up *proc) error {
	headers, err := openSession(agg.url)
	if err != nil {
		return err
	}
	ours, err := newHTTPCaller(agg.url, "", shape{}, 1, headers)
	if err != nil {
		return err
	}
	defer ours.close()
	u, _ := url.Parse(agg.url)
	ours.request = post(u, headers, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	fixed, err := newHTTPCaller(up.url, "", shape{}, 1, "")
	if err != nil {
		return err
	}
	defer fixed.close()
	u, _ = url.Parse(up.url)
	fixed.request = bytes.Replace(post(u, "", `{}`), []byte("POST"), []byte("PUT"), 1)
	var ratios []float64
	var bytesOurs, bytesFixed int
	for range b.rounds {
		var took [2]time.Duration
		for i, c := range []*httpCaller{fixed, ours} {
			began := time.Now()
			for range 200 {
				_, _, body, err := c.exchange()
				if err != nil {
					return err
				}
				if i == 0 {
					bytesFixed = len(body)
				} else {
					bytesOurs = len(body)
				}
			}
			took[i] = time.Since(began)
		}
		ratios = append(ratios, took[1].Seconds()/took[0].Seconds()*float64(bytesFixed)/float64(bytesOurs))
	}
	fmt.Printf("%-44s %.2f x the time of a static server (goal 1.30; %d bytes, per byte)\n", "  tools/list there", median(ratios), bytesOurs)
	return nil
}

// countTools asks for the list, following its pages, and counts.
func countTools(endpoint string) (int, error) {
	headers, err := openSession(endpoint)
	if err != nil {
		return 0, err
	}
	u, _ := url.Parse(endpoint)
	n, params := 0, "{}"
	for {
		c, err := newHTTPCaller(endpoint, "", shape{}, 1, headers)
		if err != nil {
			return 0, err
		}
		c.request = post(u, headers, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":`+params+`}`)
		_, _, body, err := c.exchange()
		c.close()
		if err != nil {
			return 0, err
		}
		m, err := wire.Scan(body)
		if err != nil {
			return 0, fmt.Errorf("reading the list: %w: %.200s", err, body)
		}
		for range wire.Elements(m.Body.Raw, m.Body.Field("tools")) {
			n++
		}
		next := m.Body.Field("nextCursor")
		if !next.OK() {
			return n, nil
		}
		params = `{"cursor":` + string(next.Of(m.Body.Raw)) + `}`
	}
}

// sessions measures the memory of idle legacy sessions, without and with an open
// GET stream.
func (b *bench) sessions() error {
	const many = 1000
	up, err := b.role("farm", "5")
	if err != nil {
		return err
	}
	for _, stream := range []bool{false, true} {
		agg, err := b.aggregator(fmt.Sprintf("servers:\n  s: {url: %q}\n", up.url))
		if err != nil {
			return err
		}
		if _, err := countTools(agg.url); err != nil {
			return err
		}
		time.Sleep(500 * time.Millisecond)
		before := agg.rss()
		var open []net.Conn
		for range many {
			headers, err := openSession(agg.url)
			if err != nil {
				return err
			}
			if stream {
				conn, err := openStream(agg.url, headers)
				if err != nil {
					return err
				}
				open = append(open, conn)
			}
		}
		time.Sleep(500 * time.Millisecond)
		what, goal := "  per idle legacy session", 15
		if stream {
			what, goal = "  per idle legacy session with a GET stream", 35
		}
		fmt.Printf("%-44s %.1f kB (goal %d kB; resident memory, %d sessions)\n", what, float64(agg.rss()-before)/many/1e3, goal, many)
		for _, c := range open {
			c.Close()
		}
		agg.end()
	}
	return nil
}

// openStream opens the standalone stream of a session and reads its header.
func openStream(endpoint, headers string) (net.Conn, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n%s\r\n", u.RequestURI(), u.Host, headers)
	buf := make([]byte, 512)
	n, err := conn.Read(buf)
	if err != nil || !strings.HasPrefix(string(buf[:n]), "HTTP/1.1 200") {
		return nil, fmt.Errorf("opening a stream: %.100s: %w", buf[:n], err)
	}
	return conn, nil
}

func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}
