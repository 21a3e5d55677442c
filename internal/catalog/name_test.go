package catalog_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
)

// build makes a snapshot of servers with plain tools: "name: tool tool" or
// "name=prefix: tool". A server without a colon is configured but not connected.
func build(t testing.TB, rules catalog.Rules, servers ...string) (*catalog.Snapshot, []catalog.Problem) {
	t.Helper()
	var listings []*catalog.Listing
	for _, text := range servers {
		name, tools, connected := strings.Cut(text, ":")
		name, p, other := strings.Cut(name, "=")
		s := server(name)
		if other {
			s.Prefix = &p
		}
		rules.Servers = append(rules.Servers, s)
		if connected {
			listings = append(listings, withTools(t, s, strings.Fields(tools)...))
		}
	}
	return catalog.Build(listings, rules)
}

func TestExposedNames(t *testing.T) {
	long := strings.Repeat("long_", 20)
	tests := []struct {
		name    string
		servers []string
		want    string
	}{
		{"the server's name is the prefix", []string{"git: log show"}, "git__log=git/log git__show=git/show"},
		{"another prefix", []string{"github=gh: log"}, "gh__log=github/log"},
		{"no prefix", []string{"git=: log"}, "log=git/log"},
		{"other characters are mapped", []string{"s: a.b c/d"}, "s__a_b=s/a.b s__c_d=s/c/d"},
		{"a name beyond ASCII", []string{"s: größe"}, "s__gr__e=s/größe"},
		{"a server name that needs mapping", []string{"my.server: a"}, "my_server__a=my.server/a"},
		{"an own name beats a mapped one, whatever the order", []string{"s: a.b a_b"}, "s__a_b_vtac5wcy=s/a.b s__a_b=s/a_b"},
		{"two mapped names have no better right", []string{"s: a.b a/b"}, "s__a_b_vtac5wcy=s/a.b s__a_b_mrt3mifj=s/a/b"},
		{"two mapped names in the other order", []string{"s: a/b a.b"}, "s__a_b_mrt3mifj=s/a/b s__a_b_vtac5wcy=s/a.b"},
		{"separators in tool names", []string{"a: b__c __d e__"}, "a__b__c=a/b__c a____d=a/__d a__e__=a/e__"},
		{"names that collide when joined", []string{"a: _x", "a_: x"}, "a___x_5aaklxis=a/_x a___x=a_/x"},
		{"the same in the other order", []string{"a_: x", "a: _x"}, "a___x=a_/x a___x_5aaklxis=a/_x"},
		{"the longest server name wins", []string{"a: b__x", "a__b: x"}, "a__b__x_24vybp7l=a/b__x a__b__x=a__b/x"},
		{"although it is not connected", []string{"a: b__x", "a__b"}, "a__b__x_24vybp7l=a/b__x"},
		{"no prefix against a server of that name", []string{"all=: git__log", "git"}, "git__log_zjmb4jfd=all/git__log"},
		{"no prefix twice", []string{"a=: x y", "b=: y z"}, "x=a/x y=a/y y_xau2gpuz=b/y z=b/z"},
		{"equal prefixes", []string{"a=p: x", "b=p: x"}, "p__x=a/x p__x_luk77pcm=b/x"},
		{"an own name of a later server beats a mapped one", []string{"a=: x.y", "b=: x_y"}, "x_y_ejmdvtni=a/x.y x_y=b/x_y"},
		{"mapped names of two servers", []string{"a=: x.y", "b=: x/y"}, "x_y=a/x.y x_y_eolnb6gl=b/x/y"},
		{"long names", []string{"s: " + long + "1 " + long + "2"},
			"s__" + strings.Repeat("long_", 10) + "lo_tvbodohq=s/" + long + "1 s__" + strings.Repeat("long_", 10) + "lo_5jz5fqwt=s/" + long + "2"},
		{"a long server name", []string{long + ": a b"},
			(long)[:55] + "_i7o436g4=" + long + "/a " + long[:55] + "_welagbs2=" + long + "/b"},
	}
	valid := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, all := build(t, catalog.Rules{}, tt.servers...)
			if got := exposed(s, catalog.Tools); got != tt.want {
				t.Errorf("exposed %s\nwant    %s", got, tt.want)
			}
			mapped := 0
			for _, e := range s.Entries(catalog.Tools) {
				if !valid.MatchString(e.Exposed) {
					t.Errorf("%q is not a name", e.Exposed)
				}
				if got, ok := s.Tool(e.Exposed); !ok || got.Server != e.Server || got.Name != e.Name {
					t.Errorf("Tool(%q) = %v", e.Exposed, got)
				}
				if !strings.HasSuffix(e.Exposed, e.Name) || strings.Contains(e.Server, ".") {
					mapped++
				}
			}
			if len(all) != mapped {
				t.Errorf("%d names are mapped, problems %v", mapped, all)
			}
		})
	}
}

