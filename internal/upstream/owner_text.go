package upstream

import (
	"strings"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
)

// settings are the configuration of a server with what takes its secrets out of
// texts. An Apply may replace them under a connection.
type settings struct {
	*config.Server
	secrets *strings.Replacer // nil if there are none
}

func newSettings(s *config.Server) *settings { return &settings{s, secretsOf(s)} }

// plain is an error as it may be shown: one line of bounded length, without the
// secrets of the server's configuration, which a server can repeat in its messages.
func (o *owner) plain(err error) string { return clip(o.masked(reasonOf(err)), maxReason) }

// sealed is the error f of a call, found in err, as it may leave this package: a server
// can repeat in an answer what it was sent, such as the credentials of a request it
// refuses. One that was lost with its connection bears the number of that.
func (o *owner) sealed(err error, f *fault.Error, conn int64) error {
	safe := clip(o.masked(f.Reason), maxReason)
	if safe == f.Reason && f.Kind != fault.Lost {
		return err
	}
	shown := *f
	if safe != f.Reason {
		shown.Reason, shown.Err = safe, nil
	}
	if f.Kind == fault.Lost {
		shown.Conn = conn
	}
	return &shown
}

// maxReason bounds the characters of a reason.
const maxReason = 600

// masked replaces the secrets of the server's configuration, and what else is not to be
// shown of what it says.
func (o *owner) masked(s string) string {
	if secrets := o.offers.settings.Load().secrets; secrets != nil {
		s = secrets.Replace(s)
	}
	if o.opts.Mask != nil {
		s = o.opts.Mask(o.name, s)
	}
	return s
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
