package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	"mcp-aggregator/internal/wire"
)

// The upstream of the measurements: the cheapest correct MCP server we can write,
// so that what is measured is the way to it.

const resultHead = `{"content":[{"type":"text","text":"`

// texts are the results of the tools, as JSON string bodies.
var texts = map[string]string{
	"echo64":  strings.Repeat("0123456789abcdef", 4),
	"log100k": logText(100_000, false),
	"log1m":   logText(1_000_000, false),
	"json1m":  logText(1_000_000, true),
}

// logText is n bytes of log lines: plain ones, or JSON objects whose quotes all need
// escapes, the worst case for a scanner.
func logText(n int, escapes bool) string {
	line := `2026-11-02T10:11:12.345Z INFO  worker-7 row fetched path=/srv/data/file.txt n=12345 took=1.2ms\n`
	if escapes {
		line = `{\"level\":\"info\",\"msg\":\"row fetched\",\"path\":\"/srv/data/file.txt\",\"n\":12345}\n`
	}
	return strings.Repeat(line, n/len(line)+1)
}

// result is what a tool must answer, modern results with the type they need.
func result(tool string, modern bool) string {
	r := resultHead + texts[tool] + `"}]}`
	if modern {
		r = `{"resultType":"complete",` + r[1:]
	}
	return r
}

type echo struct{ legacy, modern map[string]string }

func newEcho() echo {
	e := echo{map[string]string{}, map[string]string{}}
	for tool := range texts {
		e.legacy[tool], e.modern[tool] = result(tool, false), result(tool, true)
	}
	return e
}

// answer appends the reply to one message; nothing for a notification.
func (e echo) answer(dst, raw []byte) []byte {
	m, err := wire.Scan(raw)
	if err != nil || m.Kind != wire.Request {
		return dst
	}
	meta := m.Body.Field("_meta")
	modern := wire.Field(m.Body.Raw, meta, wire.MetaVersion).OK()
	var res string
	switch m.Method {
	case "server/discover":
		res = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"public"}`
		if onlyLegacy {
			return wire.AppendError(dst, m.ID.Of(raw), &wire.RPCError{Code: wire.CodeMethodNotFound, Message: "method not found"})
		}
	case "initialize":
		res = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}`
	case "tools/list":
		res = `{"tools":[`
		for tool := range texts {
			res += `{"name":"` + tool + `","inputSchema":{"type":"object"}},`
		}
		res = strings.TrimSuffix(res, ",") + `]}`
	case "tools/call":
		name, _ := wire.Unquote(m.Body.Field("name").Of(m.Body.Raw))
		if res = e.legacy[name]; modern {
			res = e.modern[name]
		}
	default:
		res = `{}`
	}
	dst = wire.AppendResultHead(dst, m.ID.Of(raw))
	return append(append(dst, res...), '}')
}

// onlyLegacy makes the echo server of another time.
var onlyLegacy = os.Getenv("ECHO_LEGACY") != ""

// echoHTTP serves Streamable HTTP and prints its URL.
func echoHTTP([]string) error {
	e := newEcho()
	return serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		out := e.answer(make([]byte, 0, 512), body)
		if len(out) == 0 {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header()["Content-Type"] = []string{"application/json"}
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(out))}
		w.Write(out)
	}))
}

// echoStdio serves lines.
func echoStdio([]string) error {
	e := newEcho()
	in, out := bufio.NewReaderSize(os.Stdin, 1<<16), bufio.NewWriterSize(os.Stdout, 1<<16)
	var buf []byte
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil
		}
		if buf = e.answer(buf[:0], line); len(buf) > 0 {
			out.Write(buf)
			out.WriteByte('\n')
		}
		if in.Buffered() == 0 {
			out.Flush()
		}
	}
}

// serve listens on a free loopback port and prints the URL for the parent.
func serve(h http.Handler) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/mcp\n", ln.Addr())
	return http.Serve(ln, h)
}
