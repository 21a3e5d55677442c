package upstream_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"testing"

	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
)

// Whatever a server says, the connection works on.
func FuzzReceive(f *testing.F) {
	for _, said := range []string{
		"hello", `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":"x","method":"ping"}`,
		`[{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}},[]]`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":[]}`, "{\"id\":1,\"result\":\"\xff\"}\n\n\r\n\x00",
	} {
		f.Add([]byte(said))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		near, far := net.Pipe()
		conn := upstream.OpenConn(near, 4<<10, nil, func(upstream.Notice) {})
		defer conn.Close(context.Background())
		defer far.Close()
		go answerTwice(t, far, said)
		if o := callOn(t.Context(), conn, "first", "{}"); o.Result == "" && o.Reason == "" && o.Code == 0 && !bytes.Contains(said, []byte("error")) {
			t.Errorf("the first call: %+v", o)
		}
		if o := callOn(t.Context(), conn, "second", "{}"); o.Result != `{"good":1}` {
			t.Errorf("the second call: %+v", o)
		}
	})
}

// answerTwice says anything to the call of "first", followed by a good answer, and a
// good answer only to "second".
func answerTwice(t *testing.T, far net.Conn, anything []byte) {
	answers := make(chan []byte, 2)
	defer close(answers)
	go func() {
		for b := range answers {
			if _, err := far.Write(b); err != nil {
				return
			}
		}
	}()
	for in := bufio.NewReader(far); ; {
		b, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		switch q, err := mcptest.ParseRequest(b); {
		case err != nil:
			t.Errorf("the server was told %q: %v", b, err)
		case q.Method == "first":
			answers <- fmt.Appendf(bytes.ReplaceAll(anything, []byte("1"), q.ID), "\n"+`{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", q.ID)
		case q.Method == "second":
			answers <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"good":1}}`+"\n", q.ID)
		}
	}
}
