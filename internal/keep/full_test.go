//go:build unix

package keep_test

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"mcp-aggregator/internal/keep"
)

// A limit on the size of files ends a write in the middle, as a full disk does.
func TestAWriteThatFailsHalfwayLosesOneTextAndLeavesNoFile(t *testing.T) {
	if os.Getenv("KEEP_TEST_FULL") == "" { // the limit is on the whole process: take another
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "KEEP_TEST_FULL=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	dir := t.TempDir()
	s := open(t, keep.Options{Memory: room(1, 8), Dir: dir})
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 4096, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	lost, last := put(t, s, "ann", kib(8)), put(t, s, "ann", kib(8))
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if got := there(s, "ann", lost, last); got != "-+" {
		t.Errorf("there: %s, want only the text in memory", got)
	}
	if st := s.Stats(); st.Lost != 1 || st.DiskBytes != 0 {
		t.Errorf("stats: %+v", st)
	}
	if files := spilled(t, dir); len(files) != 0 {
		t.Errorf("half a file is left: %q", files)
	}
	put(t, s, "ann", kib(8))
	if got := there(s, "ann", last); got != "+" {
		t.Error("writing does not work again")
	}
}
