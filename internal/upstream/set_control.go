package upstream

// The methods of this file are for people. They do not wait, and their only error is
// fault.NotFound for a server that is not configured. What they order outlasts
// changes of the configuration, except one of enabled.

// Connect makes the aggregator connect a server now: one that was disconnected, that
// is idle, or whose next attempt is due later. A disabled server stays hidden.
func (s *Set) Connect(server string) error {
	return s.order(server, true, func(next *order) { next.down = false })
}

// Disconnect ends the connection of a server until Connect, Reconnect or Enable. Its
// calls in flight may finish, for at most limits.drain. It stays listed.
func (s *Set) Disconnect(server string) error {
	return s.order(server, false, func(next *order) { next.down = true })
}

// Reconnect replaces the connection of a server by a new one. It ends an attempt
// under way and does not wait for the time of the next.
func (s *Set) Reconnect(server string) error {
	return s.order(server, true, func(next *order) {
		next.down = false
		next.again++
	})
}

// Enable makes a server available that is disabled, and connects it.
func (s *Set) Enable(server string) error {
	return s.order(server, true, func(next *order) { *next = order{again: next.again} })
}

// Disable hides a server: it is not listed and cannot be called. Its connection is
// kept.
func (s *Set) Disable(server string) error {
	return s.order(server, false, func(next *order) {
		if !next.hidden {
			next.hide(server, "is disabled by request; enable it to use it")
		}
	})
}

func (s *Set) order(server string, wanted bool, change func(*order)) error {
	o, err := s.owner(server)
	if err != nil {
		return err
	}
	if o.order(change); wanted {
		o.want()
	}
	return nil
}

// Logs returns the last lines that a server's processes have written to their
// standard error, those of the one before the present one first, without the secrets
// of its configuration.
func (s *Set) Logs(server string) ([]string, error) {
	o, err := s.owner(server)
	if err != nil {
		return nil, err
	}
	return o.logs(), nil
}
