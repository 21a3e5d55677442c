package upstream

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

func TestHTTPAnswerInJSON(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"plain", okResult, okOutcome},
		{"our id as a string", `{"jsonrpc":"2.0","id":"ID","result":{"ok":true}}`, okOutcome},
		{"spread over lines", "{\n \"jsonrpc\":\"2.0\",\r\n\"id\":ID,\"result\":{\"ok\":true}}\n", okOutcome},
		{"an error", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"no"}}`, "-32602"},
		{"an error without an id", `{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}}`, "-32700"},
		{"an error with a null id", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}`, "-32700"},
		{"another id", `{"jsonrpc":"2.0","id":987654321,"result":{}}`, "protocol"},
		{"a null id", `{"jsonrpc":"2.0","id":null,"result":{}}`, "protocol"},
		{"a duplicate id", `{"jsonrpc":"2.0","id":ID,"id":ID,"result":{}}`, "protocol"},
		{"neither result nor error", `{"jsonrpc":"2.0","id":ID}`, "protocol"},
		{"a result that is no object", `{"jsonrpc":"2.0","id":ID,"result":7}`, "protocol"},
		{"bad UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"a\":\"\xff\"}}", "protocol"},
		{"cut off", `{"jsonrpc":"2.0","id":ID,"result":{`, "protocol"},
		{"a notification", `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`, "protocol"},
		{"a batch", `[` + okResult + `]`, "protocol"},
		{"nothing", "", "protocol"},
		{"text", "hello", "protocol"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := servePeer(t, func(w http.ResponseWriter, _ *http.Request, m *wire.Message) {
				if m.Method == "next" {
					reply(w, m, okResult)
					return
				}
				reply(w, m, c.text)
			})
			if got := call(t.Context(), conn, "tools/call"); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if got := call(t.Context(), conn, "next"); got != okOutcome {
				t.Errorf("the next call: got %s", got)
			}
		})
	}
}

func TestHTTPAnswerInEvents(t *testing.T) {
	ok := "data: " + okResult + "\n\n"
	for _, c := range []struct{ name, text, want string }{
		{"plain", ok, okOutcome},
		{"named message, with an id", "event: message\nid: 7\n" + ok, okOutcome},
		{"comments, empty data and a byte order mark first", "\ufeff: hello\n\nid: 1\ndata:\n\n:\n\n" + ok, okOutcome},
		{"carriage returns", "event: message\r\ndata: " + okResult + "\r\n\r\n", okOutcome},
		{"several data lines", "data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":ID,\ndata: \"result\":{\"ok\":true}}\n\n", okOutcome},
		{"events of another type", "event: endpoint\ndata: /x\n\n" + ok, okOutcome},
		{"an error", `data: {"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"no"}}` + "\n\n", "-32602"},
		{"another's answer first", `data: {"jsonrpc":"2.0","id":987654321,"result":{}}` + "\n\n" + ok, okOutcome},
		{"null id first", `data: {"jsonrpc":"2.0","id":null,"result":{}}` + "\n\n" + ok, okOutcome},
		{"junk first", "data: hello\n\n" + ok, okOutcome},
		{"two answers", ok + `data: {"jsonrpc":"2.0","id":ID,"result":{"ok":false}}` + "\n\n", okOutcome},
		{"only junk", "data: hello\n\n", "protocol"},
		{"only another's answer", `data: {"jsonrpc":"2.0","id":987654321,"result":{}}` + "\n\n", "protocol"},
		{"an unreadable answer of ours", `data: {"jsonrpc":"2.0","id":ID,"result":{},"error":{}}` + "\n\n" + ok, "protocol"},
		{"no answer", ": bye\n\n", "lost"},
		{"an answer cut off", "data: " + okResult + "\n", "lost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := servePeer(t, func(w http.ResponseWriter, _ *http.Request, m *wire.Message) {
				if m.Method == "next" {
					events(w, m, ok)
					return
				}
				events(w, m, c.text)
			})
			if got := call(t.Context(), conn, "tools/call"); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if got := call(t.Context(), conn, "next"); got != okOutcome {
				t.Errorf("the next call: got %s", got)
			}
		})
	}
}

