package upstream

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// legacyCapabilities are what we say to every legacy server that clients can do for it.
// Its connection outlives the calls of many clients, and the tools that it lists may
// depend on what its client can do, so the set is fixed: it does not follow the clients
// of the moment; the connection of a single session declares what its client can do. A client that cannot do what is asked is a refusal of that request.
const legacyCapabilities = `{"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true}}`

// modernCapabilities are those of our own requests to modern servers, which no client is
// behind. Requests of clients carry the client's (specification 2026-07-28, basic: _meta).
const modernCapabilities = `{}`

// era verdicts of a server/discover.
type verdict uint8

const (
	speaksModern verdict = iota // revision 2026-07-28 is agreed
	speaksLegacy                // it answered, and not as a modern server: initialize may follow on the same connection
	knowsBoth                   // it answered a modern request and offers only legacy revisions
	isMute                      // no answer, or the connection broke: it may still be busy with the question
	isRefused                   // not a question of era: authorization, nobody there, no revision in common
)

// A finding is what a server/discover brought to light.
type finding struct {
	verdict
	info    *Info  // with speaksModern
	version string // the legacy revision to ask for, empty for the newest
	err     error  // why, unless speaksModern
	again   bool   // with isRefused: it named our own revision, so the question is worth repeating
}

// A handshake agrees on a protocol revision with the server behind a transport.
type handshake struct {
	t      transport
	server string
	opts   *Options
	shared bool // all messages of t share one channel

	declared []byte // capabilities for a legacy server, raw; nil: legacyCapabilities
}

// discover asks for the server's revisions in the modern way (specification
// 2026-07-28, versioning: Backward Compatibility). within bounds the wait for the
// answer; the finding is isRefused if ctx itself ended. A server that refuses the
// revision and names it among those it supports is asked once more: clients are to go on
// with a revision both know.
func (h *handshake) discover(ctx context.Context, within time.Duration) finding {
	h.t.setInfo(&Info{Era: wire.Modern, Version: wire.V20260728})
	asked, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	f := h.askOnce(ctx, asked)
	if f.again {
		f = h.askOnce(ctx, asked)
	}
	return f
}

// askOnce is one server/discover.
func (h *handshake) askOnce(ctx, asked context.Context) finding {
	reply, err := h.t.Call(asked, &Request{
		ID: NextID(), Method: "server/discover", Params: modernParams(h.opts, ""),
	})
	if err != nil {
		return h.unanswered(ctx, asked, err)
	}
	defer reply.Release()
	if reply.Err != nil {
		return h.answeredError(reply.Err)
	}
	return h.answeredResult(&reply.Result)
}

// unanswered judges a call that brought no JSON-RPC response.
func (h *handshake) unanswered(ctx, asked context.Context, err error) finding {
	switch kind := fault.KindOf(err); {
	case ctx.Err() != nil:
		return finding{verdict: isRefused, err: err}
	case asked.Err() != nil, isClosed(h.t.Done()), kind == fault.Timeout, kind == fault.Unreachable && h.shared:
		return finding{verdict: isMute, err: err}
	case kind == fault.Unauthorized, kind == fault.Unreachable, kind == fault.RateLimited, kind == fault.ShuttingDown:
		return finding{verdict: isRefused, err: err}
	default: // a status, a page of HTML, a line of garbage: it has not understood
		return finding{verdict: speaksLegacy, err: err}
	}
}

// answeredError judges an error response. Only errors that this revision has
// defined make a server modern; legacy servers answer unknown methods with any
// other code.
func (h *handshake) answeredError(e *wire.RPCError) finding {
	refused := fault.Of(fault.Rejected, h.server, "refused server/discover: %w", e)
	data := wire.Span{Hi: len(e.Data)}
	switch e.Code {
	case wire.CodeUnsupportedVersion:
		if offered := stringsOf(e.Data, wire.Field(e.Data, data, "supported")); offered != nil {
			return h.offered(offered, refused)
		}
	case wire.CodeMissingCapability:
		if wire.Field(e.Data, data, "requiredCapabilities").OK() {
			return finding{verdict: isRefused, err: refused}
		}
	case wire.CodeHeaderMismatch:
		return finding{verdict: isRefused, err: refused}
	}
	return finding{verdict: speaksLegacy, err: refused}
}

// answeredResult judges a result: a DiscoverResult, or what a server that answers
// everything made up.
func (h *handshake) answeredResult(r *wire.Object) finding {
	versions := stringsOf(r.Raw, r.Field("supportedVersions"))
	if versions == nil {
		return finding{verdict: speaksLegacy, err: fault.Of(fault.Protocol, h.server, "answered server/discover with something else")}
	}
	if !slices.Contains(versions, wire.V20260728) {
		return h.offered(versions, nil)
	}
	serverInfo := wire.Field(r.Raw, r.Field("_meta"), wire.MetaServerInfo)
	if !serverInfo.OK() {
		serverInfo = r.Field("serverInfo")
	}
	return finding{verdict: speaksModern, info: newInfo(wire.Modern, wire.V20260728, r, serverInfo)}
}

// offered judges the revisions that a server named because it does not speak
// ours: it knows both eras if one of them is a legacy revision that we speak.
func (h *handshake) offered(versions []string, err error) finding {
	if slices.Contains(versions, wire.V20260728) { // and refused it all the same
		return finding{verdict: isRefused, again: err != nil, err: err}
	}
	for _, v := range wire.LegacyVersions {
		if slices.Contains(versions, v) {
			return finding{verdict: knowsBoth, version: v, err: err}
		}
	}
	return finding{verdict: isRefused, err: fault.Of(fault.Protocol, h.server, "speaks protocol %s, we speak %s: %w",
		enumerate(versions), enumerate(slices.Concat(wire.ModernVersions, wire.LegacyVersions)), errNoRevision)}
}

