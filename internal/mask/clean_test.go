package mask_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-aggregator/internal/mask"
)

// corpus reads the text files below a folder, up to a number of bytes.
func corpus(t testing.TB, root string, most int, skip func(path string) bool) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	size := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || size > most:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || d.Name() == "bin" || d.Name() == "fuzz"):
			return filepath.SkipDir
		case d.IsDir() || skip(path):
			return nil
		case !slices.Contains([]string{".go", ".md", ".yaml", ".yml", ".json", ".txt", ".mod", ".sum", ".ts", ".mjs", ".js", ".txtar"}, filepath.Ext(path)):
			return nil
		}
		text, err := os.ReadFile(path)
		files[path] = text
		size += len(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// falsePositives masks texts without secrets and lists the lines that changed.
func falsePositives(t testing.TB, m *mask.Masker, files map[string][]byte) (lines []string, size int) {
	t.Helper()
	for path, text := range files {
		size += len(text)
		out := m.Text(text, nil)
		if bytes.Equal(out, text) {
			continue
		}
		for i, l := range strings.Split(string(out), "\n") {
			if strings.Contains(l, "[masked:") {
				lines = append(lines, fmt.Sprintf("%s:%d: %.160s", path, i+1, strings.TrimSpace(l)))
			}
		}
	}
	slices.Sort(lines)
	return lines, size
}

func TestThisProjectHoldsNoSecretsOutsideOfTests(t *testing.T) {
	files := corpus(t, "../..", 64<<20, func(path string) bool {
		return strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata")
	})
	for _, c := range []struct {
		sets []string
		most int
	}{{[]string{"default"}, 0}, {[]string{"all"}, 0}} {
		lines, size := falsePositives(t, masker(t, mask.Options{Sets: c.sets, Code: []string{mask.KubernetesSecret}}), files)
		t.Logf("%v: %d files, %d bytes, %d lines", c.sets, len(files), size, len(lines))
		if len(lines) > c.most {
			t.Errorf("%v masks:\n%s", c.sets, strings.Join(lines, "\n"))
		}
	}
}

func TestForeignSourceHasFewSecrets(t *testing.T) {
	root, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Skip("no go command")
	}
	files := corpus(t, strings.TrimSpace(string(root)), 12<<20, func(path string) bool {
		return strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata") || strings.Contains(path, "/cache/")
	})
	for _, c := range []struct {
		sets  []string
		perMB float64
	}{{[]string{"default"}, 1}, {[]string{"all"}, 2}} {
		lines, size := falsePositives(t, masker(t, mask.Options{Sets: c.sets, Code: []string{mask.KubernetesSecret}}), files)
		t.Logf("%v: %d files, %d bytes, %d lines\n%s", c.sets, len(files), size, len(lines), strings.Join(lines[:min(60, len(lines))], "\n"))
		if got := float64(len(lines)) / (float64(size) / mega); got > c.perMB {
			t.Errorf("%v: %.2f lines in a megabyte, want at most %g", c.sets, got, c.perMB)
		}
	}
}

func TestCleanOutputsStay(t *testing.T) {
	m := full(t)
	for name, text := range map[string][]byte{"log": cleanLog(mega), "kubernetes": cleanKube(mega)} {
		if out := m.Text(text, nil); len(out) != len(text) || &out[0] != &text[0] {
			t.Errorf("%s is not the same slice", name)
		}
		if e := m.Edits(result(text), span(result(text)), nil); e != nil {
			t.Errorf("%s: %d edits", name, len(e))
		}
	}
}
