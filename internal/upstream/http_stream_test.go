package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// A streamLog notes what reached a server and when, in seconds since its start.
type streamLog struct {
	mu    sync.Mutex
	began time.Time
	lines []string
}

func (l *streamLog) add(format string, args ...any) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began.IsZero() {
		l.began = time.Now()
	}
	at := time.Since(l.began).Round(100 * time.Millisecond)
	l.lines = append(l.lines, fmt.Sprintf("%v %s", at, fmt.Sprintf(format, args...)))
	return len(l.lines)
}

func TestHTTPResume(t *testing.T) {
	ok := "id: e3\ndata: " + okResult + "\n\n"
	for _, c := range []struct {
		name  string
		first string
		gets  []string // a stream, or a status
		want  string
		log   []string
	}{
		{"after the time the server asked for", "id: e1\nretry: 300\ndata:\n\n", []string{ok}, okOutcome,
			[]string{"0s POST", "300ms GET e1"}},
		{"a second is waited when it asked for none", "id: e1\ndata:\n\n", []string{ok}, okOutcome,
			[]string{"0s POST", "1s GET e1"}},
		{"several times", "id: e1\nretry: 1\ndata:\n\n", []string{"id: e2\ndata:\n\n", "", ok}, okOutcome,
			[]string{"0s POST", "100ms GET e1", "200ms GET e2", "300ms GET e2"}},
		{"over a server that is starting", "id: e1\nretry: 300\ndata:\n\n", []string{"503", "503", ok}, okOutcome,
			[]string{"0s POST", "300ms GET e1", "1.3s GET e1", "3.3s GET e1"}},
		{"not for ever", "id: e1\nretry: 300\ndata:\n\n", []string{"503", "503", "503"}, "lost",
			[]string{"0s POST", "300ms GET e1", "1.3s GET e1", "3.3s GET e1"}},
		{"not where it is not offered", "id: e1\nretry: 300\ndata:\n\n", []string{"405"}, "lost",
			[]string{"0s POST", "300ms GET e1"}},
		{"not without an id", "retry: 300\ndata:\n\n", nil, "lost", []string{"0s POST"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log streamLog
				var id string
				gets := c.gets
				conn := pipePeer(t, func(w http.ResponseWriter, r *http.Request, m *wire.Message) {
					if r.Method == http.MethodPost {
						log.add("POST")
						id = string(m.ID.Of(m.Raw))
						events(w, m, c.first)
						return
					}
					log.add("GET %s", r.Header.Get("Last-Event-Id"))
					next := gets[0]
					gets = gets[1:]
					if status := 0; len(next) == 3 {
						_, _ = fmt.Sscan(next, &status)
						w.WriteHeader(status)
						return
					}
					events(w, m, strings.ReplaceAll(next, "ID", id))
				}, nil)
				if got := call(t.Context(), conn, "tools/call"); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
				if d := cmp.Diff(c.log, log.lines); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

func TestHTTPModernStreamsAreNotResumed(t *testing.T) {
	conn := servePeer(t, func(w http.ResponseWriter, r *http.Request, m *wire.Message) {
		if r.Method != http.MethodPost {
			t.Errorf("%s", r.Method)
		}
		events(w, m, "id: e1\nretry: 10\ndata:\n\n")
	})
	conn.setInfo(&Info{Era: wire.Modern, Version: wire.V20260728})
	if got := call(t.Context(), conn, "tools/call"); got != "lost" {
		t.Errorf("got %s", got)
	}
}

// A server may keep the stream open after the answer; that holds up nobody, and the
// stream is given up after a while.
func TestHTTPStreamLeftOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int32
		conn := pipePeer(t, func(w http.ResponseWriter, r *http.Request, m *wire.Message) {
			events(w, m, "data: "+okResult+"\n\n")
			open.Add(1)
			<-r.Context().Done()
			open.Add(-1)
		}, nil)
		began := time.Now()
		for range 10 {
			if got := call(t.Context(), conn, "tools/call"); got != okOutcome {
				t.Error(got)
			}
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("the calls took %v", d)
		}
		time.Sleep(drainTimeout)
		synctest.Wait()
		if n := open.Load(); n != 0 {
			t.Errorf("%d streams are still open", n)
		}
	})
}

func TestHTTPOpenStream(t *testing.T) {
	note := func(n int) string {
		return fmt.Sprintf("id: e%d\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\",\"params\":{\"n\":%d}}\n\n", n, n)
	}
	synctest.Test(t, func(t *testing.T) {
		var log streamLog
		var got []string
		conn := pipePeer(t, func(w http.ResponseWriter, r *http.Request, m *wire.Message) {
			if r.Method == http.MethodPost {
				log.add("POST %s", m.Raw)
				w.WriteHeader(http.StatusAccepted)
				return
			}
			switch log.add("GET %s", r.Header.Get("Last-Event-Id")) {
			case 1:
				events(w, m, note(1)+"retry: 500\n\n"+note(2))
			case 2:
				w.WriteHeader(http.StatusBadGateway)
			case 3:
				events(w, m, "data: junk\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"roots/list\"}\n\n"+note(3))
				<-r.Context().Done()
			}
		}, func(n Notice) { got = append(got, n.Server+" "+n.Method+" "+string(n.Params)) })
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, cancel)
		if err := conn.openStream(ctx, func() {}, func() {}); err != nil {
			t.Error(err)
		}
		want := []string{`peer notifications/tools/list_changed {"n":1}`, `peer notifications/tools/list_changed {"n":2}`, `peer notifications/tools/list_changed {"n":3}`}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		synctest.Wait()
		log.mu.Lock()
		defer log.mu.Unlock()
		if len(log.lines) != 4 || log.lines[0] != "0s GET" && log.lines[0] != "0s GET " || log.lines[1] != "500ms GET e2" ||
			!strings.HasSuffix(log.lines[2], "GET e2") || !strings.HasSuffix(log.lines[3], `POST {"jsonrpc":"2.0","id":9,"result":{"roots":[]}}`) {
			t.Errorf("%q", log.lines)
		}
	})
}

