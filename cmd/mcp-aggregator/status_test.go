package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/admin"
	"mcp-aggregator/internal/breaker"
	"mcp-aggregator/internal/telemetry"
	"mcp-aggregator/internal/upstream"
)

func TestStatusShowsEverythingThatMatters(t *testing.T) {
	now := time.Now()
	r := startRunning(t, func(o *admin.Options) {
		o.Warnings.Set("reload", telemetry.Warning{Category: telemetry.Configuration, Message: "the file has problems",
			Details: "config.yaml:3:4: servers: bad\nconfig.yaml:5:1: \x1b[31mworse" + strings.Repeat("\nconfig.yaml:6:1: more", 11), Time: now.Add(-time.Minute)})
		o.Warnings.Set("state/files", telemetry.Warning{Category: telemetry.Health, Server: "files", Message: "shown in the table"})
		o.Actions.Info = func() admin.Info {
			return admin.Info{Version: "1.2.3", Started: now.Add(-90 * time.Minute), Generation: 4, Sessions: 2, Saved: 120345, Config: "/etc/mcp.yaml"}
		}
		o.Actions.Breakers = func() []breaker.State {
			return []breaker.State{
				{Server: "github", Tool: "search", State: breaker.Open, Failures: 5, OpenedAt: now.Add(-9 * time.Second), RetryAt: now.Add(51 * time.Second)},
				{Server: "github", Tool: "read", State: breaker.Closed},
			}
		}
	})
	up, down := github(upstream.Connected), failing()
	up.Since, down.Since, down.NextAttempt = now.Add(-200*time.Second), now.Add(-26*time.Hour), now.Add(30*time.Second)
	r.status = []*upstream.Status{up, down}
	c := &cli{}
	a, err := c.admin()
	if err != nil {
		t.Fatal(err)
	}
	o, err := a.overview(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := o.print(&out, style{}, now); err != nil {
		t.Fatal(err)
	}
	want := `mcp-aggregator 1.2.3 · up 1h30m · generation 4 · 2 sessions · 120345 tokens saved · 2 warnings · /etc/mcp.yaml

SERVER  STATE      SINCE  PROTOCOL    TOOLS    PROMPTS  RESOURCES  REFS  CALLS  RESTARTS  NEXT TRY
github  connected  3m20s  2026-07-28  12       1        3          3     2      4         -
files   failed     1d2h   -           3 stale  0        0          0     0      0         in 30s
  last error: exit status 1: [31mevil[0m txt (attempt 3)
  1 definition rejected; /api/v1/mcp/tools says why

CIRCUIT BREAKER  STATE  FAILURES  OPEN SINCE  NEXT TRY
github.search    open   5         9s          in 51s

QUEUE  SLOTS  RUNNING  WAITING
heavy  2      1        3

warning: the file has problems (1m0s ago)
  config.yaml:3:4: servers: bad
  config.yaml:5:1: [31mworse
` + strings.Repeat("  config.yaml:6:1: more\n", 8) + `  and 3 more
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestStatusPrintsForPeople(t *testing.T) {
	r := startRunning(t, nil)
	r.status = []*upstream.Status{github(upstream.Connected)}
	code, out, err := typed("status")
	if code != exitOK || err != "" || !regexp.MustCompile(`(?m)^github  connected  3m2\ds `).MatchString(out) || strings.Contains(out, "\x1b") {
		t.Errorf("%d %s%s", code, out, err)
	}
}

func TestStatusAsJSONIsWhatTheAggregatorSaid(t *testing.T) {
	r := startRunning(t, nil)
	r.status = []*upstream.Status{failing()}
	code, out, err := typed("status", "--json")
	var got struct {
		Aggregator struct{ Version string }
		Servers    []struct{ Name, State, LastError string }
		Breakers   []struct{ Tool string } `json:"circuit_breakers"`
		Queues     []struct{ Name string }
		Warnings   []any
	}
	if e := json.Unmarshal([]byte(out), &got); e != nil || code != 0 || err != "" {
		t.Fatalf("%d %s%v: %s", code, err, e, out)
	}
	if got.Aggregator.Version != "1.2.3" || len(got.Servers) != 1 || got.Servers[0].State != "failed" ||
		len(got.Breakers) != 2 || len(got.Queues) != 1 || got.Warnings == nil {
		t.Errorf("%s", out)
	}
	if strings.ContainsRune(out, '\x1b') {
		t.Error("the output holds raw control characters")
	}
}

func TestStatesSayWhatPeopleAskedFor(t *testing.T) {
	for _, tt := range []struct {
		name string
		seen upstream.Status
		want string
	}{
		{"connected", upstream.Status{State: upstream.Connected, Phase: upstream.PhaseReady}, "connected"},
		{"resting", upstream.Status{State: upstream.Pending, Phase: upstream.PhaseIdle, Idle: true}, "idle"},
		{"disconnected", upstream.Status{State: upstream.Pending, Phase: upstream.PhaseDisconnected}, "disconnected"},
		{"disabled and resting", upstream.Status{State: upstream.Disabled, Idle: true}, "disabled"},
	} {
		r := startRunning(t, nil)
		r.status = []*upstream.Status{&tt.seen}
		if _, out, _ := typed("status"); !regexp.MustCompile(`(?m)\s` + tt.want + `\s`).MatchString(out) {
			t.Errorf("%s: %s", tt.name, out)
		}
	}
}

func TestMarksKeepTheColumns(t *testing.T) {
	o := &overview{Servers: []admin.Server{{Name: "a", State: "connected"}, {Name: "b", State: "failed", LastError: "x"}, {Name: "c", State: "disabled"}}}
	for _, tt := range []struct {
		s    style
		want []string
	}{
		{style{}, []string{"SERVER", "a", "b", "  last error: x", "c"}},
		{style{marks: true}, []string{"  SERVER", "● a", "✗ b", "    last error: x", "○ c"}},
		{style{marks: true, colours: true}, []string{"  SERVER", "\x1b[32m●\x1b[0m a", "\x1b[31m✗\x1b[0m b", "    last error: x", "\x1b[90m○\x1b[0m c"}},
	} {
		var out strings.Builder
		if err := o.printServers(&out, tt.s, time.Now()); err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
			if i == 0 && !tt.s.marks {
				continue
			}
			if i == 0 {
				line = "  " + line
			}
			if !strings.HasPrefix(line, tt.want[i]) {
				t.Errorf("%+v: line %d is %q, want %q", tt.s, i, line, tt.want[i])
			}
		}
	}
}

func TestDurationsAreShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 400 * time.Millisecond: "0s", 59 * time.Second: "59s", 59*time.Minute + 59*time.Second + 700*time.Millisecond: "1h0m",
		25 * time.Hour: "1d1h", 3 * time.Minute: "3m0s",
	} {
		if got := short(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}

// pages collects what watch writes and interrupts it after some pages.
type pages struct {
	all  []string
	page func(n int)
}

func (p *pages) Write(b []byte) (int, error) {
	p.all = append(p.all, string(b))
	p.page(len(p.all))
	return len(b), nil
}

func TestWatchingGoesOnWhileTheAggregatorIsAway(t *testing.T) {
	r := startRunning(t, nil)
	r.status = []*upstream.Status{github(upstream.Connected)}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	p := &pages{page: func(n int) {
		switch n {
		case 1:
			r.mu.Lock()
			r.status = []*upstream.Status{failing()}
			r.mu.Unlock()
		case 2:
			if err := self.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
		}
	}}
	var errs strings.Builder
	if code := run([]string{"status", "--watch", "--interval", "100ms"}, nil, p, &errs); code != exitOK {
		t.Errorf("%d %s", code, errs.String())
	}
	if len(p.all) < 2 || !strings.Contains(p.all[0], "github  connected") || !strings.Contains(p.all[1], "files   failed") {
		t.Errorf("%q", p.all)
	}
	if strings.Contains(p.all[0], "\x1b") {
		t.Error("a file is written like a terminal")
	}
}

func TestAPageReplacesTheOneBeforeOnATerminal(t *testing.T) {
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a character device, as terminals are
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	if got := (&cli{out: device}).frame("one\ntwo\n"); got != "\x1b[Hone\x1b[K\ntwo\x1b[K\n\x1b[J" {
		t.Errorf("%q", got)
	}
	if got := (&cli{out: new(strings.Builder)}).frame("one\n"); got != "one\n\n" {
		t.Errorf("%q", got)
	}
}

func TestOddFlagsAreUsage(t *testing.T) {
	startRunning(t, nil)
	for _, args := range [][]string{
		{"status", "--watch", "--json"}, {"status", "--interval", "1ms"}, {"status", "extra"}, {"reconnect"}, {"logs"}, {"logs", "a", "b"},
		{"breakers", "reset"}, {"reload", "x"},
	} {
		if code, _, err := typed(args...); code != exitUsage {
			t.Errorf("%q: %d %s", args, code, err)
		}
	}
}
