package mcptest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
)

// ErrClosed is what Serve returns after an Answer with Close.
var ErrClosed = errors.New("connection closed by script")

// Serve is the server over a pair of pipes, one message per line. It returns
// when in ends, when the context does, or when an answer asks to close; all its
// requests have ended by then.
func (r *Raw) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &pipes{raw: r, out: out, cancel: cancel, calls: make(map[string]context.CancelCauseFunc), closeStream: func() {}}
	defer p.wg.Wait()
	defer cancel(io.EOF)
	defer func() { p.closeStream() }()

	lines := make(chan []byte)
	go readLines(ctx, in, lines)
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				return nil
			}
			p.take(ctx, line)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// readLines ends when in does, or is dropped while it waits for the next line.
func readLines(ctx context.Context, in io.Reader, lines chan<- []byte) {
	defer close(lines)
	for br := bufio.NewReaderSize(in, 1<<16); ; {
		line, err := br.ReadBytes('\n')
		if len(line) > 0 {
			select {
			case lines <- line:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pipes is one run of Serve.
type pipes struct {
	raw    *Raw
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	closeStream func() // owned by Serve; set once a legacy client has opened

	mu    sync.Mutex
	out   io.Writer
	calls map[string]context.CancelCauseFunc // id → request in flight
}

func (p *pipes) send(msg []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.out.Write(append(msg[:len(msg):len(msg)], '\n'))
	return err
}

func (p *pipes) take(ctx context.Context, line []byte) {
	q, err := ParseRequest(line)
	if err != nil {
		_ = p.send(errorMessage(json.RawMessage("null"), errorObject(-32700, err.Error())))
		return
	}
	p.raw.record(q)
	switch q.Method {
	case "initialize":
		p.closeStream()
		p.closeStream = p.raw.open(&stream{send: p.send})
	case "notifications/cancelled":
		p.end(string(Field(q.Params, "requestId")))
	}
	if q.ID == nil || q.Method == "" {
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	p.mu.Lock()
	p.calls[string(q.ID)] = cancel
	p.mu.Unlock()
	p.wg.Go(func() {
		defer p.end(string(q.ID))
		p.answer(ctx, q)
	})
}

// end cancels a request and forgets it.
func (p *pipes) end(id string) {
	p.mu.Lock()
	cancel := p.calls[id]
	delete(p.calls, id)
	p.mu.Unlock()
	if cancel != nil {
		cancel(context.Canceled)
	}
}

func (p *pipes) answer(ctx context.Context, q *Request) {
	a := p.raw.respond(q)
	if a.Close || a.Reset {
		p.cancel(ErrClosed)
		return
	}
	if wait(ctx, a) != nil {
		return
	}
	if q.Method == "subscriptions/listen" && q.Era == Modern && a.Error == "" {
		_ = p.raw.listen(ctx, q, p.send)
		return
	}
	if a.Write != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		_ = a.Write(p.out)
		return
	}
	if p.raw.asking(ctx, q, &a, p.send) != nil {
		return
	}
	for _, msg := range a.messages() {
		if p.send([]byte(msg)) != nil {
			return
		}
	}
}
