package downstream_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/config"
)

const listChanged = `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`

func TestListChangesReachTheNewestStream(t *testing.T) {
	b := newBare(t, tools("a"))
	url := b.serve(t)
	h := legacyHeaders(open(t, url))
	first := listen(t, http.DefaultTransport, url, h, "")
	defer first.close()
	second := listen(t, http.DefaultTransport, url, h, "")
	post(t, url, h, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)

	b.offer(tools("a", "b"))
	if got := second.next(); got != listChanged {
		t.Fatalf("newest stream: %q", got)
	}
	second.close()
	for b.Stats().InFlight > 1 {
		post(t, url, h, `{"jsonrpc":"2.0","id":1,"method":"ping"}`) // until the server has seen it
	}
	b.offer(tools("c"))
	if got := first.next(); got != listChanged {
		t.Fatalf("the stream that is left: %q", got)
	}
}

func TestChangesThatFoundNoStreamAreToldLater(t *testing.T) {
	b := newBare(t, tools("a"))
	url := b.serve(t)
	h := legacyHeaders(open(t, url))
	post(t, url, h, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)

	b.offer(tools("b"))
	b.offer(tools("c"))
	stream := listen(t, http.DefaultTransport, url, h, "")
	if got := stream.next(); got != listChanged {
		t.Errorf("%q", got)
	}
	stream.close()

	// A client that has seen the new list needs no telling.
	for b.Stats().InFlight > 0 {
		post(t, url, h, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	}
	b.offer(tools("d"))
	post(t, url, h, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	stream = listen(t, http.DefaultTransport, url, h, "")
	defer stream.close()
	in := tools("d")
	in.Prompts = [][]byte{[]byte(`{"name":"p"}`)}
	b.offer(in)
	if got := stream.next(); !strings.Contains(got, "prompts/list_changed") {
		t.Errorf("%q, want the prompts only", got)
	}
}

func TestASessionsStartFiresNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBare(t, tools("a"))
		_, client, stop := b.servePipes(t)
		defer stop()
		h := legacyHeaders(openWith(t, client))
		stream := listen(t, client, pipeURL, h, "")
		defer stream.close()
		if got := stream.next(); got != ": keep-alive" {
			t.Errorf("%q", got)
		}
	})
}

func TestStreamsAreKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBare(t, tools("a"))
		_, client, stop := b.servePipes(t)
		defer stop()
		h := legacyHeaders(openWith(t, client))
		stream := listen(t, client, pipeURL, h, "")
		defer stream.close()
		began := time.Now()
		for range 3 {
			if got := stream.next(); got != ": keep-alive" {
				t.Fatalf("%q", got)
			}
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("three comments took %v", took)
		}
	})
}

func TestIdleSessionsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBare(t, tools("a"))
		_, client, stop := b.servePipes(t)
		defer stop()
		idle, busy := openWith(t, client), openWith(t, client)
		stream := listen(t, client, pipeURL, legacyHeaders(busy), "")
		go func() {
			for stream.next() != "" {
			}
		}()
		time.Sleep(29 * time.Minute)
		ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
		if a := sendWith(t, client, http.MethodPost, legacyHeaders(idle), ping); a.status != 200 {
			t.Fatalf("too early: %d", a.status)
		}
		time.Sleep(32 * time.Minute)
		if a := sendWith(t, client, http.MethodPost, legacyHeaders(idle), ping); a.status != 404 {
			t.Errorf("idle session: %d", a.status)
		}
		if a := sendWith(t, client, http.MethodPost, legacyHeaders(busy), ping); a.status != 200 {
			t.Errorf("session with an open stream: %d", a.status)
		}
		stream.close()
		time.Sleep(32 * time.Minute)
		if n := b.Stats(); n.Sessions != 0 || n.Listeners != 0 {
			t.Errorf("left: %+v", n)
		}
	})
}

func TestAClientThatDoesNotReadLosesItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBare(t, tools("a"))
		_, client, stop := b.servePipes(t)
		defer stop()
		h := legacyHeaders(openWith(t, client))
		stream := listen(t, client, pipeURL, h, "")
		defer stream.close()
		sendWith(t, client, http.MethodPost, h, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		// Nobody reads. The pipe holds nothing, net/http a few kilobytes.
		for i := range 400 {
			if b.offer(tools([]string{"x", "y"}[i%2])); i%100 == 0 {
				synctest.Wait()
			}
		}
		time.Sleep(11 * time.Second)
		if n := b.Stats(); n.Dropped == 0 || n.InFlight != 0 {
			t.Errorf("after 11 s without reading: %+v", n)
		}
		if a := sendWith(t, client, http.MethodPost, h, `{"jsonrpc":"2.0","id":1,"method":"ping"}`); a.status != 200 {
			t.Errorf("the session: %d", a.status)
		}
	})
}

