package upstream_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

func toolDef(name string) string {
	return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name)
}

func toolDefs(n int) []string {
	defs := make([]string, n)
	for i := range defs {
		defs[i] = toolDef(fmt.Sprint("t", i))
	}
	return defs
}

// rawServer is a legacy server with tools and nothing else.
func rawServer(names ...string) *mcptest.Raw {
	r := &mcptest.Raw{Era: mcptest.Legacy, Capabilities: `{"tools":{"listChanged":true}}`}
	for _, n := range names {
		r.Tools = append(r.Tools, toolDef(n))
	}
	return r
}

func stdio(name string) *config.Server {
	s := config.DefaultServer(name)
	s.Type, s.Command = config.TypeStdio, name
	return s
}

// always starts the same peer.
func always(p *mcptest.Raw) upstream.Dial {
	return func(context.Context, *config.Server) (upstream.Peer, error) { return p.Serve, nil }
}

// byName starts the peer of each server.
func byName(peers map[string]*mcptest.Raw) upstream.Dial {
	return func(_ context.Context, s *config.Server) (upstream.Peer, error) { return peers[s.Name].Serve, nil }
}

// options are the limits that a configuration ships with.
func options() upstream.Options {
	return upstream.Options{Limits: config.Default().Limits, Version: "1"}
}

// newSet makes a set that is closed at the end of the test, which must leave nothing
// running.
func newSet(t *testing.T, dial upstream.Dial, servers ...*config.Server) *upstream.Set {
	t.Helper()
	return newSetWith(t, options(), dial, servers...)
}

func newSetWith(t *testing.T, opts upstream.Options, dial upstream.Dial, servers ...*config.Server) *upstream.Set {
	t.Helper()
	s := upstream.NewSet(opts, dial)
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("closing the set: %v", err)
		}
	})
	s.Apply(servers)
	return s
}

func statusOf(t *testing.T, s *upstream.Set, server string) *upstream.Status {
	t.Helper()
	for _, st := range s.Status() {
		if st.Server == server {
			return st
		}
	}
	t.Fatalf("no status of %s", server)
	return nil
}

// toolsOf returns the names of the tools in the listing of a server, "-" without one.
func toolsOf(s *upstream.Set, server string) string {
	for _, l := range s.Listings() {
		if l.Server != server {
			continue
		}
		names := []string{}
		for _, item := range l.Tools {
			names = append(names, item.Name)
		}
		return strings.Join(names, " ")
	}
	return "-"
}

// call calls a tool through the set.
func call(ctx context.Context, s *upstream.Set, server, name string) error {
	return s.Use(ctx, server, "", func(c upstream.Conn) error {
		reply, err := c.Call(ctx, &upstream.Request{ID: upstream.NextID(), Method: "tools/call", Name: name,
			Params: wire.Value{Raw: []byte(`{"name":"` + name + `","arguments":{}}`)}})
		if err == nil && reply.Err != nil {
			err = reply.Err
		}
		return err
	})
}

// drained reports whether Changed has brought something, and takes it.
func drained(s *upstream.Set) bool {
	select {
	case <-s.Changed():
		return true
	default:
		return false
	}
}

func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
