package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-aggregator/internal/config"
)

// FuzzLoad: any text loads, or is refused with problems that all have a place in it and a message on one line;
// what a variable holds is never shown. A text that loads keeps the promises others rely on.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"*.good.yaml", "*.bad.yaml", "*.good.json", "*.bad.json"} {
		names, err := filepath.Glob("testdata/" + pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range names {
			src, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src, strings.HasSuffix(name, ".json"))
		}
	}
	f.Fuzz(func(t *testing.T, src []byte, isJSON bool) {
		name := "testdata/fuzz.yaml"
		if isJSON {
			name = "testdata/fuzz.json"
		}
		c, err := config.Parse(name, src, env)
		if err != nil {
			checkProblems(t, src, err)
			return
		}
		checkConfig(t, c)
	})
}

func checkProblems(t *testing.T, src []byte, err error) {
	t.Helper()
	ps, ok := errors.AsType[*config.Problems](err)
	if !ok || len(*ps) == 0 {
		t.Fatalf("error without problems: %v", err)
	}
	last := 1
	for _, p := range *ps {
		if p.Line < last || p.Col < 1 || p.Message == "" || strings.ContainsAny(p.String(), "\n\r") {
			t.Errorf("problem without a place, out of order or on several lines: %+v", p)
		}
		last = p.Line
	}
	if strings.Contains(err.Error(), "hunter2") && !strings.Contains(string(src), "hunter2") {
		t.Errorf("a secret shows: %v", err)
	}
}

func checkConfig(t *testing.T, c *config.Config) {
	t.Helper()
	names := map[string]bool{}
	for _, s := range c.Servers {
		if s.Name == "" || names[s.Name] {
			t.Errorf("name %q is empty or given twice", s.Name)
		}
		names[s.Name] = true
		if (s.Type == config.TypeStdio) != (s.Command != "") || (s.Type == config.TypeBuiltin) != (s.Builtin != "") {
			t.Errorf("%s: type %s with command %q and builtin %q", s.Name, s.Type, s.Command, s.Builtin)
		}
		if s.InitTimeout <= 0 || s.CallTimeout <= 0 {
			t.Errorf("%s: times %v %v", s.Name, s.InitTimeout, s.CallTimeout)
		}
		if !s.Equal(s) {
			t.Errorf("%s does not equal itself", s.Name)
		}
	}
	if len(c.Servers) == 0 {
		t.Error("loads without servers")
	}
	if fmt.Sprint(c.Servers) == "" {
		t.Error("prints nothing")
	}
}
