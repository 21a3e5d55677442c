package upstream

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math/bits"
	"net/http"
	"strings"
	"sync"

	"mcp-aggregator/internal/wire"
)

// Buffers from 4 KiB to 8 MiB, by powers of two, are kept for other answers; a
// Reply gives its buffer back when it is released. A small answer is not worth that.
const (
	minPooled   = 12 // log2 of the smallest
	maxPooled   = 23 // log2 of the largest
	smallAnswer = 32 << 10
	firstRead   = 64 << 10 // for an answer of unknown length
)

var answerPools [maxPooled - minPooled + 1]sync.Pool // of *[]byte

// An answerBuffer is the buffer of one body.
type answerBuffer struct {
	bytes []byte
	class int // index into answerPools, -1 for a buffer of its own
}

// newAnswerBuffer returns an empty buffer for n bytes.
func newAnswerBuffer(n int) answerBuffer {
	if n > 1<<maxPooled {
		return answerBuffer{make([]byte, 0, n), -1}
	}
	class := max(bits.Len(uint(n-1)), minPooled) - minPooled // n > 0
	if p, ok := answerPools[class].Get().(*[]byte); ok {
		return answerBuffer{(*p)[:0], class}
	}
	return answerBuffer{make([]byte, 0, 1<<(minPooled+class)), class}
}

// free gives the buffer back.
func (b answerBuffer) free() {
	if b.class >= 0 {
		answerPools[b.class].Put(&b.bytes)
	}
}

// sizedAnswerBuffer returns a buffer of n bytes. Small answers get memory of their
// own, exactly as much as they need.
func sizedAnswerBuffer(n int) answerBuffer {
	if n <= smallAnswer {
		return answerBuffer{make([]byte, n), -1}
	}
	b := newAnswerBuffer(n)
	b.bytes = b.bytes[:n]
	return b
}

// readAnswer reads and scans a body of n bytes, or of unknown length if n < 0, but
// not more than limit. An error that is not a *wire.ScanError is one of reading.
func readAnswer(body io.Reader, n int64, limit int) (b answerBuffer, m wire.Message, err error) {
	switch {
	case n > int64(limit):
		return answerBuffer{class: -1}, m, wire.ErrTooLarge
	case n >= 0:
		b = sizedAnswerBuffer(int(n))
		m, err = wire.Read(body, b.bytes)
		return b, m, err
	}
	b = newAnswerBuffer(firstRead)
	if err = b.readAll(body, limit); err == nil {
		m, err = wire.Scan(b.bytes)
	}
	return b, m, err
}

// readAll reads up to the end of body.
func (b *answerBuffer) readAll(body io.Reader, limit int) error {
	for {
		if len(b.bytes) == cap(b.bytes) {
			b.grow(2 * cap(b.bytes))
		}
		n, err := body.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		switch {
		case len(b.bytes) > limit:
			return wire.ErrTooLarge
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// grow makes room for n bytes altogether.
func (b *answerBuffer) grow(n int) {
	larger := newAnswerBuffer(n)
	larger.bytes = append(larger.bytes, b.bytes...)
	b.free()
	*b = larger
}

// hold returns reply, which was read from b, as it can be handed out: with b to be
// given back by Release if that is worth it, else with memory of its own.
func (b answerBuffer) hold(reply Reply) Reply {
	switch {
	case b.class < 0:
	case reply.Err != nil:
		reply.Err.Raw = bytes.Clone(reply.Err.Raw)
		b.free()
	case len(reply.Result.Raw) <= smallAnswer:
		reply.Result.Raw = bytes.Clone(reply.Result.Raw)
		b.free()
	default:
		reply.release = b.free
	}
	return reply
}

// plainBody returns the body of a response and its length, -1 if unknown. Nothing
// but gzip is decoded, which some servers send without being asked.
func plainBody(resp *http.Response) (io.Reader, int64, error) {
	v := resp.Header["Content-Encoding"]
	if len(v) == 0 || v[0] == "identity" || v[0] == "" {
		return resp.Body, resp.ContentLength, nil
	}
	if !strings.EqualFold(v[0], "gzip") {
		return nil, 0, errors.New("the answer has an unknown content encoding")
	}
	z, err := gzip.NewReader(resp.Body)
	return z, -1, err
}

// The forms of an answer.
type answerForm uint8

const (
	formOther answerForm = iota
	formJSON
	formEvents
)

// formOf reads the content type. A missing one is taken for JSON: what is no message
// is found out anyway.
func formOf(h http.Header) answerForm {
	v := h["Content-Type"]
	if len(v) == 0 {
		return formJSON
	}
	switch v[0] {
	case "application/json":
		return formJSON
	case "text/event-stream":
		return formEvents
	}
	t, _, _ := strings.Cut(v[0], ";")
	switch strings.ToLower(strings.TrimSpace(t)) {
	case "application/json", "":
		return formJSON
	case "text/event-stream":
		return formEvents
	}
	return formOther
}
