package mcptest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

type httpTransport struct {
	url  string
	opts *Options
	era  Era

	mu      sync.Mutex
	session string // of the legacy era
	version string // agreed on
	http    http.Client
}

func (t *httpTransport) opened(session, version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.session, t.version = session, version
}

// header returns what a well-behaved client sends with a message.
func (t *httpTransport) header(q *Request) http.Header {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.opts.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	setDefault(h, "Content-Type", "application/json")
	setDefault(h, "Accept", "application/json, text/event-stream")
	if t.era == Modern {
		setDefault(h, "Mcp-Protocol-Version", ModernVersion)
		if q != nil {
			setDefault(h, "Mcp-Method", q.Method)
			if q.Name != "" {
				setDefault(h, "Mcp-Name", encodeHeader(q.Name))
			}
		}
		return h
	}
	if t.version != "" {
		setDefault(h, "Mcp-Protocol-Version", t.version)
	}
	if t.session != "" {
		setDefault(h, "Mcp-Session-Id", t.session)
	}
	return h
}

func setDefault(h http.Header, name, value string) {
	if h.Get(name) == "" {
		h.Set(name, value)
	}
}

func encodeHeader(v string) string {
	for _, r := range v {
		if r < 0x20 || r > 0x7e {
			return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(v)) + "?="
		}
	}
	if v != strings.TrimSpace(v) || strings.HasPrefix(v, "=?base64?") {
		return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(v)) + "?="
	}
	return v
}

func (t *httpTransport) exchange(ctx context.Context, q *Request) (*Exchange, error) {
	resp, err := t.post(ctx, t.header(q), q.Raw)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return readExchange(resp, q, func(in *Request) { go t.reply(ctx, in) })
}

// reply answers a request of the server in a POST of its own.
func (t *httpTransport) reply(ctx context.Context, in *Request) {
	resp, err := t.post(ctx, t.header(nil), []byte(t.opts.OnRequest(in)))
	if err == nil {
		resp.Body.Close()
	}
}

func (t *httpTransport) post(ctx context.Context, h http.Header, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = h
	return t.http.Do(req)
}

// Post sends any bytes with any headers and reads whatever comes back. Headers
// with the single value "" are left out altogether, Host is taken as the host.
func Post(ctx context.Context, url string, header map[string]string, body string) (*Exchange, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for k, v := range header {
		switch {
		case k == "Host":
			req.Host = v
		case v == "":
			req.Header.Del(k)
		default:
			req.Header.Set(k, v)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return readExchange(resp, nil, func(*Request) {})
}

// readExchange reads an answer of any kind. A body that is no JSON is left to
// the caller, an event stream without the response to q is an error.
func readExchange(resp *http.Response, q *Request, asked func(*Request)) (*Exchange, error) {
	x := &Exchange{Status: resp.StatusCode, Header: resp.Header}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		var err error
		if x.Body, err = io.ReadAll(resp.Body); err != nil {
			return x, err
		}
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") && len(x.Body) > 0 {
			err = x.response(x.Body)
		}
		return x, err
	}
	for events := bufio.NewReader(resp.Body); ; {
		data, err := nextEvent(events)
		if err != nil {
			return x, fmt.Errorf("reading event stream: %w", err)
		}
		in, err := ParseRequest(data)
		if err != nil {
			return x, fmt.Errorf("reading event %.200q: %w", data, err)
		}
		if in.Method == "" && (q == nil || bytes.Equal(in.ID, q.ID)) {
			return x, x.response(data)
		}
		x.Before = append(x.Before, in.Raw)
		if in.Method != "" && in.ID != nil {
			asked(in)
		}
	}
}

// nextEvent returns the data of the next event that has any.
func nextEvent(r *bufio.Reader) ([]byte, error) {
	var data []byte
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 && len(data) > 0 {
			return data, nil
		}
		if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(rest, []byte(" "))...)
		}
	}
}

func (t *httpTransport) listen(ctx context.Context, q *Request) (*Inbox, error) {
	method, body := http.MethodGet, []byte(nil)
	if q != nil {
		method, body = http.MethodPost, q.Raw
	}
	req, err := http.NewRequestWithContext(ctx, method, t.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = t.header(q)
	resp, err := t.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
		return nil, fmt.Errorf("listening: status %d: %s", resp.StatusCode, text)
	}
	inbox := newInbox()
	go t.fill(ctx, inbox, resp.Body)
	return inbox, nil
}

// fill ends when the stream does, which is when its context does at the latest.
func (t *httpTransport) fill(ctx context.Context, inbox *Inbox, stream io.ReadCloser) {
	defer stream.Close()
	for events := bufio.NewReader(stream); ; {
		data, err := nextEvent(events)
		if err != nil {
			inbox.end(errors.Join(errors.New("the stream ended"), err))
			return
		}
		inbox.put(data)
		if in, err := ParseRequest(data); err == nil && in.Method != "" && in.ID != nil {
			t.reply(ctx, in)
		}
	}
}

// Delete ends the legacy HTTP session and returns the status it got.
func (c *Client) Delete(ctx context.Context) (int, error) {
	t, ok := c.t.(*httpTransport)
	if !ok {
		return 0, errors.New("pipes have no session to delete")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, t.url, nil)
	if err != nil {
		return 0, err
	}
	req.Header = t.header(nil)
	resp, err := t.http.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// Session returns the id of the legacy HTTP session.
func (c *Client) Session() string {
	t, ok := c.t.(*httpTransport)
	if !ok {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.session
}

func (t *httpTransport) close() error {
	t.http.CloseIdleConnections()
	return nil
}
