package store_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mcp-aggregator/internal/store"
)

func open(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestRecordsSurviveARestart(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := open(t, dir)
	for i := range 100 {
		s.Put("lists", "beta", fmt.Append(nil, i))
	}
	s.Put("lists", "be/ta\nx", []byte("other"))
	s.Put("lists", "gone", []byte("x"))
	s.Put("lists", "gone", nil)
	if got := s.Get("lists", "beta"); string(got) != "99" {
		t.Errorf("before it is written the record is %q", got)
	}
	s.Close()
	s.Put("lists", "late", []byte("x"))

	again := open(t, dir)
	for key, want := range map[string]string{"beta": "99", "be/ta\nx": "other", "gone": "", "late": "", "be/ta": "", "never": ""} {
		if got := again.Get("lists", key); string(got) != want {
			t.Errorf("%q is %q, want %q", key, got, want)
		}
	}
	if got := again.Get("breakers", "beta"); got != nil {
		t.Errorf("another kind has the record %q", got)
	}
	again.Close()
	files := 0
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		info, _ := d.Info()
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s can be read by others: %v", path, info.Mode())
		}
		if !d.IsDir() {
			files++
		}
		return nil
	})
	if files != 2 {
		t.Errorf("%d files are left, want 2", files)
	}
}

func TestRecordsThatAreTooLargeAreNotKept(t *testing.T) {
	s := open(t, t.TempDir())
	s.Put("lists", "a", []byte("old"))
	s.Put("lists", "a", make([]byte, store.MaxRecord+1))
	if got := s.Get("lists", "a"); got != nil {
		t.Errorf("got %d bytes", len(got))
	}
}

func TestTwoAggregatorsMayShareTheFolder(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir), open(t, dir)
	want := [][]byte{bytes.Repeat([]byte("a"), 1<<16), bytes.Repeat([]byte("b"), 1<<16)}
	var work sync.WaitGroup
	for i, s := range []*store.Store{a, b} {
		work.Go(func() {
			for range 50 {
				s.Put("lists", "x", want[i])
				if got := s.Get("lists", "x"); !bytes.Equal(got, want[0]) && !bytes.Equal(got, want[1]) {
					t.Errorf("read a mixture of %d bytes", len(got))
				}
			}
		})
	}
	work.Wait()
}

func TestNothingIsKeptWithoutAStore(t *testing.T) {
	var s *store.Store
	s.Put("lists", "a", []byte("x"))
	if got := s.Get("lists", "a"); got != nil {
		t.Errorf("got %q", got)
	}
	s.Close()
}

func TestAFolderThatCannotBeMadeIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(filepath.Join(file, "x"), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("no error")
	}
}

func TestAFolderInWhichNothingCanBeWrittenIsAnError(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(dir, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("no error")
	}
}

// age makes all files of a folder look untouched for some time.
func age(t *testing.T, dir string, d time.Duration) {
	t.Helper()
	then := time.Now().Add(-d)
	for name := range names(t, dir) {
		if err := os.Chtimes(filepath.Join(dir, name), then, then); err != nil {
			t.Fatal(err)
		}
	}
}

func names(t *testing.T, dir string) map[string]bool {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, e := range entries {
		all[e.Name()] = true
	}
	return all
}

func TestFilesOfAProcessThatDiedAreRemoved(t *testing.T) {
	dir := t.TempDir()
	add := func(name string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const dead, young = "lists-a-0123456789abcdef.json.tmp-17", "lists-a-0123456789abcdef.json.tmp-18"
	add(dead)
	add("somebody.tmp-1")
	age(t, dir, 2*time.Hour)
	add(young)
	open(t, dir)
	if got := names(t, dir); got[dead] || !got[young] || !got["somebody.tmp-1"] || len(got) != 2 {
		t.Errorf("left are %v", got)
	}
}

func TestRecordsThatNobodyAsksForAreRemoved(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	first.Put("lists", "gone", []byte("x"))
	first.Put("lists", "used", []byte("x"))
	first.Close()
	if err := os.WriteFile(filepath.Join(dir, "lists-mine.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	age(t, dir, 31*24*time.Hour)
	second := open(t, dir)
	if got := second.Get("lists", "used"); string(got) != "x" {
		t.Fatalf("before anything is written the record is %q", got)
	}
	second.Put("lists", "new", []byte("x"))
	second.Close()
	third := open(t, dir)
	for key, want := range map[string]string{"gone": "", "used": "x", "new": "x"} {
		if got := third.Get("lists", key); string(got) != want {
			t.Errorf("%q is %q, want %q", key, got, want)
		}
	}
	if !names(t, dir)["lists-mine.json"] {
		t.Error("a file of somebody else was removed")
	}
}
