package upstream

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
)

// The methods of this file publish the phases of an owner:
//
//	dialing → ready → lost → dialing …
//	        ↘ failed ↗            any → close
//
// They run on the owner's goroutine.

// show publishes the status and, unless it is nil, a new face.
func (o *owner) show(f *face) {
	now := o.now
	o.status.Store(&now)
	if f != nil {
		if old := o.face.Swap(f); old != nil && old.changed != nil {
			close(old.changed)
		}
	}
	o.signal()
}

// enter changes the state people see and notes since when.
func (o *owner) enter(s string) {
	if o.now.State != s {
		o.now.State, o.now.Since = s, time.Now()
	}
}

// begin publishes the state before the first attempt.
func (o *owner) begin() {
	o.now = Status{Server: o.server.Name, Type: string(o.server.Type), State: Pending, Since: time.Now()}
	f := &face{changed: make(chan struct{})}
	if !o.server.Enabled {
		o.now.State = Disabled
		f = &face{err: fault.Of(fault.Unreachable, o.server.Name, "is disabled by the configuration")}
	}
	o.show(f)
}

// dialing: an attempt begins. Callers wait for the first one after a start or a
// loss; a failure before it keeps turning them away until one succeeds.
func (o *owner) dialing() {
	o.now.Attempt++
	o.now.NextAttempt = time.Time{}
	f := o.face.Load()
	switch {
	case f.err == nil:
		f = nil
	case o.now.State == Pending:
		f = &face{changed: make(chan struct{})}
	default:
		f = &face{err: f.err}
	}
	o.show(f)
}

// ready: a connection can be used.
func (o *owner) ready(l *liveConn) {
	info := l.conn.Info()
	o.enter(Connected)
	o.log.Info("server connected", "era", eraOf(info), "version", info.Version, "attempt", o.now.Attempt)
	o.now.Attempt, o.now.NextAttempt = 0, time.Time{}
	o.now.Era, o.now.Version, o.now.ServerInfo = eraOf(info), info.Version, info.ServerInfo
	o.show(&face{live: l})
}

// lost: the connection is gone and will be made anew.
func (o *owner) lost(err error, delay time.Duration) {
	o.enter(Pending)
	if fault.KindOf(err) == fault.Unauthorized {
		o.enter(NeedsAuth)
	}
	o.log.Warn("server lost", "err", o.plain(err), "next", delay.Round(time.Millisecond))
	o.stale()
	f := &face{changed: make(chan struct{})}
	if o.blame(err, delay); delay > patience {
		f = &face{err: o.absent("is being restarted", err), next: o.now.NextAttempt}
	}
	o.show(f)
}

// failed: an attempt did not bring a connection.
func (o *owner) failed(err error, delay time.Duration) {
	o.enter(Failed)
	if fault.KindOf(err) == fault.Unauthorized {
		o.enter(NeedsAuth)
	}
	level := o.log.Warn
	if o.now.LastError == o.plain(err) {
		level = o.log.Debug // the same as the last time
	}
	level("server not connected", "err", o.plain(err), "attempt", o.now.Attempt, "next", delay.Round(time.Millisecond))
	o.blame(err, delay)
	o.now.Stderr = o.maskedLines(o.dialer.tail)
	o.show(&face{err: o.absent("is not connected", err), next: o.now.NextAttempt})
}

// blame notes what went wrong and when the next attempt is due.
func (o *owner) blame(err error, delay time.Duration) {
	o.now.LastError = o.plain(err)
	o.now.NextAttempt = time.Now().Add(delay)
}

// absent makes the error for callers. Whatever the cause, their request has not
// been sent.
func (o *owner) absent(what string, cause error) *fault.Error {
	kind := fault.Unreachable
	if fault.KindOf(cause) == fault.Unauthorized {
		kind = fault.Unauthorized
	}
	return &fault.Error{Kind: kind, Server: o.server.Name, Reason: what + ": " + o.plain(cause), Err: cause}
}

// close: no connection will come any more.
func (o *owner) close(why error) {
	err := fault.Of(fault.Unreachable, o.server.Name, "was %w", errRemoved)
	if errors.Is(why, errShutdown) || errors.Is(why, context.Canceled) {
		err = fault.Of(fault.ShuttingDown, o.server.Name, "%w", errShutdown)
	}
	o.now.NextAttempt = time.Time{}
	o.show(&face{err: err})
}

// counted: there is a new listing.
func (o *owner) counted() {
	l := o.listing.Load()
	o.now.Tools, o.now.Prompts = len(l.Tools), len(l.Prompts)
	o.now.Resources, o.now.Templates = len(l.Resources), len(l.Templates)
	o.now.Problems = l.Problems
	bad := o.lists.problems()
	if !slices.Equal(bad, o.now.Degraded) {
		for _, problem := range bad {
			o.log.Warn("list not complete", "err", problem)
		}
	}
	o.now.Degraded = bad
	o.show(nil)
}

// stale marks the last known lists as such.
func (o *owner) stale() {
	if l := o.listing.Load(); l != nil {
		o.listing.Store(l.WithStale(true))
	}
}

// plain is an error as it may be shown: one line of bounded length, without the
// secrets of the server's configuration, which a server can repeat in its messages.
func (o *owner) plain(err error) string { return clip(o.masked(reasonOf(err)), maxReason) }

// sealed is the error of a call as it may leave this package: a server can repeat in
// an answer what it was sent, such as the credentials of a request it refuses.
func (o *owner) sealed(err error) error {
	var f *fault.Error
	if !errors.As(err, &f) {
		return err
	}
	safe := clip(o.masked(f.Reason), maxReason)
	if safe == f.Reason {
		return err
	}
	shown := *f
	shown.Reason, shown.Err = safe, nil
	return &shown
}

// maxReason bounds the characters of a reason.
const maxReason = 600

// masked replaces the secrets of the server's configuration.
func (o *owner) masked(s string) string {
	if o.secrets == nil {
		return s
	}
	return o.secrets.Replace(s)
}

func (o *owner) maskedLines(lines []string) []string {
	var out []string
	for _, line := range lines {
		out = append(out, o.masked(line))
	}
	return out
}

// secretsOf makes what replaces the secrets of a server; nil if it has none.
func secretsOf(s *config.Server) *strings.Replacer {
	var pairs []string
	for _, secret := range s.Secrets() {
		pairs = append(pairs, secret, "***")
	}
	if pairs == nil {
		return nil
	}
	return strings.NewReplacer(pairs...)
}
