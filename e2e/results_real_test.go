//go:build e2e && linux

package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
)

// TypeScript clients check results by the output schemas that were listed: what is
// listed and what comes must fit together, whichever way it is.
func TestToolsWithOutputSchemasStayConsistent(t *testing.T) {
	t.Parallel()
	folder := realFolder(t)
	text, _ := errorLog(300_000)
	path := filepath.Join(folder, "app.log")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	program := harness.Peer(t, "@modelcontextprotocol", "server-filesystem", "dist", "index.js")
	files := harness.Config{"command": harness.Node(t), "args": []string{program, folder}}
	drop := harness.Config{"structured": "drop"}
	a := harness.Serve(t, harness.Servers(map[string]harness.Config{
		"keep": files, "drop": files.With("results", drop), "one": files.With("tool_overrides", harness.Config{"read_text_file": harness.Config{"results": drop}}),
		"pass": files.With("results", harness.Config{"policy": "pass", "structured": "drop"}),
	}).With("results", "digest"))
	names := []string{"keep__read_text_file", "drop__read_text_file", "one__read_text_file", "one__list_directory", "pass__read_text_file"}
	var calls []scriptedCall
	for _, name := range names {
		dropped := name == "drop__read_text_file" || name == "one__read_text_file"
		call := scriptedCall{Tool: name, Arguments: map[string]any{"path": path}, Read: dropped}
		if strings.HasSuffix(name, "list_directory") {
			call.Arguments["path"] = folder
		}
		calls = append(calls, call)
	}
	for _, generation := range []string{"v1", "v2"} {
		t.Run(generation, func(t *testing.T) {
			got := runResults(t, generation, a.URL, calls)
			for _, name := range names {
				res := got.Results[name]
				dropped := name == "drop__read_text_file" || name == "one__read_text_file"
				if res.IsError || res.Schema == dropped || res.Structured == dropped || (res.Policy == "digest") != dropped {
					t.Errorf("%s: schema %v, structuredContent %v, treated with %q: %.200s", name, res.Schema, res.Structured, res.Policy, res.Text)
				}
				if dropped && res.Original != digestOf(text) {
					t.Errorf("%s: result_read gives something else than the file", name)
				}
				if !dropped && strings.HasSuffix(name, "read_text_file") && res.Text != text {
					t.Errorf("%s: the text has %d bytes, want %d", name, len(res.Text), len(text))
				}
			}
		})
	}
}

// A summary goes beside what is no text, and small results and errors are never touched.
func TestTheReferenceServerIsTreatedAsConfigured(t *testing.T) {
	t.Parallel()
	program := harness.Peer(t, "@modelcontextprotocol", "server-everything", "dist", "index.js")
	m := serveModels(t)
	config := func(results harness.Config) harness.Config {
		return harness.Servers(map[string]harness.Config{"everything": {"command": harness.Node(t), "args": []string{program, "stdio"}}}).
			With("results", results).With("summarizers", m.models("", "streams")).With("mask", harness.Config{"sets": []string{"default", "generic"}})
	}
	results := harness.Config{"policy": "summarize", "threshold_tokens": 20, "summarizers": []string{"streams"}}
	a := harness.Serve(t, config(results))
	for _, version := range []string{mcptest.LegacyVersion, mcptest.ModernVersion} {
		t.Run(version, func(t *testing.T) {
			r := readAs(t, overHTTP(t, a.URL), version, nil)
			r.await("everything__echo", true)
			long := strings.Repeat("Graz is a city with many trees.\n", 2000)
			s := r.call("everything__echo", map[string]any{"message": long})
			endsWell(t, s, "streams")
			if got, _ := r.original(s.note.Handle); got != "Echo: "+long {
				t.Errorf("the original has %d bytes, want %d", len(got), len(long)+6)
			}
			if s := r.call("everything__echo", map[string]any{"message": "short"}); s.text != "Echo: short" || s.note.Policy != "" {
				t.Errorf("a short text became %+v", s)
			}
			if s := r.call("everything__echo", map[string]any{"message": map[string]any{"not": long}}); !s.result.IsError || s.note.Policy != "" {
				t.Errorf("an error became %+v", s)
			}
			if s := r.call("everything__get-structured-content", map[string]any{"location": "Chicago"}); s.result.StructuredContent == nil || s.note.Policy != "" {
				t.Errorf("structured content became %+v", s)
			}
			_, kinds := texts(r.call("everything__get-tiny-image", nil).result.Content)
			if strings.Join(kinds, " ") != "text image text" {
				t.Errorf("an image became %q", kinds)
			}
		})
	}
	whole := harness.Serve(t, config(harness.Config{"policy": "pass"}))
	want, got := toolsOf(t, whole), toolsOf(t, a)
	if _, ok := got["result_read"]; !ok || len(got) != len(want)+1 {
		t.Errorf("%d tools are listed, without treatment %d", len(got), len(want))
	}
	for name, def := range want {
		if got[name] != def {
			t.Errorf("%s is listed as\n%s\nwithout treatment as\n%s", name, got[name], def)
		}
	}
}

