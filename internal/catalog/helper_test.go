package catalog_test

import (
	"fmt"
	"strings"
	"testing"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/wire"
)

// server returns the configuration of a server, with changes.
func server(name string, changes ...func(*config.Server)) *config.Server {
	s := config.DefaultServer(name)
	for _, change := range changes {
		change(s)
	}
	return s
}

func prefix(p string) func(*config.Server) {
	return func(s *config.Server) { s.Prefix = &p }
}

// tool writes a plain tool definition.
func tool(name string) string {
	return fmt.Sprintf(`{"name":%s,"inputSchema":{"type":"object"}}`, wire.AppendQuote(nil, name))
}

func prompt(name string) string {
	return fmt.Sprintf(`{"name":%s}`, wire.AppendQuote(nil, name))
}

func resource(uri string) string {
	return fmt.Sprintf(`{"uri":%s,"name":"r"}`, wire.AppendQuote(nil, uri))
}

func resourceTemplate(text string) string {
	return fmt.Sprintf(`{"uriTemplate":%s,"name":"t"}`, wire.AppendQuote(nil, text))
}

// raw makes a list of definitions, which must be JSON.
func raw(t testing.TB, defs ...string) [][]byte {
	t.Helper()
	var out [][]byte
	for _, def := range defs {
		if err := wire.Valid([]byte(def)); err != nil {
			t.Fatalf("%s: %v", def, err)
		}
		out = append(out, []byte(def))
	}
	return out
}

// named makes a list with one definition per name.
func named(t testing.TB, def func(string) string, names ...string) [][]byte {
	t.Helper()
	var defs []string
	for _, name := range names {
		defs = append(defs, def(name))
	}
	return raw(t, defs...)
}

// withTools is a listing of plain tools.
func withTools(t testing.TB, s *config.Server, names ...string) *catalog.Listing {
	t.Helper()
	return catalog.NewListing(catalog.Input{Server: s, Tools: named(t, tool, names...)})
}

// exposed lists what clients see of a kind, each as "exposed=server/name".
func exposed(s *catalog.Snapshot, k catalog.Kind) string {
	var out []string
	for _, e := range s.Entries(k) {
		out = append(out, e.Exposed+"="+e.Server+"/"+e.Name)
	}
	return strings.Join(out, " ")
}

// problems writes one problem a line, without the server.
func problems(all []catalog.Problem) string {
	var b strings.Builder
	for _, p := range all {
		fmt.Fprintf(&b, "%s %s: %s\n", p.Severity, p.Name, p.Reason)
	}
	return b.String()
}