func TestHTTPStreamNotOffered(t *testing.T) {
	for status, want := range map[int]fault.Kind{405: fault.NotFound, 404: fault.NotFound, 400: fault.NotFound, 501: fault.NotFound, 401: fault.Unauthorized} {
		conn := servePeer(t, func(w http.ResponseWriter, r *http.Request, m *wire.Message) {
			if r.Method == http.MethodGet {
				w.WriteHeader(status)
				return
			}
			w.Header().Set("Mcp-Session-Id", "s1")
			reply(w, m, okResult)
		})
		call(t.Context(), conn, "initialize")
		if err := conn.openStream(t.Context(), func() {}, func() {}); fault.KindOf(err) != want {
			t.Errorf("%d: got %v", status, err)
		}
		if got := call(t.Context(), conn, "tools/call"); got != okOutcome {
			t.Errorf("%d: a call got %s", status, got)
		}
	}
}

// When the session is replaced, the stream moves to the new one.
func TestHTTPStreamFollowsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &sessionPeer{gone: gone404, ready: map[string]bool{}}
		var streams []string
		conn := pipePeer(t, func(w http.ResponseWriter, r *http.Request, m *wire.Message) {
			id := r.Header.Get("Mcp-Session-Id")
			if r.Method != http.MethodGet || !slices.Contains(p.sessions, id) {
				p.serve(w, r, m)
				return
			}
			streams = append(streams, id+" "+r.Header.Get("Last-Event-Id"))
			events(w, m, "id: "+id+"-1\ndata:\n\n")
			<-r.Context().Done()
		}, nil)
		handshake := func(ctx context.Context) error {
			call(ctx, conn, "initialize")
			return conn.Notify(ctx, "notifications/initialized", wire.Value{})
		}
		_ = handshake(t.Context())
		conn.setReinit(handshake)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- conn.openStream(ctx, func() {}, func() {}) }()
		synctest.Wait()
		p.forget()
		if got := call(t.Context(), conn, "tools/call"); got != okOutcome {
			t.Error(got)
		}
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if d := cmp.Diff([]string{"s1 ", "s2 "}, streams); d != "" {
			t.Error(d)
		}
	})
}

