package upstream_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

func init() { children["echo"] = func() { echo(os.Stdin, os.Stdout) } }

// echo answers each request with a result as large as its method says, as cheaply as
// that can be done.
func echo(in io.Reader, out io.Writer) {
	r := bufio.NewReaderSize(in, 64<<10)
	results := map[string]string{} // method → result
	var msg []byte
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		method := string(between(line, `"method":"`))
		if results[method] == "" {
			n, _ := strconv.Atoi(method)
			results[method] = `,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", n) + `"}]}}` + "\n"
		}
		msg = append(msg[:0], `{"jsonrpc":"2.0","id":`...)
		msg = append(msg, between(line, `"id":`)...)
		msg = append(msg, results[method]...)
		if _, err := out.Write(msg); err != nil {
			return
		}
	}
}

// between returns what stands between a mark and the next comma or quote.
func between(line []byte, mark string) []byte {
	_, rest, _ := bytes.Cut(line, []byte(mark))
	return rest[:max(0, bytes.IndexAny(rest, `,"`))]
}

const benchParams = `{"name":"echo","arguments":{"text":"` + "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" + `"}}`

// A bareBridge does the least that a multiplexer over a pipe can do.
type bareBridge struct {
	in io.Writer

	mu    sync.Mutex
	last  int64
	calls map[int64]chan []byte
}

func newBareBridge(in io.Writer, out io.Reader) *bareBridge {
	b := &bareBridge{in: in, calls: map[int64]chan []byte{}}
	go func() {
		for r := bufio.NewReaderSize(out, 64<<10); ; {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			id, _ := strconv.ParseInt(string(between(line, `"id":`)), 10, 64)
			b.mu.Lock()
			ch := b.calls[id]
			delete(b.calls, id)
			b.mu.Unlock()
			ch <- line
		}
	}()
	return b
}

func (b *bareBridge) call(method string) (int, error) {
	ch := make(chan []byte, 1)
	b.mu.Lock()
	b.last++
	id := b.last
	b.calls[id] = ch
	b.mu.Unlock()
	msg := append(make([]byte, 0, 256), `{"jsonrpc":"2.0","id":`...)
	msg = strconv.AppendInt(msg, id, 10)
	msg = append(msg, `,"method":"`+method+`","params":`+benchParams+"}\n"...)
	if _, err := b.in.Write(msg); err != nil { // os.File and net.Pipe lock themselves
		return 0, err
	}
	return len(<-ch), nil
}

// muxCall makes the same call over a transport.
func muxCall(c upstream.Transport) func(string) (int, error) {
	return func(method string) (int, error) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		r, err := c.Call(ctx, &upstream.Request{
			ID: upstream.NextID(), Method: method, Params: wire.Value{Raw: []byte(benchParams)}})
		n := len(r.Result.Raw)
		r.Release()
		return n, err
	}
}

// BenchmarkCall compares calls over a mux with a bare bridge, over a pipe in memory
// and over a child process.
func BenchmarkCall(b *testing.B) {
	for _, tc := range []struct {
		over string
		mux  func(*testing.B) (call func(string) (int, error), end func())
		bare func(*testing.B) (call func(string) (int, error), end func())
	}{
		{"pipe", muxOverPipe, bareOverPipe},
		{"child", muxOverChild, bareOverChild},
	} {
		for _, size := range []int{64, 100_000, 1_000_000} {
			for _, callers := range []int{1, 16, 64} {
				name := fmt.Sprintf("over=%s/size=%d/callers=%d/", tc.over, size, callers)
				b.Run(name+"mux", func(b *testing.B) { benchCalls(b, tc.mux, size, callers) })
				b.Run(name+"bare", func(b *testing.B) { benchCalls(b, tc.bare, size, callers) })
			}
		}
	}
}

func benchCalls(b *testing.B, open func(*testing.B) (func(string) (int, error), func()), size, callers int) {
	call, end := open(b)
	defer end()
	method := strconv.Itoa(size)
	if n, err := call(method); err != nil || n < size {
		b.Fatal(n, err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for range (b.N + callers - 1 - i) / callers {
				if n, err := call(method); err != nil || n < size {
					b.Error(n, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func muxOverPipe(*testing.B) (func(string) (int, error), func()) {
	near, far := net.Pipe()
	go echo(far, far)
	c := upstream.OpenConn(near, 16<<20, nil, nil)
	return muxCall(c), func() { c.Close(context.Background()) }
}

func bareOverPipe(*testing.B) (func(string) (int, error), func()) {
	near, far := net.Pipe()
	go echo(far, far)
	return newBareBridge(near, near).call, func() { near.Close() }
}

func muxOverChild(b *testing.B) (func(string) (int, error), func()) {
	c, err := upstream.OpenStdio(b.Context(), childServer(b, "echo"), &upstream.Options{Limits: limits()}, nil)
	if err != nil {
		b.Fatal(err)
	}
	return muxCall(c), func() { c.Close(context.Background()) }
}

func bareOverChild(b *testing.B) (func(string) (int, error), func()) {
	path, env, err := mcptest.Command("echo")
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(path)
	cmd.Env = os.Environ()
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err1 != nil || err2 != nil || cmd.Start() != nil {
		b.Fatal("starting the child")
	}
	return newBareBridge(in, out).call, func() { in.Close(); cmd.Wait() }
}
