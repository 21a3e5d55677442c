package upstream

import (
	"time"

	"mcp-aggregator/internal/catalog"
)

// The states of a server as people see them.
const (
	Pending   = "pending"    // starting, or restarting after a loss; no attempt has failed yet
	Connected = "connected"  // in use
	Failed    = "failed"     // the last attempt failed; others follow in the background
	NeedsAuth = "needs-auth" // it wants credentials that it has not got (HTTP 401, 403)
	Disabled  = "disabled"   // switched off by configuration
)

// Status is what is known about one server. It is a snapshot and never modified.
type Status struct {
	Server string
	Type   string
	State  string    // one of the states above
	Since  time.Time // of State

	Era        string // legacy or modern, of the last connection; empty before the first
	Version    string // protocol revision
	ServerInfo []byte // raw JSON as the server sent it, nil if it sent none

	Tools, Prompts, Resources, Templates int
	Stale                                bool              // the counts are those of the last connection
	Problems                             []catalog.Problem // definitions that were rejected or are doubtful
	Degraded                             []string          // lists that could not be read, or not to their end, and why

	LastError   string    // why the last attempt or connection ended; stays after recovery
	Attempt     int       // number of the attempt that runs or ran last, 0 while connected
	NextAttempt time.Time // zero unless the owner is waiting

	PID      int      // of the child process, 0 without
	InFlight int      // callers that are using the connection
	Stderr   []string // last lines of a child process
	Skipped  int64    // what it sent on this connection that was no message, or belonged to nobody
}

// current completes the published status with what changes all the time.
func (o *owner) current() *Status {
	s := *o.status.Load()
	if l := o.listing.Load(); l != nil {
		s.Stale = l.Stale
	}
	l := o.face.Load().live
	if l == nil {
		return &s
	}
	s.InFlight = l.users()
	if p, ok := l.conn.(processTransport); ok {
		s.PID, s.Stderr = p.pid(), o.maskedLines(p.stderrTail())
	}
	if c, ok := l.conn.(countingTransport); ok {
		s.Skipped = c.skippedLines()
	}
	return &s
}
