package app_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// longCall is a call that takes much longer than the drain. Its answer is a stream if it
// asks for progress.
func longCall(id, meta string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"demo__long_running","arguments":{"duration":20,"steps":1000},"_meta":{` + meta + `}}}`
}

const (
	modern   = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`
	progress = `"progressToken":"p"`
)

// send posts a call and returns what its client gets to read.
func send(ctx context.Context, url, version, session, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("MCP-Protocol-Version", version)
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	} else {
		req.Header.Set("Mcp-Method", "tools/call")
		req.Header.Set("Mcp-Name", "demo__long_running")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return string(text), err
}

// initialized opens a session over HTTP.
func initialized(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(initialize))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.Header.Get("Mcp-Session-Id")
}

func TestCallsThatAreCutOffAtTheEndAreAnswered(t *testing.T) {
	c := unwatched(demo())
	c.Limits.Drain = 300 * time.Millisecond
	a := newApp(t, c)
	ln, err := a.ServeHTTP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	in, client := io.Pipe()
	heard, out := io.Pipe()
	a.ServeStdio(in, out)
	stop, err := a.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	url := "http://" + ln.Addr().String() + c.HTTP.Path
	session := initialized(t, url)

	answers := make(chan string, 6)
	post := func(name, version, session, body string) {
		text, err := send(t.Context(), url, version, session, body)
		if err != nil {
			text += " but " + err.Error()
		}
		answers <- name + ": " + text
	}
	go post("modern", "2026-07-28", "", longCall("1", modern))
	go post("modern with progress", "2026-07-28", "", longCall("1", modern+","+progress))
	go post("legacy", "2025-11-25", session, longCall("1", ""))
	go post("legacy with progress", "2025-11-25", session, longCall("2", progress))
	lines := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(heard)
		lines <- string(text)
	}()
	if _, err := io.WriteString(client, initialize+longCall("17", "")+"\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the calls are in flight", func() bool { return a.Status()[0].InFlight == 5 })
	stop()
	out.Close()
	for range 4 {
		checkCutOff(t, await(t, "an answer", answers))
	}
	for line := range strings.Lines(await(t, "the end of the output", lines)) {
		if strings.Contains(line, `"id":17`) {
			answers <- "stdio: " + line
		}
	}
	checkCutOff(t, await(t, "an answer over stdio", answers))
}

// checkCutOff checks that a call has one end, and that it says what may have happened.
func checkCutOff(t *testing.T, answer string) {
	t.Helper()
	if n := strings.Count(answer, `"error":{`); n != 1 || strings.Contains(answer, " but ") || !strings.Contains(answer, "executed") {
		t.Errorf("%d errors in the answer: %.600s", n, answer)
	}
}