// errNoRevision is in the chain when two sides that understand each other have no
// revision in common.
var errNoRevision = errors.New("no revision in common")

// initialize opens a legacy session (specification 2025-11-25, lifecycle). The
// server may answer with an older revision, and we go on with it.
func (h *handshake) initialize(ctx context.Context, version string) error {
	if version == "" {
		version = wire.LegacyVersions[0]
	}
	if now := h.t.Info(); now == nil || now.Era != wire.Legacy {
		h.t.setInfo(&Info{Era: wire.Legacy})
	}
	declared := h.declared
	if declared == nil {
		declared = []byte(legacyCapabilities)
	}
	params := append([]byte(`{"protocolVersion":"`+version+`","capabilities":`), declared...)
	params = append(params, `,"clientInfo":`...)
	params = append(appendClientInfo(params, h.opts), '}')
	reply, err := h.t.Call(ctx, &Request{ID: NextID(), Method: "initialize", Params: wire.Value{Raw: params}})
	if err != nil {
		return err
	}
	defer reply.Release()
	if reply.Err != nil {
		return fault.Of(fault.Rejected, h.server, "refused initialize: %w", reply.Err)
	}
	info, err := h.agreed(&reply.Result)
	if err != nil {
		return err
	}
	h.t.setInfo(info)
	return h.initialized(ctx)
}

// agreed reads the answer to initialize.
func (h *handshake) agreed(r *wire.Object) (*Info, error) {
	version, ok := wire.Unquote(r.Field("protocolVersion").Of(r.Raw))
	if !ok {
		return nil, fault.Of(fault.Protocol, h.server, "answered initialize without a protocol version")
	}
	if era, known := wire.EraOf(version); era == wire.Modern || !known && !olderRevision(version) {
		return nil, fault.Of(fault.Protocol, h.server, "answered initialize with protocol %q, we speak %s: %w",
			clip(version, maxVersion), enumerate(wire.LegacyVersions), errNoRevision)
	}
	return newInfo(wire.Legacy, version, r, r.Field("serverInfo")), nil
}

// initialized completes the session. Servers exist that do not like the
// notification and work all the same, so only a lost connection or missing
// credentials count.
func (h *handshake) initialized(ctx context.Context) error {
	err := h.t.Notify(ctx, "notifications/initialized", wire.Value{})
	switch fault.KindOf(err) {
	case fault.Protocol, fault.Rejected:
		if err != nil && !isClosed(h.t.Done()) && !unavailable(err) {
			h.opts.log().Warn("the server refused the notification that completes its handshake", "server", h.server, "err", err)
			return nil
		}
	}
	return err
}

// olderRevision recognises the date of a revision before those we know by name,
// such as 2024-10-07: its messages are a subset of what we speak.
func olderRevision(version string) bool {
	_, err := time.Parse(time.DateOnly, version)
	return err == nil && version < wire.LegacyVersions[0]
}

// newInfo makes an Info of its own bytes out of a handshake's result.
func newInfo(era wire.Era, version string, r *wire.Object, serverInfo wire.Span) *Info {
	info := &Info{Era: era, Version: version, Capabilities: []byte("{}")}
	if caps := r.Field("capabilities").Of(r.Raw); len(caps) > 0 && caps[0] == '{' {
		info.Capabilities = bytes.Clone(caps)
	}
	if serverInfo.OK() {
		info.ServerInfo = bytes.Clone(serverInfo.Of(r.Raw))
	}
	info.Instructions, _ = wire.Unquote(r.Field("instructions").Of(r.Raw))
	return info
}

// modernParams are the params of a request of our own to a modern server: members
// (JSON text without braces, may be empty) and the metadata that every request of
// that era carries (specification 2026-07-28, basic: _meta).
func modernParams(o *Options, members string) wire.Value {
	b := append([]byte{'{'}, members...)
	if members != "" {
		b = append(b, ',')
	}
	b = append(b, `"_meta":{"`+wire.MetaVersion+`":"`+wire.V20260728+`","`+wire.MetaClientInfo+`":`...)
	b = appendClientInfo(b, o)
	return wire.Value{Raw: append(b, `,"`+wire.MetaClientCaps+`":`+modernCapabilities+`}}`...)}
}

// appendClientInfo appends who we are.
func appendClientInfo(dst []byte, o *Options) []byte {
	version := o.Version
	if version == "" {
		version = "dev"
	}
	dst = wire.AppendQuote(append(dst, `{"name":"mcp-aggregator","version":`...), version)
	return append(dst, '}')
}

// stringsOf reads the strings of a JSON array; nil if there is no array.
func stringsOf(raw []byte, s wire.Span) []string {
	if !s.OK() || raw[s.Lo] != '[' {
		return nil
	}
	list := []string{}
	for e := range wire.Elements(raw, s) {
		if v, ok := wire.Unquote(e.Of(raw)); ok {
			list = append(list, v)
		}
	}
	return list
}

// maxVersion bounds what a message repeats of a foreign version.
const maxVersion = 40

// enumerate renders versions for a message.
func enumerate(list []string) string {
	const most = 10
	var b strings.Builder
	for i, s := range list[:min(len(list), most)] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(clip(s, maxVersion))
	}
	if len(list) > most {
		b.WriteString(", ...")
	}
	if len(list) == 0 {
		return "no revision at all"
	}
	return b.String()
}

// clip makes a foreign text fit for a message: one line, at most so many characters.
func clip(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}

// isRejection reports whether the server answered with a JSON-RPC error.
func isRejection(err error) bool {
	var rpc *wire.RPCError
	return errors.As(err, &rpc)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
