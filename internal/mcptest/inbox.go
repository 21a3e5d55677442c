package mcptest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
)

// An Inbox keeps messages in order of arrival until they are asked for.
type Inbox struct {
	mu   sync.Mutex
	all  []json.RawMessage
	read int           // how many of all Next has returned
	more chan struct{} // closed and replaced when all grows or err is set
	err  error
}

func newInbox() *Inbox { return &Inbox{more: make(chan struct{})} }

func (b *Inbox) put(msg []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, append(json.RawMessage{}, msg...))
	close(b.more)
	b.more = make(chan struct{})
}

// end makes Next fail once everything has been read.
func (b *Inbox) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
		close(b.more)
		b.more = make(chan struct{})
	}
}

// All returns every message that arrived so far.
func (b *Inbox) All() []json.RawMessage { return b.since(0) }

func (b *Inbox) since(n int) []json.RawMessage {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]json.RawMessage(nil), b.all[n:]...)
}

func (b *Inbox) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.all)
}

// Next returns the next message, waiting for it.
func (b *Inbox) Next(ctx context.Context) (*Request, error) {
	for {
		b.mu.Lock()
		more, err := b.more, b.err
		if b.read < len(b.all) {
			msg := b.all[b.read]
			b.read++
			b.mu.Unlock()
			return ParseRequest(msg)
		}
		b.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Await returns the next message of that method, dropping others on the way.
func (b *Inbox) Await(ctx context.Context, method string) (*Request, error) {
	for {
		q, err := b.Next(ctx)
		if err != nil {
			return nil, fmt.Errorf("waiting for %s: %w", method, err)
		}
		if q.Method == method {
			return q, nil
		}
	}
}
