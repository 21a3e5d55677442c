package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/config"
)

func notes(c *config.Config) []string {
	var out []string
	for _, n := range c.Notes {
		out = append(out, strings.TrimPrefix(n.String(), filepath.Dir(c.Path)+string(filepath.Separator)))
	}
	return out
}

func load(t *testing.T, path string, e config.Env) *config.Config {
	t.Helper()
	c, err := config.Load(path, e)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// same compares servers with what they must be; the functions fill in what differs from the defaults.
func same(t *testing.T, c *config.Config, want ...*config.Server) {
	t.Helper()
	if len(c.Servers) != len(want) {
		t.Fatalf("servers %v, want %v", c.Servers, want)
	}
	for i, s := range c.Servers {
		type fields config.Server // without Equal, so that the difference shows
		g, w := fields(*s), fields(*want[i])
		if !s.Equal(want[i]) {
			t.Errorf("%s (-want +got):\n%s", s.Name, cmp.Diff(w, g, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".secrets" }, cmp.Ignore())))
		}
	}
}

func stdio(name, command string, args ...string) *config.Server {
	s := config.DefaultServer(name)
	s.Type, s.Command, s.Args = config.TypeStdio, command, args
	return s
}

func remote(name string, typ config.Type, url string) *config.Server {
	s := config.DefaultServer(name)
	s.Type, s.URL = typ, url
	return s
}

func TestClaudeDesktopFile(t *testing.T) {
	c := load(t, "testdata/claude-desktop.good.json", env)
	mine := stdio("My-Server", `C:\Program Files\node\node.exe`, "/x", "😀")
	mine.Env = map[string]string{"GITHUB_PERSONAL_ACCESS_TOKEN": "hunter2-literal"}
	same(t, c, stdio("filesystem", "npx", "-y", "@modelcontextprotocol/server-filesystem", "/Users/me/Desktop"), mine)
	want := []string{
		`claude-desktop.good.json:2:3: globalShortcut: unknown key "globalShortcut"`,
		`claude-desktop.good.json:8:5: servers.My-Server: the server "My Server" is called "My-Server" here`,
	}
	if diff := cmp.Diff(want, notes(c)); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

func TestClaudeCodeFile(t *testing.T) {
	c := load(t, "testdata/claude-code.good.json", env)
	github := remote("github", config.TypeHTTP, "https://api.githubcopilot.com/mcp/")
	github.Headers = map[string]string{"Authorization": "Bearer hunter2-token"}
	same(t, c, github, remote("asana", config.TypeSSE, "https://mcp.asana.com/sse"), stdio("local", "uvx", "mcp-server-time"))
	if len(c.Notes) != 0 {
		t.Errorf("the rest of Claude Code's state is noted: %v", notes(c))
	}
}

func TestCursorAndOthersFile(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	c := load(t, "testdata/cursor.good.json", env)
	local := stdio("local", "python", dir+"/server.py", "/home/me", "a/b")
	local.Env, local.Enabled = map[string]string{"K": "hunter2-token"}, false
	const url = "https://mcp.example.com/mcp"
	keyed := remote("remote", config.TypeHTTP, url)
	keyed.Headers = map[string]string{"X-Key": "k"}
	same(t, c, local, keyed, remote("windsurf", config.TypeHTTP, "https://mcp.example.com/sse"),
		remote("gemini", config.TypeHTTP, url), remote("cline", config.TypeHTTP, url), remote("roo", config.TypeSSE, url))
	want := []string{
		"cursor.good.json:4:68: servers.remote.headers.Accept: is set by the aggregator itself; remove it",
		`cursor.good.json:5:63: servers.windsurf.disabledTools: unknown key "disabledTools"`,
	}
	if diff := cmp.Diff(want, notes(c)); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

func TestVSCodeFile(t *testing.T) {
	workspace := filepath.Join(t.TempDir(), "project")
	copyTo(t, "testdata/vscode.good.json", filepath.Join(workspace, ".vscode", "mcp.json"))
	copyTo(t, "testdata/vscode.env", filepath.Join(workspace, "vscode.env"))
	c := load(t, filepath.Join(workspace, ".vscode", "mcp.json"), env)
	tool := remote("io.github.example-tool", config.TypeHTTP, "https://eu.example.com/mcp//v1")
	tool.Headers = map[string]string{"Authorization": "Bearer hunter2-input"}
	local := stdio("local", "node", workspace+"/server.js", "project", "/* no comment */", "// nor this")
	local.Env = map[string]string{"A": "last", "B": "from env", "C": "two words", "D": "single # quoted", "PASSWORD": "hunter2-file"}
	local.Cwd = filepath.Join(workspace, "sub")
	same(t, c, tool, local)
	if diff := cmp.Diff([]string{`mcp.json:9:5: servers.io.github.example-tool: the server "io.github.example/tool" is called "io.github.example-tool" here`}, notes(c)); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	src, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, src, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestJSONForms(t *testing.T) {
	cases := []struct {
		what, name, src string
		servers         []string
	}{
		{"VS Code's settings.json", "settings.json", `{"editor.fontSize": 12, "mcp": {"servers": {"a": {"command": "x"}}}}`, []string{"a (stdio: x)"}},
		{"JSON without the ending", "config", ` // c` + "\n" + `{"mcpServers": {"a": {"command": "x"}}}`, []string{"a (stdio: x)"}},
		{"YAML in braces without the ending", "config", `{servers: {a: {command: x}}}`, []string{"a (stdio: x)"}},
		{"JSON in a YAML file", "c.yaml", `{"servers": {"a": {"command": "x"}}}`, []string{"a (stdio: x)"}},
		{"comments with the ending jsonc", "c.jsonc", `{"servers": {"a": {"command": "x",},},} // end`, []string{"a (stdio: x)"}},
		{"our own settings beside theirs", "c.json", `{"mcpServers": {"a": {"command": "x", "prefix": "p", "timeout": 5}}, "list_wait": "3s"}`, []string{"a (stdio: x)"}},
		{"names that become equal", "c.json", `{"mcpServers": {"a b": {"command": "x"}, "a/b": {"command": "y"}, "a-b": {"command": "z"}, "//": {"command": "w"}}}`,
			[]string{"a-b-x (stdio: x)", "a-b-xx (stdio: y)", "a-b (stdio: z)", "server (stdio: w)"}},
	}
	for _, c := range cases {
		t.Run(c.what, func(t *testing.T) {
			cfg, err := config.Parse(c.name, []byte(c.src), env)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range cfg.Servers {
				got = append(got, s.String())
			}
			if diff := cmp.Diff(c.servers, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestYAMLRefusesWhatJSONOnlyNotes(t *testing.T) {
	_, err := config.Parse("c.yaml", []byte(`{"mcpServers": {"a": {"command": "x"}}}`), env)
	want := `c.yaml:1:2: mcpServers: unknown key "mcpServers"; did you mean "servers"?`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
