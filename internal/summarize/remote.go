package summarize

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A Remote is a model behind an HTTP API.
type Remote struct {
	Name  string // in the configuration; "" means Model
	Model string // as its server calls it

	// URL is the base of the API up to and including the version, as in
	// http://localhost:11434/v1; the path of the method is put behind it. "" means the
	// vendor's own. It may have a query, but no user and password.
	URL     string
	Key     string            // sent as the API wants it; "" sends none
	Headers map[string]string // besides, or in place of ours

	// Transport sends the requests; nil means one of its own, which goes through the
	// proxy that the environment names.
	Transport http.RoundTripper
}

// Bounds on what a server may send.
const (
	maxAnswer     = 1 << 20  // bytes of an answer, decompressed
	maxErrorBody  = 8 << 10  // read of what comes with a status other than 200
	maxHead       = 64 << 10 // of the header
	maxRetryAfter = 10 * time.Minute
)

// A remote is the part that all HTTP APIs share.
type remote struct {
	name    string
	model   string
	url     string // of the method
	header  http.Header
	client  *http.Client
	secrets []string // never shown
}

// open checks the settings. Base is the vendor's, method the path behind it.
func (r Remote) open(base, method string, header http.Header) (*remote, error) {
	o := &remote{name: r.Name, model: r.Model, header: header}
	if o.name == "" {
		o.name = r.Model
	}
	if o.model == "" {
		return nil, errors.New("a model needs its name")
	}
	u, err := baseURL(r.URL, base, method)
	if err != nil {
		return nil, fmt.Errorf("model %q: %w", o.name, err)
	}
	for _, values := range u.Query() {
		o.secrets = append(o.secrets, values...)
	}
	for name, value := range r.Headers {
		header.Set(name, strings.TrimSpace(value))
	}
	o.hide()
	transport := r.Transport
	if transport == nil {
		if transport, err = ownTransport(u); err != nil {
			return nil, fmt.Errorf("model %q: %w", o.name, err)
		}
	}
	o.url = u.JoinPath(method).String()
	o.client = &http.Client{
		Transport: transport,
		// Another address gets neither the key nor the data.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return o, nil
}

func baseURL(text, base, method string) (*url.URL, error) {
	if text == "" {
		text = base
	}
	u, err := url.Parse(text)
	switch {
	case err != nil: // its text repeats the URL, which may hold a password
		return nil, errors.New("url is no address")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("url must begin with http:// or https:// and name a host")
	case u.User != nil:
		return nil, errors.New("url holds a user or password; put credentials into key or headers")
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/"+method):
		return nil, fmt.Errorf("url ends in /%s; leave that away, it is put behind the url", method)
	}
	u.Fragment = ""
	return u, nil
}

func ownTransport(u *url.URL) (*http.Transport, error) {
	via, err := http.ProxyFromEnvironment(&http.Request{URL: u})
	if err != nil { // its text may hold the proxy's password
		return nil, errors.New("the proxy that the environment names cannot be used")
	}
	t := &http.Transport{
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: maxHead,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        90 * time.Second,
		ForceAttemptHTTP2:      true,
	}
	if via != nil {
		t.Proxy = http.ProxyURL(via)
	}
	return t, nil
}

// hide notes the values of the header that may be secrets. What is known to be none
// is not set yet.
func (o *remote) hide() {
	for _, values := range o.header {
		for _, v := range values {
			o.secrets = append(o.secrets, v)
			if _, credentials, ok := strings.Cut(v, " "); ok {
				o.secrets = append(o.secrets, credentials)
			}
		}
	}
}

// Name implements Model.
func (o *remote) Name() string { return o.name }

// Close closes the connections that are idle.
func (o *remote) Close() { o.client.CloseIdleConnections() }

// ask sends a request and reads the answer into d.
func (o *remote) ask(ctx context.Context, body any, a api, d *draft) *Error {
	request, cancel := context.WithCancel(ctx)
	defer cancel()
	answer, e := o.post(request, body)
	if e != nil {
		return e
	}
	defer answer.Close()
	return o.receive(ctx, answer, a, d, cancel)
}

// post sends a request and returns the body of an answer of status 200, bounded.
func (o *remote) post(ctx context.Context, body any) (io.ReadCloser, *Error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil {
		panic(err) // strings and numbers always encode
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.url, &b)
	if err != nil {
		return nil, o.failed("the address cannot be used")
	}
	req.Header = o.header.Clone()
	for name, value := range map[string]string{
		"Content-Type": "application/json",
		"Accept":       "text/event-stream, application/json",
		"User-Agent":   "mcp-aggregator",
	} {
		if req.Header.Get(name) == "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := o.client.Do(req)
	if err != nil {
		return nil, o.unsent(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, o.refusal(ctx, resp)
	}
	return &boundedBody{resp.Body, maxAnswer}, nil
}

// unsent is the error of a request that got no answer.
func (o *remote) unsent(ctx context.Context, err error) *Error {
	if ctx.Err() != nil {
		return stopped(ctx, o.name)
	}
	var wrapped *url.Error // repeats the address with its query
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	e := o.failed("could not be asked: " + o.clean(err.Error()))
	e.Away = true
	return e
}

// failed is an error of which the server has not said that it cost nothing.
func (o *remote) failed(reason string) *Error {
	return &Error{Outcome: Failed, Model: o.name, Reason: reason}
}

// broken is the error of an answer that ended too early or is none.
func (o *remote) broken(ctx context.Context, reason string) *Error {
	if ctx.Err() != nil {
		return stopped(ctx, o.name)
	}
	return &Error{Outcome: Failed, Model: o.name, Reason: o.clean(reason), Spent: true}
}

// unread is broken for an error of reading.
func (o *remote) unread(ctx context.Context, err error) *Error {
	switch {
	case errors.Is(err, errTooMuch):
		return o.broken(ctx, fmt.Sprintf("the answer is larger than %d bytes", maxAnswer))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return o.broken(ctx, "the answer ended before it was complete")
	}
	return o.broken(ctx, "the answer could not be read: "+err.Error())
}

// refusal is the error of an answer with another status than 200.
func (o *remote) refusal(ctx context.Context, resp *http.Response) *Error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if ctx.Err() != nil {
		return stopped(ctx, o.name)
	}
	reason := "answered " + strconv.Itoa(resp.StatusCode)
	if text := http.StatusText(resp.StatusCode); text != "" {
		reason += " " + text
	}
	if said := o.clean(complaint(body)); said != "" {
		reason += ": " + said
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		reason += " (check its key)"
	case http.StatusNotFound:
		reason += " (check model and url, which must include the version, as in /v1)"
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		reason += " (redirects are not followed; check its url)"
	}
	e := o.failed(reason)
	e.param = rejected(body)
	e.RetryAfter = retryAfter(resp.Header.Get("Retry-After"))
	return e
}

// retryAfter reads the header of that name: seconds or a date.
func retryAfter(value string) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = time.Until(at)
	}
	return min(max(wait, 0), maxRetryAfter)
}

var errTooMuch = errors.New("larger than may be read")

// A boundedBody fails beyond a number of bytes.
type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooMuch
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
