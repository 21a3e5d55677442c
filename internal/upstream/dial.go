package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// openerOf returns what connects servers of a type.
func openerOf(t config.Type) opener {
	switch t {
	case config.TypeStdio:
		return openStdio
	case config.TypeHTTP, config.TypeClaudeAI:
		return openHTTP
	case config.TypeSSE:
		return openSSE
	case config.TypeWebSocket:
		return openWebSocket
	case config.TypeBuiltin:
		return openBuiltin
	}
	return func(_ context.Context, s *config.Server, _ *Options, _ func(Notice)) (transport, error) {
		return nil, fault.Of(fault.Internal, s.Name, "has the unknown type %q", s.Type)
	}
}

// A dialer makes connections to one server, one after the other, and remembers
// between them what the server turned out to be. It is used by one goroutine.
type dialer struct {
	server *config.Server
	opts   *Options
	opener func(config.Type) opener
	notice func(Notice)
	asking *asking // nil in tests of the dialer alone
	alone  bool    // for connections that serve one session or call

	outside  func(Ask) bool // asks the client of that session outside of calls; nil: nobody can
	declared []byte         // what we declare to a legacy server, raw; nil: all that clients may be able to do

	known memory
	tail  []string // the last stderr lines of a process whose start failed
}

// A memory says what an earlier attempt found out about a server. The era is a
// property of the server (specification 2026-07-28, versioning), so it is not
// asked for again while it holds.
type memory struct {
	era wire.Era
	is  certainty
	sse bool // Streamable HTTP was refused, the older HTTP+SSE works
}

type certainty uint8

const (
	unknown certainty = iota
	guessed           // silence or death on the modern question: legacy until it says otherwise
	proven
)

// dial connects: transport, then handshake, all within limit, which is at most
// init_timeout.
func (d *dialer) dial(ctx context.Context, limit time.Duration) (transport, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTooSlow)
	defer cancel()
	a := &attempt{dialer: d}
	done := false
	defer func() {
		if !done { // also when something panics: there may be a process behind it
			a.drop(ctx)
		}
	}()
	if err := a.run(ctx); err != nil {
		err = a.death(ctx, err)
		d.tail = nil
		if p, ok := a.t.(processTransport); ok {
			d.tail = p.stderrTail()
		}
		if errors.Is(context.Cause(ctx), errTooSlow) && !final(err) {
			err = &fault.Error{Kind: fault.Timeout, Server: d.server.Name, Err: err,
				Reason: fmt.Sprintf("did not %s within %v%s%s%s", a.doing, limit, d.nameLimit(limit), skippedOutput(a.t), lastWords(d.tail))}
		}
		return nil, d.withRemedy(err)
	}
	done = true
	return a.t, nil
}

// death words the end of a process that ended instead of answering. It shows in ways
// that depend on who notices first: the writer a broken pipe, the reader the end of
// the output. What counts is how the process ended, which is known a moment later.
func (a *attempt) death(ctx context.Context, err error) error {
	_, local := a.t.(processTransport)
	if kind := fault.KindOf(err); !local || kind != fault.Lost && kind != fault.Unreachable {
		return err
	}
	select {
	case <-a.t.Done():
	case <-time.After(deathGrace):
		return err
	case <-ctx.Done():
		return err
	}
	return &fault.Error{Kind: fault.Unreachable, Server: a.server.Name, Err: err,
		Reason: fmt.Sprintf("did not %s: %v", a.doing, a.t.Err())}
}

// deathGrace is how long it may take to learn how a process has ended.
const deathGrace = exitGrace + 2*outputGrace

// nameLimit names the setting that a person can change.
func (d *dialer) nameLimit(limit time.Duration) string {
	if limit < cmp.Or(d.server.InitTimeout, defaultInit) {
		return ""
	}
	return " (init_timeout)"
}

// defaultInit is init_timeout where the configuration does not say.
const defaultInit = 30 * time.Second

// withRemedy adds what a person can do about a remote server that is there and does
// not let us in, or is not what the address promises.
func (d *dialer) withRemedy(err error) error {
	var f *fault.Error
	if !errors.As(err, &f) || d.server.URL == "" {
		return err
	}
	said := *f
	switch {
	case f.Kind == fault.Unauthorized:
		said.Reason += "; check headers and bearer_token"
	case f.Kind == fault.Unreachable:
		said.Reason += "; check that the server is running and that url is right"
	case f.Kind == fault.Protocol && !errors.Is(err, errNoRevision) && !unavailable(err):
		said.Reason += "; check url"
	default:
		return err
	}
	said.Err = err
	return &said
}

