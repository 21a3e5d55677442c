package keep_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/keep"
)

// TestMain lets the test binary be another process that uses the folder.
func TestMain(m *testing.M) {
	if dir := os.Getenv("KEEP_TEST_DIR"); dir != "" {
		s, err := keep.Open(keep.Options{Memory: room(1, 8), Dir: dir})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		for range 3 {
			if _, err := s.Put("ann", keep.Meta{}, kib(8)); err != nil {
				fmt.Println(err)
			}
		}
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0) // without Close
	}
	os.Exit(m.Run())
}

// neighbour starts a process that has texts in the folder; end ends it, with a kill
// or without, but never so that it could clean up.
func neighbour(t *testing.T, dir string) (end func(kill bool)) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "KEEP_TEST_DIR="+dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	end = func(kill bool) {
		once.Do(func() {
			if kill {
				_ = cmd.Process.Kill()
			}
			stdin.Close()
			_ = cmd.Wait()
		})
	}
	t.Cleanup(func() { end(true) })
	if line, _ := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the other process says %q", line)
	}
	return end
}

func spilled(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "kept-*", "0*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestLeftoversOfDeadProcessesGoAndThoseOfTheLivingStay(t *testing.T) {
	dir := t.TempDir()
	killed, exited := neighbour(t, dir), neighbour(t, dir)
	neighbour(t, dir)
	killed(true)
	exited(false)
	if n := len(spilled(t, dir)); n != 6 {
		t.Fatalf("three processes left %d files, want 6", n)
	}
	half := filepath.Join(dir, "kept-HALFMADE")
	other := filepath.Join(dir, "something-else")
	for _, d := range []string{half, other} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	open(t, keep.Options{Dir: dir})
	if n := len(spilled(t, dir)); n != 2 {
		t.Errorf("%d files are left, want the 2 of the living process", n)
	}
	if _, err := os.Stat(half); !os.IsNotExist(err) {
		t.Errorf("a folder without a lock stays: %v", err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("a foreign folder went: %v", err)
	}
}

func TestManyStoresOpenOneFolderAtOnce(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 8 {
				s, err := keep.Open(keep.Options{Memory: room(1, 8), Dir: dir})
				if err != nil {
					t.Errorf("opening: %v", err)
					return
				}
				a := put(t, s, "ann", kib(8))
				b := put(t, s, "ann", kib(8))
				if got := there(s, "ann", a, b); got != "++" {
					t.Errorf("a neighbour's start lost texts: %s", got)
				}
				if err := s.Close(); err != nil {
					t.Errorf("closing: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

func TestFoldersThatAreNotOursAreRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes say nothing there")
	}
	base := t.TempDir()
	target := filepath.Join(base, "target")
	tests := []struct {
		name string
		make func(path string) error
		want string
	}{
		{"a symbolic link", func(p string) error { return os.Symlink(target, p) }, "symbolic links"},
		{"a file", func(p string) error { return os.WriteFile(p, nil, 0o600) }, "not a directory"},
		{"writable for all", func(p string) error { return errors.Join(os.Mkdir(p, 0o700), os.Chmod(p, 0o777)) }, "other users can write"},
		{"writable for the group", func(p string) error { return errors.Join(os.Mkdir(p, 0o700), os.Chmod(p, 0o770)) }, "other users can write"},
	}
	if err := os.Mkdir(target, 0o700); err != nil {
		t.Fatal(err)
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(base, fmt.Sprint(i))
			if err := tt.make(dir); err != nil {
				t.Fatal(err)
			}
			s, err := keep.Open(keep.Options{Dir: dir})
			if err == nil {
				s.Close()
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want one with %q", err, tt.want)
			}
		})
	}
}

func TestLinksInTheFolderAreNotFollowed(t *testing.T) {
	dir, precious := t.TempDir(), t.TempDir()
	file := filepath.Join(precious, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(precious, filepath.Join(dir, "kept-LINK")); err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(dir, "kept-DEAD")
	if err := os.Mkdir(dead, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(precious, filepath.Join(dead, "link")); err != nil {
		t.Fatal(err)
	}
	s := open(t, keep.Options{Memory: room(1, 8), Dir: dir})
	a := put(t, s, "ann", kib(8))
	put(t, s, "ann", kib(8))
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("the dead folder stays: %v", err)
	}
	mine := spilled(t, dir)
	if len(mine) != 1 {
		t.Fatalf("files: %q", mine)
	}
	if err := errors.Join(os.Remove(mine[0]), os.Symlink(file, mine[0])); err != nil {
		t.Fatal(err)
	}
	if got := there(s, "ann", a); got != "-" {
		t.Error("a text was read through a link")
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "precious" {
		t.Errorf("the file behind the links: %q, %v", got, err)
	}
}

func TestDamagedFilesAreNotFoundAndLoggedWithoutContent(t *testing.T) {
	tests := []struct {
		name   string
		damage func(path string) error
	}{
		{"removed", os.Remove},
		{"cut", func(p string) error { return os.Truncate(p, 100) }},
		{"emptied", func(p string) error { return os.Truncate(p, 0) }},
		{"longer", func(p string) error { return os.Truncate(p, 1<<20) }},
		{"changed", func(p string) error { return os.WriteFile(p, bytes.Repeat([]byte("0123456789abcdeX"), 8*64), 0o600) }},
		{"a folder", func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o700)) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			dir := t.TempDir()
			s := open(t, keep.Options{Memory: room(1, 8), Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
			a, b := put(t, s, "ann", kib(8)), put(t, s, "ann", kib(8))
			for _, f := range spilled(t, dir) {
				if err := tt.damage(f); err != nil {
					t.Fatal(err)
				}
			}
			if got := there(s, "ann", a, b, a); got != "-+-" {
				t.Errorf("there: %s", got)
			}
			if st := s.Stats(); st.Lost != 1 || st.DiskBytes != 0 || st.Entries != 1 {
				t.Errorf("stats: %+v", st)
			}
			if !strings.Contains(log.String(), "reading a kept text") || strings.Contains(log.String(), "abcdef") || strings.Contains(log.String(), a) {
				t.Errorf("log: %s", &log)
			}
		})
	}
}

func TestAFolderThatVanishesLosesTextsButNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		dir := t.TempDir()
		s, err := keep.Open(keep.Options{Memory: room(1, 8), PerOwner: 1 << 30, Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		folders, _ := filepath.Glob(filepath.Join(dir, "kept-*"))
		if err := os.RemoveAll(folders[0]); err != nil {
			t.Fatal(err)
		}
		var last string
		for range 10 {
			last = put(t, s, "ann", kib(8))
		}
		if got := there(s, "ann", last); got != "+" {
			t.Error("what is in memory is gone too")
		}
		if st := s.Stats(); st.Lost != 9 || st.DiskBytes != 0 || st.Entries != 1 {
			t.Errorf("stats: %+v", st)
		}
		if n := strings.Count(log.String(), "level=WARN"); n != 1 {
			t.Errorf("%d warnings for one cause, want 1:\n%s", n, &log)
		}
		time.Sleep(2 * time.Minute)
		put(t, s, "ann", kib(8))
		if !strings.Contains(log.String(), "unlogged=8") {
			t.Errorf("the swallowed warnings are not counted:\n%s", &log)
		}
		_ = s.Close()
	})
}

func TestManyUseAStoreAtOnce(t *testing.T) {
	dir := t.TempDir()
	s := open(t, keep.Options{Memory: room(8, 8), Disk: room(40, 8), Entries: 100, Dir: dir})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			owner := fmt.Sprint("owner", g%4)
			r := rand.New(rand.NewPCG(uint64(g), 1))
			var handles []string
			for i := range 300 {
				want := bytes.Repeat(fmt.Append(nil, owner, " ", i, "\n"), 1+r.IntN(1500))
				handle, err := s.Put(owner, keep.Meta{Tokens: len(want)}, []keep.Part{{Text: want}})
				if err != nil {
					t.Errorf("Put: %v", err)
					return
				}
				handles = append(handles, handle)
				ask := handles[len(handles)-1-r.IntN(min(len(handles), 20))]
				got, err := s.Get(owner, ask)
				if err != nil {
					continue
				}
				if text := got.Parts[0].Text; len(text) != got.Tokens || !bytes.HasPrefix(text, []byte(owner+" ")) {
					t.Errorf("%s got a text of %d bytes, want %d, beginning with %.20q", owner, len(text), got.Tokens, text)
				}
			}
		})
	}
	wg.Wait()
	st := s.Stats()
	if st.MemoryBytes > room(8, 8) || st.DiskBytes > room(40, 8) || st.Entries > 100 || st.Lost != 0 {
		t.Errorf("stats: %+v", st)
	}
	if n := len(spilled(t, dir)); n != st.DiskEntries {
		t.Errorf("%d files for %d entries on disk", n, st.DiskEntries)
	}
}

