//go:build e2e && linux

package conformance_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"mcp-aggregator/internal/mcptest"
)

// startShim stands between the suite, which calls its tools and prompts by
// fixed names, and an aggregator that exposes them under a prefix: names get the
// prefix on the way in, in bodies and in the Mcp-Name header, and lose it on the
// way out.
func startShim(t *testing.T, target, prefix string) (front string) {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	prefixed := regexp.MustCompile(`("name"\s*:\s*")` + regexp.QuoteMeta(prefix))
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL = to
			// The suite tries foreign hosts; its own requests must look local.
			if r.In.Host == r.In.Context().Value(http.LocalAddrContextKey).(interface{ String() string }).String() {
				r.Out.Host = to.Host
			} else {
				r.Out.Host = r.In.Host
			}
			addPrefix(r.Out, prefix)
		},
		ModifyResponse: func(resp *http.Response) error {
			resp.Body = struct {
				io.Reader
				io.Closer
			}{&lineReader{r: bufio.NewReader(resp.Body), edit: func(line []byte) []byte {
				return prefixed.ReplaceAll(line, []byte("$1"))
			}}, resp.Body}
			resp.Header.Del("Content-Length")
			resp.ContentLength = -1
			return nil
		},
	}
	srv := httptest.NewServer(proxy)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv.URL
}

// addPrefix renames what a request asks for.
func addPrefix(r *http.Request, prefix string) {
	if r.Body == nil {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if q, err := mcptest.ParseRequest(body); err == nil {
		if q.Method == "tools/call" || q.Method == "prompts/get" {
			body = rename(q, q.Params, "", prefix)
			if name := r.Header.Get("Mcp-Name"); name != "" && !strings.HasPrefix(name, "=?") {
				r.Header.Set("Mcp-Name", prefix+name)
			}
		} else if ref := mcptest.Field(q.Params, "ref"); q.Method == "completion/complete" && ref != nil {
			body = rename(q, ref, "ref", prefix)
		}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
}

// rename returns the message with the prefix before the name in an object, which
// is the parameters or a member of them.
func rename(q *mcptest.Request, object json.RawMessage, member, prefix string) []byte {
	var name string
	if json.Unmarshal(mcptest.Field(object, "name"), &name) != nil {
		return q.Raw
	}
	params := mcptest.Put(string(object), "name", mcptest.Quote(prefix+name))
	if member != "" {
		params = mcptest.Put(string(q.Params), member, params)
	}
	return []byte(mcptest.Put(string(q.Raw), "params", params))
}

// lineReader edits a stream line by line, as the lines arrive.
type lineReader struct {
	r    *bufio.Reader
	edit func([]byte) []byte
	rest []byte
	err  error
}

func (l *lineReader) Read(p []byte) (int, error) {
	if len(l.rest) == 0 && l.err == nil {
		var line []byte
		line, l.err = l.r.ReadBytes('\n')
		l.rest = l.edit(line)
	}
	if len(l.rest) == 0 {
		return 0, l.err
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}
