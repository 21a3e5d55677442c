package config

import (
	"errors"
	"net"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"mcp-aggregator/internal/filter"
)

// Checks of single values. Errors say what is expected; the caller adds what was written.

// checkEach checks an element of a list by the "each" tag of its setting.
func checkEach(each, s string) error {
	switch each {
	case "host":
		return checkHost(s)
	case "origin":
		return checkOrigin(s)
	case "glob":
		return checkGlob(s)
	case "forward":
		return checkForward(s)
	case "maskset":
		return checkChoice(s, MaskSets)
	case "maskcode":
		return checkChoice(s, MaskCodes)
	}
	return nil
}

// choiceError keeps the guess apart, which reads best at the end.
type choiceError struct{ want, hint string }

func (e *choiceError) Error() string { return e.want + e.hint }

func checkChoice(s string, choices []string) error {
	if slices.Contains(choices, s) {
		return nil
	}
	hint, _ := didYouMean(s, choices)
	return &choiceError{"expected " + oneOf(choices), hint}
}

func checkAddr(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return errors.New("expected host:port such as 127.0.0.1:8080, or :8080 for all interfaces")
	}
	if port != "0" && !validPort(port) {
		return errors.New("the port must be a number from 0 to 65535")
	}
	return nil
}

func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

func checkPath(s string) error {
	if !strings.HasPrefix(s, "/") || strings.ContainsAny(s, "?#{} ") || s != "/" && path.Clean(s) != s {
		return errors.New("expected a path that begins with / and does not end with one, such as /mcp")
	}
	return nil
}

func checkHost(s string) error {
	host := s
	if h, port, err := net.SplitHostPort(s); err == nil {
		if !validPort(port) {
			return errors.New("the port must be a number from 1 to 65535")
		}
		host = h
	}
	host = strings.Trim(host, "[]")
	if host == "" || strings.ContainsAny(host, "/ \t*@?#") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
		return errors.New("expected a host name such as mcp.example.com, or host:port")
	}
	return nil
}

func checkOrigin(s string) error {
	if s == "*" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return errors.New("expected scheme://host or scheme://host:port such as https://app.example.com, or *")
	}
	return nil
}

// checkGlob accepts what the filter does: * ? [a-z] and \ before a character that stands for itself.
func checkGlob(s string) error {
	if s == "" {
		return errors.New("an empty pattern matches nothing; remove it")
	}
	if _, err := filter.Compile(s); err != nil {
		return errors.New(`not a valid pattern: a [ needs its ], and a \ something after it`)
	}
	return nil
}

// checkForward refuses to pass on what would hand the client's identity to an upstream.
func checkForward(s string) error {
	lower := strings.ToLower(s)
	switch {
	case !validToken(s):
		return errors.New("not a header name")
	case lower == "authorization" || lower == "cookie" || lower == "proxy-authorization":
		return errors.New("credentials of a client are never passed on; give the server its own in headers or bearer_token")
	case ownHeader(lower):
		return errors.New("is set by the aggregator itself")
	}
	return nil
}

// ownHeader reports whether a header belongs to the protocol or to this hop (lower-case name).
func ownHeader(lower string) bool {
	switch lower {
	case "accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "host", "keep-alive",
		"last-event-id", "te", "trailer", "transfer-encoding", "upgrade", "proxy-connection":
		return true
	}
	return strings.HasPrefix(lower, "mcp-") || strings.HasPrefix(lower, "sec-websocket-")
}

// validToken is a token of RFC 9110 section 5.6.2.
func validToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r >= 0x80 || !isAlnum(byte(r)) && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

func validHeaderValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
