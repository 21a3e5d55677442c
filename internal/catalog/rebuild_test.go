package catalog_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
)

// shown is everything a client or a person can see of a snapshot.
func shown(t *testing.T, s *catalog.Snapshot, problems []catalog.Problem) map[string]any {
	t.Helper()
	all := map[string]any{"instructions": s.Instructions(), "capabilities": string(s.Capabilities()), "public": s.Public(), "servers": s.Servers(), "problems": problems}
	for kind := catalog.Tools; kind <= catalog.Templates; kind++ {
		page, err := s.PageModern(kind, "")
		if err != nil {
			t.Fatal(err)
		}
		all[kind.Method()] = string(page.Bytes())
	}
	for _, uri := range []string{"file:///etc", "file:///x", "a:1", "a+file:///etc"} {
		e, ok := s.Resource(uri)
		all[uri] = ok
		if ok {
			all[uri] = e.Server + " " + e.Name
		}
	}
	return all
}

func TestRebuildGivesWhatBuildGives(t *testing.T) {
	tests := []struct {
		name   string
		change func(*[]*catalog.Listing, *catalog.Rules)
		same   bool // the lists are taken over
	}{
		{"nothing", func(*[]*catalog.Listing, *catalog.Rules) {}, true},
		{"a server is restarting", func(ls *[]*catalog.Listing, _ *catalog.Rules) { (*ls)[1] = (*ls)[1].WithStale(true) }, true},
		{"a server is back and offers the same", func(ls *[]*catalog.Listing, r *catalog.Rules) {
			again, _ := fleet(t)
			(*ls)[2] = again[2]
		}, true},
		{"others are unavailable", func(_ *[]*catalog.Listing, r *catalog.Rules) { r.Unavailable = nil; r.Pending = true }, true},
		{"other instructions", func(ls *[]*catalog.Listing, _ *catalog.Rules) {
			l := *(*ls)[0]
			l.Instructions = "Search last."
			(*ls)[0] = &l
		}, true},
		{"a server has gone", func(ls *[]*catalog.Listing, _ *catalog.Rules) { *ls = (*ls)[1:] }, false},
		{"a tool has gone", func(ls *[]*catalog.Listing, r *catalog.Rules) {
			(*ls)[1] = catalog.NewListing(catalog.Input{Server: r.Servers[1], Tools: named(t, tool, "plain")})
		}, false},
		{"another configuration", func(_ *[]*catalog.Listing, r *catalog.Rules) { r.Servers = append([]*config.Server{}, r.Servers...) }, false},
		{"other pages", func(_ *[]*catalog.Listing, r *catalog.Rules) { r.Catalog.PageSize = 2 }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			listings, rules := fleet(t)
			before, _ := catalog.Build(listings, rules)
			tt.change(&listings, &rules)
			got, gotProblems := catalog.Rebuild(before, listings, rules)
			want, wantProblems := catalog.Build(listings, rules)
			if diff := cmp.Diff(shown(t, want, wantProblems), shown(t, got, gotProblems)); diff != "" {
				t.Errorf("(-Build +Rebuild):\n%s", diff)
			}
			if taken := &got.Entries(catalog.Tools)[0] == &before.Entries(catalog.Tools)[0]; taken != tt.same {
				t.Errorf("the lists were taken over: %v", taken)
			}
		})
	}
}

func BenchmarkRebuild10000Tools(b *testing.B) {
	inputs, rules := many(200, 50)
	listings := listingsOf(inputs)
	before, _ := catalog.Build(listings, rules)
	b.ReportAllocs()
	for b.Loop() {
		listings[7] = listings[7].WithStale(!listings[7].Stale)
		after, _ := catalog.Rebuild(before, listings, rules)
		if catalog.Diff(before, after).Any() {
			b.Fatal("they differ")
		}
	}
}
