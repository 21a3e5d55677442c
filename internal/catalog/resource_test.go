package catalog_test

import (
	"strings"
	"testing"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
)

func resources(t *testing.T) *catalog.Snapshot {
	t.Helper()
	docs := server("docs")
	files := server("my files")
	late := server("late")
	var listings []*catalog.Listing
	for _, in := range []catalog.Input{
		{
			Server:    files,
			Resources: named(t, resource, "file:///a", "file:///only", catalog.Qualify("docs", "file:///a"), catalog.Qualify("unknown", "file:///a")),
			Templates: named(t, resourceTemplate, "file:///{path}", "files://{+rest}"),
		},
		{
			Server:    docs,
			Resources: named(t, resource, "file:///a", "docs://index"),
			Templates: named(t, resourceTemplate, "file:///{path}", "docs://{section}/{page}", "docs://{section}/intro", "files://{a}"),
		},
		{Server: server("nothing"), Capabilities: []byte(`{"tools":{}}`)},
		{Server: server("quiet"), Capabilities: []byte(`{"resources":{}}`)},
	} {
		listings = append(listings, catalog.NewListing(in))
	}
	s, _ := catalog.Build(listings, catalog.Rules{Servers: []*config.Server{docs, files, server("nothing"), server("quiet"), late}})
	return s
}

func TestResourcesKeepTheirURIWhenUnique(t *testing.T) {
	s := resources(t)
	want := `file:///a=docs/file:///a docs://index=docs/docs://index ` +
		`mcp+server:my%20files:file:///a=my files/file:///a file:///only=my files/file:///only ` +
		`mcp+server:my%20files:mcp+server:docs:file:///a=my files/mcp+server:docs:file:///a mcp+server:unknown:file:///a=my files/mcp+server:unknown:file:///a`
	if got := exposed(s, catalog.Resources); got != want {
		t.Errorf("resources\n%s\nwant\n%s", strings.ReplaceAll(got, " ", "\n"), strings.ReplaceAll(want, " ", "\n"))
	}
	want = `file:///{path}=docs/file:///{path} docs://{section}/{page}=docs/docs://{section}/{page} docs://{section}/intro=docs/docs://{section}/intro ` +
		`files://{a}=docs/files://{a} mcp+server:my%20files:file:///{path}=my files/file:///{path} files://{+rest}=my files/files://{+rest}`
	if got := exposed(s, catalog.Templates); got != want {
		t.Errorf("templates\n%s\nwant\n%s", strings.ReplaceAll(got, " ", "\n"), strings.ReplaceAll(want, " ", "\n"))
	}
	e := s.Entries(catalog.Resources)[2]
	if got := string(e.Def); got != `{"uri":"mcp+server:my%20files:file:///a","name":"r"}` {
		t.Errorf("definition %s", got)
	}
}

