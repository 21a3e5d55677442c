//go:build unix

package upstream

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/wire"
)

var benchParams = wire.Value{Raw: []byte(`{"name":"echo","arguments":{"text":"` + strings.Repeat("y", 64) + `"}}`)}

// cpuTime reports the processor time of each operation, client and server together:
// unlike the time on the clock it does not depend on what else the machine does.
func cpuTime(b *testing.B) func() {
	now := func() time.Duration {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	began := now()
	return func() { b.ReportMetric(float64(now()-began)/float64(b.N), "cpu-ns/op") }
}

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
	defer cpuTime(b)()
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
	defer cpuTime(b)()
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
