package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/admin"
	"mcp-aggregator/internal/upstream"
)

func TestControlCommandsReachTheServer(t *testing.T) {
	for _, what := range []string{"connect", "disconnect", "reconnect", "enable", "disable"} {
		r := startRunning(t, nil)
		r.status = []*upstream.Status{github(upstream.Pending)}
		code, out, err := typed(what, "github")
		if want := "github: " + what + " asked for; it is pending now\n"; code != 0 || out != want || err != "" {
			t.Errorf("%s: %d %q %q", what, code, out, err)
		}
		if !slices.Equal(r.asked, []string{what + " github"}) {
			t.Errorf("%s: the aggregator was asked %q", what, r.asked)
		}
	}
}

func TestAnUnknownServerIsAnsweredWithThoseThereAre(t *testing.T) {
	r := startRunning(t, nil)
	r.status = []*upstream.Status{github(upstream.Connected)}
	for _, args := range [][]string{{"reconnect", "gitlab", "github"}, {"logs", "gitlab"}} {
		code, _, err := typed(args...)
		if code != exitUsage || !strings.Contains(err, `the aggregator has no server "gitlab"; its servers are github`) {
			t.Errorf("%q: %d %s", args, code, err)
		}
	}
	if !slices.Contains(r.asked, "reconnect github") {
		t.Errorf("one unknown name kept the others from being served: %q", r.asked)
	}
}

func TestReloadPrintsThePlan(t *testing.T) {
	for _, tt := range []struct {
		name      string
		plan      admin.Plan
		code      int
		out, errs string
	}{
		{"nothing", admin.Plan{Applied: true, Generation: 4}, exitOK, "nothing changed\n", ""},
		{"everything", admin.Plan{
			Applied: true, Generation: 5, Added: []string{"a", "b"}, Removed: []string{"c"}, Changed: []string{"d"}, Adopted: []string{"e"},
			Settings: []string{"log.level"}, Restart: []string{"http.addr"},
		}, exitOK, "added: a, b\nremoved: c\nconnected anew: d\nchanged without reconnecting: e\nsettings: log.level\n" +
			"need a restart: http.addr\ngeneration 5 is in force\n", ""},
		{"a bad file", admin.Plan{Generation: 4, Errors: []string{"mcp.yaml:3:1: servers.x: unknown \x1bkey", "mcp.yaml:4:1: y"}}, exitConfig, "",
			"mcp.yaml:3:1: servers.x: unknown key\nmcp.yaml:4:1: y\nmcp-aggregator: the configuration cannot be used; nothing was changed\n"},
	} {
		r := startRunning(t, nil)
		r.plan = tt.plan
		code, out, errs := typed("reload")
		if diff := cmp.Diff([]any{tt.code, tt.out, tt.errs}, []any{code, out, errs}); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func TestBreakersAreShownAndReset(t *testing.T) {
	r := startRunning(t, nil)
	r.status = []*upstream.Status{{Server: "github.com"}, {Server: "github"}}
	code, out, err := typed("breakers")
	if code != 0 || err != "" || !regexp.MustCompile(`(?m)^github.search    open    5         \ds          in [45]\ds$`).MatchString(out) || !strings.Contains(out, "github.read      closed  0") {
		t.Errorf("%d %s%s", code, out, err)
	}
	code, out, err = typed("breakers", "reset", "github", "github.search", "github.com", "github.com.x.y", "github.unknown", "nobody.x")
	if code != exitFailure || out != "github: reset\ngithub.search: reset\ngithub.com: reset\ngithub.com.x.y: reset\n" {
		t.Errorf("%d %s", code, out)
	}
	if !strings.Contains(err, "github.unknown: there is no circuit breaker") || !strings.Contains(err, "nobody.x: no server has this name") {
		t.Error(err)
	}
	asked := []string{"reset github ", "reset github search", "reset github.com ", "reset github.com x.y", "reset github unknown"}
	if diff := cmp.Diff(asked, r.asked); diff != "" {
		t.Error(diff)
	}
}

func TestLogsPrintsTheLastLines(t *testing.T) {
	r := startRunning(t, nil)
	r.lines = []string{"one", "\x1b]0;title\x07two", "three"}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"logs", "github"}, "one\n]0;titletwo\nthree\n"},
		{[]string{"logs", "github", "-n", "1"}, "three\n"},
		{[]string{"logs", "github", "-n", "9"}, "one\n]0;titletwo\nthree\n"},
	} {
		if code, out, err := typed(tt.args...); code != 0 || out != tt.want || err != "" {
			t.Errorf("%q: %d %q %q", tt.args, code, out, err)
		}
	}
}

func TestFollowingPrintsOnlyWhatIsNew(t *testing.T) {
	r := startRunning(t, nil)
	r.lines = []string{"one", "two"}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	p := new(pages)
	p.page = func(int) {
		switch text := strings.Join(p.all, ""); text {
		case "one\ntwo\n":
			r.mu.Lock()
			r.lines = []string{"two", "three"} // the ring has moved on
			r.mu.Unlock()
		case "one\ntwo\nthree\n":
			if err := self.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
		}
	}
	if code := run([]string{"logs", "github", "-f"}, nil, p, new(strings.Builder)); code != exitOK {
		t.Error(code)
	}
	if got := strings.Join(p.all, ""); got != "one\ntwo\nthree\n" {
		t.Errorf("%q", got)
	}
}

func TestNewerLines(t *testing.T) {
	for _, tt := range []struct{ seen, lines, want string }{
		{"", "a b", "a b"},
		{"a b", "a b", ""},
		{"a b", "a b c", "c"},
		{"a b", "b c", "c"},
		{"a b", "c d", "c d"},
		{"a a", "a a a", "a"},
		{"a b", "", ""},
	} {
		if got := strings.Join(newer(strings.Fields(tt.seen), strings.Fields(tt.lines)), " "); got != tt.want {
			t.Errorf("%q after %q: %q, want %q", tt.lines, tt.seen, got, tt.want)
		}
	}
}
