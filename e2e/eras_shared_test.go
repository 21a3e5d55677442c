//go:build e2e && linux

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// Two clients share one server and are asked in the middle of interleaved calls: each
// question reaches the one whose call caused it, and none is lost.
func TestQuestionsReachTheirOwnClients(t *testing.T) {
	const calls = 1000
	for _, c := range []struct {
		name    string
		server  func(t *testing.T) harness.Config
		version string
		atOnce  int // calls in flight of both clients together
	}{
		{"legacy clients, one legacy stdio server", func(t *testing.T) harness.Config {
			return harness.Child(t, "curious").With("protocol", "legacy")
		}, mcptest.LegacyVersion, 16},
		{"legacy clients, one legacy HTTP server", func(t *testing.T) harness.Config {
			return serveCurious(t, mcptest.Legacy)
		}, mcptest.LegacyVersion, 16},
		{"legacy clients, one modern stdio server", func(t *testing.T) harness.Config {
			return harness.Child(t, "curious").With("protocol", "modern")
		}, mcptest.LegacyVersion, 16},
		{"modern clients, one legacy HTTP server", func(t *testing.T) harness.Config {
			return serveCurious(t, mcptest.Legacy)
		}, mcptest.ModernVersion, 16},
		{"modern clients, one modern HTTP server", func(t *testing.T) harness.Config {
			return serveCurious(t, mcptest.Modern)
		}, mcptest.ModernVersion, 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := harness.Serve(t, harness.Servers(map[string]harness.Config{"shared": c.server(t)}))
			people := make([]*person, 2)
			for i, name := range []string{"ann", "bob"} {
				people[i] = meet(t, name, c.version, overHTTP(t, a.URL))
			}
			people[0].awaitCurious(t, "shared")
			// One goes first: from then on the server is known to ask.
			if got, err := people[0].call(harness.Context(t, 10*time.Second), "shared__elicit", "ann 0"); err != nil {
				t.Fatal(got, err)
			}
			began := time.Now()
			interleave(t, people, calls, c.atOnce)
			t.Logf("%d calls in %v", calls, time.Since(began))
			for _, p := range people {
				if len(p.strangers) > 0 {
					t.Errorf("%s was asked %d questions of others: %.500q", p.name, len(p.strangers), p.strangers)
				}
			}
			all := slices.Concat(people[0].asked, people[1].asked)
			again := repeated(all)
			if n := len(all) - len(again); n != calls+1 {
				t.Errorf("%d different questions, want %d", n, calls+1)
			}
			// On pipes a question does not say whose it is. With several calls of one client in
			// flight it may be put in the name of a wrong one of them, and is asked again when
			// that one ends first.
			if onPipes := strings.Contains(c.name, "legacy stdio"); len(again) > 0 && !onPipes || len(again) > calls/20 {
				t.Errorf("asked more than once: %q", again)
			}
		})
	}
}

// repeated returns what is in all more than once.
func repeated(all []string) (again []string) {
	seen := map[string]bool{}
	for _, s := range all {
		if seen[s] {
			again = append(again, s)
		}
		seen[s] = true
	}
	return again
}

// interleave makes n calls of all people in turn, so many at a time.
func interleave(t *testing.T, people []*person, n, atOnce int) {
	t.Helper()
	ctx := harness.Context(t, 90*time.Second)
	var next, failed atomic.Int64
	var work sync.WaitGroup
	for range atOnce {
		work.Go(func() {
			for {
				i := int(next.Add(1))
				if i > n || ctx.Err() != nil || failed.Load() > 5 {
					return
				}
				if err := people[i%len(people)].check(ctx, i); err != nil {
					failed.Add(1)
					t.Errorf("call %d: %v", i, err)
				}
			}
		})
	}
	work.Wait()
	if err := ctx.Err(); err != nil {
		t.Error(err)
	}
}

// check makes one call whose result names the one who answered.
func (p *person) check(ctx context.Context, i int) error {
	text := fmt.Sprint(p.name, " ", i)
	tool, want := "shared__elicit", text+": accept "+p.name
	if i/2%2 == 0 {
		tool, want = "shared__sample", p.name+": "+text
	}
	got, err := p.call(ctx, tool, text)
	if err == nil && got != want {
		err = errors.New("got " + got)
	}
	return err
}
