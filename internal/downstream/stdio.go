package downstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"mcp-aggregator/internal/wire"
)

// How long the ends of a stdio connection may take.
const (
	lastCalls = 500 * time.Millisecond // calls in flight when the input ends
	lastWords = 2 * time.Second        // what is still queued for the client
	letGo     = 100 * time.Millisecond // a reader whose input has been closed
)

// ServeStdio serves one client on a pair of streams, one message a line, each in its
// own era. It returns when the input ends, when the client takes no more output,
// after Close, or when ctx ends; calls in flight are cancelled then. Those that the
// input ended right behind have half a second, so that a few lines from a pipe get
// their answers; after Close they have until ctx ends.
//
// In is closed, if it can be, when ServeStdio gives up on it. A read or write that
// hangs in the operating system nevertheless is left behind.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errHungUp)
	limits := &s.cfg.Limits
	box := newOutbox(limits.QueueMessages, limits.QueueBytes, appendLine, s.countDropped)
	l := s.newLine(ctx, newSessionID(), principalOf(ctx), box)
	l.modern = true
	s.audience.join(l.session)
	s.sessions.addStdio(l.session)
	defer s.endSession(l.session, errHungUp)

	written, read, finished := make(chan error, 1), make(chan error, 1), make(chan struct{})
	go func() { written <- l.writeLines(out) }()
	go func() { read <- l.readLines(in) }()

	var grace <-chan time.Time
	var err error
	ended := false
	select {
	case err = <-read:
		grace, ended = time.After(lastCalls), true
		l.session.silence(errHungUp) // nothing will be answered any more
	case err = <-written:
		cancel(errHungUp)
	case <-s.closing:
		l.session.silence(errStopping)
	case <-ctx.Done():
	}
	go func() { l.finish(); close(finished) }()
	select {
	case <-finished:
	case <-grace:
	case <-ctx.Done():
	case <-s.base.Done(): // the time for draining is over
		cancel(context.Cause(s.base))
	}
	cancel(errHungUp)
	<-finished
	s.letGo(in, read, ended)
	select {
	case <-written:
	case <-time.After(lastWords):
	}
	return err
}

// letGo ends the reader, as far as that is possible.
func (s *Server) letGo(in io.Reader, read <-chan error, ended bool) {
	if ended {
		return
	}
	if c, ok := in.(io.Closer); ok {
		_ = c.Close()
	}
	select {
	case <-read:
	case <-time.After(letGo):
		s.log.Debug("the reader of standard input is left behind")
	}
}

// writeLines is the writer of a stdio line.
func (l *line) writeLines(out io.Writer) error {
	err := l.out.drain(context.Background(), func(b []byte) error {
		_, err := out.Write(b)
		return err
	}, nil)
	if err != nil {
		return fmt.Errorf("writing to the client: %w", err)
	}
	return nil
}

// readLines is the reader of a stdio line. The end of the input is no error.
func (l *line) readLines(in io.Reader) error {
	r := bufio.NewReaderSize(in, 64<<10)
	limit := l.s.cfg.Limits.StdioLine
	for {
		buf := getScratch()
		err := readLine(r, buf, limit)
		switch {
		case errors.Is(err, wire.ErrTooLarge):
			l.refuse(nil, invalidRequest("Invalid request: the message exceeds limits.stdio_line"))
			buf.free()
			continue
		case len(bytes.TrimSpace(buf.bytes)) > 0:
			l.take(buf)
		default:
			buf.free()
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading from the client: %w", err)
		}
	}
}

// readLine reads one line into buf. A line above the limit is skipped to its end
// and reported as wire.ErrTooLarge. With another error there may be a last line.
func readLine(r *bufio.Reader, buf *buffer, limit int) error {
	for {
		part, err := r.ReadSlice('\n')
		if len(buf.bytes)+len(part) <= limit {
			buf.bytes = append(buf.bytes, part...)
			if err != bufio.ErrBufferFull {
				return err
			}
			continue
		}
		for err == bufio.ErrBufferFull {
			_, err = r.ReadSlice('\n')
		}
		if err != nil {
			buf.bytes = buf.bytes[:0] // the end of the input, in the middle of too much
			return err
		}
		return wire.ErrTooLarge
	}
}

// take handles one line. Whatever is wrong with it is answered and concerns no other.
func (l *line) take(buf *buffer) {
	defer func() {
		if p := recover(); p != nil {
			l.s.log.Error("message panicked", "err", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	m, err := wire.Scan(buf.bytes)
	switch {
	case err == nil:
		l.receive(buf, m, nil)
	case wire.IsBatch(buf.bytes):
		l.takeBatch(buf)
	default:
		l.refuse(scanError(err))
		buf.free()
	}
}

// takeBatch handles a line that holds a batch.
func (l *line) takeBatch(buf *buffer) {
	if l.session.agreed() != wire.V20250326 {
		l.refuse(nil, noBatches())
		buf.free()
		return
	}
	like := &request{session: l.session, to: l}
	run := func() {
		defer buf.free()
		responses, rpc := l.s.batch(l.ctx, like, buf.bytes)
		if rpc != nil {
			l.refuse(nil, rpc)
		} else if responses != nil {
			_ = l.out.put(l.ctx, responses)
		}
	}
	if !l.s.busy.begin() {
		l.refuse(nil, rpcError(errStopping))
		buf.free()
		return
	}
	if !l.calls.start(func() { defer l.s.busy.end(); run() }) {
		l.s.busy.end()
		buf.free()
	}
}

// refuse answers what could not be understood.
func (l *line) refuse(id []byte, rpc *wire.RPCError) {
	_ = l.out.put(l.ctx, wire.AppendError(nil, id, rpc))
}

// appendLine frames a message as a line. Line breaks can only stand between the
// tokens of JSON; blanks do as well there.
func appendLine(dst, msg []byte) []byte {
	if bytes.IndexByte(msg, '\n') >= 0 || bytes.IndexByte(msg, '\r') >= 0 {
		dst = wire.Compact(dst, msg)
	} else {
		dst = append(dst, msg...)
	}
	return append(dst, '\n')
}
