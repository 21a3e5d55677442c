package keep_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/keep"
)

// kib is a text of n KiB.
func kib(n int) []keep.Part {
	return []keep.Part{{MIME: "text/plain", Text: bytes.Repeat([]byte("0123456789abcdef"), n*64)}}
}

// room is a bound in which n texts of k KiB fit, and not one more.
func room(n, k int) int64 { return int64(n * (k*1024 + 960)) }

func open(t *testing.T, o keep.Options) *keep.Store {
	t.Helper()
	s, err := keep.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return s
}

func put(t *testing.T, s *keep.Store, owner string, parts []keep.Part) string {
	t.Helper()
	handle, err := s.Put(owner, keep.Meta{Server: "k8s", Tool: "list", Tokens: 7}, parts)
	if err != nil {
		t.Fatal(err)
	}
	return handle
}

// there tells which of the handles still lead to a text.
func there(s *keep.Store, owner string, handles ...string) string {
	var b strings.Builder
	for _, h := range handles {
		if _, err := s.Get(owner, h); err == nil {
			b.WriteByte('+')
		} else {
			b.WriteByte('-')
		}
	}
	return b.String()
}

func TestATextIsFoundByItsOwnerAndNobodyElse(t *testing.T) {
	s := open(t, keep.Options{Dir: t.TempDir()})
	parts := []keep.Part{{MIME: "text/plain", Text: []byte("one")}, {Text: nil}, {MIME: "application/json", Text: []byte("{}")}}
	handle := put(t, s, "ann", parts)
	got, err := s.Get("ann", handle)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(parts, got.Parts); diff != "" {
		t.Errorf("other parts than were put (-want +got):\n%s", diff)
	}
	if got.Server != "k8s" || got.Tool != "list" || got.Tokens != 7 || got.Since.IsZero() {
		t.Errorf("got %+v", got.Meta)
	}
	for name, ask := range map[string][2]string{
		"another owner":   {"bob", handle},
		"no owner":        {"", handle},
		"unknown handle":  {"ann", strings.Repeat("A", len(handle))},
		"no handle":       {"ann", ""},
		"a path":          {"ann", "../../etc/passwd"},
		"the other case":  {"ann", strings.ToLower(handle)},
		"an endless name": {"ann", strings.Repeat(handle, 1000)},
		"a file's name":   {"ann", fmt.Sprintf("%016x", 1)},
		"owner as handle": {handle, "ann"},
	} {
		if _, err := s.Get(ask[0], ask[1]); !errors.Is(err, keep.ErrNotFound) || err.Error() != keep.ErrNotFound.Error() {
			t.Errorf("%s: %v, want exactly %q", name, err, keep.ErrNotFound)
		}
	}
}

func TestHandlesHave128BitsAndNeverRepeat(t *testing.T) {
	s := open(t, keep.Options{})
	seen := map[string]bool{}
	for range 1000 {
		handle := put(t, s, "ann", nil)
		if len(handle)*5 < 128 || strings.Trim(handle, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
			t.Fatalf("handle %q", handle)
		}
		if seen[handle] {
			t.Fatalf("handle %q twice", handle)
		}
		seen[handle] = true
	}
}

func TestWhatFallsOutOfMemoryIsReadFromDisk(t *testing.T) {
	dir := t.TempDir()
	s := open(t, keep.Options{Memory: room(2, 8), Disk: room(4, 8), PerOwner: room(6, 8), Dir: dir})
	var handles []string
	for i := range 6 {
		parts := append(kib(8), keep.Part{MIME: "x/y", Text: fmt.Append(nil, i)})
		handles = append(handles, put(t, s, "ann", parts))
	}
	st := s.Stats()
	if st.DiskEntries != 4 || st.Spilled != 4 || st.MemoryBytes > room(2, 8) || st.DiskBytes > room(4, 8) {
		t.Errorf("stats after spilling: %+v", st)
	}
	for i, h := range handles {
		got, err := s.Get("ann", h)
		if err != nil {
			t.Fatalf("text %d: %v", i, err)
		}
		want := append(kib(8), keep.Part{MIME: "x/y", Text: fmt.Append(nil, i)})
		if diff := cmp.Diff(want, got.Parts); diff != "" {
			t.Errorf("text %d differs (-want +got):\n%s", i, diff)
		}
	}
	if st := s.Stats(); st.Restored != 0 || st.Spilled != 4 {
		t.Errorf("reading moved texts though memory is full: %+v", st)
	}
	checkModes(t, dir)
}