func TestHTTPBatchOfOldRevision(t *testing.T) {
	conn := servePeer(t, func(w http.ResponseWriter, _ *http.Request, m *wire.Message) {
		text := `[{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"` + strings.Repeat("x", 100<<10) + `"}},` + okResult + `]`
		text = strings.ReplaceAll(text, "ID", string(m.ID.Of(m.Raw)))
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		reply(w, m, text)
	})
	conn.setInfo(&Info{Version: wire.V20250326})
	if got := call(t.Context(), conn, "tools/call"); got != okOutcome {
		t.Errorf("got %s", got)
	}
}

func TestHTTPEventsOfACall(t *testing.T) {
	var mu sync.Mutex
	var answers []string
	conn := servePeer(t, func(w http.ResponseWriter, r *http.Request, m *wire.Message) {
		if m.Kind == wire.Response {
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, string(m.Raw))
			w.WriteHeader(http.StatusAccepted)
			return
		}
		events(w, m, `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":ID,"progress":1}}

data: {"jsonrpc":"2.0","id":"s1","method":"ping"}

data: {"jsonrpc":"2.0","id":2,"method":"sampling/createMessage","params":{}}

data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}

data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":"x"}}

data: `+okResult+"\n\n")
	}, func(_ *config.Server, o *Options) {
		o.Notify = func(n Notice) {
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, n.Server+" "+n.Method)
		}
	})
	var got []string
	id := NextID()
	reply, err := conn.Call(t.Context(), &Request{ID: id, Method: "tools/call", Events: func(ev Event) {
		got = append(got, ev.Method+" "+string(ev.Params))
	}})
	if outcome(reply, err) != okOutcome {
		t.Fatal(outcome(reply, err))
	}
	want := []string{fmt.Sprintf(`notifications/progress {"progressToken":%d,"progress":1}`, id), `notifications/message {"data":"x"}`}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	_ = conn.Close(t.Context()) // waits for the answers
	mu.Lock()
	defer mu.Unlock()
	all := strings.Join(answers, "\n")
	for _, part := range []string{`{"jsonrpc":"2.0","id":"s1","result":{}}`, `"id":2,"error":{"code":-32600`, "peer notifications/tools/list_changed"} {
		if !strings.Contains(all, part) {
			t.Errorf("%s is missing in:\n%s", part, all)
		}
	}
}

func TestHTTPCallsShareConnections(t *testing.T) {
	for _, form := range []string{"json", "chunked", "sse"} {
		t.Run(form, func(t *testing.T) {
			srv := echoServer(t, 100, form)
			conn := connectHTTP(t, srv.URL)
			opened := 0
			dial := conn.network.dial
			conn.network.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				opened++
				return dial(ctx, network, addr)
			}
			for range 50 {
				ctx, cancel := context.WithCancel(t.Context())
				if got := call(ctx, conn, "tools/call"); !strings.Contains(got, "xxx") {
					t.Fatal(got)
				}
				cancel()
				conn.tasks.Wait() // the rest of a stream is read in the background
			}
			if opened > 4 { // the first stream goes with the context of its call, and net/http dials ahead
				t.Errorf("%d connections for 50 calls in a row", opened)
			}
		})
	}
}

func TestHTTPLargeAnswers(t *testing.T) {
	for _, form := range []string{"json", "chunked", "sse"} {
		for _, size := range []int{1 << 10, 40 << 10, 100 << 10, 3 << 20} {
			t.Run(fmt.Sprint(form, size), func(t *testing.T) {
				conn := connectHTTP(t, echoServer(t, size, form).URL)
				for range 3 {
					r, err := conn.Call(t.Context(), &Request{ID: NextID(), Method: "tools/call"})
					if err != nil {
						t.Fatal(err)
					}
					want := `{"content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}`
					if string(r.Result.Raw) != want {
						t.Fatalf("came as %d bytes", len(r.Result.Raw))
					}
					r.Release()
				}
			})
		}
	}
}