// Some servers send what belongs to a call over the stream that belongs to none.
func TestHTTPStreamCarriesWhatBelongsToCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := make(chan string)
		release := make(chan struct{})
		var mu sync.Mutex
		var notices, got []string
		conn := pipePeer(t, func(w http.ResponseWriter, r *http.Request, m *wire.Message) {
			if r.Method == http.MethodPost {
				<-release
				reply(w, m, okResult)
				return
			}
			events(w, m, ": open\n\n")
			for {
				select {
				case l := <-line:
					events(w, m, "data: "+l+"\n\n")
				case <-r.Context().Done():
					return
				}
			}
		}, func(n Notice) { notices = append(notices, n.Method) })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = conn.openStream(ctx, func() {}, func() {}) }()
		synctest.Wait()
		id := NextID()
		begin := func(id int64, method, name string) chan string {
			done := make(chan string, 1)
			go func() {
				r, err := conn.Call(ctx, &Request{ID: id, Method: method, Events: func(ev Event) {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, name+" "+ev.Method)
				}})
				done <- outcome(r, err)
			}()
			synctest.Wait()
			return done
		}
		message := `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`
		progress := func(token string) string {
			return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `}}`
		}
		a := begin(id, "tools/call", "a")
		begin(NextID(), "tools/list", "list")
		line <- message // belongs to a: a list is no cause of messages
		line <- progress(fmt.Sprintf(`"%d"`, id))
		line <- progress("987654321") // dropped
		synctest.Wait()
		b := begin(NextID(), "tools/call", "b")
		line <- message // ambiguous: dropped
		line <- progress(fmt.Sprint(id))
		synctest.Wait()
		close(release)
		if x, y := <-a, <-b; x != okOutcome || y != okOutcome {
			t.Error(x, y)
		}
		line <- message
		line <- progress(fmt.Sprint(id)) // over
		synctest.Wait()
		if d := cmp.Diff([]string{"a notifications/message", "a notifications/progress", "a notifications/progress"}, got); d != "" || len(notices) != 0 {
			t.Error(d, notices)
		}
	})
}

func TestHTTPListen(t *testing.T) {
	const acknowledged = `data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{}}` + "\n\n" +
		`data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n\n"
	for _, c := range []struct {
		name    string
		answer  func(w http.ResponseWriter, r *http.Request, m *wire.Message)
		want    string // "", or the kind of the error
		notices int
	}{
		{"ended by the server in good order", func(w http.ResponseWriter, _ *http.Request, m *wire.Message) {
			events(w, m, acknowledged+"data: "+okResult+"\n\n")
		}, "", 2},
		{"broken", func(w http.ResponseWriter, _ *http.Request, m *wire.Message) { events(w, m, acknowledged) }, "lost", 2},
		{"refused", func(w http.ResponseWriter, _ *http.Request, m *wire.Message) {
			w.WriteHeader(http.StatusNotFound)
			reply(w, m, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no"}}`)
		}, "rejected", 0},
		{"ended by us", func(w http.ResponseWriter, r *http.Request, m *wire.Message) {
			events(w, m, acknowledged)
			<-r.Context().Done()
		}, "timeout", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var notices []string
				var header http.Header
				conn := pipePeer(t, func(w http.ResponseWriter, r *http.Request, m *wire.Message) {
					header = r.Header
					c.answer(w, r, m)
				}, func(n Notice) { notices = append(notices, n.Method) })
				conn.setInfo(&Info{Era: wire.Modern, Version: wire.V20260728})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				err := conn.listen(ctx, wire.Value{Raw: []byte(`{"notifications":{"toolsListChanged":true}}`)})
				if (err == nil) != (c.want == "") || err != nil && fault.KindOf(err).String() != c.want {
					t.Errorf("got %v, want %q", err, c.want)
				}
				var e *wire.RPCError
				if c.want == "rejected" && (!errors.As(err, &e) || e.Code != -32601) {
					t.Errorf("the error of the server is not in the chain of %v", err)
				}
				if len(notices) != c.notices || header.Get("Mcp-Method") != "subscriptions/listen" {
					t.Errorf("got %q, %q", notices, header)
				}
			})
		})
	}
}

// Close ends the streams that are open.
func TestHTTPCloseEndsStreams(t *testing.T) {
	conn := servePeer(t, func(w http.ResponseWriter, r *http.Request, m *wire.Message) {
		events(w, m, ": open\n\n")
		<-r.Context().Done()
	})
	ended := make(chan error, 2)
	go func() { ended <- conn.openStream(context.Background(), func() {}, func() {}) }()
	go func() { ended <- conn.listen(context.Background(), wire.Value{}) }()
	_ = conn.Close(t.Context())
	for range 2 {
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) && fault.KindOf(err) != fault.Unreachable && !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	}
}
