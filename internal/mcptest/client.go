package mcptest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
)

// Client is an MCP client that shows the bytes of what it gets. It declares no
// capabilities unless Capabilities says so, and refuses what a server asks
// unless OnRequest answers.
type Client struct {
	Era     Era
	Version string    // agreed on in the opening
	Opening *Exchange // the answer to initialize or server/discover

	t      transport
	nextID atomic.Int64
	caps   string
}

// Options of a Client; the zero value is fine.
type Options struct {
	Version      string      // asked for; default the era's newest
	Capabilities string      // declared by the client; default {}
	Header       http.Header // added to every HTTP request
	Own          bool        // connections of its own, not those of http.DefaultTransport

	// OnRequest answers a request of the server with a whole message.
	OnRequest func(q *Request) string
}

// An Exchange is everything that came back for one message.
type Exchange struct {
	Before []json.RawMessage // messages that came before the response, in order
	Raw    json.RawMessage   // the response message
	ID     json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage

	Status int // of HTTP, with the headers and, if it was no event stream, the body
	Header http.Header
	Body   []byte
}

type transport interface {
	// exchange sends one message and, if it is a request, waits for its response.
	exchange(ctx context.Context, q *Request) (*Exchange, error)
	// listen opens the channel of messages that belong to no request.
	listen(ctx context.Context, q *Request) (*Inbox, error)
	close() error
}

// ConnectHTTP opens a client of a Streamable HTTP endpoint.
func ConnectHTTP(ctx context.Context, url string, era Era, opts *Options) (*Client, error) {
	opts = opts.orDefault(era)
	t := &httpTransport{url: url, opts: opts, era: era}
	if opts.Own {
		// Closing idle connections of a shared transport also ends dials of others.
		t.http.Transport = &http.Transport{MaxIdleConnsPerHost: 100}
	}
	return open(ctx, t, era, opts)
}

func (o *Options) orDefault(era Era) *Options {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Version == "" {
		c.Version = map[Era]string{Legacy: LegacyVersion, Modern: ModernVersion}[era]
	}
	if c.Capabilities == "" {
		c.Capabilities = "{}"
	}
	if c.OnRequest == nil {
		c.OnRequest = refuse
	}
	return &c
}

func refuse(q *Request) string {
	if q.Method == "ping" {
		return string(resultMessage(q.ID, "{}"))
	}
	return string(errorMessage(q.ID, errorObject(-32601, "this client does not answer "+q.Method)))
}

// open does what the era does first.
func open(ctx context.Context, t transport, era Era, opts *Options) (*Client, error) {
	c := &Client{Era: era, Version: opts.Version, t: t, caps: opts.Capabilities}
	method, params := "server/discover", "{}"
	if era == Legacy {
		method = "initialize"
		params = `{"protocolVersion":` + Quote(opts.Version) + `,"capabilities":` + opts.Capabilities +
			`,"clientInfo":{"name":"mcptest","version":"1"}}`
	}
	x, err := c.Call(ctx, method, params)
	if err == nil && x.Result == nil {
		err = fmt.Errorf("status %d: %s%s", x.Status, x.Raw, x.Body)
	}
	if err == nil && era == Legacy {
		if err = json.Unmarshal(Field(x.Result, "protocolVersion"), &c.Version); err == nil {
			if h, ok := t.(*httpTransport); ok {
				h.opened(x.Header.Get("Mcp-Session-Id"), c.Version)
			}
			_, err = c.Notify(ctx, "notifications/initialized", "")
		}
	}
	if err != nil {
		_ = t.close()
		return nil, fmt.Errorf("opening with %s: %w", method, err)
	}
	c.Opening = x
	return c, nil
}

// Close ends the client. It does not end a legacy HTTP session; see Delete.
func (c *Client) Close() error { return c.t.close() }

// Call sends a request with an id of its own and the metadata of the era.
func (c *Client) Call(ctx context.Context, method, params string) (*Exchange, error) {
	return c.CallID(ctx, strconv.FormatInt(c.nextID.Add(1), 10), method, params)
}

