//go:build e2e && linux

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// Questions that are still open when their call is cancelled end with it, on both sides:
// the server's work stops, and the client is told to ask its user no more.
func TestCancellingACallEndsItsQuestion(t *testing.T) {
	for _, server := range []string{"pipes", "web"} {
		for _, front := range []string{"HTTP", "stdio"} {
			t.Run(fmt.Sprintf("client on %s, server %s", front, server), func(t *testing.T) {
				config := harness.Servers(map[string]harness.Config{"pipes": harness.Child(t, "curious").With("protocol", "legacy"), "web": serveCurious(t, mcptest.Legacy)})
				asked := make(chan *mcptest.Request, 1)
				opts := &mcptest.Options{Capabilities: `{"elicitation":{"form":{}}}`, Own: true, OnRequest: func(q *mcptest.Request) string {
					asked <- q
					return "" // the user thinks
				}}
				c := connectAs(t, front, config, opts)
				awaitTools(t, c, 14)
				ctx, cancel := context.WithCancel(harness.Context(t, 20*time.Second))
				defer cancel()
				ended := make(chan *mcptest.Exchange, 1)
				go func() {
					x, _ := c.CallID(ctx, `"asks"`, "tools/call", `{"name":"`+server+`__elicit","arguments":{"text":"who"}}`)
					ended <- x
				}()
				var q *mcptest.Request
				select {
				case q = <-asked:
				case <-ctx.Done():
					t.Fatal("nobody was asked")
				}
				if _, err := c.Notify(ctx, "notifications/cancelled", `{"requestId":"asks"}`); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if front == "HTTP" { // where a cancelled call's stream still ends
					x := <-ended
					if x == nil || !strings.Contains(fmt.Sprintf("%s", x.Before), `"notifications/cancelled","params":{"requestId":`+string(q.ID)) {
						t.Errorf("the client was told %s", show(x))
					}
				}
				if took := time.Since(began); took > 500*time.Millisecond {
					t.Errorf("took %v", took)
				}
				// The server is free: it answers, and asks, again.
				if x, err := c.Call(ctx, "tools/call", `{"name":"`+server+`__talk","arguments":{}}`); err != nil || x.Result == nil {
					t.Errorf("the next call: %v, %s", err, show(x))
				}
			})
		}
	}
}

// connectAs connects a legacy client to an aggregator of its own.
func connectAs(t *testing.T, front string, config harness.Config, opts *mcptest.Options) *mcptest.Client {
	t.Helper()
	ctx := harness.Context(t, 30*time.Second)
	var c *mcptest.Client
	var err error
	if front == "HTTP" {
		c, err = mcptest.ConnectHTTP(ctx, harness.Serve(t, config).URL, mcptest.Legacy, opts)
	} else {
		_, in, out := harness.StartStdio(t, config)
		c, err = mcptest.ConnectPipes(ctx, out, in, mcptest.Legacy, opts)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
