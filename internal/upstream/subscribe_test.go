package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// notices collects what Options.Notify gets.
type notices struct {
	mu  sync.Mutex
	all []string
}

func (n *notices) options() upstream.Options {
	opts := options()
	opts.Notify = func(notice upstream.Notice) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.all = append(n.all, notice.Method+" "+string(notice.Params))
	}
	return opts
}

func (n *notices) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.all
	n.all = nil
	return all
}

// about are the params of the requests that concern resources or streams.
func about(r *mcptest.Raw) []string {
	var all []string
	for _, q := range r.Requests() {
		switch q.Method {
		case "resources/subscribe", "resources/unsubscribe":
			all = append(all, strings.TrimPrefix(q.Method, "resources/")+" "+q.Name)
		case "subscriptions/listen":
			all = append(all, "listen "+string(mcptest.Field(q.Params, "notifications")))
		case "notifications/cancelled":
			all = append(all, "cancelled")
		}
	}
	return all
}

func TestLegacySubscriptionsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &mcptest.Raw{Era: mcptest.Legacy}
		s := newSet(t, always(peer), stdio("beta"))
		ctx := t.Context()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if err := s.Subscribe(ctx, "beta", "file:///x"); err != nil {
					t.Errorf("subscribing: %v", err)
				}
			})
		}
		wg.Wait()
		for range 4 {
			if err := s.Unsubscribe(ctx, "beta", "file:///x"); err != nil {
				t.Errorf("unsubscribing: %v", err)
			}
		}
		if err := s.Subscribe(ctx, "beta", "file:///y"); err != nil {
			t.Error(err)
		}
		for range 3 { // one of them was subscribed
			if err := s.Unsubscribe(ctx, "beta", "file:///x"); err != nil {
				t.Error(err)
			}
		}
		want := []string{"subscribe file:///x", "subscribe file:///y", "unsubscribe file:///x"}
		if diff := cmp.Diff(want, about(peer)); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

func TestSubscribingFailsWhereItIsNotOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
			peer := &mcptest.Raw{Era: era, Capabilities: `{"resources":{"subscribe":false}}`}
			s := newSet(t, always(peer), stdio("beta"))
			err := s.Subscribe(t.Context(), "beta", "file:///x")
			if fault.KindOf(err) != fault.Rejected {
				t.Errorf("%v: %v", era, err)
			}
			if got := about(peer); len(got) > 0 {
				t.Errorf("%v: the server was asked all the same: %q", era, got)
			}
		}
	})
}

func TestARefusalOfTheServerIsPassedOnAndNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &mcptest.Raw{Era: mcptest.Legacy, Errors: map[string]string{"resources/subscribe file:///x": `{"code":-32002,"message":"unknown"}`}}
		s := newSet(t, always(peer), stdio("beta"))
		for range 2 {
			var rpc *wire.RPCError
			if err := s.Subscribe(t.Context(), "beta", "file:///x"); !errors.As(err, &rpc) || rpc.Code != -32002 {
				t.Errorf("subscribing: %v", err)
			}
		}
		if got := about(peer); len(got) != 2 {
			t.Errorf("the second client was not heard: %q", got)
		}
	})
}