// skippedOutput mentions what the server sent in the place of messages.
func skippedOutput(t transport) string {
	c, ok := t.(countingTransport)
	if !ok || c.skippedLines() == 0 {
		return ""
	}
	return fmt.Sprintf("; skipped %d lines of its output that are not JSON-RPC messages", c.skippedLines())
}

// lastWords quotes the end of what a process wrote to standard error, which often
// says what it is waiting for.
func lastWords(tail []string) string {
	if len(tail) == 0 {
		return ""
	}
	return "; its last line on standard error: " + clip(tail[len(tail)-1], 200)
}

var errTooSlow = errors.New("init_timeout passed")

// An attempt is one run of dial. It owns its transport until dial hands it out.
type attempt struct {
	*dialer
	t     transport // nil before open and after drop
	typ   config.Type
	doing string // what the server is expected to do, for the message about time-outs
}

func (a *attempt) handshake() *handshake {
	return &handshake{t: a.t, server: a.server.Name, opts: a.opts, shared: a.shared(), declared: a.declared}
}

func (a *attempt) run(ctx context.Context) error {
	typ := a.server.Type
	if a.known.sse {
		typ = config.TypeSSE
	}
	if err := a.open(ctx, typ); err != nil {
		a.known.sse = false
		return err
	}
	switch {
	case a.server.Protocol == "modern":
		return a.modernOnly(ctx)
	case a.server.Protocol == "legacy", typ == config.TypeSSE:
		return a.legacy(ctx, finding{verdict: speaksLegacy})
	case a.known.is != unknown && a.known.era == wire.Legacy:
		return a.asBefore(ctx)
	}
	return a.ask(ctx)
}

// open connects a transport in place of the one before.
func (a *attempt) open(ctx context.Context, typ config.Type) error {
	a.drop(ctx)
	a.doing = "accept a connection"
	if typ == config.TypeStdio {
		a.doing = "start"
	}
	t, err := a.opener(typ)(ctx, a.server, a.opts, a.notice)
	if err != nil {
		return err
	}
	if q, ok := t.(askingTransport); ok {
		q.questions().adopt(a.asking, a.alone, a.outside)
	}
	a.t, a.typ = t, typ
	return nil
}

// drop closes the transport of an attempt that goes on without it. The server has
// no session yet, so it gets little time.
func (a *attempt) drop(ctx context.Context) {
	if a.t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := a.t.Close(ctx); err != nil {
		a.opts.log().Debug("closing a connection without a session", "server", a.server.Name, "err", err)
	}
	a.t = nil
}

// shared reports whether all messages of the transport share one channel, on which
// a late answer or a confused peer outlives the question. HTTP has one per request.
func (a *attempt) shared() bool { return a.typ != config.TypeHTTP && a.typ != config.TypeClaudeAI }

// modernOnly is the handshake of protocol: modern.
func (a *attempt) modernOnly(ctx context.Context) error {
	a.doing = "answer server/discover"
	f := a.handshake().discover(ctx, cmp.Or(a.server.InitTimeout, defaultInit))
	if f.verdict == speaksModern {
		a.t.setInfo(f.info)
		return nil
	}
	if final(f.err) || f.verdict == isMute || ctx.Err() != nil {
		return f.err
	}
	return &fault.Error{Kind: fault.Protocol, Server: a.server.Name, Err: f.err,
		Reason: fmt.Sprintf("does not speak protocol %s (%s); set protocol: auto", wire.V20260728, reasonOf(f.err))}
}

// ask finds the era out: a modern question first, under a limit of its own.
func (a *attempt) ask(ctx context.Context) error {
	a.doing = "answer server/discover"
	f := a.handshake().discover(ctx, cmp.Or(a.opts.Limits.Discover, 3*time.Second))
	before := a.known
	a.known = memory{}
	switch f.verdict {
	case speaksModern:
		a.known = memory{era: wire.Modern, is: proven}
		a.t.setInfo(f.info)
		return nil
	case isRefused:
		a.known = before
		return f.err
	case isMute:
		if before.is == proven && before.era == wire.Modern { // a modern server that has trouble, not a legacy one; the next attempt asks again
			return f.err
		}
		a.known = memory{era: wire.Legacy, is: guessed}
	}
	if a.shared() && f.verdict != speaksLegacy {
		if err := a.open(ctx, a.typ); err != nil {
			return err
		}
	}
	return a.legacy(ctx, f)
}

