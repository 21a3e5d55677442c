package app

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/store"
)

// remembering opens the memory of a folder; end writes and closes it.
func remembering(t *testing.T, dir string) (m *memory, end func()) {
	t.Helper()
	s, err := store.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return newMemory(s), s.Close
}

func account(env, header, token string, args ...string) *config.Server {
	s := config.DefaultServer("files")
	s.Type, s.Command, s.Args, s.BearerToken = config.TypeStdio, "files", args, token
	s.Env, s.Headers = map[string]string{"FILES_TOKEN": env}, map[string]string{"X-Key": header}
	return s
}

func offer(description string) *catalog.Kept {
	return &catalog.Kept{Tools: [][]byte{[]byte(`{"name":"read","description":"` + description + `"}`)}}
}

func TestListsWithASecretAreNotKept(t *testing.T) {
	const secret = `hunter2<"é>`
	escaped, err := json.Marshal(secret) // < as \u003c
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Trim(string(escaped), `"`)
	def := func(s string) [][]byte {
		return [][]byte{[]byte(`{"name":"x"}`), []byte(`{"description":"as ` + s + `!"}`)}
	}
	for name, kept := range map[string]*catalog.Kept{
		"a tool":                        {Tools: def(`hunter2<\"é>`)},
		"a tool, escaped":               {Tools: def(text)},
		"a tool, all escaped":           {Tools: def(`\u0068unter2\u003c\u0022\u00e9\u003E`)},
		"a prompt":                      {Prompts: def(text)},
		"a resource":                    {Resources: def(text)},
		"a template":                    {Templates: def(text)},
		"the name of a field":           {Capabilities: []byte(`{"` + text + `":1}`)},
		"the server's name for itself":  {ServerInfo: []byte(`{"name":"` + text + `"}`)},
		"the instructions":              {Instructions: "use " + secret},
		"something that cannot be read": {Tools: [][]byte{[]byte(`{"\u0061": tru`)}},
	} {
		m, _ := remembering(t, t.TempDir())
		s := account(secret, "", "")
		m.keep(s, offer("harmless"))
		if m.recall(s) == nil {
			t.Fatalf("%s: harmless lists are not kept", name)
		}
		m.keep(s, kept)
		if got := m.recall(s); got != nil {
			t.Errorf("%s: kept are %+v", name, got)
		}
	}
}

func TestEachAccountHasItsOwnLists(t *testing.T) {
	dir := t.TempDir()
	m, end := remembering(t, dir)
	m.keep(account("hunter2-a", "hunter2-b", "hunter2-c", "--root=/a"), offer("mine"))
	end()
	again, _ := remembering(t, dir)
	for name, tt := range map[string]struct {
		server *config.Server
		known  bool
	}{
		"the same":         {account("hunter2-a", "hunter2-b", "hunter2-c", "--root=/a"), true},
		"other variables":  {account("hunter2-x", "hunter2-b", "hunter2-c", "--root=/a"), false},
		"another header":   {account("hunter2-a", "hunter2-x", "hunter2-c", "--root=/a"), false},
		"another token":    {account("hunter2-a", "hunter2-b", "hunter2-x", "--root=/a"), false},
		"another argument": {account("hunter2-a", "hunter2-b", "hunter2-c", "--root=/b"), false},
	} {
		if got := again.recall(tt.server); (got != nil) != tt.known {
			t.Errorf("%s: recalled %+v", name, got)
		}
	}
	other, _ := remembering(t, t.TempDir())
	s := account("hunter2-a", "", "")
	if m.fingerprint(s) == other.fingerprint(s) {
		t.Error("fingerprints in two folders are equal, so values can be guessed in advance")
	}
	if again.fingerprint(s) != m.fingerprint(s) {
		t.Error("the salt was not kept")
	}
	if strings.Contains(m.identity(s), "hunter2") {
		t.Error("the identity shows a secret")
	}
}

func TestAFolderThatCannotBeUsedIsAWarning(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Watch = false
	a, err := New(Options{Config: c, StateDir: filepath.Join(file, "state")})
	if err != nil {
		t.Fatal(err)
	}
	stop, err := a.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	list := a.warnings.List()
	if len(list) != 1 || list[0].Category != "configuration" || !strings.Contains(list[0].Details, "state folder") {
		t.Errorf("the warnings are %+v", list)
	}
}
