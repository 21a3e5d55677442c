package builtin

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// tick is how often the counter grows while somebody is subscribed to it.
const tick = time.Second

// counter is a resource that changes by itself, but only while somebody looks: a timer
// runs from the first subscription to the last and no goroutine waits in between.
//
// The SDK does not report the end of a session that never unsubscribed, so each tick
// drops the sessions the server no longer has.
type counter struct {
	server *mcp.Server // set once, before the server is connected

	mu       sync.Mutex
	value    int
	watchers map[*mcp.ServerSession]bool
	timer    *time.Timer // nil while nobody is subscribed
}

func (c *counter) subscribe(_ context.Context, req *mcp.SubscribeRequest) error {
	if req.Params.URI != counterURI {
		return nil // allowed, as for any resource; the others just never change
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watchers == nil {
		c.watchers = make(map[*mcp.ServerSession]bool)
	}
	c.watchers[req.Session] = true
	if c.timer == nil {
		c.timer = time.AfterFunc(tick, c.grow)
	}
	return nil
}

func (c *counter) unsubscribe(_ context.Context, req *mcp.UnsubscribeRequest) error {
	if req.Params.URI != counterURI {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.watchers, req.Session)
	c.stopIfUnwatchedLocked()
	return nil
}

// grow is the tick: it counts, announces the change and asks for the next tick.
func (c *counter) grow() {
	if !c.count() {
		return
	}
	// The SDK bounds the time it waits for a slow client, and this is a notification:
	// a client that misses one reads the value it finds.
	_ = c.server.ResourceUpdated(context.Background(), &mcp.ResourceUpdatedNotificationParams{URI: counterURI})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Reset(tick)
	}
}

// count adds one and reports true, or stops the timer and reports false if nobody is left to see it.
func (c *counter) count() bool {
	live := make(map[*mcp.ServerSession]bool)
	for s := range c.server.Sessions() {
		live[s] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.watchers {
		if !live[s] {
			delete(c.watchers, s)
		}
	}
	c.stopIfUnwatchedLocked()
	if c.timer == nil {
		return false
	}
	c.value++
	return true
}

func (c *counter) stopIfUnwatchedLocked() {
	if len(c.watchers) == 0 && c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

func (c *counter) read(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return contents(&mcp.ResourceContents{URI: counterURI, MIMEType: "text/plain", Text: fmt.Sprint(c.value)}), nil
}
