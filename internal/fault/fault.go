// Package fault holds the closed set of ways in which a call can fail and, in one
// table, what each of them means. An error is classified once, at the edge that saw
// it; everybody above decides by kind and never by text.
package fault

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Kind is a class of failure.
type Kind uint8

// The kinds. The difference between Unreachable and Lost is a fact recorded by the
// transport: whether a byte of the request may have reached the upstream.
const (
	Internal     Kind = iota // a defect of ours
	Cancelled                // the caller went away or cancelled
	Timeout                  // the deadline of the call passed
	Unreachable              // never sent: the upstream cannot have seen it
	Lost                     // sent, and no answer came: it may have been executed
	Protocol                 // answered, but with something that is no answer
	Rejected                 // the upstream answered with an error
	RateLimited              // the upstream or a limit of ours asks to slow down
	Unauthorized             // the upstream asks for credentials (401, 403)
	Denied                   // our policy forbids it
	NotFound                 // no such server, tool, prompt or resource
	Overloaded               // a queue or limit of ours is full
	CircuitOpen              // the breaker of the tool is open
	TooLarge                 // our policy forbids results of this size
	ShuttingDown             // we are stopping
)

// Codes that say more than a kind: a call found no connection to its server. Errors
// with one of them have sent nothing, have done their waiting, and say nothing about
// the tool.
const (
	CodeRestartInProgress = "mcp_restart_in_progress" // the wait for a start or restart was too long
	CodeRestartFailed     = "mcp_restart_failed"      // the last attempt failed; others follow in the background
	CodeShuttingDown      = "mcp_shutting_down"       // no connection will come any more
)

// Error is a classified failure of something done for or with an upstream server.
type Error struct {
	Kind       Kind
	Server     string        // the upstream, "" if none is involved
	Tool       string        // the upstream's own name of the tool, "" if none
	Reason     string        // a sentence that may be shown; it holds no secrets
	RetryAfter time.Duration // when a new attempt makes sense, 0 if unknown
	Code       string        // one of the codes above in place of the kind's code word, or ""
	Attempts   int           // how often the call was tried, 0 if nobody counted
	Conn       int64         // number of the connection that was lost with the call, 0 if none was
	Safe       bool          // executing the call twice does no harm
	Final      bool          // who sent it has repeated it as often as makes sense
	Err        error         // the cause, for logs; may be nil
}

func (e *Error) Unwrap() error { return e.Err }

// Of makes an Error; format may wrap a cause with %w.
func Of(kind Kind, server, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: kind, Server: server, Reason: err.Error(), Err: errors.Unwrap(err)}
}

// KindOf returns the kind of an error: that of the Error in its chain, Cancelled or
// Timeout for bare context errors, else Internal.
func KindOf(err error) Kind {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Kind
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.Is(err, context.Canceled):
		return Cancelled
	}
	return Internal
}