func TestSlowBodiesAreCut(t *testing.T) {
	for _, c := range []struct {
		name  string
		path  string
		pause time.Duration
		want  time.Duration
		code  string
	}{
		{"no body at all", "/mcp", time.Hour, 30 * time.Second, " 408 "},
		{"a byte now and then", "/mcp", 5 * time.Second, 30 * time.Second, " 408 "},
		{"of a request that is refused", "/other", time.Hour, 5 * time.Second, " 404 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBare(t, tools("a"))
				p, _, stop := b.servePipes(t)
				defer stop()
				conn, err := p.dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				quit := make(chan struct{})
				go func() {
					conn.Write([]byte("POST " + c.path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\nContent-Length: 100000\r\n\r\n"))
					for {
						select {
						case <-time.After(c.pause):
							if _, err := conn.Write([]byte(" ")); err != nil {
								return
							}
						case <-quit:
							return
						}
					}
				}()
				got, _ := io.ReadAll(conn)
				if took := time.Since(began); took > c.want+time.Second || !strings.Contains(string(got), c.code) {
					t.Errorf("after %v: %q", took, got)
				}
				close(quit)
				conn.Close()
			})
		})
	}
}

func TestListenStreams(t *testing.T) {
	b := newBare(t, tools("a"), func(c *config.Config) { c.HTTP.KeepAlive = time.Hour })
	url := b.serve(t)
	h := modernHeaders("subscriptions/listen")
	body := func(id, filter string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":{"notifications":{` + filter + `},` + meta + `}}`
	}
	all := listen(t, http.DefaultTransport, url, h, body(`"sub-1"`, `"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["file:///nowhere"]`))
	none := listen(t, http.DefaultTransport, url, h, body(`7`, ``))
	defer none.close()

	ack := `data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"sub-1"},"notifications":{"toolsListChanged":true}}}`
	if got := all.next(); got != ack {
		t.Errorf("acknowledgement:\n%s\nwant\n%s", got, ack)
	}
	if got := none.next(); !strings.Contains(got, `"io.modelcontextprotocol/subscriptionId":7},"notifications":{}}`) {
		t.Errorf("acknowledgement of nothing: %s", got)
	}
	in := tools("a", "b")
	in.Prompts = [][]byte{[]byte(`{"name":"p"}`)}
	b.offer(in)
	changed := `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"sub-1"}}}`
	if got := all.next(); got != changed {
		t.Errorf("change: %s", got)
	}

	done := make(chan struct{})
	go func() { b.shut(t); close(done) }()
	end := `data: {"jsonrpc":"2.0","id":"sub-1","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"sub-1"}}}`
	if got := all.next(); got != end {
		t.Errorf("end: %s", got)
	}
	if got := none.next(); !strings.Contains(got, `"id":7,"result"`) {
		t.Errorf("a filtered stream: %s", got)
	}
	<-done
	if a := post(t, url, nil, initialize); a.status != 503 || !strings.Contains(a.body, "shutting_down") {
		t.Errorf("after Close: %d %s", a.status, a.body)
	}
}

func TestCancelledListenLeavesNothing(t *testing.T) {
	b := newBare(t, tools("a"))
	url := b.serve(t)
	body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + meta + `}}`
	stream := listen(t, http.DefaultTransport, url, modernHeaders("subscriptions/listen"), body)
	stream.next()
	if n := b.Stats().Listeners; n != 1 {
		t.Errorf("%d listeners", n)
	}
	stream.close()
	for deadline := time.Now().Add(5 * time.Second); b.Stats().Listeners > 0; {
		if time.Now().After(deadline) {
			t.Fatal("the subscription is still there")
		}
		post(t, url, nil, `x`)
	}
}

// pipeURL is the endpoint of a face that is served on pipes.
const pipeURL = "http://localhost/mcp"

func sendWith(t *testing.T, client http.RoundTripper, method string, header map[string]string, body string) answer {
	t.Helper()
	req := newRequest(t, method, pipeURL, header, strings.NewReader(body))
	resp, err := client.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := resp.Body.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			return answer{resp.StatusCode, resp.Header, b.String()}
		}
	}
}

func openWith(t *testing.T, client http.RoundTripper) string {
	t.Helper()
	a := sendWith(t, client, http.MethodPost, nil, initialize)
	if a.status != 200 {
		t.Fatalf("initialize: %d %s", a.status, a.body)
	}
	return a.header.Get("Mcp-Session-Id")
}
