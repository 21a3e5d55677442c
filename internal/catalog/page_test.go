package catalog_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/wire"
)

// readPage decodes a page: the names on it and the next cursor.
func readPage(t testing.TB, s *catalog.Snapshot, cursor string) (names []string, next string) {
	t.Helper()
	v, err := s.Page(catalog.Tools, cursor)
	if err != nil {
		t.Fatalf("Page(%q): %v", cursor, err)
	}
	if v.Len() != len(v.Bytes()) {
		t.Fatalf("Page(%q) has %d bytes, its length says %d", cursor, len(v.Bytes()), v.Len())
	}
	var page struct {
		Tools []struct {
			Name string
		}
		NextCursor string
	}
	var strict map[string]json.RawMessage
	if err := json.Unmarshal(v.Bytes(), &strict); err != nil || strict["tools"] == nil {
		t.Fatalf("page %s: %v", v.Bytes(), err)
	}
	if err := json.Unmarshal(v.Bytes(), &page); err != nil {
		t.Fatal(err)
	}
	for _, tool := range page.Tools {
		names = append(names, tool.Name)
	}
	return names, page.NextCursor
}

// readAll follows the cursors to the end.
func readAll(t testing.TB, s *catalog.Snapshot) (names []string, pages int) {
	t.Helper()
	cursor := ""
	for {
		some, next := readPage(t, s, cursor)
		names = append(names, some...)
		if pages++; next == "" {
			return names, pages
		}
		if cursor = next; pages > 1000 {
			t.Fatal("the pages have no end")
		}
	}
}

func numbered(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("t%02d", i))
	}
	return names
}

func TestPagesAddUpToTheList(t *testing.T) {
	for _, n := range []int{0, 1, 4, 5, 6, 10, 23} {
		a, b := server("a", prefix("")), server("b", prefix(""))
		half := n / 2
		s, _ := catalog.Build([]*catalog.Listing{
			withTools(t, a, numbered(n)[:half]...), withTools(t, server("none")), withTools(t, b, numbered(n)[half:]...),
		}, catalog.Rules{Catalog: config.Catalog{PageSize: 5}})
		names, pages := readAll(t, s)
		if !slices.Equal(names, numbered(n)) || pages != max(1, (n+4)/5) {
			t.Errorf("%d tools: %d pages with %v", n, pages, names)
		}
	}
}

func TestPageBytes(t *testing.T) {
	in := catalog.Input{Server: server("s"), Tools: raw(t, `{"name":"a","inputSchema":{"type":"object"},"x":1.0}`, tool("b"))}
	s, _ := catalog.Build([]*catalog.Listing{catalog.NewListing(in)}, catalog.Rules{})
	want := map[catalog.Kind]string{
		catalog.Tools:     `{"tools":[{"name":"s__a","inputSchema":{"type":"object"},"x":1.0},{"name":"s__b","inputSchema":{"type":"object"}}]}`,
		catalog.Prompts:   `{"prompts":[]}`,
		catalog.Resources: `{"resources":[]}`,
		catalog.Templates: `{"resourceTemplates":[]}`,
	}
	for k, want := range want {
		v, err := s.Page(k, "")
		if err != nil || string(v.Bytes()) != want {
			t.Errorf("%s: %s, %v", k.Method(), v.Bytes(), err)
		}
		m, err := s.PageModern(k, "")
		if modern := `{"resultType":"complete","ttlMs":0,"cacheScope":"private",` + want[1:]; err != nil || string(m.Bytes()) != modern {
			t.Errorf("modern %s: %s, %v", k.Method(), m.Bytes(), err)
		}
		if got, ok := catalog.KindOf(k.Method()); !ok || got != k {
			t.Errorf("KindOf(%q) = %v", k.Method(), got)
		}
	}
	if v, err := new(catalog.Snapshot).Page(catalog.Tools, ""); err != nil || string(v.Bytes()) != `{"tools":[]}` {
		t.Errorf("an empty snapshot lists %s, %v", v.Bytes(), err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = s.PageModern(catalog.Tools, "") }); n > 0 {
		t.Errorf("a page costs %v allocations", n)
	}
}

func TestPagesAreBoundedInBytes(t *testing.T) {
	in := catalog.Input{Server: server("s", prefix(""))}
	for _, name := range numbered(60) {
		in.Tools = append(in.Tools, []byte(`{"name":"`+name+`","_meta":"`+strings.Repeat("x", 200<<10)+`","inputSchema":{"type":"object"}}`))
	}
	s, _ := catalog.Build([]*catalog.Listing{catalog.NewListing(in)}, catalog.Rules{})
	for cursor := ""; ; {
		v, _ := s.Page(catalog.Tools, cursor)
		if v.Len() > 4<<20 {
			t.Errorf("a page has %d bytes", v.Len())
		}
		if _, cursor = readPage(t, s, cursor); cursor == "" {
			break
		}
	}
	if names, pages := readAll(t, s); !slices.Equal(names, numbered(60)) || pages != 3 {
		t.Errorf("%d pages with %v", pages, names)
	}
}

