package mcptest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/mcptest"
)

var children = mcptest.Children{
	"echo": mcptest.Stdio(func() *mcptest.Raw { return &mcptest.Raw{Tools: []string{echo}} }),
}

func TestMain(m *testing.M) { children.Main(m) }

const echo = `{"name":"echo","inputSchema":{"type":"object"},"x-odd": 1.0}`

// connect opens a client of raw over each transport.
var connect = map[string]func(t *testing.T, raw *mcptest.Raw, era mcptest.Era, opts *mcptest.Options) *mcptest.Client{
	"http": func(t *testing.T, raw *mcptest.Raw, era mcptest.Era, opts *mcptest.Options) *mcptest.Client {
		srv := httptest.NewServer(raw)
		t.Cleanup(srv.CloseClientConnections)
		t.Cleanup(srv.Close)
		c, err := mcptest.ConnectHTTP(t.Context(), srv.URL, era, opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	},
	"pipes": func(t *testing.T, raw *mcptest.Raw, era mcptest.Era, opts *mcptest.Options) *mcptest.Client {
		serverIn, clientOut := io.Pipe()
		clientIn, serverOut := io.Pipe()
		go func() {
			serverOut.CloseWithError(raw.Serve(t.Context(), serverIn, serverOut))
		}()
		c, err := mcptest.ConnectPipes(t.Context(), clientIn, clientOut, era, opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(); clientIn.Close() })
		return c
	},
}

// each runs f for both transports and both eras.
func each(t *testing.T, f func(t *testing.T, era mcptest.Era, connect func(*mcptest.Raw) *mcptest.Client)) {
	for transport, open := range connect {
		for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
			t.Run(fmt.Sprintf("%s %s", era, transport), func(t *testing.T) {
				f(t, era, func(raw *mcptest.Raw) *mcptest.Client { return open(t, raw, era, nil) })
			})
		}
	}
}

func TestResultsCrossByteForByte(t *testing.T) {
	const odd = `{"content":[{"type":"hologram","v":1e400,"n":12345678901234567890}], "z":null,"a":"\u00e9"}`
	each(t, func(t *testing.T, era mcptest.Era, connect func(*mcptest.Raw) *mcptest.Client) {
		c := connect(&mcptest.Raw{Tools: []string{echo}, Results: map[string]string{"tools/call echo": odd}})
		x, err := c.CallID(t.Context(), `"a\u0062"`, "tools/call", `{"name":"echo"}`)
		if err != nil {
			t.Fatal(err)
		}
		if got := mcptest.WithoutEra(string(x.Result)); got != odd {
			t.Errorf("result is %s, want %s", got, odd)
		}
		if string(x.ID) != `"a\u0062"` {
			t.Errorf("id is %s", x.ID)
		}
		if modern := mcptest.Field(x.Result, "resultType") != nil; modern != (era == mcptest.Modern) {
			t.Errorf("resultType present: %v", modern)
		}
	})
}

func TestListsFollowTheirCursors(t *testing.T) {
	raw := &mcptest.Raw{PageSize: 2}
	for i := range 5 {
		raw.Tools = append(raw.Tools, fmt.Sprintf(`{"name":"t%d"}`, i))
	}
	each(t, func(t *testing.T, era mcptest.Era, connect func(*mcptest.Raw) *mcptest.Client) {
		c := connect(raw)
		defs, pages, err := c.List(t.Context(), "tools/list")
		if err != nil || pages != 3 {
			t.Fatalf("%d pages, %v", pages, err)
		}
		if got := len(defs); got != 5 || string(defs[4]) != raw.Tools[4] {
			t.Errorf("listed %d tools: %s", got, defs)
		}
		x, err := c.Call(t.Context(), "tools/list", `{"cursor":"7"}`)
		if err != nil || x.Code() != -32602 {
			t.Errorf("unknown cursor: code %d, %v", x.Code(), err)
		}
	})
}

