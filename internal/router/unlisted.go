package router

import (
	"context"
	"slices"
	"strings"
	"time"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/fault"
)

// unlisted returns the configured server that a tool or prompt must belong to by its
// name, if that server has not told what it offers; "" otherwise.
func (c *Call) unlisted() string {
	if c.Method != "tools/call" && c.Method != "prompts/get" {
		return ""
	}
	name, _ := stringAt(c.Params.Raw, c.Params.Field("name"))
	best, longest := "", -1
	for server, s := range c.Gen.Servers {
		prefix := server
		if s.Prefix != nil {
			prefix = *s.Prefix
		}
		if s.Enabled && prefix != "" && len(prefix) > longest && strings.HasPrefix(name, prefix+"__") {
			best, longest = server, len(prefix)
		}
	}
	if slices.Contains(c.Gen.Catalog.Servers(), best) {
		return ""
	}
	return best
}

// aimUnlisted directs a call to a tool of a server that has not told its tools, if the
// configuration knows the tool: there may be others to call in its place.
func (c *Call) aimUnlisted(server string) {
	prefix := server
	if p := c.Gen.Servers[server].Prefix; p != nil {
		prefix = *p
	}
	name, _ := stringAt(c.Params.Raw, c.Params.Field("name"))
	own := strings.TrimPrefix(name, prefix+"__")
	if c.Method == "tools/call" && c.Gen.Servers[server].ToolOverrides[own] != nil {
		c.aim(target{Server: server, Name: own, Entry: &catalog.Entry{Kind: catalog.Tools, Server: server, Name: own}})
	}
}

// listingGrace is how long a server that has just connected has to be listed.
const listingGrace = 5 * time.Second

// awaitListing waits until a server that is starting is listed, and then gives the
// call the generation that has it. A server that has failed to start is an error at
// once, which names the cause.
func (r *Router) awaitListing(ctx context.Context, c *Call, server string) error {
	if err := r.upstreams.Await(ctx, server); err != nil {
		return err
	}
	grace := time.NewTimer(listingGrace)
	defer grace.Stop()
	for {
		news := *r.news.Load()
		c.Gen = r.Generation()
		if slices.Contains(c.Gen.Catalog.Servers(), server) {
			return nil
		}
		select {
		case <-news:
		case <-grace.C:
			return fault.Of(fault.Unreachable, server, "has connected, but not told its tools yet")
		case <-ctx.Done():
			return fault.Of(fault.KindOf(context.Cause(ctx)), server, "gave up waiting for the server to start: %w", context.Cause(ctx))
		}
	}
}
