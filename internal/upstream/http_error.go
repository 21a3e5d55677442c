package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// failure classifies a request that got no answer. Sent says whether the server can
// have read any of it.
func (t *httpConn) failure(ctx context.Context, sent bool, err error) error {
	if f := (*fault.Error)(nil); errors.As(err, &f) {
		return f
	}
	if ctx.Err() != nil {
		if f := (*fault.Error)(nil); errors.As(context.Cause(ctx), &f) {
			return &fault.Error{Kind: f.Kind, Server: t.server, Reason: f.Reason, Err: err}
		}
		kind := fault.KindOf(context.Cause(ctx))
		if kind == fault.Internal {
			kind = fault.KindOf(ctx.Err())
		}
		reason := "the call was cancelled"
		if kind == fault.Timeout {
			reason = "no answer in the time the call has"
		}
		return &fault.Error{Kind: kind, Server: t.server, Reason: reason, Err: err}
	}
	var timeout net.Error
	switch isTimeout := errors.As(err, &timeout) && timeout.Timeout(); {
	case !sent:
		return fault.Of(fault.Unreachable, t.server, "cannot connect to %s: %w", t.base.Load().URL.Host, err)
	case isTimeout:
		return fault.Of(fault.Timeout, t.server, "no answer in the configured timeout: %w", err)
	case errors.Is(err, wire.ErrTooLarge):
		return fault.Of(fault.Protocol, t.server, "the answer is larger than limits.answer allows (%d bytes)", t.limit)
	case notHTTP(err):
		return &fault.Error{Kind: fault.Protocol, Server: t.server, Reason: "the answer is not HTTP", Err: err}
	}
	return fault.Of(fault.Lost, t.server, "the connection broke before the answer came: %w", err)
}

// notHTTP recognizes an answer that could not be read as a response. Such errors
// repeat what the server sent, so their text is for logs only. Those of net/http's
// transport are not exported.
func notHTTP(err error) bool {
	var head *headError
	var p textproto.ProtocolError
	return errors.As(err, &head) || errors.As(err, &p) || strings.Contains(err.Error(), "malformed HTTP") ||
		strings.Contains(err.Error(), "server response headers exceeded") || strings.HasPrefix(err.Error(), "http: message")
}

// garbled makes the error for an answer that is no MCP message.
func (t *httpConn) garbled(why error) error {
	return fault.Of(fault.Protocol, t.server, "the answer is not an MCP message: %w", why)
}

// refusal classifies a response that carries no JSON-RPC message; text is the
// beginning of its body.
func (t *httpConn) refusal(resp *http.Response, text []byte) error {
	status := &statusError{resp.StatusCode}
	e := &fault.Error{Kind: fault.Protocol, Server: t.server, Err: status}
	if s := printable(text); s != "" {
		e.Err = fmt.Errorf("%w: %s", status, s)
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		e.Kind = fault.Unauthorized
		e.Reason = "the server refused the credentials: " + status.Error() + challenge(resp.Header.Get("WWW-Authenticate"))
	case http.StatusTooManyRequests:
		e.Kind, e.RetryAfter = fault.RateLimited, retryAfter(resp.Header)
		e.Reason = "the server asks to slow down: " + status.Error()
	case http.StatusServiceUnavailable:
		// It may come from a proxy that lost the server after it had passed the request
		// on, so it says as little about that as any other failure. One that names a time
		// can be repeated then where that does no harm.
		if len(resp.Header["Retry-After"]) > 0 {
			e.Kind, e.RetryAfter = fault.Lost, retryAfter(resp.Header)
		}
		e.Reason = "the server is not available: " + status.Error()
	default:
		e.Reason = "the server answered " + status.Error()
		if form := printable([]byte(resp.Header.Get("Content-Type"))); form != "" {
			e.Reason += " (" + form + ")"
		}
		e.Reason += " instead of an MCP message"
	}
	return e
}

// unavailable reports whether an error comes from a 503: the server is expected back,
// and has not shown that it does not understand.
func unavailable(err error) bool {
	var s *statusError
	return errors.As(err, &s) && s.status == http.StatusServiceUnavailable
}

// byStatus reports whether the status decides what an error means, whatever the body
// says: the kinds that others react to.
func byStatus(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return true
	case http.StatusServiceUnavailable:
		return len(resp.Header["Retry-After"]) > 0
	}
	return false
}

// retryAfter reads when the server wants the next attempt: seconds or a date.
func retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// challenge describes a WWW-Authenticate header: its scheme and the realm, of an
// address only the host. The rest of it can hold anything.
func challenge(v string) string {
	scheme, params, _ := strings.Cut(strings.TrimSpace(v), " ")
	if scheme == "" || len(scheme) > 32 || strings.ContainsFunc(scheme, func(r rune) bool { return !unicode.IsLetter(r) && r != '-' }) {
		return ""
	}
	said := "; it wants " + scheme
	_, realm, _ := strings.Cut(params, `realm="`)
	realm, _, ended := strings.Cut(realm, `"`)
	if !ended || realm == "" {
		return said
	}
	if u, err := url.Parse(realm); err == nil && u.Host != "" {
		realm = u.Host
	}
	return said + " for " + printable([]byte(realm))
}

// printable makes the beginning of a text of the server fit for a log: 200 bytes, in
// one line, without control characters.
func printable(text []byte) string {
	text = text[:min(len(text), 200)]
	clean := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == unicode.ReplacementChar || !unicode.IsPrint(r):
			return -1
		}
		return r
	}, string(text))
	return strings.Join(strings.Fields(clean), " ")
}
