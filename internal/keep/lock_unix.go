//go:build unix

package keep

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// lockWait waits for the lock of a file; closing the file, or dying, releases it.
func lockWait(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// lockNew takes the lock of a file that nobody else knows yet.
func lockNew(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// lockDead reports whether the owner of a lock file has died.
func lockDead(f *os.File) bool { return lockNew(f) == nil }

// private refuses a directory that other users own or can write to.
func private(dir string, info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user", dir)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("other users can write to %s: its mode is %v, want 0700", dir, info.Mode().Perm())
	}
	return nil
}