func TestClosingWhileTextsArePutLeavesNothing(t *testing.T) {
	for range 20 {
		dir := t.TempDir()
		s, err := keep.Open(keep.Options{Memory: room(1, 8), Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					handle, err := s.Put("ann", keep.Meta{}, kib(8))
					if errors.Is(err, keep.ErrClosed) {
						return
					}
					_, _ = s.Get("ann", handle)
				}
			})
		}
		runtime.Gosched()
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
		wg.Wait()
		if left, _ := filepath.Glob(filepath.Join(dir, "kept-*")); len(left) != 0 {
			t.Errorf("left behind: %q", left)
		}
	}
}

func BenchmarkPut(b *testing.B)         { benchmark(b, "", "put") }
func BenchmarkPutSpilling(b *testing.B) { benchmark(b, b.TempDir(), "put") }
func BenchmarkGet(b *testing.B)         { benchmark(b, "", "get") }
func BenchmarkGetSpilled(b *testing.B)  { benchmark(b, b.TempDir(), "get") }

// benchmark puts or gets texts of 1 MB. With a folder each text that is put pushes one
// out to it, and the one that is read is there.
func benchmark(b *testing.B, dir, do string) {
	memory := int64(64 << 20)
	if dir != "" {
		memory = 2 << 20
	}
	s, err := keep.Open(keep.Options{Memory: memory, PerOwner: 1 << 40, Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	parts := kib(1024)
	first, err := s.Put("ann", keep.Meta{}, parts)
	if err != nil {
		b.Fatal(err)
	}
	for range 3 {
		if _, err := s.Put("ann", keep.Meta{}, parts); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		if do == "put" {
			_, err = s.Put("ann", keep.Meta{}, parts)
		} else {
			_, err = s.Get("ann", first)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