func TestSubscriptionsOutliveTheConnection(t *testing.T) {
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n notices
				first, second := &mcptest.Raw{Era: era}, &mcptest.Raw{Era: era}
				m := &mortal{spawner: spawner{peers: []*mcptest.Raw{first, second}}}
				s := newSetWith(t, n.options(), m.dial, stdio("beta"))
				for _, uri := range []string{"file:///y", "file:///x"} {
					if err := s.Subscribe(t.Context(), "beta", uri); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				first.Notify("notifications/resources/updated", `{"uri":"file:///x"}`)
				synctest.Wait()
				if got := n.take(); len(got) != 1 {
					t.Errorf("notices before the loss: %q", got)
				}
				m.die()
				time.Sleep(time.Second)
				want := []string{"subscribe file:///x", "subscribe file:///y"}
				if era == mcptest.Modern {
					want = []string{`listen {"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["file:///x","file:///y"]}`}
				}
				if diff := cmp.Diff(want, about(second)); diff != "" {
					t.Errorf("requests after the loss (-want +got):\n%s", diff)
				}
				want = []string{`notifications/resources/updated {"uri":"file:///x"}`, `notifications/resources/updated {"uri":"file:///y"}`}
				if diff := cmp.Diff(want, n.take()); diff != "" {
					t.Errorf("notices after the loss (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestOneListenStreamForAllResourcesOfAModernServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &mcptest.Raw{Era: mcptest.Modern, Capabilities: `{"tools":{"listChanged":true},"resources":{"subscribe":true}}`, Tools: toolDefs(1)}
		s := newSet(t, always(peer), stdio("beta"))
		<-s.Settled()
		synctest.Wait()
		for _, uri := range []string{"file:///x", "file:///y", "file:///x"} {
			if err := s.Subscribe(t.Context(), "beta", uri); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := s.Unsubscribe(t.Context(), "beta", "file:///x"); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		want := []string{
			`listen {"toolsListChanged":true}`, "cancelled",
			`listen {"toolsListChanged":true,"resourceSubscriptions":["file:///x"]}`, "cancelled",
			`listen {"toolsListChanged":true,"resourceSubscriptions":["file:///x","file:///y"]}`, "cancelled",
			`listen {"toolsListChanged":true,"resourceSubscriptions":["file:///y"]}`,
		}
		got := slices.Compact(about(peer)) // a stream that has to be cut is cancelled twice
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		if n := peer.Streams(); n != 1 {
			t.Errorf("%d streams are open, want 1", n)
		}
		peer.Change(func(r *mcptest.Raw) { r.Tools = []string{toolDef("new")} })
		peer.Notify("notifications/tools/list_changed", "")
		time.Sleep(2 * time.Second)
		if got := toolsOf(s, "beta"); got != "new" {
			t.Errorf("%q is listed after an announcement on the stream", got)
		}
	})
}

func TestWhatTheAcknowledgementLeavesOutIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &mcptest.Raw{Era: mcptest.Modern}
		peer.Answer = func(q *mcptest.Request) *mcptest.Answer {
			if q.Method != "subscriptions/listen" {
				return nil
			}
			ack := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(q.ID) + `},"notifications":{"toolsListChanged":true}}}`
			return &mcptest.Answer{Error: `{"code":-1,"message":"end"}`, Delay: 0, Before: []string{ack}, Hold: nil}
		}
		s := newSet(t, always(peer), stdio("beta"))
		err := s.Subscribe(t.Context(), "beta", "file:///x")
		if fault.KindOf(err) != fault.Rejected {
			t.Errorf("subscribing: %v (%v)", err, fault.KindOf(err))
		}
	})
}

func TestAListenStreamThatBreaksIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &mcptest.Raw{Era: mcptest.Modern, Tools: toolDefs(1), Capabilities: `{"tools":{"listChanged":true}}`}
		var line io.Writer
		s := newSet(t, func(context.Context, *config.Server) (upstream.Peer, error) {
			return func(ctx context.Context, in io.Reader, out io.Writer) error {
				line = out
				return peer.Serve(ctx, in, out)
			}, nil
		}, stdio("beta"))
		<-s.Settled()
		synctest.Wait()
		id := peer.Received("subscriptions/listen")[0].ID
		lists := len(peer.Received("tools/list"))
		fmt.Fprintf(line, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`+"\n", id)
		time.Sleep(500 * time.Millisecond)
		if n := len(peer.Received("subscriptions/listen")); n != 1 {
			t.Errorf("opened again without a pause: %d requests", n)
		}
		time.Sleep(time.Second)
		if n := len(peer.Received("subscriptions/listen")); n != 2 {
			t.Errorf("%d listen requests, want 2", n)
		}
		if n := len(peer.Received("tools/list")) - lists; n != 1 {
			t.Errorf("the list was read %d times after the gap, want once", n)
		}
	})
}

// TestSubscriptionsOfTheSDK: its server forgets what it has promised on a
// connection when any subscription there ends.
func TestSubscriptionsOfTheSDK(t *testing.T) {
	var n notices
	sdk := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	read := func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) { return nil, nil }
	sdk.AddResource(&mcp.Resource{URI: "file:///x", Name: "x"}, read)
	sdk.AddResource(&mcp.Resource{URI: "file:///y", Name: "y"}, read)
	sdk.AddPrompt(&mcp.Prompt{Name: "p"}, nil)
	web := httptest.NewServer(mcptest.ServeSDK(sdk, true))
	defer web.Close()
	webOld := httptest.NewServer(mcptest.ServeSDK(sdk, false))
	defer webOld.Close()

	builtin, modern, legacy := config.DefaultServer("builtin"), config.DefaultServer("modern"), config.DefaultServer("legacy")
	builtin.Type, builtin.Builtin = config.TypeBuiltin, "sdk"
	modern.Type, modern.URL = config.TypeHTTP, web.URL
	legacy.Type, legacy.URL = config.TypeHTTP, webOld.URL
	for _, server := range []*config.Server{builtin, modern, legacy} {
		t.Run(server.Name, func(t *testing.T) {
			opts := n.options()
			opts.Builtins = map[string]func() *mcp.Server{"sdk": func() *mcp.Server { return sdk }}
			s := upstream.New(opts)
			s.Apply([]*config.Server{server})
			defer s.Close(t.Context())
			<-s.Settled()
			for i, uri := range []string{"file:///x", "file:///y"} {
				if err := s.Subscribe(t.Context(), server.Name, uri); err != nil {
					t.Fatal(err)
				}
				for _, uri := range []string{"file:///x", "file:///y"}[:i+1] {
					want := fmt.Sprintf(`notifications/resources/updated {"uri":%q}`, uri)
					eventually(t, "an update of "+uri, func() bool {
						_ = sdk.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: uri})
						return slices.ContainsFunc(n.take(), func(got string) bool { return got == want || strings.Contains(got, uri) })
					})
				}
			}
			sdk.AddPrompt(&mcp.Prompt{Name: "p-" + server.Name}, nil)
			eventually(t, "the new prompt", func() bool {
				for _, item := range s.Listings()[0].Prompts {
					if item.Name == "p-"+server.Name {
						return true
					}
				}
				return false
			})
		})
	}
}

// eventually waits for something that real connections bring about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	within(t, 10*time.Second, what, ok)
}

// asked counts requests of a method. One that a forgotten session has cut off is
// repeated under its id and counts once.
func asked(peer *mcptest.Raw, method string) int {
	ids := map[string]bool{}
	for _, r := range peer.Received(method) {
		ids[string(r.ID)] = true
	}
	return len(ids)
}

func TestANewSessionIsToldWhatTheOldOneKnew(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	peer := &mcptest.Raw{Era: mcptest.Legacy, Tools: toolDefs(1)}
	web := httptest.NewServer(peer)
	defer web.Close()
	server := config.DefaultServer("beta")
	server.Type, server.URL = config.TypeHTTP, web.URL
	var n notices
	s := upstream.New(n.options())
	defer s.Close(t.Context())
	s.Apply([]*config.Server{server})
	<-s.Settled()
	s.SetLevel("debug")
	if err := s.Subscribe(t.Context(), "beta", "file:///x"); err != nil {
		t.Fatal(err)
	}
	if _, err := peer.Await(t.Context(), "logging/setLevel", 1); err != nil {
		t.Fatal(err)
	}
	peer.Change(func(r *mcptest.Raw) { r.Tools = toolDefs(2) })
	peer.ForgetSessions()
	if err := call(t.Context(), s, "beta", "t0"); err != nil {
		t.Errorf("a call with a forgotten session: %v", err)
	}
	eventually(t, "the subscription", func() bool { return len(about(peer)) == 2 })
	eventually(t, "the level", func() bool { return asked(peer, "logging/setLevel") == 2 })
	eventually(t, "the new list", func() bool { return toolsOf(s, "beta") == "t0 t1" })
	lists := len(peer.Received("tools/list"))
	peer.ForgetSessions()
	if err := call(t.Context(), s, "beta", "t0"); err != nil {
		t.Errorf("a call with a session forgotten again: %v", err)
	}
	eventually(t, "the subscription", func() bool { return len(about(peer)) >= 3 })
	if n := len(peer.Received("tools/list")); n != lists {
		t.Errorf("the list is read each time the server forgets: %d times more", n-lists)
	}
}

func TestSubscriptionsOutliveAChangeOfTheConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
			old, next := &mcptest.Raw{Era: era}, &mcptest.Raw{Era: era}
			spawns := &spawner{peers: []*mcptest.Raw{old, next}}
			s := newSet(t, spawns.dial, stdio("beta"))
			if err := s.Subscribe(t.Context(), "beta", "file:///x"); err != nil {
				t.Fatal(err)
			}
			changed := stdio("beta")
			changed.Args = []string{"-v"}
			s.Apply([]*config.Server{changed})
			<-s.Settled()
			time.Sleep(time.Second)
			if got := about(next); len(got) != 1 || !strings.Contains(got[0], "file:///x") {
				t.Errorf("%v: the new connection was told %q", era, got)
			}
			if err := s.Unsubscribe(t.Context(), "beta", "file:///x"); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
			if got := about(next); len(got) < 2 {
				t.Errorf("%v: the last client left and the new connection was told %q", era, got)
			}
		}
	})
}