func TestMessagesBeforeTheAnswerBelongToIt(t *testing.T) {
	const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}`
	each(t, func(t *testing.T, _ mcptest.Era, connect func(*mcptest.Raw) *mcptest.Client) {
		raw := &mcptest.Raw{Tools: []string{echo},
			Answer: mcptest.On("tools/call", mcptest.Answer{Before: []string{progress, progress}})}
		c := connect(raw)
		x, err := c.Call(t.Context(), "tools/call", `{"name":"echo","_meta":{"progressToken":7}}`)
		if err != nil {
			t.Fatal(err)
		}
		if len(x.Before) != 2 || string(x.Before[1]) != progress {
			t.Errorf("before the answer came %s", x.Before)
		}
		if q := raw.Received("tools/call")[0]; string(q.Token) != "7" || q.Name != "echo" {
			t.Errorf("recorded %+v", q)
		}
	})
}

func TestNotificationsReachListeners(t *testing.T) {
	each(t, func(t *testing.T, era mcptest.Era, connect func(*mcptest.Raw) *mcptest.Client) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		raw := &mcptest.Raw{}
		c := connect(raw)
		inbox, err := c.Listen(ctx, `{"toolsListChanged":true}`)
		if err != nil {
			t.Fatal(err)
		}
		if era == mcptest.Modern {
			if _, err := inbox.Await(ctx, "notifications/subscriptions/acknowledged"); err != nil {
				t.Fatal(err)
			}
		}
		for raw.Notify("notifications/tools/list_changed", "") == 0 {
			if ctx.Err() != nil {
				t.Fatal("nobody listens")
			}
		}
		q, err := inbox.Await(ctx, "notifications/tools/list_changed")
		if err != nil {
			t.Fatal(err)
		}
		id := mcptest.Field(mcptest.Field(q.Params, "_meta"), "io.modelcontextprotocol/subscriptionId")
		if (id != nil) != (era == mcptest.Modern) {
			t.Errorf("subscription id is %s", id)
		}
	})
}

func TestMisbehaviour(t *testing.T) {
	each(t, func(t *testing.T, _ mcptest.Era, connect func(*mcptest.Raw) *mcptest.Client) {
		raw := &mcptest.Raw{Tools: []string{echo}}
		c := connect(raw)
		raw.Change(func(r *mcptest.Raw) { r.Answer = mcptest.On("tools/call", mcptest.Answer{Silent: true}) })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := c.Call(ctx, "tools/call", `{"name":"echo"}`); err == nil {
			t.Error("a silent server answered")
		}
		raw.Change(func(r *mcptest.Raw) { r.Answer = mcptest.On("tools/call", mcptest.Answer{Close: true}) })
		if _, err := c.Call(t.Context(), "tools/call", `{"name":"echo"}`); err == nil {
			t.Error("a closed connection answered")
		}
	})
}

func TestForgottenSessions(t *testing.T) {
	raw := &mcptest.Raw{}
	c := connect["http"](t, raw, mcptest.Legacy, nil)
	raw.ForgetSessions()
	if x, err := c.Call(t.Context(), "tools/list", ""); err != nil || x.Status != 404 {
		t.Errorf("status %d, %v; want 404", x.Status, err)
	}
}

func TestAServerOfOneEraRefusesTheOther(t *testing.T) {
	srv := httptest.NewServer(&mcptest.Raw{Era: mcptest.Legacy})
	defer srv.Close()
	if _, err := mcptest.ConnectHTTP(t.Context(), srv.URL, mcptest.Modern, nil); err == nil {
		t.Error("a legacy server answered server/discover")
	}
	modern := httptest.NewServer(&mcptest.Raw{Era: mcptest.Modern})
	defer modern.Close()
	if _, err := mcptest.ConnectHTTP(t.Context(), modern.URL, mcptest.Legacy, nil); err == nil {
		t.Error("a modern server answered initialize")
	}
}

func TestAChildIsAStdioServer(t *testing.T) {
	path, env, err := mcptest.Command("echo")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path)
	cmd.Env = os.Environ()
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c, err := mcptest.ConnectPipes(t.Context(), out, in, mcptest.Legacy, nil)
	if err != nil {
		t.Fatal(err)
	}
	if defs, _, err := c.List(t.Context(), "tools/list"); err != nil || string(defs[0]) != echo {
		t.Errorf("listed %s, %v", defs, err)
	}
	c.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the child ended with %v", err)
	}
}

// The official SDK shares no code with the kit: if it can talk to Raw and be
// talked to by Client, both speak the protocol.
func TestTheOfficialSDKAgrees(t *testing.T) {
	raw := &mcptest.Raw{Tools: []string{strings.Replace(echo, "1.0", "1", 1)}, PageSize: 1}
	srv := httptest.NewServer(raw)
	defer srv.Close()
	client := mcp.NewClient(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: srv.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"a": 1}})
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Content[0].(*mcp.TextContent).Text; got != `{"a":1}` {
		t.Errorf("echo answered %s", got)
	}
	session.Close()
	srv.CloseClientConnections()

	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "twice", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "2"}}}, nil
		})
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		srv := httptest.NewServer(mcptest.ServeSDK(server, era == mcptest.Modern))
		c, err := mcptest.ConnectHTTP(t.Context(), srv.URL, era, nil)
		if err != nil {
			t.Fatalf("%s: %v", era, err)
		}
		x, err := c.Call(t.Context(), "tools/call", `{"name":"twice","arguments":{}}`)
		if err != nil {
			t.Fatalf("%s: %v", era, err)
		}
		if diff := cmp.Diff(`[{"type":"text","text":"2"}]`, string(mcptest.Field(x.Result, "content"))); diff != "" {
			t.Errorf("%s: %s", era, diff)
		}
		c.Close()
		srv.Close()
	}
	session, err = mcptest.ConnectSDK(t.Context(), server, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil || !slices.ContainsFunc(tools.Tools, func(tool *mcp.Tool) bool { return tool.Name == "twice" }) {
		t.Errorf("in memory: %v, %v", tools, err)
	}
}
