package fault

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Name is how texts name a tool of a server.
func Name(server, tool string) string { return server + "." + tool }

// Error says what happened, and to which server and tool.
func (e *Error) Error() string {
	switch {
	case e.Server == "":
		return e.Reason
	case e.Tool == "":
		return fmt.Sprintf("server %q: %s", e.Server, e.Reason)
	}
	return fmt.Sprintf("server %q, tool %q: %s", e.Server, e.Tool, e.Reason)
}

// Sentence is Error for whoever made the call, a model mostly: it goes on with what
// to do next.
func (e *Error) Sentence() string {
	var b strings.Builder
	b.WriteString(e.Error())
	if e.Attempts > 1 {
		fmt.Fprintf(&b, " (%d attempts)", e.Attempts)
	}
	b.WriteString("; ")
	rule := e.Kind.Rule()
	switch {
	case rule.Executed == Perhaps && rule.Later && e.Safe:
		b.WriteString("repeating the call does no harm")
	default:
		b.WriteString(rule.Hint)
	}
	switch {
	case !e.Retryable():
	case e.RetryAfter > 0:
		b.WriteString("; try again in " + roughly(e.RetryAfter))
	default:
		b.WriteString("; try again later")
	}
	return b.String()
}

// roughly rounds a waiting time up to what a reader needs of it.
func roughly(d time.Duration) string {
	unit := time.Second
	if d < time.Second {
		unit = 100 * time.Millisecond
	}
	return ((d + unit - 1) / unit * unit).String()
}

// Describe is the error for machines, a JSON object. Its members are part of the
// interface.
func (e *Error) Describe() []byte {
	rule := e.Kind.Rule()
	d := struct {
		Code         string `json:"code"`
		Kind         string `json:"kind"`
		Retryable    bool   `json:"retryable"`
		RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
		Attempts     int    `json:"attempts,omitempty"`
		Server       string `json:"server,omitempty"`
		Tool         string `json:"tool,omitempty"`
	}{rule.Code, rule.Code, e.Retryable(), (e.RetryAfter + time.Millisecond - 1).Milliseconds(), e.Attempts, e.Server, e.Tool}
	if e.Code != "" {
		d.Code = e.Code
	}
	if e.RetryAfter <= 0 {
		d.RetryAfterMS = 0
	}
	b, err := json.Marshal(d)
	if err != nil {
		panic(err) // strings, numbers and booleans always encode
	}
	return b
}
