package downstream_test

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/config"
)

// A pipe is a client at the other end of a stdio face.
type pipe struct {
	t     testing.TB
	in    *io.PipeWriter
	lines *bufio.Reader
	out   *io.PipeReader
	ended chan error
}

// servePipe serves the face on a pair of pipes until the test ends.
func (b *bare) servePipe(t testing.TB) *pipe {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &pipe{t, inW, bufio.NewReader(outR), outR, make(chan error, 1)}
	go func() { p.ended <- b.ServeStdio(context.Background(), inR, outW); outW.Close() }()
	return p
}

// stop ends the connection from the client's side.
func (p *pipe) stop() {
	p.in.Close()
	go io.Copy(io.Discard, p.out)
	if err := <-p.ended; err != nil {
		p.t.Errorf("ServeStdio: %v", err)
	}
}

func (p *pipe) say(lines ...string) {
	if _, err := io.WriteString(p.in, strings.Join(lines, "\n")+"\n"); err != nil {
		p.t.Errorf("writing: %v", err)
	}
}

func (p *pipe) hear() string {
	line, err := p.lines.ReadString('\n')
	if err != nil {
		p.t.Errorf("reading: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

// ask says one line and hears one.
func (p *pipe) ask(line string) string {
	go p.say(line)
	return p.hear()
}

func TestStdioAnswersEveryLine(t *testing.T) {
	b := newBare(t, tools("a"), func(c *config.Config) { c.Limits.StdioLine = 4096 })
	defer b.shut(t)
	p := b.servePipe(t)
	defer p.stop()
	for _, c := range []struct{ name, line, want string }{
		{"no JSON", `{"jsonrpc`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		{"NUL", "{\"jsonrpc\":\"2.0\",\x00", `"id":null,"error":{"code":-32700,`},
		{"a number", `17`, `"id":null,"error":{"code":-32600,`},
		{"a case variant", `{"jsonrpc":"2.0","ID":1,"method":"ping"}`, `-32600`},
		{"a line above the limit", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 5000) + `"}`, `limits.stdio_line`},
		{"a request before initialize", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `"id":1,"error":{"code":-32602,`},
		{"ping before initialize", "\r\n\n " + `{"jsonrpc":"2.0","id":"p","method":"ping"}` + "\r", `{"jsonrpc":"2.0","id":"p","result":{}}`},
		{"modern", `{"jsonrpc":"2.0","id":2,"method":"server/discover","params":{` + meta + `}}`, `"id":2,"result":{"resultType":"complete"`},
		{"modern without capabilities", `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, `"id":2,"error":{"code":-32602,`},
		{"modern with an unknown version", `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"v9"}}}`, `"requested":"v9"`},
		{"a removed method", `{"jsonrpc":"2.0","id":3,"method":"ping","params":{` + meta + `}}`, `-32601`},
		{"initialize", initialize, `"id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"mcp-aggregator","version":"9.9.9"}}}`},
		{"a batch of another revision", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `"id":null,"error":{"code":-32600,`},
		{"a modern request in between", `{"jsonrpc":"2.0","id":4,"method":"tools/list","params":{` + meta + `}}`, `"ttlMs"`},
		{"legacy again", `{"jsonrpc":"2.0","id":5,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":5,"result":{"tools":[{"name":"lab__a"`},
		{"initialize again", strings.Replace(initialize, "2025-11-25", "2025-03-26", 1), `"protocolVersion":"2025-03-26"`},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"}]`, `[{"jsonrpc":"2.0","id":1,"result":{}}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := p.ask(c.line); !strings.Contains(got, c.want) {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestStdioHearsListChanges(t *testing.T) {
	b := newBare(t, tools("a"))
	defer b.shut(t)
	p := b.servePipe(t)
	defer p.stop()
	b.offer(tools("b"))
	p.ask(initialize)
	b.offer(tools("a", "b"))
	// The client is told once it is initialized, and of nothing that came before.
	if got := p.ask(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); !strings.Contains(got, "tools/list_changed") {
		t.Errorf("%s", got)
	}
	p.ask(`{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + meta + `}}`)
	go b.offer(tools("a"))
	got := p.hear() + p.hear()
	if !strings.Contains(got, `"subscriptionId":"l"`) && !strings.Contains(got, `subscriptionId":"l"`) || strings.Count(got, "tools/list_changed") != 2 {
		t.Errorf("%s", got)
	}
}

func TestStdioListenEnds(t *testing.T) {
	listen := `{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":{"notifications":{},` + meta + `}}`
	t.Run("by cancellation, without an answer", func(t *testing.T) {
		b := newBare(t, tools("a"))
		defer b.shut(t)
		p := b.servePipe(t)
		defer p.stop()
		p.ask(listen)
		go p.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5,"reason":"enough"}}`, `{"jsonrpc":"2.0","id":6,"method":"ping"}`)
		if got := p.hear(); !strings.Contains(got, `"id":6`) {
			t.Errorf("%s", got)
		}
		// The id is free again as soon as the request is gone.
		for got := p.ask(listen); !strings.Contains(got, "acknowledged"); got = p.ask(listen) {
			if !strings.Contains(got, "still in flight") {
				t.Fatalf("%s", got)
			}
		}
	})
	t.Run("by our end, with one", func(t *testing.T) {
		b := newBare(t, tools("a"))
		p := b.servePipe(t)
		p.ask(listen)
		go b.shut(t)
		if got := p.hear(); !strings.Contains(got, `"id":5,"result":{"resultType":"complete"`) {
			t.Errorf("%s", got)
		}
		if got := p.hear(); got != `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}` {
			t.Errorf("%s", got)
		}
		if err := <-p.ended; err != nil {
			t.Error(err)
		}
		if rest, _ := io.ReadAll(p.lines); len(rest) > 0 {
			t.Errorf("behind the end: %s", rest)
		}
	})
}

func TestStdioAnswersWhatCameBeforeTheEnd(t *testing.T) {
	b := newBare(t, tools("a"))
	defer b.shut(t)
	p := b.servePipe(t)
	go func() {
		io.WriteString(p.in, initialize+"\n"+`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`) // no line break
		p.in.Close()
	}()
	all, err := io.ReadAll(p.lines)
	if err != nil || strings.Count(string(all), `"result"`) != 2 {
		t.Errorf("%v: %s", err, all)
	}
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
}

func TestStdioEndsThoughTheClientDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBare(t, tools("a"), func(c *config.Config) { c.Limits.QueueMessages = 2 })
		defer b.shut(t)
		ctx, cancel := context.WithCancel(t.Context())
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- b.ServeStdio(ctx, inR, outW) }()
		go func() {
			for {
				if _, err := io.WriteString(inW, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"); err != nil {
					return
				}
			}
		}()
		time.Sleep(time.Minute)
		began := time.Now()
		cancel()
		if err := <-ended; err != nil || time.Since(began) > 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		outR.Close() // what is left in the operating system ends with the process
		inW.Close()
	})
}

func FuzzStdioFrames(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"), 3)
	f.Add([]byte("\x00\n\r\n[]\n"+initialize+"\n{"), 1)
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+meta+`}}`+"\n\n"), 7)
	b := newBare(f, tools("a"), func(c *config.Config) { c.Limits.StdioLine = 4096 })
	f.Cleanup(func() { b.shut(f) })
	f.Fuzz(func(t *testing.T, frames []byte, split int) {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- b.ServeStdio(t.Context(), inR, outW); outW.Close() }()
		go func() {
			for part := range chunks(frames, split) {
				if _, err := inW.Write(part); err != nil {
					return
				}
			}
			io.WriteString(inW, "\n"+`{"jsonrpc":"2.0","id":"the end","method":"ping"}`+"\n")
			inW.Close()
		}()
		out, _ := io.ReadAll(outR)
		if err := <-ended; err != nil {
			t.Errorf("ServeStdio: %v", err)
		}
		answered := false
		for line := range strings.Lines(string(out)) {
			if !strings.HasPrefix(line, `{"jsonrpc":"2.0"`) && !strings.HasPrefix(line, `[{"jsonrpc":"2.0"`) || !strings.HasSuffix(line, "}\n") && !strings.HasSuffix(line, "}]\n") {
				t.Errorf("not protocol: %q", line)
			}
			answered = answered || strings.Contains(line, `"id":"the end","result":{}`)
		}
		if !answered {
			t.Errorf("%q ended the session: %q", frames, out)
		}
	})
}

// chunks cuts bytes into parts of n.
func chunks(b []byte, n int) func(func([]byte) bool) {
	n = max(1, min(n, 4096))
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			k := min(n, len(b))
			if !yield(b[:k]) {
				return
			}
			b = b[k:]
		}
	}
}