func TestReadingResources(t *testing.T) {
	s := resources(t)
	tests := []struct{ uri, want string }{
		{"file:///a", "docs file:///a"},
		{"file:///only", "my files file:///only"},
		{"mcp+server:my%20files:file:///a", "my files file:///a"},
		{"mcp+server:docs:file:///a", "docs file:///a"}, // not the one that my files lists under this URI
		{"mcp+server:my%20files:mcp+server:docs:file:///a", "my files mcp+server:docs:file:///a"},
		{"mcp+server:unknown:file:///a", "my files mcp+server:unknown:file:///a"},
		{"mcp+server:my%20files:file:///only", "my files file:///only"},
		{"mcp+server:my%20files:file:///b", "my files file:///b"}, // by its template
		{"mcp+server:docs:file:///only", "docs file:///only"},     // by its template
		{"mcp+server:docs:files://x/y", ""},                       // its template does not fit
		{"mcp+server:late:file:///a", ""},                         // not connected
		{"mcp+server:quiet:file:///a", ""},                        // lists nothing
		{"mcp+server:other:file:///b", ""},                        // no such server
		{"file:///b", "docs file:///b"},                           // both templates fit: the first server
		{"file:///b/c", ""},                                       //
		{"docs://x/intro", "docs docs://x/intro"},                 //
		{"docs://x/y", "docs docs://x/y"},                         //
		{"files://x/y", "my files files://x/y"},                   //
		{"files://x", "docs files://x"},                           // as many literals: the first server
		{"file:///{path}", "docs file:///{path}"},                 // the template itself
		{"mcp+server:my%20files:file:///{path}", "my files file:///{path}"},
		{"mcp+server:my%20files:files://{+rest}", "my files files://{+rest}"},
		{"", ""},
		{"nothing", ""},
	}
	for _, tt := range tests {
		got := ""
		if e, ok := s.Resource(tt.uri); ok {
			got = e.Server + " " + e.Name
			if e.Exposed != tt.uri && catalog.Qualify(e.Server, e.Name) != tt.uri {
				t.Errorf("Resource(%q) is exposed as %q", tt.uri, e.Exposed)
			}
		}
		if got != tt.want {
			t.Errorf("Resource(%q) = %q, want %q", tt.uri, got, tt.want)
		}
	}
	if e, _ := s.Resource("docs://x/intro"); !strings.Contains(string(e.Def), "{section}/intro") {
		t.Errorf("docs://x/intro fits %s, want the template with more literal characters", e.Def)
	}
}

func TestOwnersOfUnlistedResources(t *testing.T) {
	s := resources(t)
	tests := []struct{ uri, servers, own string }{
		{"x:y", "docs,my files,quiet", "x:y"},
		{"mcp+server:quiet:x:y", "quiet", "x:y"},
		{"mcp+server:my%20files:x:y", "my files", "x:y"},
		{"mcp+server:nothing:x:y", "", "x:y"},
		{"mcp+server:late:x:y", "", "x:y"},
		{"mcp+server:unknown:x:y", "docs,my files,quiet", "mcp+server:unknown:x:y"},
	}
	for _, tt := range tests {
		servers, own := s.Owners(tt.uri)
		if got := strings.Join(servers, ","); got != tt.servers || own != tt.own {
			t.Errorf("Owners(%q) = %s, %q; want %s, %q", tt.uri, got, own, tt.servers, tt.own)
		}
	}
	if servers, _ := new(catalog.Snapshot).Owners("x:y"); servers != nil {
		t.Error("an empty snapshot has owners")
	}
}

func TestTemplates(t *testing.T) {
	tests := []struct {
		template string
		matches  string
		misses   string
	}{
		{"file:///{path}", "file:///a file:///a%20b.txt file:///ä", "file:/// file:///a/b file:///a?b file://a"},
		{"file:///{+path}", "file:///a file:///a/b?c#d file:///", "file://a files:///a"},
		{"a://{x}/{y}", "a://1/2", "a://1 a://1/2/3 a:///2"},
		{"a://{x,y}", "a://1,2 a://1", "a:// a://1/2"},
		{"a://x{/seg*}", "a://x a://x/ a://x/1 a://x/1/2", "a://y a://x1"},
		{"a://x{?q,limit}", "a://x a://x?q=1 a://x?limit=2&q=1", "a://x/y a://xq=1"},
		{"a://x?f=1{&q}", "a://x?f=1 a://x?f=1&q=2", "a://x a://x?f=2"},
		{"a://x{#part}", "a://x a://x#y a://x#y/z", "a://xy"},
		{"a://x{.ext}", "a://x a://x.json a://x.tar.gz", "a://xjson a://x.a/b"},
		{"a://x{;p}", "a://x a://x;p=1", "a://x/p"},
		{"a://{x}.json", "a://1.json a://.json.json", "a://1.jso a://1/2.json a://.json"},
		{"a://{x}-{y}-{z}", "a://1-2-3 a://---2-- a://-----", "a://1-2 a:////"},
		{"{+any}", "x a://b/c", ""},
		{"plain", "plain", "plai plain2"},
		{"{scheme}://{host}", "a://b", "a:// ://b a:b"},
	}
	for _, tt := range tests {
		l := catalog.NewListing(catalog.Input{Server: server("s"), Templates: named(t, resourceTemplate, tt.template)})
		s, _ := catalog.Build([]*catalog.Listing{l}, catalog.Rules{})
		for _, uri := range strings.Fields(tt.matches) {
			if _, ok := s.Resource(uri); !ok {
				t.Errorf("%s does not match %s", tt.template, uri)
			}
		}
		for _, uri := range strings.Fields(tt.misses) {
			if _, ok := s.Resource(uri); ok {
				t.Errorf("%s matches %s", tt.template, uri)
			}
		}
	}
}

