package upstream

import (
	"cmp"
	"context"

	"mcp-aggregator/internal/config"
)

// defaultLine is the limit of one message when the limits do not say.
const defaultLine = 16 << 20

// A stdioConn is a server that runs as a child process and speaks over its standard
// input and output, one message per line (specification, basic: stdio).
type stdioConn struct {
	*mux
	child *process
}

// openStdio starts the process. Whether it speaks MCP is for the handshake to see.
func openStdio(_ context.Context, s *config.Server, o *Options, notice func(Notice)) (transport, error) {
	child, err := startProcess(s, o)
	if err != nil {
		return nil, err
	}
	m := newMux(s.Name, o.Log, notice)
	l := &stdioLink{child: child}
	l.lines = newLineReader(child.stdout, cmp.Or(o.Limits.StdioLine, defaultLine))
	// The reader of the mux learns how the process ends, which says more than a
	// broken pipe.
	l.outbox = newOutbox(newPipeSink(child.stdin), func(error) { child.requestStop(errInputClosed) })
	m.start(l)
	return &stdioConn{m, child}, nil
}

func (c *stdioConn) pid() int { return c.child.pid() }

func (c *stdioConn) stderrTail() []string { return c.child.stderr.lines() }

// A stdioLink is the link to a child process.
type stdioLink struct {
	lineLink
	child *process
}

func (l *stdioLink) read() (*frame, error) {
	f, err := l.lines.next()
	if _, large := err.(*oversizeError); err == nil || large {
		return f, err
	}
	_ = l.child.stdout.Close()
	return nil, l.child.cause()
}

func (l *stdioLink) abort() []int64 {
	unsent := l.outbox.close()
	l.child.requestStop(errClosed)
	return unsent
}

func (l *stdioLink) close(ctx context.Context) error {
	err := l.child.stop(ctx)
	l.outbox.wait()
	return err
}
