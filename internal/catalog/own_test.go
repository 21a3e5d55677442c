package catalog_test

import (
	"strings"
	"testing"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
)

func TestOwnToolsComeFirstAndKeepTheirNames(t *testing.T) {
	own := catalog.Ours(raw(t, tool("result_read")), []byte(`{"resources":{}}`))
	bare, plain := server("bare", prefix("")), server("plain")
	rules := catalog.Rules{Servers: []*config.Server{bare, plain}, Own: own}
	listings := []*catalog.Listing{withTools(t, bare, "result_read", "other"), withTools(t, plain, "result_read")}
	s, _ := catalog.Build(listings, rules)
	all := strings.Fields(exposed(s, catalog.Tools))
	if len(all) != 4 || all[0] != "result_read=/result_read" {
		t.Fatalf("%q", all)
	}
	var theirs string
	for _, e := range s.Entries(catalog.Tools) {
		if e.Server == "bare" && e.Name == "result_read" {
			theirs = e.Exposed
		}
	}
	if theirs == "" || theirs == "result_read" {
		t.Errorf("that of the server is %q", theirs)
	}
	if e, ok := s.Tool(theirs); !ok || e.Server != "bare" {
		t.Errorf("%s is %+v", theirs, e)
	}
	if e, ok := s.Tool("result_read"); !ok || e.Server != catalog.Own {
		t.Errorf("result_read is %+v", e)
	}
	if got := strings.Join(s.Servers(), " "); got != "bare plain" {
		t.Errorf("servers: %s", got)
	}
	if owners, _ := s.Owners("mcp-aggregator:result:x"); len(owners) != 0 {
		t.Errorf("URIs that no list shows go to %q", owners)
	}
	again, _ := catalog.Rebuild(s, listings, rules)
	if exposed(again, catalog.Tools) != exposed(s, catalog.Tools) {
		t.Errorf("rebuilt: %s", exposed(again, catalog.Tools))
	}
	rules.Own = nil
	if without, _ := catalog.Rebuild(s, listings, rules); !strings.Contains(exposed(without, catalog.Tools), "result_read=bare/result_read") {
		t.Errorf("without: %s", exposed(without, catalog.Tools))
	}
}

func TestOwnOffersAreDeclared(t *testing.T) {
	for _, tt := range []struct {
		name         string
		own          *catalog.Listing
		capabilities string
	}{
		{"nothing", nil, `{}`},
		{"tools and resources", catalog.Ours(raw(t, tool("result_read")), []byte(`{"resources":{}}`)), `{"resources":{"listChanged":true},"tools":{"listChanged":true}}`},
		{"tools", catalog.Ours(raw(t, tool("list_resources")), []byte(`{}`)), `{"tools":{"listChanged":true}}`},
	} {
		s, _ := catalog.Build(nil, catalog.Rules{Own: tt.own})
		if got := string(s.Capabilities()); got != tt.capabilities {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
}

func TestToolsThatLoseTheirStructuredContentDoNotPromiseIt(t *testing.T) {
	const def = `{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type":"object","title":"a\tb"},"title":"x"}`
	for _, tt := range []struct {
		policy, structured string
		promised           bool
	}{
		{"digest", "drop", false}, {"digest", "keep", true}, {"pass", "drop", true}, {"block", "drop", true}, {"", "drop", true},
	} {
		s := server("s", prefix(""))
		s.Results.Policy, s.Results.Structured = tt.policy, tt.structured
		l := catalog.NewListing(catalog.Input{Server: s, Tools: raw(t, def)})
		got := string(l.Tools[0].Def)
		if strings.Contains(got, "outputSchema") != tt.promised || !strings.HasSuffix(got, `"title":"x"}`) {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}