func TestResourcesAreReadByTools(t *testing.T) {
	t.Parallel()
	program := harness.Peer(t, "@modelcontextprotocol", "server-everything", "dist", "index.js")
	servers := map[string]harness.Config{"everything": {"command": harness.Node(t), "args": []string{program, "stdio"}}, "bulky": harness.Child(t, "bulky")}
	a := harness.Serve(t, harness.Servers(servers).With("results", "digest").With("catalog", harness.Config{"resource_tools": true}))
	for _, version := range []string{mcptest.LegacyVersion, mcptest.ModernVersion} {
		r := readAs(t, overHTTP(t, a.URL), version, nil)
		r.await("everything__echo", true)
		r.await("bulky__diff", true)
		var list struct {
			Resources         []struct{ URI string }
			ResourceTemplates []struct{ URITemplate string }
		}
		if s := r.call("list_resources", nil); json.Unmarshal([]byte(s.text), &list) != nil || len(list.Resources) != 7 || len(list.ResourceTemplates) != 2 {
			t.Errorf("%s: list_resources gives %.500s", version, s.text)
		}
		for _, listed := range list.Resources {
			want, err := r.resource(listed.URI)
			if s := r.call("read_resource", map[string]any{"uri": listed.URI}); err != nil || want == "" || s.text != want {
				t.Errorf("%s: read_resource of %s gives %.200s, want %.200s, %v", version, listed.URI, s.text, want, err)
			}
		}
		if s := r.call("read_resource", map[string]any{"uri": "demo://nothing"}); !s.result.IsError {
			t.Errorf("%s: a resource that is not there is read as %.200s", version, s.text)
		}
		kept := r.call("bulky__diff", nil)
		if s := r.call("read_resource", map[string]any{"uri": kept.note.URI}); !goesOn.MatchString(s.text) || !strings.HasPrefix(largeDiff(1<<20), s.text[:5000]) {
			t.Errorf("%s: an original is read as %.200s", version, s.text)
		}
	}
}

// toolsOf are the definitions that a client gets, as they are.
func toolsOf(t *testing.T, a *harness.Aggregator) map[string]string {
	t.Helper()
	c := a.Connect(t, mcptest.Modern)
	readAs(t, overHTTP(t, a.URL), mcptest.ModernVersion, nil).await("everything__echo", true)
	list, _, err := c.List(harness.Context(t, 10*time.Second), "tools/list")
	if err != nil {
		t.Fatal(err)
	}
	defs := map[string]string{}
	for _, def := range list {
		var name string
		if err := json.Unmarshal(mcptest.Field(def, "name"), &name); err != nil {
			t.Fatal(err)
		}
		defs[name] = string(def)
	}
	return defs
}
