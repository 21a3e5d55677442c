package catalog_test

import (
	"bytes"
	"strings"
	"testing"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/mask"
)

func hider(t *testing.T, values ...string) *mask.Masker {
	t.Helper()
	m, err := mask.New(mask.Options{Values: values})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestDefinitionsAndInstructionsShowNoCredentials(t *testing.T) {
	const secret = "s3cr3t/of-the-server"
	described := func(member, name string) string {
		return `{"description":"uses ` + secret + `","` + member + `":"` + name + `","inputSchema":{"type":"object","properties":{"k":{"default":"s3cr3t\/of\u002dthe-server"}}}}`
	}
	l := catalog.NewListing(catalog.Input{
		Server: server("s"), Instructions: "give it " + secret,
		Tools: raw(t, described("name", "a"), tool("b")), Prompts: raw(t, described("name", "p")),
		Resources: raw(t, described("uri", "x://r")), Templates: raw(t, described("uriTemplate", "x://{t}")),
	})
	s, problems := catalog.Build([]*catalog.Listing{l.Hide(hider(t, secret))}, catalog.Rules{})
	if len(problems) > 0 {
		t.Error(problems)
	}
	for kind, want := range map[catalog.Kind]string{catalog.Tools: "s__a", catalog.Prompts: "s__p", catalog.Resources: "x://r", catalog.Templates: "x://{t}"} {
		page, err := s.Page(kind, "")
		if err != nil {
			t.Fatal(err)
		}
		got := page.Bytes()
		if bytes.Contains(got, []byte("s3cr3t")) || !bytes.Contains(got, []byte(`"uses [masked:configured]"`)) || !bytes.Contains(got, []byte(`"`+want+`"`)) {
			t.Errorf("%v: %s", kind, got)
		}
	}
	if strings.Contains(l.Hide(hider(t, secret)).Instructions, secret) {
		t.Error("the instructions show it")
	}
}

func TestWhatShowsNoCredentialsStaysTheSameListing(t *testing.T) {
	l := catalog.NewListing(catalog.Input{Server: server("s"), Tools: named(t, tool, "a", "token-in-a-name")})
	for _, m := range []*mask.Masker{nil, hider(t), hider(t, "not-to-be-found"), hider(t, "token-in-a-name")} {
		if l.Hide(m) != l {
			t.Error("it was copied")
		}
	}
}

func TestAListingIsHiddenOncePerMasker(t *testing.T) {
	l := catalog.NewListing(catalog.Input{Server: server("s"), Tools: raw(t, `{"name":"a","description":"first-secret second-secret","inputSchema":{"type":"object"}}`)})
	one, two := hider(t, "first-secret"), hider(t, "second-secret")
	if first := l.Hide(one); first != l.Hide(one) {
		t.Error("hidden again for the same masker")
	}
	if def := l.Hide(two).Tools[0].Def; bytes.Contains(def, []byte("second-secret")) || !bytes.Contains(def, []byte("first-secret")) {
		t.Errorf("%s", def)
	}
	if stale := l.WithStale(true).Hide(one); !stale.Stale || bytes.Contains(stale.Tools[0].Def, []byte("first-secret")) {
		t.Errorf("%v %s", stale.Stale, stale.Tools[0].Def)
	}
}
