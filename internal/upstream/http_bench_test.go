package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/wire"
)

// echoServer answers every call with size bytes of text, as JSON with a length, as
// chunked JSON or as a stream of one event.
func echoServer(tb testing.TB, size int, form string) *httptest.Server {
	text := strings.Repeat("x", size)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, err := wire.Scan(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer := make([]byte, 0, size+200)
		if form == "sse" {
			answer = append(answer, "event: message\ndata: "...)
		}
		answer = append(wire.AppendResultHead(answer, m.ID.Of(body)), `{"content":[{"type":"text","text":"`...)
		answer = append(append(answer, text...), `"}]}}`...)
		switch form {
		case "sse":
			w.Header()["Content-Type"] = []string{"text/event-stream"}
			_, _ = w.Write(append(answer, "\n\n"...))
			w.(http.Flusher).Flush()
		case "chunked":
			w.Header()["Content-Type"] = []string{"application/json"}
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			_, _ = w.Write(answer)
		default:
			w.Header()["Content-Type"] = []string{"application/json"}
			w.Header()["Content-Length"] = []string{fmt.Sprint(len(answer))}
			_, _ = w.Write(answer)
		}
	}))
	tb.Cleanup(srv.Close)
	return srv
}

var benchParams = wire.Value{Raw: []byte(`{"name":"echo","arguments":{"text":"` + strings.Repeat("y", 64) + `"}}`)}

// BenchmarkHTTPCall compares a call with a bare POST of the same bytes through an
// http.Client with a pool of the same size: "bare" is the floor.
func BenchmarkHTTPCall(b *testing.B) {
	for _, form := range []string{"json", "chunked", "sse"} {
		for _, size := range []int{64, 100 << 10, 1 << 20} {
			srv := echoServer(b, size, form)
			name := fmt.Sprintf("%s/%d/", form, size)
			b.Run(name+"bare", func(b *testing.B) { benchBare(b, srv.URL) })
			b.Run(name+"legacy", func(b *testing.B) { benchCall(b, srv.URL, wire.Legacy, wire.V20251125) })
			if size == 64 {
				b.Run(name+"modern", func(b *testing.B) { benchCall(b, srv.URL, wire.Modern, wire.V20260728) })
			}
		}
	}
}

func benchBare(b *testing.B, url string) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: maxIdle, DisableCompression: true}}
	defer client.CloseIdleConnections()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var buf bytes.Buffer
		for pb.Next() {
			if err := barePost(client, url, &buf); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// barePost has a context of its own, as the calls of a server have.
func barePost(client *http.Client, url string, buf *bytes.Buffer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	data := wire.AppendRequest(nil, NextID(), "tools/call", benchParams)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", wire.V20251125)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	buf.Reset()
	_, err = buf.ReadFrom(resp.Body)
	return err
}

func benchCall(b *testing.B, url string, era wire.Era, version string) {
	s := config.DefaultServer("bench")
	s.URL = url
	conn, err := openHTTP(context.Background(), s, &Options{}, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(context.Background())
	conn.setInfo(&Info{Era: era, Version: version})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := benchOne(conn); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func benchOne(conn Conn) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	reply, err := conn.Call(ctx, &Request{ID: NextID(), Method: "tools/call", Name: "echo", Params: benchParams})
	if err == nil && reply.Err != nil {
		err = reply.Err
	}
	reply.Release()
	return err
}
