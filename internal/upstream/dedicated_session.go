package upstream

import (
	"context"
	"strings"

	"mcp-aggregator/internal/wire"
)

// What passes between the client of a session and the server on the session's own
// connection beside calls.

// ofSession reports whether the connection belongs to a session, and not to one call or
// to calls without a session.
func (p *solo) ofSession() bool {
	return p.session != "" && !strings.HasPrefix(p.session, placePrefix)
}

// asks returns what asks the session's client outside of calls, nil if nobody can.
func (p *solo) asks() func(Ask) bool {
	if !p.ofSession() || p.o.opts.Ask == nil {
		return nil
	}
	return func(a Ask) bool { return p.o.opts.Ask(p.o.name, p.session, a) }
}

// declared returns the capabilities of the session's client as its server is told them,
// nil if they are not known. Tasks of clients are not passed on, so nobody is promised
// them.
func (p *solo) declared() []byte {
	if !p.ofSession() || p.o.opts.Capabilities == nil {
		return nil
	}
	caps, ok := p.o.opts.Capabilities(p.session)
	switch {
	case !ok:
		return nil
	case len(caps) == 0 || caps[0] != '{':
		return []byte(`{}`)
	}
	tasks := wire.Without(wire.Members(caps, wire.Span{Hi: len(caps)}), func(m wire.Member) bool {
		return wire.KeyIs(m.Key.Of(caps), "tasks")
	})
	v := wire.Value{Raw: caps}.With(tasks...)
	return v.Bytes()
}

// RootsChanged tells the legacy servers that have a connection for this session alone
// that the roots of its client have changed. Several such news may come as one. It does
// not wait.
func (s *Set) RootsChanged(session string) {
	if session == "" {
		return
	}
	for _, o := range s.roster.Load().order {
		if p := o.dedicated.find(session); p != nil {
			p.roots.Store(true)
			p.nudge()
		}
	}
}

// tellRoots tells the server that the roots of the session's client have changed, if
// they have.
func (p *solo) tellRoots(l *liveConn) {
	if !p.roots.Swap(false) || l.conn.Info().Era == wire.Modern {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, heedTimeout)
	defer cancel()
	err := p.o.guard("telling of roots", func() error { return l.conn.Notify(ctx, "notifications/roots/list_changed", wire.Value{}) })
	if err != nil {
		p.o.log.Debug("telling a server that the roots of a session have changed", "err", p.o.plain(err))
	}
}
