package downstream_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
)

// large offers a list of about a megabyte.
func large() catalog.Input {
	in := tools()
	for i := range 500 {
		in.Tools = append(in.Tools, fmt.Appendf(nil, `{"name":"t%d","description":"%s","inputSchema":{"type":"object"}}`, i, strings.Repeat("d", 2000)))
	}
	return in
}

// A client may be slow as long as it reads; one that stops is cut off.
func TestLargeAnswersWaitForSlowClients(t *testing.T) {
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`
	request := fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n"+
		"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\nContent-Length: %d\r\n\r\n%s", len(list), list)
	for _, c := range []struct {
		name  string
		pause time.Duration // behind each 32 KiB
		whole bool
	}{
		{"fast", 0, true},
		{"slow", 3 * time.Second, true},
		{"stopped", time.Hour, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBare(t, large())
				p, _, stop := b.servePipes(t)
				defer stop()
				conn, err := p.dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if _, err := io.WriteString(conn, request); err != nil {
					t.Fatal(err)
				}
				resp, err := http.ReadResponse(bufio.NewReader(&crawl{conn, c.pause}), nil)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				if whole := err == nil && int64(len(body)) == resp.ContentLength; whole != c.whole {
					t.Errorf("%d of %d bytes, %v", len(body), resp.ContentLength, err)
				}
			})
		})
	}
}

// crawl pauses behind each 32 KiB.
type crawl struct {
	r     io.Reader
	pause time.Duration
}

func (c *crawl) Read(b []byte) (int, error) {
	n, err := io.ReadFull(c.r, b[:min(len(b), 4096)])
	time.Sleep(c.pause / 8)
	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	return n, err
}

// Many clients that do not read cost memory within bounds, and the others nothing.
func TestClientsThatDoNotReadDelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBare(t, large(), func(c *config.Config) { c.HTTP.SessionIdle = time.Hour })
		p, client, stop := b.servePipes(t)
		defer stop()
		for range 20 {
			conn, err := p.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			go io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n"+
				fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(initialize), initialize)+
				"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
		}
		began := time.Now()
		h := legacyHeaders(openWith(t, client))
		if a := sendWith(t, client, http.MethodPost, h, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); a.status != 200 || len(a.body) < 1e6 {
			t.Errorf("%d, %d bytes", a.status, len(a.body))
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("took %v", took)
		}
	})
}
