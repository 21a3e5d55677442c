package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// relay is the limit for HTTP: the standard reverse proxy with a tuned transport
// and pooled copy buffers. It looks at nothing.
func relay(args []string) error {
	target, err := url.Parse(args[0])
	if err != nil {
		return err
	}
	return serve(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL = target
			// Read first: a server's body handed straight to a transport is now and
			// then cut, and large answers with it.
			if body, err := io.ReadAll(r.In.Body); err == nil {
				r.Out.Body = io.NopCloser(bytes.NewReader(body))
			}
		},
		Transport: &http.Transport{
			MaxIdleConns: 1024, MaxIdleConnsPerHost: 1024, IdleConnTimeout: 90 * time.Second,
			DisableCompression: true, WriteBufferSize: 64 << 10, ReadBufferSize: 64 << 10,
		},
		BufferPool: copyBuffers{},
	})
}

type copyBuffers struct{}

const copyBuffer = 32 << 10

var copyPool = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

func (copyBuffers) Get() []byte  { return copyPool.Get().(*[copyBuffer]byte)[:] }
func (copyBuffers) Put(b []byte) { copyPool.Put((*[copyBuffer]byte)(b)) }

// stdioBridge is the limit for stdio upstreams: HTTP bodies become lines of a
// child, lines become HTTP answers, matched by the id that stands first in them.
func stdioBridge(args []string) error {
	child := exec.Command(args[0], args[1:]...)
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		return err
	}
	out, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	b := &lineBridge{in: in, waiting: map[int]chan []byte{}}
	go b.read(bufio.NewReaderSize(out, 256<<10))
	return serve(b)
}

type lineBridge struct {
	write   sync.Mutex
	in      io.Writer
	mu      sync.Mutex
	waiting map[int]chan []byte // id → the handler that waits
}

func (b *lineBridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := make([]byte, r.ContentLength, r.ContentLength+1)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		return
	}
	id, ok := leadingID(body)
	answer := make(chan []byte, 1)
	if ok {
		b.mu.Lock()
		b.waiting[id] = answer
		b.mu.Unlock()
	}
	b.write.Lock()
	b.in.Write(append(body, '\n'))
	b.write.Unlock()
	if !ok {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	line := <-answer
	w.Header()["Content-Type"] = []string{"application/json"}
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(line))}
	w.Write(line)
}

func (b *lineBridge) read(r *bufio.Reader) {
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		id, _ := leadingID(line)
		b.mu.Lock()
		answer := b.waiting[id]
		delete(b.waiting, id)
		b.mu.Unlock()
		if answer != nil {
			answer <- line[:len(line)-1]
		}
	}
}

// leadingID reads the id of a message that begins {"jsonrpc":"2.0","id":N.
func leadingID(b []byte) (int, bool) {
	rest, ok := bytes.CutPrefix(b, []byte(`{"jsonrpc":"2.0","id":`))
	if !ok {
		return 0, false
	}
	n, digits := 0, 0
	for digits < len(rest) && '0' <= rest[digits] && rest[digits] <= '9' {
		n = n*10 + int(rest[digits]-'0')
		digits++
	}
	return n, digits > 0
}