func TestCursorsSurviveChanges(t *testing.T) {
	rules := catalog.Rules{
		Catalog: config.Catalog{PageSize: 4},
		Servers: []*config.Server{server("a", prefix("a")), server("b", prefix("b")), server("c", prefix("c"))},
	}
	of := func(lists ...string) *catalog.Snapshot {
		var listings []*catalog.Listing
		for i, names := range lists {
			if names != "-" {
				listings = append(listings, withTools(t, rules.Servers[i], strings.Fields(names)...))
			}
		}
		s, _ := catalog.Build(listings, rules)
		return s
	}
	before := of("1 2 3", "1 2 3", "1 2 3")
	_, cursor := readPage(t, before, "") // the last one shown is b__1
	tests := []struct {
		name  string
		after *catalog.Snapshot
		want  string
	}{
		{"nothing changed", of("1 2 3", "1 2 3", "1 2 3"), "b__2 b__3 c__1 c__2 | c__3"},
		{"one went before", of("1 3", "1 2 3", "1 2 3"), "b__2 | b__3 c__1 c__2 c__3"},
		{"one came before", of("1 2 3 4", "1 2 3", "1 2 3"), "b__2 b__3 c__1 | c__2 c__3"},
		{"one came in front of it", of("1 2 3", "0 1 2 3", "1 2 3"), "b__2 b__3 c__1 | c__2 c__3"},
		{"it is gone", of("1 2 3", "2 3", "1 2 3"), "b__2 | b__3 c__1 c__2 c__3"},
		{"its server has nothing left", of("1 2 3", "", "1 2 3"), "c__1 | c__2 c__3"},
		{"its server is not connected", of("1 2 3", "-", "1 2 3"), "c__1 | c__2 c__3"},
		{"everything is gone", of("-", "-", "-"), ""},
		{"everything behind it is gone", of("1 2 3", "1", "-"), ""},
		{"it is elsewhere", of("1 2 3", "3 2 1", "1 2 3"), "c__1 c__2 | c__3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var pages []string
			for at := cursor; ; {
				names, next := readPage(t, tt.after, at)
				pages = append(pages, strings.Join(names, " "))
				v, err := tt.after.PageModern(catalog.Tools, at)
				if err != nil || !strings.HasPrefix(string(v.Bytes()), `{"resultType":"complete",`) || wire.Valid(v.Bytes()) != nil {
					t.Errorf("modern page %s: %v", v.Bytes(), err)
				}
				if at = next; at == "" {
					break
				}
			}
			if got := strings.Join(pages, " | "); got != tt.want {
				t.Errorf("pages %q, want %q", got, tt.want)
			}
		})
	}
}

func TestBadCursors(t *testing.T) {
	big := server("s")
	l := catalog.NewListing(catalog.Input{Server: big, Tools: named(t, tool, numbered(9)...), Prompts: named(t, prompt, numbered(9)...)})
	s, _ := catalog.Build([]*catalog.Listing{l}, catalog.Rules{Catalog: config.Catalog{PageSize: 4}})
	_, cursor := readPage(t, s, "")
	other, _ := build(t, catalog.Rules{Catalog: config.Catalog{PageSize: 4}}, "x: a b c d e")
	flipped := []byte(cursor)
	flipped[5] ^= 1
	for _, tt := range []struct {
		name   string
		s      *catalog.Snapshot
		k      catalog.Kind
		cursor string
	}{
		{"garbage", s, catalog.Tools, "garbage"},
		{"a number", s, catalog.Tools, "2"},
		{"right length", s, catalog.Tools, strings.Repeat("A", len(cursor))},
		{"one bit changed", s, catalog.Tools, string(flipped)},
		{"cut", s, catalog.Tools, cursor[:len(cursor)-1]},
		{"of another list", s, catalog.Prompts, cursor},
		{"of a server that is not configured", other, catalog.Tools, cursor},
		{"of a snapshot without servers", new(catalog.Snapshot), catalog.Tools, cursor},
	} {
		if _, err := tt.s.Page(tt.k, tt.cursor); !errors.Is(err, catalog.ErrBadCursor) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if _, err := tt.s.PageModern(tt.k, tt.cursor); !errors.Is(err, catalog.ErrBadCursor) {
			t.Errorf("%s, modern: %v", tt.name, err)
		}
	}
}

// FuzzCursor checks that a cursor is refused or gives a page of valid JSON, and that
// a cursor of an earlier snapshot goes on behind the entry it was handed out with.
func FuzzCursor(f *testing.F) {
	of := func(t testing.TB, names ...string) *catalog.Snapshot {
		s, _ := catalog.Build([]*catalog.Listing{withTools(t, server("s", prefix("")), names...)}, catalog.Rules{Catalog: config.Catalog{PageSize: 3}})
		return s
	}
	all := numbered(20)
	last := map[string]int{} // cursor → the last entry in front of it
	before := of(f, all...)
	for cursor, shown := "", 0; ; {
		v, _ := before.Page(catalog.Tools, cursor)
		cursor, _ = wire.Unquote(wire.Field(v.Raw, wire.Span{Lo: 0, Hi: len(v.Raw)}, "nextCursor").Of(v.Raw))
		if cursor == "" {
			break
		}
		shown += 3
		last[cursor] = shown - 1
		f.Add(cursor, uint32(0b1011))
	}
	f.Fuzz(func(t *testing.T, cursor string, gone uint32) {
		var left []string
		want := "" // the first that is left behind the last one shown
		shown, known := last[cursor]
		for i, name := range all {
			if gone>>i&1 == 1 {
				continue
			}
			left = append(left, name)
			if want == "" && i > shown {
				want = name
			}
		}
		after := of(t, left...)
		v, err := after.Page(catalog.Tools, cursor)
		if err != nil {
			if !errors.Is(err, catalog.ErrBadCursor) || known {
				t.Fatalf("Page(%q): %v", cursor, err)
			}
			return
		}
		if wire.Valid(v.Bytes()) != nil {
			t.Fatalf("page %s", v.Bytes())
		}
		if !known || gone>>shown&1 == 1 {
			return
		}
		names, _ := readPage(t, after, cursor)
		if got := strings.Join(names, " "); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Fatalf("behind %s comes %q, want %q", all[shown], got, want)
		}
	})
}
