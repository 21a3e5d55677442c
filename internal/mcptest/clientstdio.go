package mcptest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// ConnectPipes opens a client that writes to w and reads from r, one message per
// line. A line that is no JSON object ends the connection: nothing else may be
// on a server's standard output. Close closes w.
func ConnectPipes(ctx context.Context, r io.Reader, w io.WriteCloser, era Era, opts *Options) (*Client, error) {
	opts = opts.orDefault(era)
	t := &pipeTransport{w: w, opts: opts, inbox: newInbox(), waiting: make(map[string]chan delivery)}
	go t.read(r)
	return open(ctx, t, era, opts)
}

type pipeTransport struct {
	opts  *Options
	inbox *Inbox // everything that is no response

	mu      sync.Mutex
	w       io.WriteCloser
	waiting map[string]chan delivery // id → who waits for the response
	err     error                    // why reading ended
}

type delivery struct {
	line []byte
	seen int // how many other messages had arrived before
}

func (t *pipeTransport) exchange(ctx context.Context, q *Request) (*Exchange, error) {
	if q.ID == nil || q.Method == "" {
		return &Exchange{}, t.write(q.Raw)
	}
	answer := make(chan delivery, 1)
	t.mu.Lock()
	err := t.err
	t.waiting[string(q.ID)] = answer
	t.mu.Unlock()
	if err != nil {
		return nil, err
	}
	before := t.inbox.len()
	if err := t.write(q.Raw); err != nil {
		return nil, err
	}
	select {
	case d, ok := <-answer:
		if !ok {
			return nil, t.reason()
		}
		x := &Exchange{Before: t.inbox.since(before)[:d.seen-before]}
		return x, x.response(d.line)
	case <-ctx.Done():
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.waiting, string(q.ID))
		return nil, context.Cause(ctx)
	}
}

func (t *pipeTransport) write(msg []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := t.w.Write(append(bytes.Clone(msg), '\n'))
	return err
}

func (t *pipeTransport) reason() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// read ends when r does; it then ends everything that waits.
func (t *pipeTransport) read(r io.Reader) {
	err := t.readAll(bufio.NewReaderSize(r, 1<<16))
	t.inbox.end(err)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
	for _, answer := range t.waiting {
		close(answer)
	}
	clear(t.waiting)
}

func (t *pipeTransport) readAll(r *bufio.Reader) error {
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return errors.Join(errors.New("the pipe ended"), err)
		}
		q, err := ParseRequest(line)
		if err != nil {
			return fmt.Errorf("line is no message: %.200q: %w", line, err)
		}
		if q.Method == "" {
			t.deliver(q, bytes.TrimRight(line, "\n"))
			continue
		}
		t.inbox.put(bytes.TrimRight(line, "\n"))
		if q.ID != nil {
			if err := t.write([]byte(t.opts.OnRequest(q))); err != nil {
				return err
			}
		}
	}
}

// deliver hands a response to who waits for it; one nobody waits for is kept.
func (t *pipeTransport) deliver(q *Request, line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	answer, ok := t.waiting[string(q.ID)]
	if !ok {
		t.inbox.put(line)
		return
	}
	delete(t.waiting, string(q.ID))
	answer <- delivery{line, t.inbox.len()}
}

func (t *pipeTransport) listen(_ context.Context, q *Request) (*Inbox, error) {
	if q == nil {
		return t.inbox, nil
	}
	return t.inbox, t.write(q.Raw)
}

func (t *pipeTransport) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w.Close()
}
