package app

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// watching counts the changes of a file that are noticed.
func watching(t *testing.T, path string) <-chan struct{} {
	t.Helper()
	changed := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	ready := make(chan struct{})
	go func() {
		defer close(done)
		close(ready)
		_ = watchFile(ctx, path, func() { changed <- struct{}{} })
	}()
	<-ready
	t.Cleanup(func() { cancel(); <-done })
	return changed
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// expect repeats a change until it is noticed: the watch may not have begun at the first.
func expect(t *testing.T, changed <-chan struct{}, what string, change func(i int)) {
	t.Helper()
	for i := range 40 {
		change(i)
		select {
		case <-changed:
			return
		case <-time.After(250 * time.Millisecond):
		}
	}
	t.Fatalf("%s was not noticed", what)
}

func TestChangesOfTheFileAreNoticed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.yaml")
	write(t, path, "first")
	changed := watching(t, path)
	text := func(i int) string { return time.Now().String() + string(rune('a'+i%26)) }
	expect(t, changed, "a write", func(i int) { write(t, path, text(i)) })
	expect(t, changed, "a rename over the file, as editors do", func(i int) {
		write(t, path+".new", text(i))
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	})
	expect(t, changed, "a removal and a new file", func(i int) {
		os.Remove(path)
		write(t, path, text(i))
	})
	for len(changed) > 0 {
		<-changed
	}
	now, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(now)) // the same text
	write(t, filepath.Join(dir, "other"), "x")
	select {
	case <-changed:
		t.Error("a change was announced although the content is the same")
	case <-time.After(3 * settleFile):
	}
}

// A ConfigMap mounts ..data, a link to a folder with a time in its name, and config.yaml,
// a link through it. An update swaps ..data.
func TestTheSwapOfAConfigMapIsNoticed(t *testing.T) {
	dir := t.TempDir()
	link := func(target, name string) {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	version := func(name, text string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "config.yaml"), text)
	}
	version("..v", "first")
	link("..v", "..data")
	link(filepath.Join("..data", "config.yaml"), "config.yaml")
	changed := watching(t, filepath.Join(dir, "config.yaml"))
	expect(t, changed, "the swap", func(i int) {
		name := "..v" + string(rune('a'+i))
		version(name, name)
		link(name, "..data_tmp")
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	})
}

// soon fails unless a change is noticed within a time.
func soon(t *testing.T, changed <-chan struct{}, within time.Duration, what string) {
	t.Helper()
	select {
	case <-changed:
	case <-time.After(within):
		t.Errorf("%s was not noticed within %v", what, within)
	}
}

func TestAnotherFileThatIsWrittenAllTheTimePostponesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.yaml")
	write(t, path, "first")
	changed := watching(t, path)
	expect(t, changed, "a write", func(i int) { write(t, path, time.Now().String()) })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				_ = os.WriteFile(filepath.Join(dir, "other"), []byte(time.Now().String()), 0o600)
			}
		}
	}()
	write(t, path, "changed")
	soon(t, changed, 5*time.Second, "a write beside a busy file")
	cancel()
	<-done
}

func TestAFolderThatIsMadeAgainIsNoticed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(dir, "config.yaml")
	remake := func(text string) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, text)
	}
	remake("first")
	changed := watching(t, path)
	expect(t, changed, "a write", func(i int) { write(t, path, time.Now().String()) })
	if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
		t.Error("the removal was announced as a change")
	case <-time.After(lookMissing + 2*settleFile): // a look finds nothing to watch
	}
	remake("made again")
	soon(t, changed, 5*time.Second, "the new folder")
	write(t, path, "changed")
	soon(t, changed, 5*time.Second, "a write in the new folder")
}
