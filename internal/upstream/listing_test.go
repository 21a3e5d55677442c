package upstream_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/upstream"
)

func TestListingFollowsAllPages(t *testing.T) {
	for _, era := range []mcptest.Era{mcptest.Legacy, mcptest.Modern} {
		t.Run(era.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				peer := &mcptest.Raw{Era: era, Tools: toolDefs(2500), PageSize: 100, Capabilities: `{"tools":{}}`}
				s := newSet(t, always(peer), stdio("beta"))
				<-s.Settled()
				st := statusOf(t, s, "beta")
				if st.Tools != 2500 || len(st.Degraded) > 0 {
					t.Errorf("%d tools listed, problems %q", st.Tools, st.Degraded)
				}
				if n := len(peer.Received("tools/list")); n != 25 {
					t.Errorf("%d pages asked for, want 25", n)
				}
			})
		})
	}
}

func TestListingKeepsDefinitionsAsTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		odd := `{ "z":1.0, "name" : "n", "inputSchema":{"type":"object","x":9007199254740993 }, "icons":[], "u":"\u00e9" }`
		peer := &mcptest.Raw{Tools: []string{odd, toolDef("b")}}
		s := newSet(t, always(peer), stdio("beta"))
		<-s.Settled()
		l := s.Listings()[0]
		if diff := cmp.Diff(odd, string(l.Tools[0].Def)); diff != "" {
			t.Errorf("definition (-want +got):\n%s", diff)
		}
	})
}

func TestListingIsBounded(t *testing.T) {
	endless := func(cursor func(n int) string) *mcptest.Raw {
		n := 0
		r := rawServer()
		r.Answer = func(q *mcptest.Request) *mcptest.Answer {
			if q.Method != "tools/list" {
				return nil
			}
			n++
			return &mcptest.Answer{Result: fmt.Sprintf(`{"tools":[%s],"nextCursor":%s}`, toolDef(fmt.Sprint("t", n)), cursor(n))}
		}
		return r
	}
	endlessPage := func() *mcptest.Raw {
		n := 0
		r := rawServer()
		r.Answer = func(q *mcptest.Request) *mcptest.Answer {
			if q.Method != "tools/list" {
				return nil
			}
			n++
			return &mcptest.Answer{Result: fmt.Sprintf(`{"tools":[%s],"nextCursor":"c%d"}`, toolDef("t"), n)}
		}
		return r
	}
	tests := []struct {
		name    string
		peer    *mcptest.Raw
		limit   func(*config.Limits)
		tools   int
		pages   int
		problem string
	}{
		{
			"endless pages", endless(func(n int) string { return fmt.Sprintf(`"c%d"`, n) }), nil,
			0, 1000, "tools/list has more than 1000 pages (limits.pages), as if it never ended; it is not used",
		},
		{
			"the same cursor again", endless(func(n int) string { return fmt.Sprintf(`"c%d"`, n%3) }), nil,
			4, 4, "tools/list repeats a cursor",
		},
		{
			"the same page again and again", endlessPage(), nil,
			1, 2, "tools/list has the same page twice in a row",
		},
		{
			"a cursor that is a number", endless(func(n int) string { return "5" }), nil,
			1, 1, "tools/list has a cursor that is not a string",
		},
		{
			"an empty cursor is the end", endless(func(n int) string { return `""` }), nil,
			1, 1, "",
		},
		{
			"null is the end", endless(func(n int) string { return `null` }), nil,
			1, 1, "",
		},
		{
			"too many entries", rawServer(strings.Fields(strings.Repeat("x ", 50))...),
			func(l *config.Limits) { l.Tools = 20 },
			1, 1, "tools/list has more than 20 entries",
		},
		{
			"too many bytes", endless(func(n int) string { return fmt.Sprintf(`"c%d"`, n) }),
			func(l *config.Limits) { l.Answer = 1000 },
			21, 22, "tools/list is larger than 1000 bytes",
		},
		{
			"no list at all", &mcptest.Raw{Capabilities: `{"tools":{}}`, Results: map[string]string{"tools/list": `{"tools":{}}`}}, nil,
			0, 1, "tools/list brought no list of tools",
		},
		{
			"an error", &mcptest.Raw{Capabilities: `{"tools":{}}`, Errors: map[string]string{"tools/list": `{"code":-32603,"message":"database\nis away"}`}}, nil,
			0, 1, "tools/list failed: database is away (code -32603)",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := options()
				if tt.limit != nil {
					tt.limit(&opts.Limits)
				}
				s := newSetWith(t, opts, always(tt.peer), stdio("beta"))
				<-s.Settled()
				st := statusOf(t, s, "beta")
				if st.State != upstream.Connected || st.Tools != tt.tools {
					t.Errorf("%d tools listed, want %d (%s)", st.Tools, tt.tools, st.State)
				}
				if n := len(tt.peer.Received("tools/list")); n != tt.pages {
					t.Errorf("%d pages asked for, want %d", n, tt.pages)
				}
				if got := strings.Join(st.Degraded, "; "); !strings.HasPrefix(got, tt.problem) || (got == "") != (tt.problem == "") {
					t.Errorf("the problem is %q, want %q", got, tt.problem)
				}
			})
		})
	}
}

func TestAListThatFailsLeavesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &mcptest.Raw{Era: mcptest.Legacy, Tools: toolDefs(2), Resources: []string{`{"uri":"file:///x","name":"x"}`},
			Errors: map[string]string{
				"tools/list":               `{"code":-32603,"message":"not now"}`,
				"resources/templates/list": `{"code":-32601,"message":"unknown"}`,
			}}
		s := newSet(t, always(peer), stdio("beta"))
		<-s.Settled()
		st := statusOf(t, s, "beta")
		if st.State != upstream.Connected || st.Resources != 1 || st.Tools != 0 {
			t.Errorf("the status is %+v", st)
		}
		if diff := cmp.Diff([]string{"tools/list failed: not now (code -32603)"}, st.Degraded); diff != "" {
			t.Errorf("problems (-want +got):\n%s", diff)
		}
		peer.Change(func(r *mcptest.Raw) { r.Errors = nil })
		time.Sleep(2 * time.Second)
		if st := statusOf(t, s, "beta"); st.Tools != 2 || len(st.Degraded) > 0 {
			t.Errorf("when the list works again the status is %+v", st)
		}
	})
}

func TestAListThatHangsHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &mcptest.Raw{Era: mcptest.Legacy, Tools: toolDefs(2), Answer: mcptest.On("prompts/list", mcptest.Answer{Silent: true})}
		s := newSet(t, byName(map[string]*mcptest.Raw{"beta": peer, "alpha": rawServer("a")}), stdio("beta"), stdio("alpha"))
		time.Sleep(time.Second)
		if got := toolsOf(s, "beta") + "|" + toolsOf(s, "alpha"); got != "t0 t1|a" {
			t.Errorf("after a second %q is listed", got)
		}
		if isDone(s.Settled()) {
			t.Error("settled although a list is being read")
		}
		time.Sleep(30 * time.Second)
		if !isDone(s.Settled()) {
			t.Error("not settled after the list's deadline")
		}
		if got := statusOf(t, s, "beta").Degraded; len(got) != 1 || !strings.HasPrefix(got[0], "prompts/list failed") {
			t.Errorf("problems are %q", got)
		}
	})
}

func TestAnnouncedChangesAreFollowedAtOnceAndThenCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := rawServer("a")
		s := newSet(t, always(peer), stdio("beta"))
		<-s.Settled()
		peer.Change(func(r *mcptest.Raw) { r.Tools = append(r.Tools, toolDef("b")) })
		peer.Notify("notifications/tools/list_changed", "")
		synctest.Wait()
		if got := toolsOf(s, "beta"); got != "a b" {
			t.Errorf("right after the first announcement %q is listed", got)
		}
		for range 20 {
			for range 1000 {
				peer.Notify("notifications/tools/list_changed", "")
			}
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if n := len(peer.Received("tools/list")); n > 14 {
			t.Errorf("20,000 announcements in 10 s led to %d listings", n)
		}
		peer.Change(func(r *mcptest.Raw) { r.Tools = []string{toolDef("c")} })
		peer.Notify("notifications/tools/list_changed", "")
		synctest.Wait()
		if got := toolsOf(s, "beta"); got != "c" {
			t.Errorf("after a quiet minute %q is listed", got)
		}
	})
}

func TestAChangeOfContentIsAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := rawServer("a")
		s := newSet(t, always(peer), stdio("beta"))
		<-s.Settled()
		synctest.Wait()
		drained(s)
		before := s.Listings()[0]

		peer.Notify("notifications/tools/list_changed", "")
		time.Sleep(5 * time.Second)
		if drained(s) || s.Listings()[0] != before {
			t.Error("an announcement without a change was taken for one")
		}
		peer.Change(func(r *mcptest.Raw) {
			r.Tools[0] = strings.Replace(r.Tools[0], `"name"`, `"description":"new","name"`, 1)
		})
		peer.Notify("notifications/tools/list_changed", "")
		time.Sleep(5 * time.Second)
		if !drained(s) || !strings.Contains(string(s.Listings()[0].Tools[0].Def), `"description":"new"`) {
			t.Error("another description went unnoticed")
		}
	})
}

func TestAnAnnouncementDuringTheFirstListingIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := rawServer("a")
		var asked atomic.Int64
		peer.Answer = func(q *mcptest.Request) *mcptest.Answer {
			if q.Method == "tools/list" && asked.Add(1) == 1 {
				return &mcptest.Answer{
					Before: []string{`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`},
					Result: `{"tools":[` + toolDef("old") + `]}`, Delay: time.Second,
				}
			}
			return nil
		}
		s := newSet(t, always(peer), stdio("beta"))
		<-s.Settled()
		time.Sleep(2 * time.Second)
		if got := toolsOf(s, "beta"); got != "a" {
			t.Errorf("%q is listed, want what the server has now", got)
		}
	})
}

func TestAListThatFailsLaterKeepsWhatWasKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := rawServer("a")
		s := newSet(t, always(peer), stdio("beta"))
		<-s.Settled()
		peer.Change(func(r *mcptest.Raw) {
			r.Errors = map[string]string{"tools/list": `{"code":-32603,"message":"not now"}`}
		})
		peer.Notify("notifications/tools/list_changed", "")
		time.Sleep(5 * time.Second)
		if got := toolsOf(s, "beta"); got != "a" || len(statusOf(t, s, "beta").Degraded) != 1 {
			t.Errorf("%q is listed, status %+v", got, statusOf(t, s, "beta"))
		}
	})
}

func TestListsMayBeSharedOnlyIfTheServerSaysSo(t *testing.T) {
	public := func(method, member string) string {
		return `{"` + member + `":[],"cacheScope":"public","ttlMs":1000}`
	}
	synctest.Test(t, func(t *testing.T) {
		open := &mcptest.Raw{Era: mcptest.Modern, Capabilities: `{"tools":{},"prompts":{}}`,
			Results: map[string]string{"tools/list": public("tools/list", "tools"), "prompts/list": public("prompts/list", "prompts")}}
		half := &mcptest.Raw{Era: mcptest.Modern, Capabilities: `{"tools":{},"prompts":{}}`,
			Results: map[string]string{"tools/list": public("tools/list", "tools")}}
		peers := map[string]*mcptest.Raw{"open": open, "half": half, "legacy": rawServer("a")}
		s := newSet(t, byName(peers), stdio("open"), stdio("half"), stdio("legacy"))
		<-s.Settled()
		got := map[string]bool{}
		for _, l := range s.Listings() {
			got[l.Server] = l.Public
		}
		if diff := cmp.Diff(map[string]bool{"open": true, "half": false, "legacy": false}, got); diff != "" {
			t.Errorf("public listings (-want +got):\n%s", diff)
		}
	})
}