func TestMalformedTemplatesMatchNothing(t *testing.T) {
	for _, text := range []string{"a:{", "a:}", "a:{}", "a:{b", "a:{b}}", "a:{{b}}", "a:{+}", strings.Repeat("{+a}", 65)} {
		l := catalog.NewListing(catalog.Input{Server: server("s"), Templates: named(t, resourceTemplate, text)})
		s, all := catalog.Build([]*catalog.Listing{l}, catalog.Rules{})
		if len(s.Entries(catalog.Templates)) != 1 || len(all) != 1 {
			t.Errorf("%s: %d templates, problems %v; want it listed with a warning", text, len(s.Entries(catalog.Templates)), all)
		}
		if _, ok := s.Resource("a:b"); ok {
			t.Errorf("%s matches a:b", text)
		}
	}
}

// FuzzURIs checks that qualifying is reversible and that no two resources come to
// the same URI.
func FuzzURIs(f *testing.F) {
	f.Add("a", "b", "file:///x")
	f.Add("a:b", "a%3Ab", "mcp+server:a:x")
	f.Add("ä/ö", "", "")
	f.Add("a", "a:b", "b:c")
	f.Fuzz(func(t *testing.T, a, b, uri string) {
		q := catalog.Qualify(a, uri)
		server, own, ok := catalog.Restore(q)
		if !ok || server != a || own != uri {
			t.Fatalf("%q of %q is qualified as %q, which restores to %q, %q, %v", uri, a, q, server, own, ok)
		}
		if a != b && catalog.Qualify(b, uri) == q {
			t.Fatalf("%q and %q both qualify %q as %q", a, b, uri, q)
		}
		if server, own, ok := catalog.Restore(uri); ok && catalog.Qualify(server, own) != uri {
			t.Fatalf("%q restores to %q, %q, which is qualified as %q", uri, server, own, catalog.Qualify(server, own))
		}
	})
}

// FuzzTemplates checks that matching ends soon and that a template matches what it
// expands to by plain values.
func FuzzTemplates(f *testing.F) {
	f.Add("file:///{a}/{+b}{?c}", "v", "file:///x/y?c=1")
	f.Add(strings.Repeat("{+a}x", 20), "x", strings.Repeat("x", 60))
	f.Fuzz(func(t *testing.T, text, value, uri string) {
		if len(text) > 2000 || len(uri) > 2000 || text == "" || value == "" || strings.ContainsAny(value, "/?#") {
			return
		}
		l := catalog.NewListing(catalog.Input{Server: server("s"), Templates: named(t, resourceTemplate, text)})
		if len(l.Templates) == 0 || len(l.Problems) > 0 {
			return
		}
		s, _ := catalog.Build([]*catalog.Listing{l}, catalog.Rules{})
		s.Resource(uri)
		var b strings.Builder
		for rest := text; rest != ""; {
			literal, after, found := strings.Cut(rest, "{")
			b.WriteString(literal)
			if !found {
				break
			}
			expression, more, _ := strings.Cut(after, "}")
			if rest = more; strings.Contains("#./;?&", expression[:1]) {
				b.WriteString(expression[:1])
			}
			b.WriteString(value)
		}
		if _, _, ok := catalog.Restore(b.String()); ok {
			return
		}
		if _, ok := s.Resource(b.String()); !ok {
			t.Fatalf("%q does not match %q", text, b.String())
		}
	})
}