// CallID is Call with this id, as it stands.
func (c *Client) CallID(ctx context.Context, id, method, params string) (*Exchange, error) {
	return c.Send(ctx, c.Message(id, method, params))
}

// Message renders a request with the metadata of the era; with no id, a notification.
func (c *Client) Message(id, method, params string) string {
	if c.Era == Modern && id != "" {
		params = ModernParams(params, c.caps)
	}
	msg := `{"jsonrpc":"2.0"`
	if id != "" {
		msg += `,"id":` + id
	}
	msg += `,"method":` + Quote(method)
	if params != "" {
		msg += `,"params":` + params
	}
	return msg + "}"
}

// ModernParams adds the metadata of the modern era to parameters.
func ModernParams(params, capabilities string) string {
	if params == "" {
		params = "{}"
	}
	meta := string(Field([]byte(params), "_meta"))
	if meta == "" {
		meta = "{}"
	}
	meta = addMissing(meta, metaCaps, capabilities)
	meta = addMissing(meta, metaInfo, `{"name":"mcptest","version":"1"}`)
	return Put(params, "_meta", addMissing(meta, metaVersion, Quote(ModernVersion)))
}

// Notify sends a notification.
func (c *Client) Notify(ctx context.Context, method, params string) (*Exchange, error) {
	return c.Send(ctx, c.Message("", method, params))
}

// Send sends a message as it stands and waits for the response to its id, if it has one.
func (c *Client) Send(ctx context.Context, message string) (*Exchange, error) {
	q, err := ParseRequest([]byte(message))
	if err != nil {
		return nil, err
	}
	return c.t.exchange(ctx, q)
}

// Listen opens the channel of notifications that belong to no request: the GET
// stream, a subscriptions/listen request with this filter, or the pipe itself.
func (c *Client) Listen(ctx context.Context, filter string) (*Inbox, error) {
	if c.Era == Legacy {
		return c.t.listen(ctx, nil)
	}
	id := strconv.FormatInt(c.nextID.Add(1), 10)
	q, err := ParseRequest([]byte(c.Message(id, "subscriptions/listen", `{"notifications":`+filter+`}`)))
	if err != nil {
		return nil, err
	}
	return c.t.listen(ctx, q)
}

// List follows the cursors of a list to its end and returns the definitions.
// The second result is the number of pages.
func (c *Client) List(ctx context.Context, method string) ([]json.RawMessage, int, error) {
	kinds := map[string]string{"tools/list": "tools", "prompts/list": "prompts",
		"resources/list": "resources", "resources/templates/list": "resourceTemplates"}
	defs, params := []json.RawMessage{}, "{}"
	for pages := 1; ; pages++ {
		x, err := c.Call(ctx, method, params)
		if err != nil {
			return nil, pages, err
		}
		if x.Result == nil {
			return nil, pages, fmt.Errorf("%s: %s%s", method, x.Raw, x.Body)
		}
		page, err := Elements(Field(x.Result, kinds[method]))
		if err != nil {
			return nil, pages, fmt.Errorf("%s: %w", method, err)
		}
		defs = append(defs, page...)
		cursor := Field(x.Result, "nextCursor")
		if cursor == nil {
			return defs, pages, nil
		}
		params = `{"cursor":` + string(cursor) + `}`
	}
}

// response completes an exchange from the bytes of its response.
func (x *Exchange) response(raw []byte) error {
	q, err := ParseRequest(raw)
	if err != nil {
		return fmt.Errorf("reading response %.200q: %w", raw, err)
	}
	x.Raw, x.ID, x.Result, x.Error = q.Raw, q.ID, q.Result, q.Error
	return nil
}

// Code returns the code of the JSON-RPC error, 0 if there is none.
func (x *Exchange) Code() int {
	var code int
	_ = json.Unmarshal(Field(x.Error, "code"), &code)
	return code
}
