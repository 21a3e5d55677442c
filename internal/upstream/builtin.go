package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
)

// openBuiltin starts a server inside this process and connects to it. It is spoken
// to in lines, as if it were a child process, so that a built-in server shows
// exactly what any other one would.
func openBuiltin(_ context.Context, s *config.Server, o *Options, notice func(Notice)) (transport, error) {
	newServer := o.Builtins[s.Builtin]
	if newServer == nil {
		known := strings.Join(slices.Sorted(maps.Keys(o.Builtins)), ", ")
		return nil, fault.Of(fault.Unreachable, s.Name, "there is no built-in server %q; known are: %s", s.Builtin, known)
	}
	limit := cmp.Or(o.Limits.StdioLine, defaultLine)
	near, far := net.Pipe()
	m := newMux(s.Name, o.Log, notice)
	l := &builtinLink{near: near, ended: make(chan struct{})}
	l.lineLink = lineLink{newOutbox(connSink{near}, m.end), newLineReader(near, limit)}
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(context.Background())
	go l.serve(ctx, newServer(), &mcp.IOTransport{Reader: far, Writer: far, MaxLineLength: limit})
	m.start(l)
	return m, nil
}

// A builtinLink is the link to a server in this process and owns its goroutine.
type builtinLink struct {
	lineLink
	near   net.Conn
	cancel context.CancelFunc // of the server
	ended  chan struct{}      // closed when the server has ended
}

// serve runs the server until its end of the pipe is closed.
func (l *builtinLink) serve(ctx context.Context, server *mcp.Server, t mcp.Transport) {
	defer close(l.ended)
	server.AddReceivingMiddleware(survivePanics)
	_ = server.Run(ctx, t) // that we closed the pipe is no news, and nothing else ends it
	_ = l.near.Close()
}

// survivePanics makes a panic of a built-in server the failure of one request. The
// SDK would let it end the process.
func survivePanics(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (res mcp.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				res, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("panic in %s: %v", method, p)}
			}
		}()
		return next(ctx, method, r)
	}
}

func (l *builtinLink) abort() []int64 {
	unsent := l.outbox.close()
	_ = l.near.Close()
	return unsent
}

// close waits for the server to finish the calls it is executing; when ctx ends
// they are cancelled. One that does not heed that is left behind.
func (l *builtinLink) close(ctx context.Context) error {
	defer l.cancel()
	l.outbox.wait()
	select {
	case <-l.ended:
		return nil
	case <-ctx.Done():
		l.cancel()
	}
	select {
	case <-l.ended:
		return nil
	case <-time.After(closeGrace):
		return errors.New("a call of the built-in server does not end")
	}
}

// A connSink writes to a connection that cannot be asked whether it would block.
type connSink struct{ net.Conn }

func (s connSink) joins() bool { return true }

func (s connSink) write(b []byte) (int, error) { return s.Write(b) }

func (s connSink) tryWrite([]byte) (int, error) { return 0, nil }