// legacy runs initialize after a finding said so, with the ways out when the
// server refuses it.
func (a *attempt) legacy(ctx context.Context, f finding) error {
	a.doing = "answer initialize"
	err := a.handshake().initialize(ctx, f.version)
	if err != nil && a.shared() && f.err != nil && f.verdict == speaksLegacy && !final(err) && ctx.Err() == nil {
		// The modern question may have upset it: once more on a fresh connection.
		if err := a.open(ctx, a.typ); err != nil {
			return err
		}
		a.doing = "answer initialize"
		err = a.handshake().initialize(ctx, f.version)
	}
	switch {
	case err == nil:
		a.known = memory{era: wire.Legacy, is: proven, sse: a.typ == config.TypeSSE && a.server.Type != config.TypeSSE}
		return nil
	case f.verdict == isMute && isRejection(err):
		return a.lateModern(ctx, err)
	case a.server.Type == config.TypeHTTP && a.typ == config.TypeHTTP && maybeOldSSE(err):
		return a.oldSSE(ctx, err)
	}
	return err
}

// asBefore is the handshake with a server that was legacy last time.
func (a *attempt) asBefore(ctx context.Context) error {
	a.doing = "answer initialize"
	err := a.handshake().initialize(ctx, "")
	switch {
	case err == nil:
		a.known.is = proven
	case isRejection(err):
		return a.lateModern(ctx, err)
	case answered(err):
		a.known = memory{} // not the server it was: the next attempt asks again
	}
	return err
}

// lateModern asks again about the modern era: the server was too slow for the
// first question, or has been updated since, and refuses initialize in so many
// words.
func (a *attempt) lateModern(ctx context.Context, refused error) error {
	a.doing = "answer server/discover"
	f := a.handshake().discover(ctx, cmp.Or(a.opts.Limits.Discover, 3*time.Second))
	a.known = memory{}
	if f.verdict != speaksModern {
		return refused
	}
	a.known = memory{era: wire.Modern, is: proven}
	a.t.setInfo(f.info)
	return nil
}

// oldSSE tries the transport of revision 2024-11-05 at the same address
// (specification 2026-07-28, Streamable HTTP: Backward Compatibility).
func (a *attempt) oldSSE(ctx context.Context, refused error) error {
	if err := a.open(ctx, config.TypeSSE); err != nil {
		if final(err) || ctx.Err() != nil {
			return err
		}
		return &fault.Error{Kind: fault.KindOf(refused), Server: a.server.Name, Err: errors.Join(refused, err),
			Reason: fmt.Sprintf("%s, and offers no event stream of the older HTTP+SSE transport either", reasonOf(refused))}
	}
	return a.legacy(ctx, finding{verdict: speaksLegacy})
}

// maybeOldSSE reports whether a refusal of Streamable HTTP is one that a server of
// the older transport gives: a client error about the request, without a message
// of the protocol.
func maybeOldSSE(err error) bool {
	var s *statusError
	if !errors.As(err, &s) {
		return false
	}
	switch s.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return s.status >= 400 && s.status < 500
}

// final reports whether an error is about something else than the era, so that no
// other way of asking can help.
func final(err error) bool {
	switch fault.KindOf(err) {
	case fault.Unauthorized, fault.RateLimited, fault.ShuttingDown, fault.Denied:
		return true
	}
	return errors.Is(err, errNoRevision)
}

// answered reports whether an error says that the server is there and did not
// understand, rather than that it is slow, gone or wants credentials.
func answered(err error) bool {
	kind := fault.KindOf(err)
	return (kind == fault.Protocol || kind == fault.Rejected) && !unavailable(err)
}

// reasonOf is the sentence of an error, without the server's name where the error
// that is being made names it already.
func reasonOf(err error) string {
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Reason
	}
	return err.Error()
}

// log returns the logger, which may be left out.
func (o *Options) log() *slog.Logger {
	if o.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Log
}
