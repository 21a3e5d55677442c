package upstream

import (
	"slices"
	"time"

	"mcp-aggregator/internal/catalog"
)

// The states of a server as people see them.
const (
	Pending   = "pending"    // starting, or restarting after a loss; no attempt has failed yet
	Connected = "connected"  // in use
	Failed    = "failed"     // the last attempt failed; others follow in the background
	NeedsAuth = "needs-auth" // it wants credentials that it has not got (HTTP 401, 403)
	Disabled  = "disabled"   // switched off by configuration or by request; it may be connected all the same
)

// The phases of a server: what its owner is doing.
const (
	PhaseDialing      = "dialing"      // connecting
	PhaseReady        = "ready"        // watching a connection
	PhaseWaiting      = "waiting"      // for the time of the next attempt
	PhaseIdle         = "idle"         // for somebody to use the server
	PhaseDisconnected = "disconnected" // for somebody to ask for a connection
)

// Status is what is known about one server. It is a snapshot and never modified.
type Status struct {
	Server string
	Type   string
	State  string    // one of the states above
	Since  time.Time // of State
	Phase  string    // what is being done about it, one of the phases above
	Lazy   bool      // started only when it is used
	Idle   bool      // not running because nobody uses it

	Sharing     string // who shares a connection: shared, session or call
	Refs        int    // callers using a connection now
	Connections int    // live ones, those of single sessions and calls included
	Restarts    int64  // connections made in place of one that was lost

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

	Asked   int64 // requests of the server to clients, since the configuration of the server changed last
	Refused int64 // those of them that reached no client, or whose call ended before the answer
	Asks    bool  // it asks on shared connections: clients that can be asked are kept apart, by the setting asks

	PID      int      // of the child process, 0 without
	InFlight int      // callers that are using the connection
	Stderr   []string // last lines of a child process
	Skipped  int64    // what it sent on this connection that was no message, or belonged to nobody
}

// current completes the published status with what changes all the time.
func (o *owner) current() *Status {
	s := *o.status.Load()
	server := o.server()
	s.Type, s.Sharing, s.Lazy = string(server.Type), server.Sharing, server.Lazy
	if now := o.orders.now(); now.hidden {
		s.State, s.Since = Disabled, now.since
	}
	if l := o.offers.listing.Load(); l != nil {
		s.Stale, s.Problems = l.Stale, l.Problems
		s.Tools, s.Prompts, s.Resources, s.Templates = len(l.Tools), len(l.Prompts), len(l.Resources), len(l.Templates)
	}
	s.Asked, s.Refused, s.Asks = o.asking.asked.Load(), o.asking.refused.Load(), o.asking.marked.Load()
	s.Connections, s.InFlight = o.dedicated.count()
	s.Refs = s.InFlight
	l := o.live.Load()
	if l == nil {
		return &s
	}
	s.Connections, s.InFlight = s.Connections+1, s.InFlight+l.users()
	s.Refs = s.InFlight
	if p, ok := l.conn.(processTransport); ok {
		s.PID, s.Stderr = p.pid(), o.maskedLines(p.stderrTail())
	}
	if c, ok := l.conn.(countingTransport); ok {
		s.Skipped = c.skippedLines()
	}
	if c, ok := l.conn.(interface{ strayMessages() int64 }); ok {
		s.Skipped += c.strayMessages()
	}
	return &s
}

// logs returns what the child process and the one before it wrote last.
func (o *owner) logs() []string {
	var lines []string
	if before := o.before.Load(); before != nil {
		lines = *before
	}
	last := o.status.Load().Stderr
	if l := o.live.Load(); l != nil {
		last = nil
		if p, ok := l.conn.(processTransport); ok {
			last = o.maskedLines(p.stderrTail())
		}
	}
	return slices.Concat(lines, last)
}
