//go:build unix

package store_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Opening a pipe that nobody writes to would never end.
func TestARecordThatIsAPipeIsNone(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	s.Put("lists", "a", []byte("x"))
	s.Close()
	for name := range names(t, dir) {
		path := filepath.Join(dir, name)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := open(t, dir).Get("lists", "a"); got != nil {
		t.Errorf("got %q", got)
	}
}
