//go:build e2e && linux

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// lively is a server that does on request what servers do by themselves: its
// tool grow adds a tool and says so, touch says that a resource was updated,
// talk logs before it answers, hang never answers, told says which calls hung and
// which of them were cancelled.
func lively(era mcptest.Era, uri string) *mcptest.Raw {
	tool := func(name string) string { return `{"name":"` + name + `","inputSchema":{"type":"object"}}` }
	raw := &mcptest.Raw{Era: era, Resources: []string{`{"uri":"` + uri + `","name":"r"}`},
		Tools: []string{tool("grow"), tool("touch"), tool("talk"), tool("hang"), tool("told")}}
	raw.Answer = func(q *mcptest.Request) *mcptest.Answer {
		if q.Method != "tools/call" {
			return nil
		}
		switch q.Name {
		case "grow":
			raw.Change(func(r *mcptest.Raw) { r.Tools = append(r.Tools, tool(fmt.Sprintf("grown%d", len(r.Tools)))) })
			raw.Notify("notifications/tools/list_changed", "")
		case "touch":
			raw.Notify("notifications/resources/updated", `{"uri":"`+uri+`"}`)
		case "talk":
			return &mcptest.Answer{Before: []string{
				`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":{"n":1.0}}}`}}
		case "hang":
			return &mcptest.Answer{Silent: true}
		case "told":
			return &mcptest.Answer{Result: `{"content":[{"type":"text","text":` + mcptest.Quote(recordsOf(raw)) + `}]}`}
		}
		return nil
	}
	return raw
}

// A cell is one way through the aggregator.
type cell struct {
	server  string // hl, hm, sl, sm: transport and era of the server
	client  *mcptest.Client
	onPipes bool         // the client, that is
	raw     *mcptest.Raw // the server, if it is on HTTP
}

// throughEveryCell runs f for each combination of server and client.
func throughEveryCell(t *testing.T, f func(t *testing.T, c cell)) {
	raws := map[string]*mcptest.Raw{"hl": lively(mcptest.Legacy, "r://hl"), "hm": lively(mcptest.Modern, "r://hm")}
	config := harness.Servers(map[string]harness.Config{
		"hl": listen(t, raws["hl"]), "hm": listen(t, raws["hm"]),
		"sl": harness.Child(t, "lively legacy"), "sm": harness.Child(t, "lively modern"),
	})
	a := harness.Serve(t, config)
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		onHTTP := a.Connect(t, era)
		awaitServers(t, onHTTP, behind)
		for _, server := range behind {
			t.Run(fmt.Sprintf("%s client on HTTP, server %s", era, server), func(t *testing.T) {
				f(t, cell{server, onHTTP, false, raws[server]})
			})
		}
	}
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		_, onPipes := harness.ServeStdio(t, harness.Servers(map[string]harness.Config{
			"sl": harness.Child(t, "lively legacy"), "sm": harness.Child(t, "lively modern")}), era)
		awaitServers(t, onPipes, []string{"sl", "sm"})
		for _, server := range []string{"sl", "sm"} {
			t.Run(fmt.Sprintf("%s client on stdio, server %s", era, server), func(t *testing.T) {
				f(t, cell{server, onPipes, true, nil})
			})
		}
	}
}

// awaitServers waits until a tool of each server is listed.
func awaitServers(t *testing.T, c *mcptest.Client, servers []string) {
	t.Helper()
	harness.Eventually(t, 10*time.Second, "all servers are listed", func() bool {
		tools, _, err := c.List(t.Context(), "tools/list")
		if err != nil {
			t.Fatal(err)
		}
		all := fmt.Sprintf("%s", tools)
		return !slices.ContainsFunc(servers, func(s string) bool { return !strings.Contains(all, `"`+s+`__grow"`) })
	})
}

// call calls a tool of the cell's server.
func (c cell) call(t *testing.T, tool, meta string) *mcptest.Exchange {
	t.Helper()
	x, err := c.client.Call(harness.Context(t, 5*time.Second), "tools/call",
		`{"name":"`+c.server+`__`+tool+`","arguments":{},"_meta":`+meta+`}`)
	if err != nil || x.Result == nil {
		t.Fatalf("calling %s: %v, %s", tool, err, show(x))
	}
	return x
}

// listenFor opens the client's stream.
func (c cell) listenFor(t *testing.T, ctx context.Context, filter string) *mcptest.Inbox {
	t.Helper()
	inbox, err := c.client.Listen(ctx, filter)
	if err != nil {
		t.Fatal(err)
	}
	if c.client.Era == mcptest.Modern {
		if _, err := inbox.Await(ctx, "notifications/subscriptions/acknowledged"); err != nil {
			t.Fatal(err)
		}
	}
	return inbox
}

func TestListChangesReachClients(t *testing.T) {
	throughEveryCell(t, func(t *testing.T, c cell) {
		ctx := harness.Context(t, 10*time.Second)
		before, _, err := c.client.List(ctx, "tools/list")
		if err != nil {
			t.Fatal(err)
		}
		inbox := c.listenFor(t, ctx, `{"toolsListChanged":true}`)
		c.call(t, "grow", "{}")
		// A change of another server may be told first: wait for ours.
		for {
			if _, err := inbox.Await(ctx, "notifications/tools/list_changed"); err != nil {
				t.Fatal(err)
			}
			after, _, err := c.client.List(ctx, "tools/list")
			if err != nil {
				t.Fatal(err)
			}
			if len(after) > len(before) {
				return
			}
		}
	})
}

