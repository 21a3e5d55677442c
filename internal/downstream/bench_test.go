package downstream_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// What the face itself costs: requests that need no upstream, without a network.
func BenchmarkFace(b *testing.B) {
	in := tools()
	for i := range 1000 {
		in.Tools = append(in.Tools, fmt.Appendf(nil, `{"name":"tool%d","inputSchema":{"type":"object"}}`, i))
	}
	face := newBare(b, in)
	defer face.shut(b)
	h := face.Handler()
	legacy := http.Header{"Content-Type": {"application/json"}, "Mcp-Protocol-Version": {"2025-11-25"}}
	first := newHandlerRequest(legacy)
	rec := httptest.NewRecorder()
	setBody(first, []byte(initialize), new(bytes.Reader))
	h.ServeHTTP(rec, first)
	legacy["Mcp-Session-Id"] = rec.Header()["Mcp-Session-Id"]
	modern := http.Header{"Content-Type": {"application/json"}, "Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/list"}}
	for _, c := range []struct {
		name   string
		header http.Header
		body   string
	}{
		{"ping/legacy", legacy, `{"jsonrpc":"2.0","id":1,"method":"ping"}`},
		{"list/legacy", legacy, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`},
		{"list/modern", modern, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			r, w, reader := newHandlerRequest(c.header), &nowhere{http.Header{}}, new(bytes.Reader)
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				setBody(r, []byte(c.body), reader)
				h.ServeHTTP(w, r)
			}
		})
	}
}

func newHandlerRequest(h http.Header) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", nil)
	r.Header = h
	return r
}

func setBody(r *http.Request, body []byte, reader *bytes.Reader) {
	reader.Reset(body)
	r.Body, r.ContentLength = io.NopCloser(reader), int64(len(body))
}

// nowhere is a client that takes everything.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header              { return n.header }
func (n *nowhere) WriteHeader(int)                  {}
func (n *nowhere) Write(b []byte) (int, error)      { return len(b), nil }
func (n *nowhere) Flush()                           {}
func (n *nowhere) SetReadDeadline(time.Time) error  { return nil }
func (n *nowhere) SetWriteDeadline(time.Time) error { return nil }
