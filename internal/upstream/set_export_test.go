package upstream

import (
	"cmp"
	"context"
	"io"
	"net"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/wire"
)

// A Peer is a server at the other end of a pair of pipes. The connection ends when
// it returns.
type Peer func(ctx context.Context, in io.Reader, out io.Writer) error

// A Dial starts a peer, or fails as an opener would.
type Dial func(ctx context.Context, s *config.Server) (Peer, error)

// NewSet makes a set whose servers, of whatever type, are the peers that dial starts.
func NewSet(opts Options, dial Dial) *Set {
	return newSet(opts, func(config.Type) opener { return dial.open })
}

// NewSetOver makes a set whose servers are connected by the real openers, wrapped.
func NewSetOver(opts Options, wrap func(config.Type)) *Set {
	return newSet(opts, func(t config.Type) opener {
		wrap(t)
		return openerOf(t)
	})
}

// NewWebSet makes a set whose servers are connected by Streamable HTTP, over
// connections that dial makes.
func NewWebSet(opts Options, dial func(context.Context) (net.Conn, error)) *Set {
	return newSet(opts, func(config.Type) opener {
		return func(ctx context.Context, s *config.Server, o *Options, notice func(Notice)) (transport, error) {
			t, err := openHTTP(ctx, s, o, notice)
			if err == nil {
				n := t.(*httpConn).network
				n.plain = nil // it looks at sockets
				n.dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
			}
			return t, err
		}
	})
}

func (dial Dial) open(ctx context.Context, s *config.Server, o *Options, notice func(Notice)) (transport, error) {
	peer, err := dial(ctx, s)
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	m := newMux(s.Name, o.Log, notice)
	l := &builtinLink{near: near, ended: make(chan struct{})}
	l.lineLink = lineLink{newOutbox(connSink{near}, m.end), newLineReader(near, defaultLine)}
	ctx, l.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(l.ended)
		_ = peer(ctx, far, far)
		_ = far.Close()
		_ = near.Close()
	}()
	m.start(l)
	return m, nil
}

// A Dialer makes connections to one server, one after the other, as an owner does.
type Dialer struct{ d dialer }

// NewDialer returns a dialer over peers, or over the real transports if dial is nil.
func NewDialer(s *config.Server, opts *Options, dial Dial) *Dialer {
	d := dialer{server: s, opts: opts, opener: openerOf, notice: func(Notice) {}}
	if dial != nil {
		d.opener = func(config.Type) opener { return dial.open }
	}
	return &Dialer{d}
}

// Dial connects.
func (d *Dialer) Dial(ctx context.Context) (Conn, error) {
	t, err := d.d.dial(ctx, cmp.Or(d.d.server.InitTimeout, defaultInit))
	if err != nil {
		return nil, err
	}
	return t, nil
}

// ModernParams are the params of a modern request with these members.
func ModernParams(o *Options, members string) wire.Value { return modernParams(o, members) }

// RestartDelays are the pauses between attempts, without jitter.
var RestartDelays = restartDelays[:]
