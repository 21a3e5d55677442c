package downstream_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/mcptest"
)

// Results of HTTP servers may hold line breaks between their tokens. They reach the
// client to the byte, but for carriage returns in events and all breaks on lines,
// where blanks take their place.
func TestLineBreaksInResults(t *testing.T) {
	pretty := "{\n  \"content\": [\n\t{\"type\": \"text\", \"text\": \"a\\nb\"}\n  ],\n  \"n\": 1.0\n}"
	windows := strings.ReplaceAll(pretty, "\n", "\r\n")
	large := strings.Replace(pretty, "a", strings.Repeat("a", 40<<10), 1)
	blanks := strings.NewReplacer("\r", " ", "\n", " ")
	for name, result := range map[string]string{"pretty": pretty, "windows": windows, "large": large} {
		t.Run(name, func(t *testing.T) {
			h, url := rawHouse(t, func(q *mcptest.Request) *mcptest.Answer {
				if q.Method != "tools/call" {
					return nil
				}
				reply := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, result)
				if q.Token == nil {
					return &mcptest.Answer{Whole: reply}
				}
				progress := fmt.Sprintf(`data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, q.Token)
				return &mcptest.Answer{HTTP: &mcptest.HTTPAnswer{Status: 200, Header: map[string]string{"Content-Type": "text/event-stream"},
					Body: progress + "\n\ndata: " + strings.ReplaceAll(reply, "\n", "\ndata: ") + "\n\n"}}
			})
			want := `{"jsonrpc":"2.0","id":1,"result":` + result + `}`
			call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"raw__t","arguments":{}}}`
			asked := strings.Replace(call, `"arguments"`, `"_meta":{"progressToken":"p"},"arguments"`, 1)

			session := open(t, url)
			if a := post(t, url, legacyHeaders(session), call); a.body != want {
				t.Errorf("JSON:\n%.300q\nwant\n%.300q", a.body, want)
			}
			stream := listen(t, http.DefaultTransport, url, legacyHeaders(session), asked)
			defer stream.close()
			stream.next()
			// An event has one kind of line break, so the carriage returns were lost on
			// the way from the server already.
			expect := strings.ReplaceAll(want, "\r\n", "\n")
			if data := strings.ReplaceAll(strings.TrimPrefix(stream.next(), "data: "), "\ndata: ", "\n"); data != expect {
				t.Errorf("event:\n%.300q\nwant\n%.300q", data, expect)
			}
			p := h.servePipe(t)
			defer p.stop()
			p.ask(initialize)
			if got := p.ask(call); got != blanks.Replace(want) {
				t.Errorf("line:\n%.300q\nwant\n%.300q", got, blanks.Replace(want))
			}
		})
	}
}

// rawHouse is a house with a server "raw" in place of the others, and its endpoint.
func rawHouse(t *testing.T, answer func(*mcptest.Request) *mcptest.Answer) (*house, string) {
	t.Helper()
	raw := &mcptest.Raw{Era: mcptest.Legacy, Tools: []string{`{"name":"t","inputSchema":{"type":"object"}}`}, Answer: answer}
	upstream := httptest.NewServer(raw)
	t.Cleanup(upstream.Close)
	h := newHouse(t, func(c *config.Config) {
		s := config.DefaultServer("raw")
		s.Type, s.URL, s.Protocol = config.TypeHTTP, upstream.URL, "legacy"
		c.Servers = []*config.Server{s}
	})
	return h, h.serve(t)
}