func TestASuffixThatIsTakenIsReplaced(t *testing.T) {
	s, _ := build(t, catalog.Rules{}, "s: a.b a_b a_b_vtac5wcy")
	want := "s__a_b_bgfpnqmq=s/a.b s__a_b=s/a_b s__a_b_vtac5wcy=s/a_b_vtac5wcy"
	if got := exposed(s, catalog.Tools); got != want {
		t.Errorf("exposed %s\nwant    %s", got, want)
	}
}

func TestNameLimit(t *testing.T) {
	s, _ := build(t, catalog.Rules{Catalog: config.Catalog{NameLimit: 20}}, "s: sixteen_and_more x")
	for _, e := range s.Entries(catalog.Tools) {
		if len(e.Exposed) > 20 {
			t.Errorf("%q is too long", e.Exposed)
		}
	}
	if _, ok := s.Tool("s__x"); !ok {
		t.Error("a short name was changed")
	}
}

func TestLookup(t *testing.T) {
	s, _ := build(t, catalog.Rules{},
		"github=gh: list.issues get", "a: b__x x", "a__b: x", "a__gone", "a.b: dotted", "mcp: inner", "bare=: free a.c", "a_: x")
	tests := []struct{ name, want string }{
		{"gh__get", "github/get"},
		{"github__get", "github/get"},
		{"github.get", "github/get"},
		{"mcp__gh__get", "github/get"},
		{"mcp__github__get", "github/get"},
		{"mcp__github.get", "github/get"},
		{"github.list.issues", "github/list.issues"},
		{"github__list.issues", "github/list.issues"},
		{"github__list_issues", "github/list.issues"},
		{"gh__list_issues", "github/list.issues"},
		{"a__b__x", "a__b/x"},
		{"a.b__x", ""}, // of a.b
		{"a__b.x", "a__b/x"},
		{"a__x", "a/x"},
		{"a.x", "a/x"},
		{"a__gone__x", ""}, // never somebody else's
		{"a.b.dotted", "a.b/dotted"},
		{"a_b__dotted", "a.b/dotted"},
		{"mcp__inner", "mcp/inner"},
		{"mcp__mcp__inner", "mcp/inner"},
		{"free", "bare/free"},
		{"bare__free", "bare/free"},
		{"bare.a.c", "bare/a.c"},
		{"a___x", "a_/x"},
		{"", ""},
		{"get", ""},
		{"github", ""},
		{"github__", ""},
		{"__get", ""},
		{"GH__get", ""},
		{"mcp__", ""},
		{"mcp__mcp__gh__get", ""},
	}
	for _, tt := range tests {
		got := ""
		if e, ok := s.Tool(tt.name); ok {
			got = e.Server + "/" + e.Name
		}
		if got != tt.want {
			t.Errorf("Tool(%q) = %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestPromptsHaveTheirOwnNames(t *testing.T) {
	l := catalog.NewListing(catalog.Input{Server: server("s"), Tools: named(t, tool, "a"), Prompts: named(t, prompt, "a", "b.c")})
	s, _ := catalog.Build([]*catalog.Listing{l}, catalog.Rules{})
	if e, ok := s.Prompt("s.b.c"); !ok || e.Kind != catalog.Prompts || string(e.Def) != `{"name":"s__b_c"}` {
		t.Errorf("prompt = %+v", e)
	}
	if _, ok := s.Prompt("s__a"); !ok {
		t.Error("s__a is no prompt")
	}
	if _, ok := s.Tool("s__b_c"); ok {
		t.Error("s__b_c is a tool")
	}
}

func TestFindingAToolAllocatesNothing(t *testing.T) {
	s, _ := build(t, catalog.Rules{}, "s: a b c")
	if n := testing.AllocsPerRun(100, func() { s.Tool("s__b") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if _, ok := new(catalog.Snapshot).Tool("s__b"); ok {
		t.Error("an empty snapshot has tools")
	}
}

func TestLongNamesOfClientsCostNothing(t *testing.T) {
	s, _ := build(t, catalog.Rules{}, "server: a")
	for _, text := range []string{"_", ".", "server__", "mcp__"} {
		name := strings.Repeat(text, 4<<20/len(text))
		began := time.Now()
		if _, ok := s.Tool(name); ok {
			t.Errorf("%.20s… is a tool", name)
		}
		if _, ok := s.Resource(name); ok {
			t.Errorf("%.20s… is a resource", name)
		}
		if took := time.Since(began); took > 5*time.Second { // trying every separator took minutes
			t.Errorf("%.20s…: looking it up took %v", name, took)
		}
	}
}

// FuzzNames gives up to three servers with up to six tools. Whatever they are
// called, no two tools are exposed under the same name, and every name finds its tool.
func FuzzNames(f *testing.F) {
	f.Add("a", "a_", "a__b", "_x,x,b__x,y.z,y_z,y/z")
	f.Add("a", "a", "", "x,__x,a__x")
	f.Add("mcp", "mcp__mcp", "mcp.mcp", "mcp__x,mcp.x,x")
	f.Add("ä", "ö", strings.Repeat("p", 70), "ü,"+strings.Repeat("t", 200)+",-")
	f.Fuzz(func(t *testing.T, p1, p2, p3, names string) {
		if len(p1)+len(p2)+len(p3) > 300 || len(names) > 400 {
			return
		}
		tools := strings.Split(names, ",")
		if len(tools) > 6 {
			return
		}
		var servers []*config.Server
		var listings []*catalog.Listing
		for i, p := range []string{p1, p2, p3} {
			s := server("s"+p+string(rune('0'+i)), prefix(p))
			in := catalog.Input{Server: s}
			for _, name := range tools {
				in.Tools = append(in.Tools, []byte(tool(name)))
			}
			servers, listings = append(servers, s), append(listings, catalog.NewListing(in))
		}
		s, _ := catalog.Build(listings, catalog.Rules{Servers: servers})
		valid := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
		seen := map[string]bool{}
		for _, e := range s.Entries(catalog.Tools) {
			if !valid.MatchString(e.Exposed) || seen[e.Exposed] {
				t.Fatalf("%q of %q/%q is taken or no name", e.Exposed, e.Server, e.Name)
			}
			seen[e.Exposed] = true
			got, ok := s.Tool(e.Exposed)
			if !ok || got.Server != e.Server || got.Name != e.Name {
				t.Fatalf("Tool(%q) = %+v, want %q/%q", e.Exposed, got, e.Server, e.Name)
			}
			for _, sep := range []string{".", "__"} {
				alias := e.Server + sep + e.Name
				want := owner(servers, alias)
				if got, ok := s.Tool(alias); want == e.Server && !seen[alias] && exposedAs(s, alias) == nil && (!ok || got.Server != e.Server || got.Name != e.Name) {
					t.Fatalf("Tool(%q) = %+v, want %q/%q", alias, got, e.Server, e.Name)
				}
			}
		}
		for i, l := range listings {
			if n := len(l.Tools); n > 0 && countOf(s, servers[i].Name) != n {
				t.Fatalf("%q has %d tools, %d exposed", servers[i].Name, n, countOf(s, servers[i].Name))
			}
		}
	})
}

// owner is the server with the longest name in front of a separator.
func owner(servers []*config.Server, alias string) string {
	best := ""
	for _, s := range servers {
		if (strings.HasPrefix(alias, s.Name+".") || strings.HasPrefix(alias, s.Name+"__")) && len(s.Name) > len(best) {
			best = s.Name
		}
	}
	return best
}

func exposedAs(s *catalog.Snapshot, name string) *catalog.Entry {
	for i, e := range s.Entries(catalog.Tools) {
		if e.Exposed == name {
			return &s.Entries(catalog.Tools)[i]
		}
	}
	return nil
}

func countOf(s *catalog.Snapshot, server string) (n int) {
	for _, e := range s.Entries(catalog.Tools) {
		if e.Server == server {
			n++
		}
	}
	return n
}
