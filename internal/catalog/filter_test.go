package catalog_test

import (
	"testing"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
)

func TestFiltersHideFromListsAndLookups(t *testing.T) {
	defs := raw(t,
		tool("get"), tool("delete_all"), tool("Get_Secret"), tool("dotted.name"),
		`{"name":"safe","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`,
		`{"name":"wipe","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}`,
		`{"name":"add","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"destructiveHint":false}}`,
		`{"name":"broken"}`,
	)
	tests := []struct {
		name   string
		filter config.Filter
		want   string
		hidden int
	}{
		{"nothing", config.Filter{}, "get delete_all Get_Secret dotted.name safe wipe add", 0},
		{"allow", config.Filter{Allow: []string{"GET*", "dotted.*"}}, "get Get_Secret dotted.name", 5},
		{"deny", config.Filter{Deny: []string{"*secret", "delete*"}}, "get dotted.name safe wipe add", 2},
		{"deny wins", config.Filter{Allow: []string{"any"}, Deny: []string{"GET"}}, "delete_all Get_Secret dotted.name safe wipe add", 1},
		{"deny any", config.Filter{Deny: []string{"any"}}, "", 8},
		{"read only", config.Filter{ReadOnlyOnly: true}, "safe", 7},
		{"not destructive", config.Filter{HideDestructive: true}, "get delete_all Get_Secret dotted.name safe add", 1},
		{"together", config.Filter{ReadOnlyOnly: true, Deny: []string{"safe"}}, "", 8},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := server("s", prefix(""), func(s *config.Server) { s.Tools = tt.filter })
			l := catalog.NewListing(catalog.Input{Server: s, Tools: defs})
			snapshot, _ := catalog.Build([]*catalog.Listing{l}, catalog.Rules{})
			got := ""
			visible := map[string]bool{}
			for _, e := range snapshot.Entries(catalog.Tools) {
				got += " " + e.Name
				visible[e.Name] = true
			}
			if got != "" {
				got = got[1:]
			}
			if got != tt.want || l.Hidden != tt.hidden {
				t.Errorf("listed %q, hidden %d; want %q, %d", got, l.Hidden, tt.want, tt.hidden)
			}
			for _, name := range []string{"get", "delete_all", "Get_Secret", "dotted.name", "safe", "wipe", "add", "broken", "never was"} {
				for _, alias := range []string{"s." + name, "s__" + name, "mcp__s__" + name} {
					if _, ok := snapshot.Tool(alias); ok != visible[name] {
						t.Errorf("Tool(%q) is %v, listed %v", alias, ok, visible[name])
					}
				}
			}
		})
	}
}

func TestResourceFiltersHoldForTemplatesToo(t *testing.T) {
	s := server("s", func(s *config.Server) {
		s.Resources = config.Filter{Deny: []string{"file:///secret*", "db:*"}}
		s.Prompts = config.Filter{Allow: []string{"p*"}}
	})
	l := catalog.NewListing(catalog.Input{
		Server:    s,
		Prompts:   named(t, prompt, "p1", "q1"),
		Resources: named(t, resource, "file:///a", "file:///secret"),
		Templates: named(t, resourceTemplate, "file:///{+path}", "db://{table}"),
	})
	snapshot, _ := catalog.Build([]*catalog.Listing{l}, catalog.Rules{})
	if got := exposed(snapshot, catalog.Resources) + exposed(snapshot, catalog.Templates) + exposed(snapshot, catalog.Prompts); got !=
		"file:///a=s/file:///a"+"file:///{+path}=s/file:///{+path}"+"s__p1=s/p1" {
		t.Errorf("exposed %s", got)
	}
	for uri, want := range map[string]bool{
		"file:///a": true, "file:///b/c": true, "file:///secret": false, "FILE:///secret": false, "file:///secret/x": false, "db://users": false,
	} {
		for _, uri := range []string{uri, catalog.Qualify("s", uri)} {
			if _, ok := snapshot.Resource(uri); ok != want {
				t.Errorf("Resource(%q) is %v", uri, ok)
			}
			if servers, _ := snapshot.Owners(uri); (len(servers) == 1) != want {
				t.Errorf("Owners(%q) = %v", uri, servers)
			}
		}
	}
}

func TestAMalformedFilterHidesEverything(t *testing.T) {
	s := server("s", func(s *config.Server) { s.Tools.Deny = []string{"["} })
	l := catalog.NewListing(catalog.Input{Server: s, Tools: named(t, tool, "a"), Prompts: named(t, prompt, "a")})
	if len(l.Tools) != 0 || len(l.Problems) != 1 || len(l.Prompts) != 1 {
		t.Errorf("tools %d, prompts %d, problems %v", len(l.Tools), len(l.Prompts), l.Problems)
	}
}