func TestHTTPAnswerAboveTheLimit(t *testing.T) {
	for _, form := range []string{"json", "chunked", "sse"} {
		t.Run(form, func(t *testing.T) {
			conn := connectHTTP(t, echoServer(t, 200<<10, form).URL, func(_ *config.Server, o *Options) { o.Limits.Answer = 100 << 10 })
			if got := call(t.Context(), conn, "tools/call"); got != "protocol" {
				t.Errorf("got %.100s", got)
			}
		})
	}
}

func TestHTTPCompressedAnswer(t *testing.T) {
	conn := servePeer(t, func(w http.ResponseWriter, r *http.Request, m *wire.Message) {
		if r.Header.Get("Accept-Encoding") != "" {
			t.Error("compression was asked for")
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		if m.Method == "odd" {
			w.Header().Set("Content-Encoding", "br")
		}
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, strings.ReplaceAll(okResult, "ID", string(m.ID.Of(m.Raw))))
		_ = z.Close()
	})
	if got := call(t.Context(), conn, "tools/call"); got != okOutcome {
		t.Error(got)
	}
	if got := call(t.Context(), conn, "odd"); got != "protocol" {
		t.Error(got)
	}
}

func TestHTTPCancel(t *testing.T) {
	for _, c := range []struct {
		name   string
		info   Info
		method string
		within time.Duration // 0: cancelled after a second
		kind   fault.Kind
		told   string
	}{
		{"legacy", Info{Version: wire.V20251125}, "tools/call", 0, fault.Cancelled, `{"requestId":ID,"reason":"cancelled by the client"}`},
		{"legacy, out of time", Info{Version: wire.V20251125}, "tools/call", time.Second, fault.Timeout, `{"requestId":ID,"reason":"timeout"}`},
		{"initialize must not be cancelled", Info{}, "initialize", 0, fault.Cancelled, ""},
		{"modern servers see the response closed", Info{Era: wire.Modern, Version: wire.V20260728}, "tools/call", 0, fault.Cancelled, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told string
				hung := make(chan struct{})
				conn := pipePeer(t, func(w http.ResponseWriter, r *http.Request, m *wire.Message) {
					if m.Method == "notifications/cancelled" {
						told = string(m.Params.Of(m.Raw))
						w.WriteHeader(http.StatusAccepted)
						return
					}
					<-r.Context().Done()
					close(hung)
				}, nil)
				conn.setInfo(&c.info)
				ctx, cancel := context.WithCancel(t.Context())
				if c.within > 0 {
					ctx, cancel = context.WithTimeout(t.Context(), c.within)
				} else {
					time.AfterFunc(time.Second, cancel)
				}
				defer cancel()
				id := NextID()
				_, err := conn.Call(ctx, &Request{ID: id, Method: c.method})
				if fault.KindOf(err) != c.kind {
					t.Errorf("got %v", err)
				}
				<-hung
				synctest.Wait()
				if want := strings.ReplaceAll(c.told, "ID", fmt.Sprint(id)); told != want {
					t.Errorf("the server was told %q, not %q", told, want)
				}
			})
		})
	}
}

// One call that goes wrong in any way must not touch those beside it.
func TestHTTPCallsAreIsolated(t *testing.T) {
	conn := servePeer(t, func(w http.ResponseWriter, _ *http.Request, m *wire.Message) {
		switch m.Method {
		case "bad/status":
			http.Error(w, "no", http.StatusInternalServerError)
		case "bad/reset":
			c, _, _ := http.NewResponseController(w).Hijack()
			_ = c.Close()
		case "bad/html":
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>")
		case "bad/json":
			reply(w, m, "{")
		case "bad/events":
			events(w, m, "data: {\n\n")
		default:
			reply(w, m, okResult)
		}
	})
	var group sync.WaitGroup
	for i := range 400 {
		method := []string{"bad/status", "bad/reset", "bad/html", "bad/json", "bad/events"}[i%5]
		group.Go(func() { call(t.Context(), conn, method) })
		group.Go(func() {
			if got := call(t.Context(), conn, "tools/call"); got != okOutcome {
				t.Errorf("got %s", got)
			}
		})
	}
	group.Wait()
}
