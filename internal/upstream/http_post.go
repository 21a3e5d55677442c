package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"mcp-aggregator/internal/fault"
)

const (
	maxRedirects = 2 // a missing slash, and a path that has moved
	maxStale     = 3 // dead pooled connections one request may meet
)

// request makes a request to the connection's address with a body, unless data is
// nil. The body is a *bytes.Reader because net/http writes header and body in one go
// only if it knows that reading cannot block; and since its writer may still be
// reading when the call has ended, data is never used again for anything else.
func (t *httpConn) request(ctx context.Context, method string, header http.Header, data []byte) *http.Request {
	req := t.base.Load().WithContext(ctx)
	req.Method, req.Header = method, header
	if data != nil {
		// net/http calls GetBody to repeat a request on another connection. It does that
		// for a POST only when nothing of it was written, or when an HTTP/2 server said
		// that it has not looked at it.
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
		req.Body, _ = req.GetBody()
		req.ContentLength = int64(len(data))
	}
	return req
}

// repeat makes the same request anew, to another path of the same server if u is not
// nil.
func repeat(req *http.Request, u *url.URL) *http.Request {
	again := req.WithContext(req.Context())
	if u != nil {
		again.URL = u
	}
	if req.GetBody != nil {
		again.Body, _ = req.GetBody()
	}
	return again
}

// send sends a request and follows redirects, but not to where it has been: what has
// received the request once must not get it again. An error is one of net/http, or a
// *fault.Error for a redirect that is not followed.
func (t *httpConn) send(req *http.Request) (*http.Response, error) {
	var seen []string // the addresses that have redirected it
	for {
		resp, err := t.roundTrip(req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode < 300 || resp.StatusCode > 399 {
			t.network.heed(resp.Header)
			return resp, nil
		}
		u, err := t.redirect(req.URL, resp)
		t.drop(resp)
		if err != nil {
			return nil, err
		}
		seen = append(seen, requestTarget(req.URL))
		if len(seen) > maxRedirects || slices.Contains(seen, requestTarget(u)) {
			return nil, &fault.Error{Kind: fault.Protocol, Server: t.server, Err: &statusError{resp.StatusCode},
				Reason: "the server keeps redirecting; set its url to the final address"}
		}
		req = repeat(req, u) // a redirect was not executed
		if resp.StatusCode == http.StatusMovedPermanently || resp.StatusCode == http.StatusPermanentRedirect {
			base := *t.base.Load()
			base.URL = u
			t.base.Store(&base)
		}
	}
}

// requestTarget is what of an address the server sees.
func requestTarget(u *url.URL) string { return u.Host + u.RequestURI() }

// roundTrip sends one request. net/http repeats it when a pooled connection turns out
// to be dead before anything was written, but there are two such cases in which it
// does not do so for a POST.
func (t *httpConn) roundTrip(req *http.Request) (*http.Response, error) {
	for try := 1; ; try++ {
		resp, err := t.network.RoundTrip(req)
		if err == nil || try == maxStale || !stale(err) || req.Context().Err() != nil {
			return resp, err
		}
		req = repeat(req, nil)
	}
}

// unsent reports whether a request failed before a byte of it can have reached the
// server.
func unsent(err error) bool {
	var c *connectError
	return errors.As(err, &c) || stale(err)
}

// stale recognizes the errors of requests that came to a connection which the server
// had closed already: net/http found out before it wrote, or our socket refused to
// write. They are not exported or wrapped for comparison; should their text change,
// such a request counts as lost, which is the careful reading. Within another error
// the text of our socket's has no meaning: part of the request was sent before.
func stale(err error) bool {
	s := err.Error()
	return s == "http: server closed idle connection" || s == errServerClosed.Error() || strings.Contains(s, "readLoopPeekFailLocked")
}

// redirect says where a redirect leads. Only the same origin is followed, because
// the request carries credentials, and only when the method may stay a POST; 301 and
// 302 are what servers send for a missing slash at the end of the path.
func (t *httpConn) redirect(from *url.URL, resp *http.Response) (*url.URL, error) {
	to, err := from.Parse(resp.Header.Get("Location"))
	switch {
	case err != nil || resp.Header.Get("Location") == "" || resp.StatusCode == http.StatusSeeOther ||
		resp.StatusCode == http.StatusNotModified || resp.StatusCode == http.StatusMultipleChoices:
		return nil, t.refusal(resp, nil)
	case to.Scheme != from.Scheme || to.Host != from.Host:
		e := fault.Of(fault.Protocol, t.server, "the server redirects to %s://%s, which would get its credentials; if that is right, set url to it", to.Scheme, to.Host)
		e.Err = &statusError{resp.StatusCode}
		return nil, e
	}
	return to, nil
}

// drop gives up a response whose body says nothing. What is left of it is read, so
// that its connection can be used again, but not waited for.
func (t *httpConn) drop(resp *http.Response) {
	d := &drain{body: resp.Body}
	if resp.ContentLength == 0 || !t.task(d.run) {
		d.close()
	}
}
