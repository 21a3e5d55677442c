package config

import (
	"cmp"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
)

// across checks what several settings say together, and hands general settings down to the servers that have none
// of their own. The root is the file's; what has no place in it is reported at its beginning.
func (l *loader) across(c *Config, root *node) {
	servers := root.get("servers")
	for _, s := range c.Servers {
		n := servers.get(s.Name)
		if !n.filled("call_timeout") {
			s.CallTimeout = c.CallTimeout
		}
		if r := &s.Results; c.Results.Policy != PolicyPass || c.Results.Structured != "keep" {
			r.Policy, r.Structured = cmp.Or(r.Policy, c.Results.Policy), cmp.Or(r.Structured, c.Results.Structured)
		}
		path := join("servers", s.Name)
		l.knownQueue(c, n.get("queue"), join(path, "queue"), s.Queue)
		tools := n.get("tool_overrides")
		for name, t := range s.ToolOverrides {
			at := join(join(path, "tool_overrides"), short(name))
			if t == nil {
				continue
			}
			l.knownQueue(c, tools.get(name).get("queue"), join(at, "queue"), t.Queue)
			l.knownFallbacks(c, tools.get(name).get("fallback"), join(at, "fallback"), s.Name+"."+name, t.Fallback)
		}
	}
	if c.Retry.Base > c.Retry.MaxDelay {
		l.fail(orPlace(root.get("retry").get("base")), "retry.base", "is longer than retry.max_delay (%v)", c.Retry.MaxDelay)
	}
	if c.StateDir != "" && c.StateDir != "off" {
		c.StateDir = l.absolute(c.StateDir)
	}
	l.results(c, root)
	l.admin(c, root.get("admin"))
}

// knownQueue reports a queue that is not defined.
func (l *loader) knownQueue(c *Config, at *node, path, name string) {
	if name == "" || c.Queues[name] != nil {
		return
	}
	hint, _ := didYouMean(name, slices.Sorted(maps.Keys(c.Queues)))
	if len(c.Queues) == 0 {
		hint = "; queues: {" + short(name) + ": {slots: 2}} defines it"
	}
	l.fail(orPlace(at), path, "there is no queue %q%s", short(name), hint)
}

// knownFallbacks reports targets that are no tool of a configured server, or the tool itself.
func (l *loader) knownFallbacks(c *Config, at *node, path, tool string, targets []Fallback) {
	for i, f := range targets {
		here := path + "[" + strconv.Itoa(i) + "]"
		place := at
		if at != nil && i < len(at.items) {
			place = at.items[i]
		}
		if !slices.ContainsFunc(c.Servers, func(s *Server) bool {
			return strings.HasPrefix(f.Tool, s.Name+".") && len(f.Tool) > len(s.Name)+1
		}) {
			l.fail(orPlace(place), here, "expected server.tool with one of the servers here; got %q", short(f.Tool))
		} else if f.Tool == tool {
			l.fail(orPlace(place), here, "%q cannot stand in for itself", short(f.Tool))
		}
	}
}

// minToken is the shortest token that keeps anybody out.
const minToken = 16

// admin refuses to let strangers steer the aggregator.
func (l *loader) admin(c *Config, n *node) {
	token := orPlace(n.get("token"))
	if c.Admin.Token != "" && len(c.Admin.Token) < minToken {
		l.fail(token, "admin.token", "is too short to be a secret: at least %d characters", minToken)
	}
	host, _, err := net.SplitHostPort(c.Admin.Addr)
	if err != nil || c.Admin.Token != "" {
		return
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		l.fail(orPlace(n.get("addr")), "admin.addr", "is not a loopback address, so everybody who reaches it could stop servers; set admin.token, too")
	}
}

// orPlace is a node, or the beginning of the file for a setting that came from elsewhere.
func orPlace(n *node) *node { return cmp.Or(n, place(1, 1)) }