func checkModes(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || path == dir {
			return err
		}
		want := os.FileMode(0o600)
		if info.IsDir() {
			want = 0o700
		} else {
			files++
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil || files == 0 {
		t.Errorf("walking: %v, %d files", err, files)
	}
}

func TestASpilledTextComesBackWhenThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, keep.Options{Memory: room(2, 8), Dir: t.TempDir(), TTL: time.Minute})
		cold := put(t, s, "ann", kib(8))
		time.Sleep(time.Second)
		for range 2 {
			put(t, s, "ann", kib(8))
		}
		time.Sleep(30 * time.Second)
		there(s, "ann", cold) // stays for another minute, the others do not
		time.Sleep(40 * time.Second)
		if got := there(s, "ann", cold, cold); got != "++" {
			t.Errorf("the spilled text: %s", got)
		}
		if st := s.Stats(); st.Restored != 1 || st.DiskEntries != 0 || st.DiskBytes != 0 || st.MemoryBytes == 0 {
			t.Errorf("stats: %+v", st)
		}
	})
}

func TestReadersOfASpilledTextShareOneCopy(t *testing.T) {
	s := open(t, keep.Options{Memory: room(1, 8), Dir: t.TempDir()})
	handle := put(t, s, "ann", kib(8))
	put(t, s, "ann", kib(8))
	got := make([]*keep.Kept, 32)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			var err error
			if got[i], err = s.Get("ann", handle); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, kept := range got {
		if kept != got[0] {
			t.Fatal("two copies")
		}
	}
	if st := s.Stats(); st.Restored != 0 || st.DiskEntries != 1 {
		t.Errorf("stats: %+v", st)
	}
	runtime.KeepAlive(got)
}

func TestEachBound(t *testing.T) {
	big := kib(64)
	tests := []struct {
		name   string
		o      keep.Options
		owners []string // one text of 8 KiB each
		want   string   // which of them are left
	}{
		{"memory only, the oldest goes", keep.Options{Memory: room(2, 8), PerOwner: room(9, 8)}, []string{"a", "a", "a"}, "-++"},
		{"disk full, the oldest goes", keep.Options{Memory: room(1, 8), Disk: room(2, 8), PerOwner: room(9, 8), Dir: "?"}, []string{"a", "a", "b", "b", "b"}, "--+++"},
		{"an owner pushes out only its own", keep.Options{Memory: room(4, 8), PerOwner: room(2, 8)}, []string{"b", "b", "a", "a", "a", "a", "a"}, "++---++"},
		{"half of all by default", keep.Options{Memory: room(2, 8), Disk: room(2, 8), Dir: "?"}, []string{"b", "b", "a", "a", "a", "a"}, "++--++"},
		{"entries", keep.Options{Entries: 4}, []string{"a", "b", "c", "d", "e", "f"}, "--++++"},
		{"entries of one owner", keep.Options{Entries: 4}, []string{"b", "a", "a", "a", "a"}, "+--++"},
		{"one entry", keep.Options{Entries: 1}, []string{"a", "b", "b"}, "--+"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.o.Dir == "?" {
				tt.o.Dir = t.TempDir()
			}
			s := open(t, tt.o)
			var handles []string
			for _, owner := range tt.owners {
				handles = append(handles, put(t, s, owner, kib(8)))
			}
			var got string
			for i, h := range handles {
				got += there(s, tt.owners[i], h)
			}
			if got != tt.want {
				t.Errorf("left are %s, want %s; %+v", got, tt.want, s.Stats())
			}
		})
	}
	tooLarge := []struct {
		name string
		o    keep.Options
	}{
		{"each", keep.Options{Each: 64 << 10}},
		{"the owner's share", keep.Options{PerOwner: 64 << 10}},
		{"memory without disk", keep.Options{Memory: 64 << 10, PerOwner: 1 << 20}},
	}
	for _, tt := range tooLarge {
		t.Run("too large for "+tt.name, func(t *testing.T) {
			s := open(t, tt.o)
			small := put(t, s, "ann", kib(1))
			if _, err := s.Put("ann", keep.Meta{}, big); !errors.Is(err, keep.ErrTooLarge) {
				t.Errorf("Put: %v, want ErrTooLarge", err)
			}
			if there(s, "ann", small) != "+" {
				t.Error("the refused text pushed another out")
			}
		})
	}
}