func TestResourceUpdatesReachSubscribers(t *testing.T) {
	throughEveryCell(t, func(t *testing.T, c cell) {
		ctx := harness.Context(t, 10*time.Second)
		uri := "r://" + c.server
		inbox := c.listenFor(t, ctx, `{"resourceSubscriptions":["`+uri+`"]}`)
		if c.client.Era == mcptest.Legacy {
			if x, err := c.client.Call(ctx, "resources/subscribe", `{"uri":"`+uri+`"}`); err != nil || x.Result == nil {
				t.Fatalf("subscribing: %v, %s", err, show(x))
			}
		}
		// Over HTTP the subscription upstream may take a moment; the notification is sent once it is there.
		if c.raw != nil && strings.HasSuffix(c.server, "l") {
			if _, err := c.raw.Await(ctx, "resources/subscribe", 1); err != nil {
				t.Fatal(err)
			}
		}
		got := make(chan error, 1)
		go func() { _, err := inbox.Await(ctx, "notifications/resources/updated"); got <- err }()
		for {
			c.call(t, "touch", "{}")
			select {
			case err := <-got:
				if err != nil {
					t.Error(err)
				}
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
}

func TestLoggingFollowsTheClientsLevel(t *testing.T) {
	throughEveryCell(t, func(t *testing.T, c cell) {
		level := func(level string) (meta string) {
			if c.client.Era == mcptest.Modern {
				if level == "" {
					return "{}"
				}
				return `{"io.modelcontextprotocol/logLevel":"` + level + `"}`
			}
			if x, err := c.client.Call(t.Context(), "logging/setLevel", `{"level":"`+level+`"}`); err != nil || x.Result == nil {
				t.Fatalf("setting the level: %v, %s", err, show(x))
			}
			return "{}"
		}
		x := c.call(t, "talk", level("info"))
		if len(x.Before) != 1 || string(mcptest.Field(mcptest.Field(x.Before[0], "params"), "data")) != `{"n":1.0}` {
			t.Errorf("at level info came %s", x.Before)
		}
		if x := c.call(t, "talk", level("error")); len(x.Before) != 0 {
			t.Errorf("at level error came %s", x.Before)
		}
	})
}

func TestCancellationReachesTheServer(t *testing.T) {
	throughEveryCell(t, func(t *testing.T, c cell) {
		before := len(c.told(t).Hung)
		ctx, cancel := context.WithCancel(harness.Context(t, 10*time.Second))
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = c.client.CallID(ctx, `"to be cancelled"`, "tools/call", `{"name":"`+c.server+`__hang","arguments":{}}`)
		}()
		harness.Eventually(t, 2*time.Second, "the call arrives", func() bool { return len(c.told(t).Hung) > before })
		if c.client.Era == mcptest.Legacy || c.onPipes {
			if _, err := c.client.Notify(ctx, "notifications/cancelled", `{"requestId":"to be cancelled"}`); err != nil {
				t.Fatal(err)
			}
		} else {
			cancel()
		}
		harness.Eventually(t, time.Second, "the server is told, with its own id", func() bool {
			told := c.told(t)
			return slices.Contains(told.Ended, told.Hung[len(told.Hung)-1])
		})
		cancel()
		<-done
	})
}

// records are the ids of calls of hang, and of those the server was told to end.
type records struct{ Hung, Ended []string }

// told asks the server what it has recorded.
func (c cell) told(t *testing.T) (r records) {
	t.Helper()
	text := c.call(t, "told", "{}")
	var result struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(text.Result, &result); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(result.Content[0].Text), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// recordsOf reads what told answers with.
func recordsOf(raw *mcptest.Raw) string {
	var r records
	for _, q := range raw.Requests() {
		switch {
		case q.Method == "tools/call" && q.Name == "hang":
			r.Hung = append(r.Hung, string(q.ID))
		case q.Method == mcptest.Disconnect && q.Era == mcptest.Modern: // legacy servers are told in words
			r.Ended = append(r.Ended, string(q.ID))
		case q.Method == "notifications/cancelled":
			r.Ended = append(r.Ended, string(mcptest.Field(q.Params, "requestId")))
		}
	}
	b, _ := json.Marshal(r)
	return string(b)
}

// What neither the lists nor a template has is asked of the only server it can
// come from; the answer reads as the client's revision wants it.
func TestUnknownResourcesAreToldInTheClientsEra(t *testing.T) {
	for _, server := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		a := harness.Serve(t, harness.Servers(map[string]harness.Config{"s": listen(t, lively(server, "r://s"))}))
		for client, code := range map[mcptest.Era]int{mcptest.Legacy: -32002, mcptest.Modern: -32602} {
			t.Run(fmt.Sprintf("%s client, %s server", client, server), func(t *testing.T) {
				c := a.Connect(t, client)
				awaitServers(t, c, []string{"s"})
				x, err := c.Call(harness.Context(t, 5*time.Second), "resources/read", `{"uri":"r://nope"}`)
				if err != nil || x.Code() != code {
					t.Errorf("code %d, %v, want %d: %s", x.Code(), err, code, show(x))
				}
				if got := string(mcptest.Field(mcptest.Field(x.Error, "data"), "uri")); got != `"r://nope"` {
					t.Errorf("data.uri is %s: %s", got, show(x))
				}
			})
		}
	}
}
