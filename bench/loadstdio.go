package main

import (
	"bytes"
	"fmt"
	"sync"
)

// lineClient shares the standard streams of one process among callers.
type lineClient struct {
	p       *proc
	write   sync.Mutex
	mu      sync.Mutex
	waiting map[int]chan []byte
	err     error
}

// newLineClient shakes hands with a stdio server.
func newLineClient(p *proc) (*lineClient, error) {
	c := &lineClient{p: p, waiting: map[int]chan []byte{}}
	go c.read()
	_, err := c.exchange(1<<20, []byte(`{"jsonrpc":"2.0","id":1048576,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"load","version":"1"}}}`+"\n"))
	if err != nil {
		return nil, err
	}
	_, err = p.in.Write([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"))
	return c, err
}

func (c *lineClient) read() {
	for {
		line, err := c.p.out.ReadBytes('\n')
		c.mu.Lock()
		if err != nil {
			c.err = err
			for _, answer := range c.waiting {
				close(answer)
			}
			c.waiting = nil
			c.mu.Unlock()
			return
		}
		id, _ := leadingID(line)
		answer := c.waiting[id]
		delete(c.waiting, id)
		c.mu.Unlock()
		if answer != nil {
			answer <- bytes.TrimRight(line, "\n")
		}
	}
}

func (c *lineClient) exchange(id int, line []byte) ([]byte, error) {
	answer := make(chan []byte, 1)
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return nil, c.err
	}
	c.waiting[id] = answer
	c.mu.Unlock()
	c.write.Lock()
	_, err := c.p.in.Write(line)
	c.write.Unlock()
	if err != nil {
		return nil, err
	}
	got, ok := <-answer
	if !ok {
		return nil, c.err
	}
	return got, nil
}

// stdioCaller repeats one request over shared standard streams.
type stdioCaller struct {
	c    *lineClient
	id   int
	line []byte
	want []byte
}

func newStdioCaller(c *lineClient, name string, s shape, id int) *stdioCaller {
	return &stdioCaller{c, id, []byte(s.request(id, name) + "\n"), s.answer(id)}
}

func (s *stdioCaller) call() error {
	got, err := s.c.exchange(s.id, s.line)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, s.want) {
		return fmt.Errorf("wrong answer: %d bytes (want %d): %.200s", len(got), len(s.want), got)
	}
	return nil
}

func (s *stdioCaller) close() {}