func TestATextLargerThanMemoryGoesToDiskAlone(t *testing.T) {
	s := open(t, keep.Options{Memory: room(2, 8), Dir: t.TempDir()})
	a, big := put(t, s, "ann", kib(8)), put(t, s, "ann", kib(64))
	if got := there(s, "ann", a, big); got != "++" {
		t.Errorf("there: %s", got)
	}
	if st := s.Stats(); st.DiskEntries != 1 || st.Spilled != 1 {
		t.Errorf("more than the large text was spilled: %+v", st)
	}
}

func TestUsedTextsStayInMemory(t *testing.T) {
	s := open(t, keep.Options{Memory: room(3, 8), PerOwner: room(9, 8)})
	hot := put(t, s, "ann", kib(8))
	for range 10 {
		put(t, s, "ann", kib(8))
		if there(s, "ann", hot) != "+" {
			t.Fatal("the text that is read all the time was pushed out")
		}
	}
}

func TestATextGoesWhenNobodyReadsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := open(t, keep.Options{Memory: room(1, 8), Dir: dir, TTL: 10 * time.Minute})
		read, never := put(t, s, "ann", kib(8)), put(t, s, "bob", kib(8))
		time.Sleep(9 * time.Minute)
		if got := there(s, "ann", read); got != "+" {
			t.Fatal("gone too early")
		}
		time.Sleep(time.Minute)
		if got := there(s, "bob", never) + there(s, "ann", read); got != "-+" {
			t.Errorf("after 10 minutes: %s", got)
		}
		time.Sleep(10*time.Minute + time.Second) // without any call
		synctest.Wait()
		st := s.Stats()
		if st.Entries != 0 || st.Owners != 0 || st.MemoryBytes != 0 || st.DiskBytes != 0 || st.Expired != 2 {
			t.Errorf("not freed without traffic: %+v", st)
		}
		if files, _ := filepath.Glob(filepath.Join(dir, "*", "0*")); len(files) != 0 {
			t.Errorf("files left: %q", files)
		}
	})
}

func TestManyTinyTextsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	s := open(t, keep.Options{Memory: 4 << 20, PerOwner: 1 << 40, Entries: 1 << 30})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 100_000 {
		if _, err := s.Put(fmt.Sprint(i), keep.Meta{}, []keep.Part{{Text: []byte{'x'}}}); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	st := s.Stats()
	used := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d entries, %d bytes counted, %d bytes of heap", st.Entries, st.MemoryBytes, used)
	if st.MemoryBytes > 4<<20 || used > 6<<20 {
		t.Errorf("%d bytes counted, %d bytes of heap, want at most 4 and 6 MiB", st.MemoryBytes, used)
	}
}

func TestAPieceOfALargeBufferDoesNotHoldTheBuffer(t *testing.T) {
	s := open(t, keep.Options{Memory: 1 << 20})
	buffer := make([]byte, 10<<20)
	handle := put(t, s, "ann", []keep.Part{{Text: buffer[:10]}})
	got, err := s.Get("ann", handle)
	if err != nil || cap(got.Parts[0].Text) > 1024 {
		t.Errorf("%v, the text holds %d bytes", err, cap(got.Parts[0].Text))
	}
}

func TestAMemoIsMadeOncePerPart(t *testing.T) {
	s := open(t, keep.Options{})
	handle := put(t, s, "ann", []keep.Part{{Text: []byte("a")}, {Text: []byte("bb")}})
	made := 0
	for range 3 {
		got, err := s.Get("ann", handle)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []int{1, 2} {
			if n := got.Memo(i, func(text []byte) any { made++; return len(text) }); n != want {
				t.Errorf("memo of part %d: %v", i, n)
			}
		}
	}
	if made != 2 {
		t.Errorf("built %d times, want 2", made)
	}
}

func TestAClosedStoreKeepsNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, keep.Options{Memory: room(1, 8), Dir: dir})
	handle := put(t, s, "ann", kib(8))
	put(t, s, "ann", kib(8))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put("ann", keep.Meta{}, nil); !errors.Is(err, keep.ErrClosed) {
		t.Errorf("Put: %v", err)
	}
	if _, err := s.Get("ann", handle); !errors.Is(err, keep.ErrNotFound) {
		t.Errorf("Get: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "kept-*")); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
	if st := s.Stats(); st.Entries != 0 || st.MemoryBytes != 0 || st.DiskBytes != 0 {
		t.Errorf("stats: %+v", st)
	}
}
